"""From a path to an open store: directory, lock, ledger, embedder and analyzer are checked in turn."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import ConfigError
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.directory import check_directory, locked_for_writing
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.made_with import checked_config, refuse_other_embedder


def open_core(path: str | os.PathLike[str] | None, embedder: Any, config: UmiConfig | None, *, read_only: bool) -> Core:
    """See `HybridStore.open`."""
    if path is None and read_only:
        raise ConfigError("a store in memory is always new; read_only needs a path")
    directory = None if path is None else Path(path).absolute()  # the program may change its working directory
    lock = None
    with ExitStack() as undo:
        if directory is not None and read_only:
            check_directory(directory, must_exist=True)
        elif directory is not None:
            lock = locked_for_writing(directory)
            undo.callback(lock.release)
        ledger = Ledger(None if directory is None else directory / FILE, read_only=read_only)
        undo.callback(ledger.close)
        settings = checked_config(ledger, config)
        model = as_embedder(embedder)
        refuse_other_embedder(ledger, model)
        core = Core(directory, ledger, lock, model, settings)
        undo.pop_all()
    return core

"""A progress bar for terminals and notebooks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def progress_bar(**options: Any) -> Any:
    """A tqdm bar with tqdm's options: a widget if ipywidgets is installed, else a line of text."""
    if find_spec("ipywidgets") is None:
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(**options)

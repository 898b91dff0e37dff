"""`umi status`, `verify`, `repair` and `rebuild`: looking after a store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from umi_common.cli.options import DEFAULT_STORE, JsonOption, StoreOption, opened, print_json

if TYPE_CHECKING:
    from umi_common.store.care import Verification


def status(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Show what is in a store and which parts answer."""
    with opened(store) as source:
        found = asdict(source.status())
    if json:
        print_json(found)
        return
    for name, value in found.items():
        shown = f"{value / 1e6:.1f} MB" if name == "bytes_on_disk" else value
        typer.echo(f"{name.replace('_', ' '):<14} {shown}")


def verify(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Read everything and compare it with its checksums; ends with 1 if something is wrong."""
    with opened(store) as source:
        _tell(source.verify(), json, fix=f"umi repair --store {store}")


def repair(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Make anew whatever index is wrong; embeds nothing."""
    with opened(store, writing=True) as source:
        _tell(source.repair(), json, fix="restore umi.db from a copy")


def rebuild(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Make all indexes anew from the ledger; embeds nothing."""
    with opened(store, writing=True) as source:
        source.rebuild()
        _tell(source.verify(), json, fix="restore umi.db from a copy")


def _tell(found: Verification, json: bool, *, fix: str) -> None:
    if json:
        print_json({"sound": bool(found), **asdict(found)})
    elif found:
        typer.echo(f"{found.checked} chunks, all sound")
    else:
        for problem in found.problems:
            typer.echo(f"umi: {problem}; {fix}", err=True)
    if not found:
        raise typer.Exit(1)

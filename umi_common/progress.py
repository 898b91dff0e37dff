"""A progress bar for terminals and notebooks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def progress_bar(**options: Any) -> Any:
    """tqdm's bar: a widget in a notebook that has ipywidgets, else a line of text. Takes tqdm's options."""
    if find_spec("ipywidgets") is None:
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(**options)

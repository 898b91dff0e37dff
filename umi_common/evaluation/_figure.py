"""A matplotlib figure for notebooks, without pyplot's global state. This module alone imports matplotlib."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from umi_common.errors import ConfigError, writing


class Chart(Figure):
    """A figure that needs no display."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")

    def saved(self, path: str | Path | None) -> Chart:
        """Write the figure to `path`, if given, in the format of its suffix (PNG, SVG, PDF); returns the figure.

        Raises:
            ConfigError: If matplotlib cannot write files with this suffix.
            InputError: If the file cannot be written.
        """
        if path is not None:
            if Path(path).suffix[1:].lower() not in ("", *self.canvas.get_supported_filetypes()):
                raise ConfigError(f"{path}: expected a name that ends in .png, .svg or .pdf")
            with writing(path):
                self.savefig(path, dpi=150)
        return self

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

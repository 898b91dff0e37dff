"""A matplotlib figure that a notebook displays, without pyplot's global state. Imports matplotlib."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from umi_common.errors import ConfigError


class Chart(Figure):
    """A figure drawn by Agg, which needs neither a display nor pyplot."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)

    def saved(self, path: str | Path | None) -> Chart:
        """Write the figure to `path`, if a path is given, as PNG, SVG or PDF by its suffix; returns the figure.

        Raises:
            ConfigError: If matplotlib cannot write files with this suffix.
        """
        if path is not None:
            if Path(path).suffix[1:].lower() not in ("", *self.canvas.get_supported_filetypes()):
                raise ConfigError(f"{path}: expected a name that ends in .png, .svg or .pdf")
            self.savefig(path, dpi=150)
        return self

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

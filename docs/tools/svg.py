"""A few shapes for pictures that read in a light and a dark page: every text stands in a filled box.

Lines are a grey that both grounds carry (3:1). Drawings are 520 wide, so that 16-point text is still 11 on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH = 520
SIZE = 16
LINE = "#868c98"
FILLS = {
    "plain": ("#eceff4", "#1d2330"),
    "blue": ("#3949ab", "#ffffff"),
    "teal": ("#00695c", "#ffffff"),
    "brown": ("#8a4b08", "#ffffff"),
    "violet": ("#6a1b9a", "#ffffff"),
}
"""Name to (fill, text); contrast of each pair at least 6."""


class Drawing:
    """An SVG that grows by calls; `text()` gives it."""

    def __init__(self, height: int, title: str) -> None:
        self.height, self.title = height, title
        self.items: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, lines: str | Sequence[str], fill: str = "plain") -> None:
        """A filled box with lines of text in its middle; of several lines the first is bold."""
        ground, ink = FILLS[fill]
        self.items.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" fill="{ground}"/>')
        texts = [lines] if isinstance(lines, str) else list(lines)
        first = y + h / 2 - (len(texts) - 1) * 10 + 5.5
        for number, line in enumerate(texts):
            weight = ' font-weight="600"' if number == 0 and len(texts) > 1 else ""
            size = SIZE if number == 0 else SIZE - 2
            self.items.append(
                f'<text x="{x + w / 2:g}" y="{first + 20 * number:g}" fill="{ink}" font-size="{size}" '
                f'text-anchor="middle"{weight}>{escape(line)}</text>'
            )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> None:
        """A straight line with a head at its end."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.items.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{LINE}" stroke-width="2"{dash} '
            'marker-end="url(#head)"/>'
        )

    def bar(self, x: float, y: float, w: float, h: float, fill: str) -> None:
        """A bare bar."""
        self.items.append(
            f'<rect x="{x:g}" y="{y:g}" width="{max(w, 0.0):.1f}" height="{h:g}" fill="{FILLS[fill][0]}"/>'
        )

    def curve(self, points: Sequence[tuple[float, float]], fill: str) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.items.append(f'<polyline points="{path}" fill="none" stroke="{FILLS[fill][0]}" stroke-width="3"/>')

    def label(self, x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> None:
        """Text on a plain box that is already there."""
        weight = ' font-weight="600"' if bold else ""
        ink = FILLS["plain"][1]
        self.items.append(
            f'<text x="{x:g}" y="{y:g}" fill="{ink}" font-size="{SIZE - 2}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )

    def text(self) -> str:
        """The whole file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
            f'height="{self.height}" role="img" font-family="system-ui, sans-serif">'
        )
        marker = (
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 10 5 0 10z" fill="{LINE}"/></marker></defs>'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", marker, *self.items, "</svg>", ""])

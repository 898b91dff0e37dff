"""Show why each hit of a result has its rank: as text, as an HTML page or fragment, or as a data frame.

reasons    the arms and stages that gave a hit its rank, as data and in words; a result as plain text
marking    marks the words of the query in a text
texts      makes texts safe to show: control characters visible, HTML escaped
notebook   a result as an HTML fragment, and as a pandas data frame; HTML that it shares with page
page       a result as a standalone HTML page; page.css and page.js are its style and script
flow       the rank-flow picture of the page
"""

from umi_common.explain.notebook import context_to_html, tables_to_html, to_frame, to_html
from umi_common.explain.page import to_page
from umi_common.explain.reasons import reasons, to_text
from umi_common.explain.texts import one_line, snippet, visible, with_count

__all__ = [
    "context_to_html",
    "one_line",
    "reasons",
    "snippet",
    "tables_to_html",
    "to_frame",
    "to_html",
    "to_page",
    "to_text",
    "visible",
    "with_count",
]

"""Explanations of a search result: why each hit is there.

In: a `SearchResult`. Out: text, HTML, a page, a data frame.

    reasons    the arms and stages that gave a hit its rank, as data and words
    marking    the query's words in a text
    texts      texts made safe to show: controls visible, HTML escaped
    terminal   as plain text
    notebook   as an HTML fragment; as a data frame
    page       as a standalone HTML page; page.css and page.js belong to it
    bars       HTML that notebook and page share
    flow       the picture of ranks on the page
"""

from umi_common.explain.notebook import context_to_html, tables_to_html, to_frame, to_html
from umi_common.explain.page import to_page
from umi_common.explain.reasons import reasons
from umi_common.explain.terminal import to_text
from umi_common.explain.texts import hit_count, one_line, snippet, visible

__all__ = [
    "context_to_html",
    "hit_count",
    "one_line",
    "reasons",
    "snippet",
    "tables_to_html",
    "to_frame",
    "to_html",
    "to_page",
    "to_text",
    "visible",
]

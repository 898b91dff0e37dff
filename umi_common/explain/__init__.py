"""One result for people: why each hit is there, as a line, a table, HTML for a notebook, a page, or a data frame."""

from umi_common.explain.frame import to_frame
from umi_common.explain.notebook import to_html
from umi_common.explain.page import to_page
from umi_common.explain.reasons import reasons
from umi_common.explain.terminal import to_text
from umi_common.explain.texts import one_line, snippet, visible

__all__ = ["one_line", "reasons", "snippet", "to_frame", "to_html", "to_page", "to_text", "visible"]

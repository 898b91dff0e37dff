"""The text that is searched in place of a document's own: a template or list of metadata keys (`search_text`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from umi_common.errors import ConfigError
from umi_common.frameworks.records import plain_metadata
from umi_common.runtime.losses import warn_once

SearchText = str | Sequence[str] | None
"""A template or a list of metadata keys for `searched_text`; None: the headings that a splitter moved into the metadata
and the document's own text are searched."""
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
"""Matches a metadata key in braces in a template, such as "{title}". Group 1 is the key."""
HEADING_KEY = re.compile(r"(?:header|heading|h)[ _]?[1-6]", re.IGNORECASE)
"""A metadata key under which LangChain's splitters for Markdown and HTML keep a heading: "Header 2" in their docs."""
HEADING_MARKS = " \t#*"
"""Signs of Markdown and spaces around a heading, by which a line that repeats a title may differ from it."""
UNKNOWN_KEY = (
    "search_text names the metadata key %r, which no document has; it adds nothing to the text that is searched. "
    "Logged once for this key."
)


def searched_text(document: Document, search_text: SearchText) -> str | None:
    """The text to index in place of the document's own text; None: index its own text. Results show its own text.

    Without `search_text`, texts under a key of `HEADING_KEY` come before the text, as for a list of these keys.

    Args:
        document: Its metadata holds the values of the keys. The key "text" means its own text.
        search_text: A template with metadata keys, such as "{title}: {text}", in which a missing key gives ""; or a
            list of metadata keys, whose values come before the text, one per line; or None. Of a list, a value that is
            a line of the text is left out: searched twice, the title would rank the first chunk of a document above
            the chunk that answers.

    Raises:
        ConfigError: If `search_text` is neither a template with a key nor a list of strings.
        InvalidChunk: If a value cannot be stored.
    """
    if search_text is None:
        search_text = _heading_keys(document.metadata)
        if not search_text:
            return None
    keys = _keys_in(search_text)
    values = {**plain_metadata({key: document.metadata.get(key) for key in keys}), "text": document.page_content}
    if isinstance(search_text, str):
        return PLACEHOLDER.sub(lambda found: _as_text(values[found[1]]), search_text)
    lines = {_plain_line(line) for line in document.page_content.splitlines()}
    before = [_as_text(values[key]) for key in keys if key != "text"]
    before = [value for value in before if _plain_line(value) not in lines]
    return "\n".join(value for value in (*before, document.page_content) if value)


def _heading_keys(metadata: Mapping[Any, Any]) -> list[str]:
    """The keys of headings, in the order in which the splitter wrote them: outermost first."""
    return [key for key, value in metadata.items() if isinstance(value, str) and HEADING_KEY.fullmatch(str(key))]


def _plain_line(line: str) -> str:
    return line.strip(HEADING_MARKS).casefold()


def warn_of_unknown_keys(documents: Sequence[Document], search_text: SearchText) -> None:
    if search_text is None or not documents:
        return
    for key in _keys_in(search_text):
        if key != "text" and not any(key in document.metadata for document in documents):
            warn_once("search_text", key, UNKNOWN_KEY, key)


def _keys_in(search_text: str | Sequence[str]) -> list[str]:
    """The metadata keys in a template or list; raises ConfigError for a template without keys and for other types."""
    keys = PLACEHOLDER.findall(search_text) or None if isinstance(search_text, str) else search_text
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) for key in keys):
        raise ConfigError(
            f"search_text {search_text!r:.80} names no metadata key; expected a template as '{{title}}: {{text}}', "
            "or a list of metadata keys"
        )
    return list(keys)


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    return "" if value is None else str(value)

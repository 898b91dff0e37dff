"""What an LLM wrote to a few short clean strings: strict JSON first, then what models really send.

The reply is untrusted text. It is capped before it is parsed, nothing in it is ever more than a string to search for,
and every step is linear in its length. Which part of a reply holds the list is `extract.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from umi_common.config import RewriteConfig
from umi_common.errors import InputError
from umi_common.query.rewriting.extract import quoted_items, strings_of

REPLY_CHARS_MAX = 65_536
"""Three variations need a few hundred; a longer reply is not read at all."""
STRINGS_MAX = 50
"""A model that lists more than this has run away."""

_REFUSAL = re.compile(
    r"(?:(?:i'm|i am|we're|we are)?\s*(?:really |very |so )?sorry\b|i apologi[sz]e\b|unfortunately\b|as an ai\b"
    r"|(?:i|we)\s+(?:can't|cannot|can not|couldn't|won't|will not|(?:am|'m|are) (?:unable|not able)|must decline)\b"
    r"|i'm (?:unable|not able)\b)"
)
_REFUSED_VARIATION = re.compile(
    r"\b(?:can't|cannot|can not|won't|unable to|not able to)\s+"
    r"(?:help|assist|comply|answer|provide|rewrite|fulfil|do that|process|generate)"
)
_QUOTING = " \t\r\n\"'*_>`"
_SUFFIX = re.compile(r"(?<=\w{3})(?:ings?|ed|es|s)$")
_JOINERS = "\u200c\u200d"
"""Zero-width, but part of the spelling in several scripts."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply came to."""

    variations: tuple[str, ...]
    fault: str | None = None
    """Why there are none, in a few words; None where there are some, or where the LLM had nothing to add."""


def parse_reply(text: str, *, query: str, config: RewriteConfig | None = None) -> tuple[str, ...]:
    """The variations of `query` in an LLM's reply.

    Args:
        text: The reply as it came.
        query: The original; a variation that says the same is dropped.
        config: Caps, and the template, whose own examples are not taken for an answer.

    Returns:
        At most `config.variations_max` strings in the reply's order, each 1..`variation_bytes_max` UTF-8 bytes on one
        line, none equal to the query or to another but for case, punctuation, spaces and word endings. Often ().

    Raises:
        InputError: If `text` or `query` is no string.
    """
    return read_reply(text, query=query, config=config).variations


def read_reply(text: str, *, query: str, config: RewriteConfig | None = None) -> Reply:
    """`parse_reply` with the reason where nothing came of it."""
    if not isinstance(text, str) or not isinstance(query, str):
        raise InputError(f"reply is {type(text).__name__}, query {type(query).__name__}; expected str and str")
    config = RewriteConfig() if config is None else config
    if len(text) > REPLY_CHARS_MAX:
        return Reply((), f"reply of more than {REPLY_CHARS_MAX:,} characters")
    if not text.strip():
        return Reply((), "empty reply")
    answer = _without_echo(text, config.template)
    if not answer.strip():
        return Reply((), "reply repeats the prompt")
    if _is_refusal(answer):
        return Reply((), "refusal")
    strings = strings_of(answer)
    if strings is None:
        return Reply((), "no list of strings in the reply")
    if len(strings) > STRINGS_MAX:
        return Reply((), f"list of more than {STRINGS_MAX} strings")
    variations = _chosen(strings, query, config)
    if not variations and not any(_gist(string) == _gist(query) for string in strings):
        return Reply((), "no usable string in the reply")
    return Reply(variations)  # nothing, where the LLM finds the query fine as it is


def _chosen(strings: Iterable[str], query: str, config: RewriteConfig) -> tuple[str, ...]:
    seen = {_gist(query), *(_gist(example) for example in quoted_items(config.template))}
    chosen: list[str] = []
    for string in strings:
        variation = _clean(string)
        if variation is None or len(variation.encode()) > config.variation_bytes_max or _is_refused(variation):
            continue
        gist = _gist(variation)
        if gist and gist not in seen:
            seen.add(gist)
            chosen.append(variation)
        if len(chosen) == config.variations_max:
            break
    return tuple(chosen)


def _clean(string: str) -> str | None:
    """One line of printable text, or None where the string is damaged."""
    if "\0" in string or any("\ud800" <= char <= "\udfff" for char in string):
        return None
    kept = (_printable(char) for char in string)
    return " ".join("".join(kept).split()) or None


def _printable(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cc":
        return " "
    return "" if category == "Cf" and char not in _JOINERS else char


def _gist(text: str) -> str:
    """Equal for texts that differ in case, punctuation, spaces and English word endings only."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").replace("'s", "")
    words = re.findall(r"\w+", folded)
    return " ".join(_SUFFIX.sub("", word) for word in words)


def _is_refusal(answer: str) -> bool:
    start = answer.lstrip(_QUOTING)[:80].casefold().replace("\u2019", "'")
    return _REFUSAL.match(start) is not None


def _is_refused(variation: str) -> bool:
    text = variation.casefold().replace("\u2019", "'")
    return _REFUSAL.match(text) is not None and _REFUSED_VARIATION.search(text) is not None


def _without_echo(text: str, template: str) -> str:
    """What follows the prompt, where a model repeats it before (or instead of) its answer."""
    before, _, after = template.partition("{query}")
    tail, head = after.rpartition("}")[2].strip(), before.partition("{history}")[0].strip()
    for fixed in (tail, head):
        if len(fixed) >= 20 and fixed in text:
            return text.rpartition(fixed)[2]
    return text

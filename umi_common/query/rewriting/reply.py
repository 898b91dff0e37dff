"""Choose query variations from an LLM's reply.

The reply is untrusted. Its length is checked before it is parsed, and its strings are only used as queries.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from umi_common.config import RewriteConfig
from umi_common.query.rewriting.string_list import begins_with_item, listed_strings, quoted_items

REPLY_CHARS_MAX = 65_536
"""Largest number of characters of a reply that is parsed; three variations need a few hundred."""
STRINGS_MAX = 50
"""Largest number of strings in the list; a reply with a longer list is not used."""

_REFUSAL = re.compile(
    r"(?:(?:i'm|i am|we're|we are)?\s*(?:really |very |so )?sorry\b|i apologi[sz]e\b|unfortunately\b|as an ai\b"
    r"|(?:i|we)\s+(?:can't|cannot|can not|couldn't|won't|will not|(?:am|'m|are) (?:unable|not able)|must decline)\b"
    r"|i'm (?:unable|not able)\b)"
)
"""Matches the beginning of a refusal or of an apology."""
_REFUSED_TASK = re.compile(
    r"\b(?:can't|cannot|can not|won't|unable to|not able to)\s+"
    r"(?:help|assist|comply|answer|provide|rewrite|fulfil|do that|process|generate)"
)
"""Matches the task that is refused. A variation without it, such as "sorry I missed your birthday", is no refusal."""
_SERVER_ERROR = re.compile(
    r"(?:<!doctype html|<html\b|\{\s*\"(?:errors?|detail)\"\s*:|upstream connect error\b"
    r"|(?:http/[\d.]+\s+|error:?\s+)?(?:[45]\d\d:?\s+)?"
    r"(?:bad gateway|gateway time-?out|service (?:temporarily )?unavailable|internal server error|too many requests"
    r"|bad request|unauthorized|forbidden)[.!]?[ \t\r]*(?:\n\s*\S[^\n]*)?\Z)",
    re.I,
)
"""Matches a server's or gateway's own answer: a line such as "502 Bad Gateway", alone or before one other line, or the
beginning of a web page or of JSON with an error."""
_QUOTING = " \t\r\n\"'*_>`"
"""White space, quotation marks and marks of Markdown, which may stand before a refusal."""
_POSSESSIVE = re.compile(r"'s\b")
_SUFFIX = re.compile(r"(?<=\w{3})(?:ings?|ed|es|s)$")
_JOINERS = "\u200c\u200d"
"""Zero-width characters that are part of the spelling in several scripts."""
_THINKING_BEGINS = re.compile(r"<think(?:ing)?>|<reasoning>|\[THINK\]|<\|channel\|>analysis")
_THINKING_ENDS = re.compile(r"</think(?:ing)?>|</reasoning>|\[/THINK\]|<\|channel\|>final<\|message\|>")
"""The marks that begin and end the thinking of Qwen and DeepSeek, of Claude, of Mistral's models and of gpt-oss."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The variations in a reply, or the reason why it has none."""

    variations: tuple[str, ...]
    fault: str | None = None
    """The reason; None if there are variations, or if the LLM only repeats the query."""


def read_reply(text: str, *, query: str, config: RewriteConfig | None = None) -> Reply:
    """The variations of `query` in an LLM's reply, or the reason why it has none.

    Variations equal to the query, to an earlier variation or to an example in the prompt are dropped. Case,
    punctuation, spaces and English word endings are ignored in this comparison.

    Args:
        config: Limits, and the template of the prompt.

    Returns:
        At most `config.variations_max` variations in the reply's order, each on one line and of 1 to
        `variation_bytes_max` UTF-8 bytes.
    """
    config = RewriteConfig() if config is None else config
    if len(text) > REPLY_CHARS_MAX:
        return Reply((), f"reply of more than {REPLY_CHARS_MAX:,} characters")
    if not text.strip():
        return Reply((), "empty reply")
    answer = _without_echo(text, config.template)
    if not answer.strip():
        return Reply((), "reply repeats the prompt")
    answer = _without_thinking(answer)
    if not begins_with_item(answer) and _REFUSAL.match(_folded(answer.lstrip(_QUOTING))):
        return Reply((), "refusal")
    if _SERVER_ERROR.match(answer.strip()):
        return Reply((), "error of a server")
    strings = listed_strings(answer)
    if strings is None:
        return Reply((), "no list of strings in the reply")
    if len(strings) > STRINGS_MAX:
        return Reply((), f"list of more than {STRINGS_MAX} strings")
    variations = _chosen(strings, query, config)
    if not variations and not any(_comparable(string) == _comparable(query) for string in strings):
        return Reply((), "no usable string in the reply")
    return Reply(variations)


def _chosen(strings: Iterable[str], query: str, config: RewriteConfig) -> tuple[str, ...]:
    seen = {_comparable(query), *(_comparable(example) for example in quoted_items(config.template))}
    chosen: list[str] = []
    for string in strings:
        variation = _clean(string)
        if variation is None or len(variation.encode()) > config.variation_bytes_max or _is_refusal(variation):
            continue
        form = _comparable(variation)
        if form and form not in seen:
            seen.add(form)
            chosen.append(variation)
        if len(chosen) == config.variations_max:
            break
    return tuple(chosen)


def _clean(string: str) -> str | None:
    """The string as one line of printable text; None if it has a NUL, a surrogate or no printable character."""
    categories = [(char, unicodedata.category(char)) for char in string]
    if any(char == "\0" or category == "Cs" for char, category in categories):
        return None
    visible = ((char, category) for char, category in categories if category != "Cf" or char in _JOINERS)
    return " ".join("".join(" " if category == "Cc" else char for char, category in visible).split()) or None


def _comparable(text: str) -> str:
    """A form that is equal for texts that differ only in case, punctuation, spaces and English word endings.

    "C", "C++" and "C#" differ, but a hashtag equals its word.
    """
    folded = _POSSESSIVE.sub("", _folded(unicodedata.normalize("NFKC", text)))
    words = "".join(char if _in_word(char) else " " for char in folded).split()
    return " ".join(filter(None, (_SUFFIX.sub("", word.lstrip("#+")) for word in words)))


def _in_word(char: str) -> bool:
    """Whether a character is a letter, a digit, a mark on a letter (such as a vowel sign), or one of `_#+`."""
    return char.isalnum() or char in "_#+" or unicodedata.category(char).startswith("M")


def _is_refusal(variation: str) -> bool:
    text = _folded(variation)
    return _REFUSAL.match(text) is not None and _REFUSED_TASK.search(text) is not None


def _folded(text: str) -> str:
    return text.casefold().replace("\u2019", "'")


def _without_echo(text: str, template: str) -> str:
    """The reply without the prompt, which some LLMs repeat before their answer or instead of it."""
    before, _, after = template.partition("{query}")
    tail, head = after.rpartition("}")[2].strip(), before.partition("{history}")[0].strip()
    for fixed in (tail, head):
        if len(fixed) >= 20 and fixed in text:
            return text.rpartition(fixed)[2]
    return text


def _without_thinking(reply: str) -> str:
    """The reply without its thinking: the text after the last `_THINKING_ENDS`, or else before the first
    `_THINKING_BEGINS`.

    A reply that is JSON stays as it is, because its strings may contain "<think>".
    """
    if reply.lstrip()[:1] in ("[", "{") and not reply.lstrip().startswith("[THINK]"):
        return reply
    _, *after = _THINKING_ENDS.split(reply)
    return after[-1] if after else _THINKING_BEGINS.split(reply, maxsplit=1)[0]

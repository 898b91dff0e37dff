"""Read query variations from an LLM's reply: JSON, almost JSON, or a list of lines, with or without text around it.

The reply is untrusted. Its length and the depth of its brackets are checked before it is parsed. Every step takes time
linear in its length; JSON parsing starts at most `STARTS_MAX` times. Its strings are only used as queries.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from umi_common.config import RewriteConfig

REPLY_CHARS_MAX = 65_536
"""Largest number of characters of a reply that is parsed; three variations need a few hundred."""
STRINGS_MAX = 50
"""Largest number of strings in the list; a reply with a longer list is not used."""

_REFUSAL = re.compile(
    r"(?:(?:i'm|i am|we're|we are)?\s*(?:really |very |so )?sorry\b|i apologi[sz]e\b|unfortunately\b|as an ai\b"
    r"|(?:i|we)\s+(?:can't|cannot|can not|couldn't|won't|will not|(?:am|'m|are) (?:unable|not able)|must decline)\b"
    r"|i'm (?:unable|not able)\b)"
)
_REFUSED_TASK = re.compile(
    r"\b(?:can't|cannot|can not|won't|unable to|not able to)\s+"
    r"(?:help|assist|comply|answer|provide|rewrite|fulfil|do that|process|generate)"
)
_QUOTED_LINES = re.compile(r"\s*([\"'])[^\n]*\1,?[ \t\r]*\n\s*\1")
"""Matches two lines in quotation marks at the beginning of a reply."""
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
_SUFFIX = re.compile(r"(?<=\w{3})(?:ings?|ed|es|s)$")
_JOINERS = "\u200c\u200d"
"""Zero-width characters that are part of the spelling in several scripts."""

DEPTH_MAX = 8
"""Deepest nesting of brackets that is parsed as JSON; a list of strings needs 2."""
STARTS_MAX = 8
"""Largest number of brackets in a reply at which JSON parsing is tried."""
LINE_CHARS_MAX = 120
"""Largest number of characters of a line without bullet or number that is read as a variation."""

_MARK = re.compile(
    r"\s{0,20}(?:[-*\u2022\u2013\u2014+]|\(?\d{1,3}[.):\]]|\(?[a-z][.)]|\d{1,3}\s*-"
    r"|\*{0,2}(?:query|question|variation|alternative|version) ?\d{1,2}[.):]\*{0,2})\s{1,20}(?=\S)",
    re.I,
)
_NUMBER = re.compile(r"\s{0,20}\(?(\d{1,3})[.):\]]\s{1,20}(?=\S)")
_ELEMENT = re.compile(r"<(\w{1,20})(?:\s[^<>]{0,200})?>([^<>]{1,2000})</\1>")
_TAG = re.compile(r"</?\w{1,20}(?:\s[^<>]{0,200})?>")
_LIST_MENTIONED = re.compile(r"^\s{0,20}\w[^\n\[:]*\[[^\n\]]*\][^\n]*:[ \t\r]*\n(?=\s*\S)", re.M)
"""Matches a line that mentions a list and announces another one: `I kept the term ["login"] out of these:`."""
_FENCE = re.compile(r"^\s{0,20}```[\w-]{0,20}\s{0,20}$", re.M)
_THINKING_BEGINS = re.compile(r"<think(?:ing)?>|<reasoning>|\[THINK\]|<\|channel\|>analysis")
_THINKING_ENDS = re.compile(r"</think(?:ing)?>|</reasoning>|\[/THINK\]|<\|channel\|>final<\|message\|>")
"""The marks that begin and end the thinking of Qwen and DeepSeek, of Claude, of Mistral's models and of gpt-oss."""
_SMART_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"'})
_QUOTE_OR_END = re.compile(r"[\"'`\]]")
_DIGITS = re.compile(r"\d+")
_VARIATION_KEYS = (
    *("variation", "rewrite", "rewritten", "rewritten_query", "paraphrase", "alternative", "search_query"),
    *("query", "question", "text", "phrase", "string", "value"),
)
"""Keys of a JSON object whose value is the variation rather than its kind, number or reason; the surest first."""
_PROSE = re.compile(r"^\{|[.!]$")
"""Matches a line that is no variation: the beginning of a JSON object, or a sentence."""
_AFTER_STRING = frozenset(",]}:")


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
    if _begins_with_refusal(answer):
        return Reply((), "refusal")
    if _SERVER_ERROR.match(answer.strip()):
        return Reply((), "error of a server")
    strings = _strings_of(answer)
    if strings is None:
        return Reply((), "no list of strings in the reply")
    strings = _unnumbered(strings)
    if len(strings) > STRINGS_MAX:
        return Reply((), f"list of more than {STRINGS_MAX} strings")
    variations = _chosen(strings, query, config)
    if not variations and not any(_gist(string) == _gist(query) for string in strings):
        return Reply((), "no usable string in the reply")
    return Reply(variations)


def _chosen(strings: Iterable[str], query: str, config: RewriteConfig) -> tuple[str, ...]:
    seen = {_gist(query), *(_gist(example) for example in _quoted_items(config.template))}
    chosen: list[str] = []
    for string in strings:
        variation = _clean(string)
        if variation is None or len(variation.encode()) > config.variation_bytes_max or _is_refusal(variation):
            continue
        gist = _gist(variation)
        if gist and gist not in seen:
            seen.add(gist)
            chosen.append(variation)
        if len(chosen) == config.variations_max:
            break
    return tuple(chosen)


def _clean(string: str) -> str | None:
    """The string as one line of printable text; None if it has a NUL, a surrogate or no printable character."""
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
    """A key that is equal for texts that differ only in case, punctuation, spaces and English word endings.

    "C", "C++" and "C#" differ, but a hashtag equals its word.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").replace("'s", "")
    words = "".join(char if _in_word(char) else " " for char in folded).split()
    return " ".join(filter(None, (_SUFFIX.sub("", word.lstrip("#+")) for word in words)))


def _in_word(char: str) -> bool:
    """Whether a character is a letter, a digit, a mark on a letter (such as a vowel sign), or one of `_#+`."""
    return char.isalnum() or char in "_#+" or unicodedata.category(char).startswith("M")


def _begins_with_refusal(answer: str) -> bool:
    """Whether an answer begins with a refusal and not with a bullet or with several lines in quotation marks."""
    if _MARK.match(answer) or _QUOTED_LINES.match(answer):
        return False
    start = answer.lstrip(_QUOTING)[:80].casefold().replace("\u2019", "'")
    return _REFUSAL.match(start) is not None


def _is_refusal(variation: str) -> bool:
    text = variation.casefold().replace("\u2019", "'")
    return _REFUSAL.match(text) is not None and _REFUSED_TASK.search(text) is not None


def _without_echo(text: str, template: str) -> str:
    """The reply without the prompt, which some LLMs repeat before their answer or instead of it."""
    before, _, after = template.partition("{query}")
    tail, head = after.rpartition("}")[2].strip(), before.partition("{history}")[0].strip()
    for fixed in (tail, head):
        if len(fixed) >= 20 and fixed in text:
            return text.rpartition(fixed)[2]
    return text


def _strings_of(answer: str) -> list[str] | None:
    """The strings of the list in an answer, in order; None if it has no list.

    Code fences are removed, and so are lines that mention one list and announce another. Then these forms are tried in
    turn:

    1. the first JSON value with one list of strings;
    2. quoted items after a bracket: with single or smart quotes, a trailing comma, or cut short;
    3. the texts of XML elements;
    4. lines with bullets or numbers;
    5. two to ten short lines without them.
    """
    answer = _LIST_MENTIONED.sub("", _FENCE.sub("", answer)).strip()
    for text in dict.fromkeys((answer, answer.translate(_SMART_QUOTES))):
        strings = _first_json_list(text)
        if strings is not None:
            return strings
        if items := _quoted_items(text):
            return items
    return _elements(answer) or _lines(answer)


def _elements(answer: str) -> list[str]:
    """The texts of the XML elements with the most frequent name, such as `<query>...</query>`.

    Of names that are equally frequent, the one that occurs last. [] if there is text outside the elements, except lines
    that end with a colon.
    """
    outside = _TAG.sub("", _ELEMENT.sub("", answer)).splitlines()
    if any(line.strip() and not line.rstrip().endswith(":") for line in outside):
        return []
    found = _ELEMENT.findall(answer)
    commonest = Counter(name for name, _ in reversed(found)).most_common(1)
    return [html.unescape(text) for name, text in found if name == commonest[0][0]]


def _unnumbered(strings: list[str]) -> list[str]:
    """The strings without their numbers, if they are numbered 1, 2, 3 and so on."""
    found = [_NUMBER.match(string) for string in strings]
    if not all(number and int(number[1]) == expected for expected, number in enumerate(found, 1)):
        return strings
    return [_NUMBER.sub("", string, count=1) for string in strings]


def _quoted_items(text: str) -> list[str]:
    """The quoted items after the first bracket: `['a', "b", ` gives a and b."""
    items: list[str] = []
    position = text.find("[") + 1
    while position:
        mark = _QUOTE_OR_END.search(text, position)
        end = None if mark is None or mark[0] == "]" else _closing(text, mark.start())
        if mark is None or end is None:
            break
        items.append(text[mark.end() : end].replace("\\" + mark[0], mark[0]))
        position = end + 1
    return items


def _closing(text: str, opening: int) -> int | None:
    """The index of the quote that closes the quote at `opening`; None if there is none.

    A comma, a colon, a closing bracket or the end of the text follows a closing quote.
    """
    quote = text[opening]
    position = text.find(quote, opening + 1)
    while position >= 0:
        rest = text[position + 1 : position + 20].lstrip()
        if text[position - 1] != "\\" and (not rest or rest[0] in _AFTER_STRING):
            return position
        position = text.find(quote, position + 1)
    return None


def _without_thinking(reply: str) -> str:
    """The text after the last `_THINKING_ENDS`; without one, the text before the first `_THINKING_BEGINS`.

    A reply that is JSON stays as it is, because its strings may contain "<think>".
    """
    if reply.lstrip()[:1] in ("[", "{") and not reply.lstrip().startswith("[THINK]"):
        return reply
    ends = [found.end() for found in _THINKING_ENDS.finditer(reply)]
    return reply[ends[-1] :] if ends else _THINKING_BEGINS.split(reply, maxsplit=1)[0]


def _first_json_list(text: str) -> list[str] | None:
    """The strings of the first JSON value with one list of strings.

    If there is none but there are several JSON objects, one string of each (`_string_of`). Else [] if there is an empty
    list, and None if there is none.
    """
    decoder = json.JSONDecoder(strict=False)  # models put line breaks into strings
    position = 0
    of_objects: list[str] = []
    empty: list[str] | None = None
    for _ in range(STARTS_MAX):
        start = min((found for found in (text.find("[", position), text.find("{", position)) if found >= 0), default=-1)
        if start < 0 or _depth(text[start:]) > DEPTH_MAX:
            break
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
            continue
        strings = _json_strings(value)
        if strings:
            return strings
        empty = empty if strings is None else strings
        of_objects += _string_of(value)
    return of_objects if len(of_objects) > 1 else empty


def _json_strings(value: object) -> list[str] | None:
    """The strings of a JSON list, of the only list in an object, or of an object with numbered keys ("query1").

    None if the value is none of these, or if its list has items but no strings.
    """
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        numbered = len(value) > 1 and len({_DIGITS.sub("", key) for key in value}) == 1
        value = list(value.values()) if numbered else lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        return None
    strings = [string for item in value for string in _string_of(item)]
    return strings if strings or not value else None


def _string_of(item: object) -> list[str]:
    """[item] for a string; for an object, its string with a letter at the first of `_VARIATION_KEYS` that it has, or
    its first string with a letter; else []."""
    if isinstance(item, dict):
        texts = {key: text for key, text in item.items() if isinstance(text, str) and any(map(str.isalpha, text))}
        by_key = {key.casefold(): text for key, text in texts.items()}
        return [*(by_key[key] for key in _VARIATION_KEYS if key in by_key), *texts.values()][:1]
    return [item] if isinstance(item, str) else []


def _depth(text: str) -> int:
    """The deepest nesting of brackets; too large or too small if strings contain brackets."""
    return max(accumulate(1 if char in "[{" else -1 for char in text if char in "[]{}"), default=0)


def _lines(answer: str) -> list[str] | None:
    lines = [line for line in answer.splitlines() if line.strip()]
    marked = [_unquoted(_MARK.sub("", line, count=1)) for line in lines if _MARK.match(line)]
    if marked:
        return marked
    plain = [line.strip() for line in lines if not line.rstrip().endswith(":")]
    if 2 <= len(plain) <= 10 and all(len(line) <= LINE_CHARS_MAX and not _PROSE.search(line) for line in plain):
        return [_unquoted(line) for line in plain]
    return None


def _unquoted(line: str) -> str:
    line = line.strip().translate(_SMART_QUOTES).rstrip(",")
    for mark in ("**", '"', "'", "`"):
        if len(line) > 2 * len(mark) and line.startswith(mark) and line.endswith(mark):
            line = line[len(mark) : -len(mark)]
    return line.strip()

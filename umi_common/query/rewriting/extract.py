"""Find the list in an LLM's reply: JSON, nearly JSON, or numbered lines, under whatever it is wrapped in.

Every function is linear in the length of its text (JSON is tried at most `STARTS_MAX` times), and no nesting reaches
a recursive parser.
"""

from __future__ import annotations

import json
import re

DEPTH_MAX = 8
"""Deepest nesting that is handed to the JSON parser; a list of strings needs 2."""
STARTS_MAX = 8
"""Places in a reply at which a JSON value is looked for."""
LINE_CHARS_MAX = 120
"""Longest line that may be a variation where lines carry no bullet or number."""

_MARK = re.compile(
    r"\s{0,20}(?:[-*\u2022\u2013\u2014+]|\(?\d{1,3}[.):\]]|\(?[a-z][.)]|\d{1,3}\s*-)\s{1,20}(?=\S)", re.I
)
_FENCE = re.compile(r"^\s{0,20}```[\w-]{0,20}\s{0,20}$", re.M)
_SMART_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"'})
_QUOTES = "\"'`"
_STRING_ENDS = frozenset(",]}:")


def strings_of(reply: str) -> list[str] | None:
    """The strings of the list in a reply, in order; None if it holds no list.

    Tried in turn: the whole reply as a JSON array of strings; the answer without thinking and code fences, its first
    JSON value that holds one list of strings; quoted items after a bracket (single or smart quotes, a trailing comma,
    a list cut short); lines with bullets or numbers; two to ten short plain lines.
    """
    strict = _json_strings(_json(reply.strip()))
    if strict is not None:
        return strict
    answer = _FENCE.sub("", _without_thinking(reply)).strip()
    for text in dict.fromkeys((answer, answer.translate(_SMART_QUOTES))):
        found = _first_json_list(text)
        if found is None:
            found = quoted_items(text) or None
        if found is not None:
            return found
    return _lines(answer)


def quoted_items(text: str) -> list[str]:
    """The quoted items after the first bracket: `['a', "b", ` gives a and b."""
    start = text.find("[")
    items: list[str] = []
    position = start + 1 if start >= 0 else len(text)
    while position < len(text):
        char = text[position]
        if char == "]":
            break
        if char not in _QUOTES:
            position += 1
            continue
        end = _closing(text, position)
        if end is None:
            break
        items.append(text[position + 1 : end].replace("\\" + char, char))
        position = end + 1
    return items


def _closing(text: str, opening: int) -> int | None:
    """Where the quote at `opening` closes: before a comma or bracket, so that an apostrophe inside does not count."""
    quote = text[opening]
    position = text.find(quote, opening + 1)
    while position >= 0:
        rest = text[position + 1 : position + 20].lstrip()
        if text[position - 1] != "\\" and (not rest or rest[0] in _STRING_ENDS):
            return position
        position = text.find(quote, position + 1)
    return None


def _without_thinking(reply: str) -> str:
    """What follows the last </think>; nothing, where the thinking never ended."""
    _, closed, answer = reply.rpartition("</think>")
    if closed:
        return answer
    return answer.partition("<think>")[0]


def _first_json_list(text: str) -> list[str] | None:
    decoder = json.JSONDecoder(strict=False)  # models put line breaks into strings
    position = 0
    for _ in range(STARTS_MAX):
        start = min((found for found in (text.find("[", position), text.find("{", position)) if found >= 0), default=-1)
        if start < 0 or _depth(text[start:]) > DEPTH_MAX:
            return None
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
            continue
        strings = _json_strings(value)
        if strings is not None:
            return strings
    return None


def _json(text: str) -> object:
    if _depth(text) > DEPTH_MAX:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _json_strings(value: object) -> list[str] | None:
    """The strings of a list, or of the one list in an object; a list of one-string objects counts as strings."""
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        return None
    strings = [string for item in value for string in _string_of(item)]
    return strings if strings or not value else None


def _string_of(item: object) -> list[str]:
    if isinstance(item, dict) and len(item) == 1:
        item = next(iter(item.values()))
    return [item] if isinstance(item, str) else []


def _depth(text: str) -> int:
    """Deepest run of open brackets; those inside strings count too, which only makes it more careful."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _lines(answer: str) -> list[str] | None:
    lines = [line for line in answer.splitlines() if line.strip()]
    marked = [_unquoted(_MARK.sub("", line, count=1)) for line in lines if _MARK.match(line)]
    if marked:
        return marked
    plain = [line.strip() for line in lines if not line.rstrip().endswith(":")]
    if 2 <= len(plain) <= 10 and all(len(line) <= LINE_CHARS_MAX and line[-1] not in ".!" for line in plain):
        return [_unquoted(line) for line in plain]
    return None


def _unquoted(line: str) -> str:
    line = line.strip().translate(_SMART_QUOTES).rstrip(",")
    for mark in ("**", '"', "'", "`"):
        if len(line) > 2 * len(mark) and line.startswith(mark) and line.endswith(mark):
            line = line[len(mark) : -len(mark)]
    return line.strip()

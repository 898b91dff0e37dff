"""Find the list of strings in an LLM's reply, and choose query variations from it.

The list is JSON, almost JSON, XML elements, or lines, with or without text around it. The reply is untrusted: its
length is checked before it is parsed, and every step takes time linear in it. The strings are only used as queries.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from umi_common.config import RewriteConfig

STARTS_MAX = 8
"""Largest number of brackets at which JSON parsing is tried, in the text itself and in the one with plain quotes."""
LINE_CHARS_MAX = 120
"""Largest number of characters of a line without bullet or number that is read as a string."""

_FENCE = re.compile(r"^\s{0,20}```[\w-]{0,20}\s{0,20}$", re.M)
_LIST_MENTIONED = re.compile(r"^\s{0,20}\w[^\n\[:]*\[[^\n\]]*\][^\n]*:[ \t\r]*\n(?=\s*\S)", re.M)
"""Matches a line that mentions a list and announces another one: `I kept the term ["login"] out of these:`."""
_SMART_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"'})
_BRACKET = re.compile(r"[\[{]")
_STRING_KEYS = (
    *("variation", "rewrite", "rewritten", "rewritten_query", "paraphrase", "alternative", "search_query"),
    *("query", "question", "text", "phrase", "string", "value"),
)
"""Keys of a JSON object whose value is the string rather than its kind, number or reason; the surest first."""
_QUOTED_ITEM = re.compile(r"[^\"'`\]]*([\"'`])(.*?)(?<!\\)\1(?=\s{0,18}(?:[,\]}:]|\Z)|\s{19})", re.S)
"""Matches the next quoted item of a list, and the text before it. A comma, a colon, a closing bracket, 19 characters of
white space or the end of the text follows the closing quote; any other quote is a part of the item: 'Ann's job'."""
_QUOTED_LINES = re.compile(r"\s*([\"'])[^\n]*\1,?[ \t\r]*\n\s*\1")
"""Matches two lines in quotation marks at the beginning of a text."""
_ELEMENT = re.compile(r"<(\w{1,20})(?:\s[^<>]{0,200})?>([^<>]{1,2000})</\1>")
_TAG = re.compile(r"</?\w{1,20}(?:\s[^<>]{0,200})?>")
_MARK = re.compile(
    r"\s{0,20}(?:[-*\u2022\u2013\u2014+]|\(?(?P<number>\d{1,3})[.):\]]|\(?[a-z][.)]|\d{1,3}\s*-"
    r"|\*{0,2}(?:query|question|variation|alternative|version) ?\d{1,2}[.):]\*{0,2})\s{1,20}(?=\S)",
    re.I,
)
"""Matches the mark before an item of a list: a bullet, "1.", "(a)" or "Query 1:"."""


def listed_strings(text: str) -> list[str] | None:
    """The strings of the list in a text, in order; None if it has no list.

    Bullets and numbers before lines are removed, and the numbers of strings that are numbered 1, 2, 3 and so on. Code
    fences are removed first, and so are lines that mention one list and announce another. Then these forms are tried in
    turn:

    1. the first JSON value with one list of strings;
    2. quoted items after a bracket: with single or smart quotes, a trailing comma, or cut short;
    3. the texts of XML elements;
    4. lines with bullets or numbers;
    5. two to ten short lines without them.
    """
    text = _LIST_MENTIONED.sub("", _FENCE.sub("", text)).strip()
    for quoted in dict.fromkeys((text, text.translate(_SMART_QUOTES))):
        strings = _json_list(quoted)
        if strings is not None:
            return _unnumbered(strings)
        if items := quoted_items(quoted):
            return _unnumbered(items)
    strings = _elements(text) or _marked_lines(text) or _plain_lines(text)
    return _unnumbered(strings) or None


def begins_with_item(text: str) -> bool:
    """Whether a text begins with a bullet, with a number, or with two lines in quotation marks."""
    return bool(_MARK.match(text) or _QUOTED_LINES.match(text))


def quoted_items(text: str) -> list[str]:
    """The quoted items after the first bracket: `['a', "b", ` gives a and b."""
    items: list[str] = []
    position = text.find("[") + 1
    while position and (item := _QUOTED_ITEM.match(text, position)):
        items.append(item[2].replace("\\" + item[1], item[1]))
        position = item.end()
    return items


def _json_list(text: str) -> list[str] | None:
    """The strings of the first JSON value that has some by `_strings_of`; else those of several objects, one of each.

    [] if the only lists are empty; None if there is no list.
    """
    values = list(_json_values(text))
    found = [strings for value in values if (strings := _strings_of(value)) is not None]
    of_objects = [string for value in values for string in _string_of(value)]
    if len(of_objects) > 1:
        found.append(of_objects)
    return next(filter(None, found), [] if found else None)


def _json_values(text: str) -> Iterator[object]:
    """The JSON objects and arrays in a text, in order."""
    decoder = json.JSONDecoder(strict=False)  # models put line breaks into strings
    position = 0
    for _ in range(STARTS_MAX):
        bracket = _BRACKET.search(text, position)
        if bracket is None:
            return
        try:
            value, position = decoder.raw_decode(text, bracket.start())
            yield value
        except (ValueError, RecursionError):
            position = bracket.end()


def _strings_of(value: object) -> list[str] | None:
    """The strings of a JSON list, of the only list in an object, or of an object with numbered keys ("query1").

    None if the value is none of these, or if its list has items but no strings.
    """
    if isinstance(value, dict):
        numbered = len(value) > 1 and len({re.sub(r"\d+", "", key) for key in value}) == 1
        lists = [[*value.values()]] if numbered else [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        return None
    strings = [string for item in value for string in _string_of(item)]
    return strings if strings or not value else None


def _string_of(item: object) -> list[str]:
    """[item], if it is a string. For an object, [one of its strings with a letter]: that of the first key in
    `_STRING_KEYS`, else its first one. [] if there is no such string."""
    if isinstance(item, dict):
        texts = {
            key.casefold(): text for key, text in item.items() if isinstance(text, str) and any(map(str.isalpha, text))
        }
        return [texts[key] for key in (*_STRING_KEYS, *texts) if key in texts][:1]
    return [item] if isinstance(item, str) else []


def _elements(text: str) -> list[str]:
    """The texts of the XML elements with the most frequent name, such as `<query>...</query>`.

    Of names that are equally frequent, the one that occurs last. [] if there is text outside the elements, except lines
    that end with a colon.
    """
    outside = _TAG.sub("", _ELEMENT.sub("", text)).splitlines()
    if any(line.strip() and not line.rstrip().endswith(":") for line in outside):
        return []
    found = _ELEMENT.findall(text)
    commonest = Counter(name for name, _ in reversed(found)).most_common(1)
    return [html.unescape(content) for name, content in found if name == commonest[0][0]]


def _marked_lines(text: str) -> list[str]:
    """The lines that begin with a bullet or a number."""
    marks = [(line, _MARK.match(line)) for line in text.splitlines()]
    return [_unquoted(line[mark.end() :]) for line, mark in marks if mark]


def _plain_lines(text: str) -> list[str]:
    """The lines, except those that end with a colon; [] unless they are two to ten, and none is long, ends like
    a sentence or begins with "{"."""
    stripped = [line.strip() for line in text.splitlines()]
    lines = [line for line in stripped if line and not line.endswith(":")]
    is_list = 2 <= len(lines) <= 10 and all(
        len(line) <= LINE_CHARS_MAX and line[0] != "{" and line[-1] not in ".!" for line in lines
    )
    return [_unquoted(line) for line in lines] if is_list else []


def _unquoted(line: str) -> str:
    line = line.strip().translate(_SMART_QUOTES).rstrip(",")
    for mark in ("**", '"', "'", "`"):
        if len(line) > 2 * len(mark) and line.startswith(mark) and line.endswith(mark):
            line = line[len(mark) : -len(mark)]
    return line.strip()


def _unnumbered(strings: list[str]) -> list[str]:
    """The strings without their numbers, if they are numbered 1, 2, 3 and so on."""
    marks = [_MARK.match(string) for string in strings]
    if all(mark and int(mark["number"] or 0) == expected for expected, mark in enumerate(marks, 1)):
        return [string[mark.end() :] for string, mark in zip(strings, marks, strict=True) if mark]
    return strings


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
    """The reason; None if there are variations, or if one of the strings repeats the query."""


def read_reply(text: str, *, query: str, config: RewriteConfig | None = None) -> Reply:
    """The variations of `query` in an LLM's reply, or the reason why it has none.

    Dropped are refusals, and strings equal to the query, to an earlier variation or to an example in the prompt, apart
    from case, punctuation, spaces and English word endings.

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
        if not variation or len(variation.encode()) > config.variation_bytes_max:
            continue
        form, folded = _comparable(variation), _folded(variation)
        refuses = _REFUSAL.match(folded) and _REFUSED_TASK.search(folded)
        if form and form not in seen and not refuses:
            seen.add(form)
            chosen.append(variation)
    return tuple(chosen[: config.variations_max])


def _clean(string: str) -> str:
    """The string as one line of printable text; "" if it has a NUL, a surrogate or no printable character."""
    categories = [(char, unicodedata.category(char)) for char in string]
    if any(char == "\0" or category == "Cs" for char, category in categories):
        return ""
    visible = ((char, category) for char, category in categories if category != "Cf" or char in _JOINERS)
    return " ".join("".join(" " if category == "Cc" else char for char, category in visible).split())


def _comparable(text: str) -> str:
    """A form that is equal for texts that differ only in case, punctuation, spaces and English word endings.

    "C", "C++" and "C#" differ, but a hashtag equals its word.
    """
    folded = _POSSESSIVE.sub("", _folded(unicodedata.normalize("NFKC", text)))
    # Marks on letters, such as vowel signs, are a part of the word.
    in_word = (char.isalnum() or char in "_#+" or unicodedata.category(char)[0] == "M" for char in folded)
    words = "".join(char if kept else " " for char, kept in zip(folded, in_word, strict=True)).split()
    return " ".join(filter(None, (_SUFFIX.sub("", word.lstrip("#+")) for word in words)))


def _folded(text: str) -> str:
    return text.casefold().replace("\u2019", "'")


def _without_echo(text: str, template: str) -> str:
    """The reply without the prompt, which some LLMs repeat before their answer or instead of it.

    It begins after the end of the prompt, or else after the prompt's beginning: the two parts that each prompt has.
    """
    before, _, after = template.partition("{query}")
    for part in (after.rpartition("}")[2].strip(), before.partition("{history}")[0].strip()):
        if len(part) >= 20 and part in text:  # an answer may contain a shorter part
            return text.rpartition(part)[2]
    return text


def _without_thinking(reply: str) -> str:
    """The text after the last `_THINKING_ENDS`, or else before the first `_THINKING_BEGINS`."""
    if reply.lstrip()[:1] in ("[", "{") and not reply.lstrip().startswith("[THINK]"):
        return reply  # its strings may contain "<think>"
    _, *after = _THINKING_ENDS.split(reply)
    return after[-1] if after else _THINKING_BEGINS.split(reply, maxsplit=1)[0]

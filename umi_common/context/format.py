"""Write parts as numbered plain text with a list of sources, as XML, as JSON, or by the caller's template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from umi_common.config import PLACEHOLDER
from umi_common.context.budget import AssemblyPolicy, ContextPart

PLAIN_PART = "[{number}] {text}"
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""


class Format:
    """A way to write parts: an opening line, the parts, a closing line."""

    opening, between, closing = "", "", ""

    def written(self, part: ContextPart) -> str:
        """The text of one part."""
        raise NotImplementedError

    def render(self, parts: Sequence[ContextPart]) -> str:
        """The whole text of the parts, at least one."""
        return f"{self.opening}\n{self.between.join(map(self.written, parts))}\n{self.closing}"

    def as_shown(self, text: str) -> str:
        """A text as it is in the rendered text: escaped if the format escapes."""
        return text

    def text_around_parts(self) -> str:
        """Roughly the text around all parts, for an estimate of its tokens."""
        return f"{self.opening}\n{self.closing}"

    def text_of_part(self, part: ContextPart, *, first: bool) -> str:
        """Roughly the text that one part adds, for an estimate of its tokens.

        Args:
            first: Whether it is the first part of its source: then it may add a line to the list of sources.
        """
        return self.written(part) + self.between


def format_of(policy: AssemblyPolicy) -> Format:
    """The format that a policy names."""
    return Xml() if policy.format == "xml" else Json() if policy.format == "json" else Plain(policy)


def source_label(part: ContextPart) -> str:
    """The source in one line; the first chunk's id if there is no source, or a blank one."""
    return " ".join((part.source or "").split() or part.ids[0].split())


def cited_parts(part: ContextPart) -> list[ContextPart]:
    """The part, then for each of its copies the same part with the copy's id, source, number and date."""
    copies = (
        replace(part, ids=(copy.id,), source=copy.source, number=copy.number, date=copy.date) for copy in part.copies
    )
    return [part, *copies]


class Plain(Format):
    """The header, then the parts and the list of sources by templates. Nothing is escaped, so a hostile text can
    imitate a citation."""

    def __init__(self, policy: AssemblyPolicy) -> None:
        self._policy = policy
        self._template = PLAIN_PART if policy.format == "plain" else policy.format

    def written(self, part: ContextPart) -> str:
        cited = cited_parts(part)
        # A copy's date is that of one chunk. In a part of several chunks it would seem to be the date of all.
        days = day_range(each.date for each in cited) if len(part.ids) == 1 else part.date
        return _fill_template(self._template, part, cited, days)

    def render(self, parts: Sequence[ContextPart]) -> str:
        blocks = list(map(self.written, parts))
        if self._policy.header:
            blocks.insert(0, self._policy.header)
        if self._policy.citation:
            lines = [self._policy.sources_heading] if self._policy.sources_heading else []
            by_number: dict[int, list[ContextPart]] = {}
            for cited in (cited for part in parts for cited in cited_parts(part)):
                by_number.setdefault(cited.number, []).append(cited)
            for group in by_number.values():
                days = day_range(each.date for each in group)
                lines.append(_fill_template(self._policy.citation, group[0], group, days).rstrip())
            blocks.append("\n".join(lines))
        return self._policy.separator.join(blocks)

    def text_around_parts(self) -> str:
        policy = self._policy
        header = policy.header + policy.separator if policy.header else ""
        return header + (policy.separator + policy.sources_heading if policy.citation else "")

    def text_of_part(self, part: ContextPart, *, first: bool) -> str:
        has_line = first and self._policy.citation
        citation = "\n" + _fill_template(self._policy.citation, part, [part], part.date) if has_line else ""
        return citation + self._policy.separator + self.written(part)


class Xml(Format):
    """One element per part. All texts and values of chunks are escaped, so no text can close its element."""

    opening, between, closing = "<context>", "\n", "</context>"

    def as_shown(self, text: str) -> str:
        return escape(NOT_XML.sub("\ufffd", text), {"\r": "&#13;"})

    def written(self, part: ContextPart) -> str:
        fields = _fields(part) | ({"trimmed": "true"} if part.trimmed else {})
        texts = {name: "; ".join(value) if isinstance(value, list) else str(value) for name, value in fields.items()}
        attributes = (f" {name}={quoteattr(NOT_XML.sub(chr(0xFFFD), text))}" for name, text in texts.items() if text)
        return f"<part{''.join(attributes)}>{self.as_shown(part.text)}</part>"


class Json(Format):
    """An array with one object per part, one per line."""

    opening, between, closing = "[", ",\n", "]"

    def as_shown(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)[1:-1]

    def written(self, part: ContextPart) -> str:
        return json.dumps({**_fields(part), "text": part.text}, ensure_ascii=False)


def _fields(part: ContextPart) -> dict[str, object]:
    """The number and source of a part; where it has them, its date, kind, `trimmed` and the sources of its copies."""
    kind = "" if part.kind == "text" else part.kind
    other_sources = list(dict.fromkeys(map(source_label, cited_parts(part))))[1:]
    others = {"date": part.date, "kind": kind, "trimmed": part.trimmed, "also": other_sources}
    known = {name: value for name, value in others.items() if value}
    return {"number": part.number, "source": source_label(part), **known}


def day_range(dates: Iterable[str]) -> str:
    """The first and the last of some days: "2023-05-08 to 2023-06-01"; one day if they are equal, "" without days.

    Args:
        dates: ISO days, or results of this function.
    """
    days = sorted(day for date in dates for day in date.split(" to ") if day)
    if not days:
        return ""
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _fill_template(template: str, part: ContextPart, group: Sequence[ContextPart], days: str) -> str:
    """The template, filled in. Text, kind and score are those of `part`, the date is `days`; numbers, sources and ids
    are those of all parts in `group`."""
    values = {
        "number": ", ".join(dict.fromkeys(str(cited.number) for cited in group)),
        "text": part.text,
        "source": "; ".join(dict.fromkeys(map(source_label, group))),
        "date": days,
        "kind": part.kind,
        "score": f"{part.score:.3g}",
        "ids": ", ".join(id for member in group for id in member.ids),
    }
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)

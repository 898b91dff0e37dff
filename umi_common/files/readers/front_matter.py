"""Read the front matter of Markdown: fields in YAML between lines "---", or in TOML between lines "+++"."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from datetime import date, time
from typing import Any

import yaml

from umi_common.errors import InvalidChunk
from umi_common.types import Chunk, MetadataValue

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FRONT_MATTER_CHARACTERS = 20_000
"""Number of characters at the beginning of a file that are searched for its front matter."""
NESTED_MAX = 20
"""Largest depth of nested brackets in front matter that is read."""
DATE_KEYS = ("date", "created", "timestamp", "event_time")
"""Fields that state the time of a file."""
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(rf"^(title|{'|'.join(DATE_KEYS)})[ \t]*[:=][ \t]*[\"']?([^\s#\"'][^\n#\"']*)", re.MULTILINE)
"""A title or a date in front matter that is neither YAML nor TOML, such as a template with "date: {{date}}"."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """Reads truth values and numbers as YAML 1.2 does; a date, 012, 12:30, yes and no are texts."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Refuse aliases ("*a"), which can make values of gigabytes of a few characters."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, kind: type[yaml.Token]) -> None:
        """Refuse deeply nested brackets, of which a thousand take PyYAML a second."""
        if self.flow_level == NESTED_MAX:
            raise yaml.YAMLError("nested too deeply")
        super().fetch_flow_collection_start(kind)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in {
    "null": r"(?:~|null|)$",
    "bool": r"(?:true|True|false|False)$",
    "int": r"[-+]?(?:0|[1-9]\d{0,17})$",
    "float": r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?$",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), None)
_Loader.add_constructor(None, lambda _loader, _node: None)  # an own tag, such as "!r Sys.Date()", gives no field


def front_matter(text: str) -> tuple[dict[str, MetadataValue], int]:
    """The fields in front matter at the beginning of a text, and the index in the text at which it ends.

    A field is a text, a number, a truth value, or a list of these; a date is a text as in ISO 8601. Empty and nested
    fields are left out. ({}, 0): there is no front matter, such as between two rules. Of front matter that cannot be
    read, the fields are the title and the dates that have a line of their own.
    """
    found = _FRONT_MATTER.match(text, 0, FRONT_MATTER_CHARACTERS)
    if found is None:
        return {}, 0
    try:
        read: Any = tomllib.loads(found[2]) if found[1] == "+++" else yaml.load(found[2], _Loader)
    except (yaml.YAMLError, ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError):
        read = {line[1]: line[2].strip() for line in _LINE.finditer(found[2])}
    fields = dict[str, MetadataValue]()
    for key, value in read.items() if isinstance(read, dict) else ():
        items = value if isinstance(value, list) else [value]
        if value not in ("", []) and all(isinstance(item, (str, int, float, date, time)) for item in items):
            with suppress(InvalidChunk):  # the key is no text, or a number or text is none that a chunk can hold
                fields |= Chunk("front matter", "-", metadata={key: value}).metadata
    return fields, found.end() if fields else 0

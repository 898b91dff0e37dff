"""The arguments of an assembly (`TokenBudget`, `AssemblyPolicy`) and its result (`AssembledContext`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from umi_common.config import AssemblyConfig, check_format
from umi_common.errors import BudgetError, ConfigError
from umi_common.types import Degradation, ReadOnlyDict

SourceKey = str | tuple[str]
"""Key of a source: its name; for a chunk without a source, a tuple of the chunk's id."""

ASSEMBLY = AssemblyConfig()
NEIGHBOURS_MAX = 10
"""Largest value of `AssemblyPolicy.neighbours`."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Largest numbers of tokens, as the counter of the assembly counts them; a context exceeds none of them.

    Args:
        max_total: For the whole text (parts, separators, header, citations) and the `reserves`.
        per_source_max: For all text of one source, counted part by part; None: only `max_total` limits it.
        per_chunk_max: For the text of one chunk; a longer one is cut. None: a quarter of `max_total` less the
            reserves, but at least 1,024, and more if tokens are left.
        reserves: Tokens of `max_total` that are kept free for other texts, by name: {"system": 500, "answer": 1000}.
        kinds: Tokens kept for the chunks of a kind: {"code": 800}. Tokens that they do not need are for all kinds.

    Raises:
        ConfigError: If a number is not whole, or too small.
        BudgetError: If the reserves leave no token for the context.
    """

    max_total: int = ASSEMBLY.max_total
    per_source_max: int | None = ASSEMBLY.per_source_max
    per_chunk_max: int | None = ASSEMBLY.per_chunk_max
    reserves: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("max_total", "per_source_max", "per_chunk_max"):
            if name == "max_total" or getattr(self, name) is not None:
                object.__setattr__(self, name, _tokens(name, getattr(self, name), least=1))
        for name in ("reserves", "kinds"):
            shares = getattr(self, name)
            if not isinstance(shares, Mapping):
                raise ConfigError(f"TokenBudget.{name} is {type(shares).__name__}; expected a dict of names to tokens")
            for key in shares:
                if not isinstance(key, str):
                    raise ConfigError(f"TokenBudget.{name} has the key {key!r:.80}; expected a name, a string")
            checked = {key: _tokens(f"{name}[{key!r}]", tokens, least=0) for key, tokens in shares.items()}
            object.__setattr__(self, name, ReadOnlyDict(checked))
        if self.available < 1:
            raise BudgetError(
                f"the reserves take {sum(self.reserves.values())} of max_total={self.max_total} tokens and leave "
                "nothing for the context; raise max_total or lower a reserve"
            )

    @property
    def available(self) -> int:
        """Tokens that the context's text may have: max_total less the reserves."""
        return self.max_total - sum(self.reserves.values())

    def __hash__(self) -> int:
        caps = (self.max_total, self.per_source_max, self.per_chunk_max)
        return hash((caps, frozenset(self.reserves.items()), frozenset(self.kinds.items())))


@dataclass(frozen=True, slots=True)
class AssemblyPolicy:
    """How the parts of a context are chosen, joined, ordered and written.

    Args:
        order: "score": best first. "source": the source with the best part first, inside a source in reading order.
            "chronological": by event_time, undated last. "edges-first": the best at both ends, the weakest in the
            middle, because LLMs pay the least attention to the middle of long prompts.
        format: "plain": numbered parts and a list of sources. "xml": tags, everything escaped. "json": an array of
            objects. Any text with {text} is a template for one part (placeholders: `config.PLACEHOLDERS`).
        pack: The chunks that are tried first. "score": those with the highest score. "density": those with the highest
            score per token.
        neighbours: 0..10. Number of chunks on each side of a hit that also become candidates. It applies to hits in the
            upper half of the range of scores.
        kinds: Only chunks of these kinds are used; None: all kinds. A chunk's kind is its metadata under `kind_key`,
            else "text".
        header: Text before the parts (plain and templates).
        separator: Text between parts (plain and templates).
        citation: Template of a line in the list of sources (plain and templates); "": no list.
        sources_heading: The line above the list of sources.
        joiner: Text between consecutive chunks of one part that do not overlap.
        kind_key: Metadata key of a chunk's kind.
        offset_keys: Metadata keys of a chunk's character offset in its source; the first key present counts.

    Raises:
        ConfigError: If a field has a wrong value; the message names the field.
    """

    order: Literal["score", "source", "chronological", "edges-first"] = ASSEMBLY.order
    format: str = ASSEMBLY.format
    pack: Literal["score", "density"] = ASSEMBLY.pack
    neighbours: int = ASSEMBLY.neighbours
    kinds: tuple[str, ...] | None = None
    header: str = ASSEMBLY.header
    separator: str = ASSEMBLY.separator
    citation: str = ASSEMBLY.citation
    sources_heading: str = "Sources:"
    joiner: str = "\n"
    kind_key: str = "kind"
    offset_keys: tuple[str, ...] = ("start_index", "start_char_idx")

    def __post_init__(self) -> None:
        for name in ("order", "pack"):
            value, allowed = getattr(self, name), get_args(AssemblyConfig.model_fields[name].annotation)
            if value not in allowed:
                raise ConfigError(f"AssemblyPolicy.{name} is {value!r:.80}; expected one of {', '.join(allowed)}")
        for name in ("header", "separator", "citation", "sources_heading", "joiner", "kind_key", "format"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"AssemblyPolicy.{name} is {getattr(self, name)!r:.80}; expected a string")
        check_format("AssemblyPolicy", self.format, self.header, self.citation)
        whole = isinstance(self.neighbours, (int, np.integer)) and not isinstance(self.neighbours, bool)
        if not whole or not 0 <= self.neighbours <= NEIGHBOURS_MAX:
            raise ConfigError(f"AssemblyPolicy.neighbours is {self.neighbours!r}; expected 0..{NEIGHBOURS_MAX}")
        for name in ("kinds", "offset_keys") if self.kinds is not None else ("offset_keys",):
            names = getattr(self, name)
            if isinstance(names, str):
                raise ConfigError(f"AssemblyPolicy.{name} is one string; expected a tuple of strings: ({names!r},)")
            listed = tuple(names) if isinstance(names, Iterable) else (None,)
            if not all(isinstance(each, str) for each in listed):
                raise ConfigError(f"AssemblyPolicy.{name} is {names!r:.80}; expected a tuple of strings")
            object.__setattr__(self, name, listed)


def without_layout(policy: AssemblyPolicy) -> AssemblyPolicy:
    """The policy without header, labels and citations: only the texts, with blank lines between them.

    For a framework that writes the rest of the prompt itself.
    """
    return replace(policy, format="{text}", header="", citation="", separator="\n\n")


class Span(NamedTuple):
    """The characters of a chunk that a part shows: `part.text[at : at + end - start] == chunk.text[start:end]`.

    Spans of chunks that overlap in their source overlap in the part. A character outside all spans belongs to a joiner,
    or to the head of a table that is repeated before later rows of the table.
    """

    id: str
    start: int
    """Index of the first character shown, in the chunk's text."""
    end: int
    """Index after the last character shown, in the chunk's text."""
    at: int
    """Index of the first character shown, in the part's text."""
    in_source: tuple[int, int] | None = None
    """Indices [start, end) of these characters in the source; None if the chunk has no offset."""


class Copy(NamedTuple):
    """A chunk that is not shown because a part shows another chunk with the same text. Its source is cited."""

    id: str
    source: str | None
    number: int
    """The number of the chunk's source in citations, from 1."""
    date: str
    """The day of the chunk; "" if it has no time."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A chunk, or consecutive chunks of one source, as one text."""

    ids: tuple[str, ...]
    """Ids of its chunks, in the order of the source."""
    source: str | None
    spans: tuple[Span, ...]
    """One for each id."""
    kind: str
    text: str
    """The text before the format adds number and source and, in some formats, escapes it."""
    reason: str
    """The reason for choosing its best chunk: "rank 1, dense rank 2", "beside <id>"."""
    score: float
    """Score of its best hit."""
    arm: str
    """Names of the arms that ranked its best hit, by rising rank, joined by "+"; "" if no arm ranked it."""
    tokens: int
    """Tokens of `text`."""
    number: int = 0
    """The number of its source in citations, from 1."""
    date: str = ""
    """The day of its chunks, or the first and last day; "" if they have no time."""
    trimmed: bool = False
    """Whether one of its chunks is shown in part."""
    copies: tuple[Copy, ...] = ()
    """Chunks with the same text as one of its chunks, best first."""

    @property
    def source_key(self) -> SourceKey:
        """Key by which `per_source_max` is counted: the source, or the id of a chunk without a source."""
        return (self.ids[0],) if self.source is None else self.source


@dataclass(frozen=True, slots=True)
class Dropped:
    """A hit that is not shown in the context."""

    id: str
    reason: str
    """"same text" (another hit shows it), "kind" (the policy excludes it), or the cap that it exceeds: "total",
    "source", "chunk"."""
    by: str | None = None
    """If the reason is "same text": the id of the chunk that is shown."""


@dataclass(frozen=True, slots=True)
class ContextStats:
    """The statistics of one assembly."""

    tokens: int
    """Tokens of the whole text."""
    budget: int
    """Largest number of tokens: max_total less the reserves."""
    sources: int
    """Number of sources cited; each chunk without a source counts as one."""
    duplication_ratio: float
    """Share of the characters of all hits, 0..1, that are left out because another chunk shows them."""
    coverage: Mapping[str, tuple[int, int]]
    """By kind: (hits shown, hits offered)."""
    dropped: tuple[Dropped, ...]
    """Best first."""
    counter: str
    """Name of the token counter."""
    approximate: bool
    """Whether the counter is an estimate."""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """The text of a context, its parts and statistics. `str(context)` is the text; iterating gives the parts."""

    text: str
    parts: tuple[ContextPart, ...]
    """In the order in which they are shown."""
    stats: ContextStats = field(repr=False)
    degraded: tuple[Degradation, ...] = ()
    """Failures in the search, as in `SearchResult.degraded`; () if the context was made without a search."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from umi_common import explain

        return explain.context_to_html(self)

    def __iter__(self) -> Iterator[ContextPart]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def ids(self) -> list[str]:
        """Ids of the chunks shown, part by part."""
        return [id for part in self.parts for id in part.ids]


def asked_assembly(
    settings: AssemblyConfig, budget: TokenBudget | int | None, policy: AssemblyPolicy | None
) -> tuple[TokenBudget, AssemblyPolicy]:
    """The budget and the policy of a call; None stands for those of the settings.

    A budget that is a number replaces `max_total` of the settings.

    Raises:
        ConfigError: If the budget or the policy is of another type.
    """
    if not isinstance(budget, TokenBudget | int | np.integer | None):
        raise ConfigError(f"budget is {type(budget).__name__}; expected a number of tokens or a TokenBudget")
    if not isinstance(policy, AssemblyPolicy | None):
        raise ConfigError(
            f'policy is {type(policy).__name__}; expected an AssemblyPolicy: AssemblyPolicy(format="xml")'
        )
    stated = settings.model_dump()
    caps = {name: stated.pop(name) for name in ("max_total", "per_source_max", "per_chunk_max")}
    if isinstance(budget, (int, np.integer)):
        caps["max_total"] = budget
    return budget if isinstance(budget, TokenBudget) else TokenBudget(**caps), policy or AssemblyPolicy(**stated)


def _tokens(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ConfigError(f"TokenBudget.{name} is {value!r:.80}; expected a whole number of tokens, at least {least}")
    return int(value)

"""Candidates for a context: chunks with their value and the characters shown; and the parts made of the chosen ones.

Chosen pieces of one source that follow each other are joined, and the joined texts are put in order. Text that two
chunks share is shown once. Two chunks are joined by their character offsets in the source if both have offsets with
which their texts and positions agree. (Offsets may count from another start: in a PDF, from the start of a page.)
Otherwise, chunks at consecutive positions are joined; text that they share is found by comparing the end of one with
the start of the next.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from umi_common.context.budget import AssemblyPolicy, ContextPart, Copy, SourceKey, Span
from umi_common.context.format import day_range
from umi_common.context.tokens.counter import Counter
from umi_common.errors import InputError
from umi_common.types import Chunk, Hit

NEIGHBOUR_SHARE = 0.5
"""The chunk next to a hit has the hit's value times this factor; for each further step it is multiplied again."""
HEAD_KEY = "table_head"
"""Metadata key of a chunk that begins inside a table. Its value is the number of characters at the start of the text
that repeat the table's head. The chunk's offset is that of the character after them."""
LINE_KEY = "begins_line"
"""Metadata key whose value is True if one line break, and no blank line, precedes the chunk in its source."""
STRONG = 0.5
"""Smallest value (0..1) of a hit whose neighbours become candidates."""
MARKDOWN_HEAD = re.compile(r"\|[^\n]*\n\|(?=[^\n]*-)[ \t\r:|-]+\n")
"""The head of a Markdown table: the names of the columns and, in the next line, dashes."""
ANSWER_MAX = 100
"""Largest number of characters of a text, such as "No.", whose meaning may depend on the text before it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that competes for the budget, and the characters of it that are shown.

    These are the characters from `start` up to `end` and, if `with_head`, the table's head before them.
    """

    chunk: Chunk
    hit: Hit
    """The hit of this chunk, or the hit whose neighbour it is."""
    value: float
    """0..1. For a hit: its score, scaled so that the best hit has 1 and the last 0; 1 if all scores are equal. For a
    neighbour: a share of its hit's value."""
    preference: int
    """Index in the order of preference, from 0 for the best. Unique in one assembly."""
    kind: str
    chunk_offset: int | None
    """Index in the source of the chunk's first character after a repeated table head; None: not known."""
    start: int = 0
    """Index of the first character shown."""
    end: int = -1
    """Index after the last character shown; -1: the chunk is shown up to its end."""
    with_head: bool = False
    """Whether the table's head, which ends at or before `start`, is shown."""
    copy_of: str | None = None
    """The id of the chosen piece with the same text. That one is shown; this one is only cited."""
    question: str = ""
    """For a text of at most ANSWER_MAX characters: the text of the candidate just before it in its source, if any."""

    @property
    def neighbour_of(self) -> str | None:
        """The id of the hit whose neighbour the piece is; None: the piece is a hit itself."""
        return None if self.hit.chunk.id == self.chunk.id else self.hit.chunk.id

    @property
    def source(self) -> SourceKey:
        """The key of the chunk's source: a tuple if it has no source, so that no chunk's id equals a source's name."""
        return (self.chunk.id,) if self.chunk.source is None else self.chunk.source

    @property
    def text(self) -> str:
        """The text that is shown."""
        head = self.chunk.text[: self.table_head] if self.with_head else ""
        return head + self.chunk.text[self.start : None if self.end < 0 else self.end]

    @property
    def head(self) -> int:
        """Number of characters at the start of the shown text that repeat a table's head.

        With `with_head` the whole head, else the rest of the chunk's repeated head from `start` on.
        """
        return self.table_head if self.with_head else max(0, min(self.chunk_head - self.start, len(self.text)))

    @property
    def offset(self) -> int | None:
        """Index in the source of the first character shown after a repeated table head; None: not known."""
        return None if self.chunk_offset is None else self.chunk_offset + max(0, self.start - self.chunk_head)

    @property
    def begins_line(self) -> bool:
        """Whether the text is known to follow exactly one newline in its source."""
        return not self.start and self.chunk.metadata.get(LINE_KEY) is True

    @property
    def trimmed(self) -> bool:
        """Whether a part of the chunk is not shown."""
        return self.start > 0 or self.ends_early

    @property
    def ends_early(self) -> bool:
        """Whether the end of the chunk is not shown."""
        return self.end >= 0

    @property
    def key(self) -> str:
        """A key that is equal for chunks of equal text and `question`, except for white space and Unicode form."""
        return "\n".join(
            " ".join(unicodedata.normalize("NFC", text).split()) for text in (self.question, self.chunk.text)
        )

    @property
    def chunk_head(self) -> int:
        """Number of characters at the start of the chunk that repeat a table's head."""
        head = self.chunk.metadata.get(HEAD_KEY)
        return head if type(head) is int and head > 0 else 0

    @property
    def table_head(self) -> int:
        """Number of characters at the start of the chunk that are a table's head, repeated or its own (Markdown)."""
        own = MARKDOWN_HEAD.match(self.chunk.text)
        return self.chunk_head or (own.end() if own else 0)

    def cut(self, start: int, end: int, *, with_head: bool = False) -> Piece:
        """The piece with the characters [start, end) of its chunk, after the table's head if `with_head`."""
        return replace(self, start=start, end=-1 if end >= len(self.chunk.text) else end, with_head=with_head)


def pieces_of(hits: Sequence[Hit], policy: AssemblyPolicy) -> list[Piece]:
    """One piece per chunk, by falling score, then rising rank, then rising id.

    Of two hits with the same id, the better one is used.

    Raises:
        InputError: If a score is NaN or infinite.
    """
    for hit in hits:
        if not math.isfinite(hit.score):
            raise InputError(f"hit {hit.chunk.id!r}: score is {hit.score}; expected a finite number")
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.rank, hit.chunk.id, hit.chunk.text)):
        best.setdefault(hit.chunk.id, hit)
    scores = [hit.score for hit in best.values()]
    width = scores[0] - scores[-1] if scores else 0.0
    values = [(score - scores[-1]) / width if 0 < width < math.inf else 1.0 for score in scores]
    return [_piece(hit.chunk, hit, values[index], index, policy) for index, hit in enumerate(best.values())]


def with_neighbours(
    pieces: Sequence[Piece], around: Mapping[str, Sequence[Chunk]], policy: AssemblyPolicy
) -> list[Piece]:
    """The pieces, and the neighbours of strong hits (value at least STRONG), sorted by falling value.

    value(neighbour) = max over strong hits h of value(h) * NEIGHBOUR_SHARE ** steps from h

    Args:
        around: By id of a hit: consecutive chunks of its source, the hit included.
    """
    best: dict[str, Piece] = {piece.chunk.id: piece for piece in pieces}
    for piece in (piece for piece in pieces if piece.value >= STRONG):
        source = around.get(piece.chunk.id, ())
        here = next((i for i, chunk in enumerate(source) if chunk.id == piece.chunk.id), None)
        if here is None:
            continue
        for i, chunk in enumerate(source):
            steps = abs(i - here)
            value = piece.value * NEIGHBOUR_SHARE**steps
            known = best.get(chunk.id)
            is_better = known is None or (known.neighbour_of is not None and known.value < value)  # a hit stays a hit
            if 0 < steps <= policy.neighbours and is_better:
                best[chunk.id] = _piece(chunk, piece.hit, value, piece.preference, policy)
    order = sorted(best.values(), key=lambda p: (-p.value, p.neighbour_of is not None, p.preference, p.chunk.id))
    return [replace(piece, preference=index) for index, piece in enumerate(order)]


def with_questions(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, each short one with `question`: the text of the piece at the position before it in its source.

    "No." after one question is then no duplicate of "No." after another.
    """
    texts = {(piece.source, piece.chunk.position): piece.chunk.text for piece in pieces}
    return [
        piece
        if piece.chunk.position is None or len(piece.chunk.text) > ANSWER_MAX
        else replace(piece, question=texts.get((piece.source, piece.chunk.position - 1), ""))
        for piece in pieces
    ]


def _piece(chunk: Chunk, hit: Hit, value: float, preference: int, policy: AssemblyPolicy) -> Piece:
    kind = chunk.metadata.get(policy.kind_key)
    kind = kind if isinstance(kind, str) and kind else "text"
    offsets = (chunk.metadata.get(key) for key in policy.offset_keys)
    offset = next((each for each in offsets if type(each) is int and each >= 0), None)
    return Piece(chunk, hit, value, preference, kind, offset)


OVERLAP_MIN = 20
"""Smallest number of characters of shared text; a shorter equal end and start count as a coincidence."""
OVERLAP_MAX = 4_000
"""Largest number of characters of shared text that is searched for; limits the time for repetitive texts."""
GAP_MAX = 2
"""Largest number of characters between two chunks that are joined. So small a gap is mostly white space that the
splitter stripped."""


def join_of(first: Piece, second: Piece, joiner: str) -> tuple[int, str] | None:
    """How to join `second` to `first`, which precedes it in the source; None: they cannot be joined.

    Returns:
        (start, between): the index at which `second` begins in the text of `first` followed by `between`; and the text
        to insert between the two pieces, "" if they overlap or touch.
    """
    if first.kind != second.kind or first.chunk.source is None or first.chunk.source != second.chunk.source:
        return None
    text = first.text
    if first.offset is not None and second.offset is not None and _count_from_one_start(first, second):
        at = second.offset - first.offset + first.head  # index in `text` of second's first character after its head
        gap = at - len(text)
        if gap > GAP_MAX:
            return None
        if gap > 0:
            # White space as long as the gap, so that offsets in the source stay valid.
            white = " " if gap == 1 and not second.begins_line else "\n" * gap
            was_cut = first.ends_early or second.start > 0  # then the gap may be text that was cut off to save tokens
            return None if was_cut else (at - second.head, white)
        end, start = text[max(0, at) :], second.text[second.head :]
        if at >= 0 and (start.startswith(end) or end.startswith(start)):
            return at - second.head, ""
    if first.ends_early or second.start:
        return None
    if first.chunk.position is None or second.chunk.position != first.chunk.position + 1:
        return None
    overlap = _overlap(text, second.text)
    return (len(text) - overlap, "") if overlap else (len(text) + len(joiner), joiner)


def _count_from_one_start(first: Piece, second: Piece) -> bool:
    """Whether the offsets of two pieces may count from the same start.

    Then offsets and positions rise together, and positions by at most 1 per character. Pieces that begin 500 characters
    apart are 1 to 500 positions apart; pieces with equal offsets are 0 or 1 positions apart.
    """
    if first.chunk.position is None or second.chunk.position is None:
        return True
    characters, steps = (second.offset or 0) - (first.offset or 0), second.chunk.position - first.chunk.position
    return min(1, characters) <= steps <= max(1, characters)


def stitched(pieces: Iterable[Piece], joiner: str) -> list[Stretch]:
    """The pieces, joined into stretches: source by source, in the order of the sources' first pieces; inside a source
    in the order of `in_source_order`."""
    by_source: dict[SourceKey, list[Piece]] = {}
    for piece in pieces:
        by_source.setdefault(piece.source, []).append(piece)
    stretches: list[Stretch] = []
    for group in by_source.values():
        first, *others = in_source_order(group)
        stretches.append(Stretch(first))
        for piece in others:
            if not stretches[-1].add(piece, joiner):
                stretches.append(Stretch(piece))
    return stretches


def in_source_order(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of one source, sorted by position, then by offset; those without a position last.

    Of pieces with equal position and offset, the longest is first: a chunk precedes the chunks that it contains.
    """

    def place(piece: Piece) -> tuple[bool, int, int, int, str]:
        position = piece.chunk.position
        return (position is None, position or 0, piece.offset or 0, -len(piece.text), piece.chunk.id)

    return sorted(pieces, key=place)


class Stretch:
    """Pieces of one source, joined into one text; `add` adds them in the order of the source.

    `spans` has one `Span` for each of `pieces`. `tail` is the piece that ends at the end of the text; `tail_at` is the
    index in the text at which it begins. A piece that lies inside the text does not become the tail.
    """

    def __init__(self, first: Piece) -> None:
        self.text = ""
        self.pieces: list[Piece] = []
        self.spans: list[Span] = []
        self._put(first, 0)

    def add(self, piece: Piece, joiner: str) -> bool:
        """Add the piece if it can be joined to the tail; returns whether it was added."""
        found = join_of(self.tail, piece, joiner)
        if found is None:
            return False
        start, between = found
        self.text += between
        self._put(piece, self.tail_at + start)
        return True

    @property
    def best(self) -> Piece:
        """The first hit in the order of preference; if no piece is a hit, the first neighbour of a hit."""
        return min(self.pieces, key=lambda piece: (piece.neighbour_of is not None, piece.preference))

    @property
    def first_time(self) -> datetime:
        """The earliest time of the pieces; if none has a time, a time later than all others."""
        times = (piece.chunk.event_time for piece in self.pieces)
        return min(filter(None, times), default=datetime.max.replace(tzinfo=timezone.utc))

    def _put(self, piece: Piece, at: int) -> None:
        """Add a piece that begins at index `at` of the text; append the part of it that lies after the text."""
        shown, head = piece.text, piece.head
        overlap = len(self.text) - at
        length = len(shown) - head  # a span begins after a repeated table head
        start = max(piece.start, piece.chunk_head if head else 0)
        in_source = None if piece.offset is None else (piece.offset, piece.offset + length)
        self.pieces.append(piece)
        self.spans.append(Span(piece.chunk.id, start, start + length, at + head, in_source))
        if len(shown) >= overlap:  # else the text contains the whole piece, and the tail does not change
            self.text += shown[overlap:]
            self.tail, self.tail_at = piece, at


def _overlap(first: str, second: str) -> int:
    """Length of the longest suffix of `first` that is a prefix of `second`; 0 if it is shorter than OVERLAP_MIN."""
    if len(second) < OVERLAP_MIN:
        return 0
    beginning = second[:OVERLAP_MIN]
    longest = min(len(first), len(second), OVERLAP_MAX)
    at = first.find(beginning, len(first) - longest)
    while at >= 0:
        if second.startswith(first[at:]):
            return len(first) - at
        at = first.find(beginning, at + 1)
    return 0


def lay_out(pieces: Iterable[Piece], policy: AssemblyPolicy, counter: Counter) -> tuple[ContextPart, ...]:
    """The parts that show these pieces, in the policy's order; the order of `pieces` does not matter.

    A piece with `copy_of` is not shown: it becomes a `Copy` in the part that shows the same text. Sources are numbered
    from 1 in the order in which the parts name them.
    """
    ranked = sorted(pieces, key=lambda piece: piece.preference)
    stretches = _ordered(stitched([piece for piece in ranked if piece.copy_of is None], policy.joiner), policy.order)
    copies_of = defaultdict[str, list[Piece]](list)
    for piece in ranked:
        if piece.copy_of is not None:
            copies_of[piece.copy_of].append(piece)
    numbers: dict[SourceKey, int] = {}
    parts = list[ContextPart]()
    for stretch in stretches:
        copies = [copy for piece in stretch.pieces for copy in copies_of[piece.chunk.id]]
        for piece in (*stretch.pieces, *copies):
            numbers.setdefault(piece.source, len(numbers) + 1)
        parts.append(part_from(stretch, counter, numbers, copies))
    return tuple(parts)


def part_from(
    stretch: Stretch, counter: Counter, numbers: Mapping[SourceKey, int], copies: Sequence[Piece] = ()
) -> ContextPart:
    """The part that shows a stretch, with source, kind, reason, score and arm of its best piece.

    Args:
        numbers: By source: its number in citations.
        copies: Pieces that are not shown because a piece of the stretch has the same text.
    """
    best = stretch.best
    arms: dict[str, int] = {}
    """By the name of each arm that ranked the best hit: its best rank there; the best rank first."""
    for rank, arm in sorted((signal.rank, signal.arm) for signal in best.hit.signals if signal.rank is not None):
        arms.setdefault(arm, rank)
    ranks = [f"rank {best.hit.rank}", *(f"{arm} rank {rank}" for arm, rank in arms.items())]
    return ContextPart(
        ids=tuple(piece.chunk.id for piece in stretch.pieces),
        source=best.chunk.source,
        spans=tuple(stretch.spans),
        kind=best.kind,
        text=stretch.text,
        reason=", ".join(ranks) if best.neighbour_of is None else f"beside {best.neighbour_of}",
        score=best.hit.score,
        arm="+".join(arms),
        tokens=counter.count(stretch.text),
        number=numbers[best.source],
        date=_days(stretch.pieces),
        trimmed=any(piece.trimmed for piece in stretch.pieces),
        copies=tuple(Copy(it.chunk.id, it.chunk.source, numbers[it.source], _days([it])) for it in copies),
    )


def _ordered(stretches: Sequence[Stretch], order: str) -> list[Stretch]:
    """The stretches of `stitched`, sorted as `AssemblyPolicy.order` says; "source" keeps their order in a source."""
    if order == "chronological":
        return sorted(stretches, key=lambda stretch: (stretch.first_time, stretch.pieces[0].chunk.source or ""))
    by_score = sorted(stretches, key=lambda stretch: stretch.best.preference)
    if order == "score":
        return by_score
    if order == "source":
        best: dict[SourceKey, int] = {}
        for stretch in by_score:
            best.setdefault(stretch.pieces[0].source, stretch.best.preference)
        return sorted(stretches, key=lambda stretch: best[stretch.pieces[0].source])
    return [*by_score[0::2], *reversed(by_score[1::2])]  # ranks 1 3 5 ... 6 4 2: the best at both ends


def _days(pieces: Sequence[Piece]) -> str:
    return day_range(p.chunk.event_time.date().isoformat() for p in pieces if p.chunk.event_time is not None)

"""Candidates for a context: chunks with their value and the characters shown."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from umi_common.context.budget import AssemblyPolicy, SourceKey
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
    if not policy.neighbours:
        return list(pieces)
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

"""Pack hits into a context that stays within a token budget. Deterministic, no I/O.

A cap is a limit of the `TokenBudget`: tokens of the whole text, of one source or of one chunk. The finished text is
within every cap, as counted by the given token counter. The steps:

1. Choose pieces (hits and their neighbours) greedily by estimated tokens: first those of the kinds that have tokens of
   their own, then, unless the policy packs by density, the best hit, which is cut if it does not fit, then all others.
2. Count the finished text. Remove pieces, the last chosen first, until the text is within every cap.
3. Cut one piece that did not fit to the tokens that are left.
4. If tokens are still left, make cut pieces longer.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from umi_common.context.budget import (
    ASSEMBLY,
    AssembledContext,
    AssemblyPolicy,
    ContextPart,
    ContextStats,
    Dropped,
    SourceKey,
    TokenBudget,
    asked_assembly,
)
from umi_common.context.format import Format, cited_parts, format_of
from umi_common.context.pieces import (
    Piece,
    Stretch,
    in_source_order,
    join_of,
    lay_out,
    part_from,
    pieces_of,
    with_neighbours,
    with_questions,
)
from umi_common.context.tokens.counter import Counter, counter_for
from umi_common.context.trim import Characters, cut_to_fit, window_to_fit
from umi_common.errors import BudgetError
from umi_common.types import Chunk, Hit

PassageOf = Callable[[Chunk], Characters | None]
"""Returns the (start, end) of the passage of a chunk that answers the query best; None: the chunk has no best part."""
SAME_TEXT = "same text"
"""The reason for dropping a piece whose text another part shows."""
CHUNK_DIVISOR = 4
"""If `per_chunk_max` is None, a chunk is first cut to 1 / CHUNK_DIVISOR of the budget, so that the context shows
several long chunks instead of one."""
CHUNK_LEAST = 1_024
"""Smallest limit that CHUNK_DIVISOR sets for a chunk, in tokens."""
SAMPLE_TEXT = "x"
"""Stands for a part's text while the tokens that the format adds around it are counted. An empty text would not do: the
space before it would be a token of its own, but the space before a word is part of the word's token."""
SAMPLE_NUMBER = 99
"""Stands for the number of the part's source in this count."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A finished text, the pieces and parts that it shows, and its number of tokens."""

    pieces: tuple[Piece, ...] = ()
    parts: tuple[ContextPart, ...] = ()
    text: str = ""
    tokens: int = 0


class Packing:
    """The pieces chosen so far, and an estimate of the tokens that they use under each cap."""

    def __init__(
        self,
        budget: TokenBudget,
        policy: AssemblyPolicy,
        counter: Counter,
        passage_of: PassageOf | None = None,
        layout: Format | None = None,
    ) -> None:
        self.budget, self.policy, self.counter = budget, policy, counter
        self._passage_of = passage_of
        self.chosen: list[Piece] = []
        self.refused: dict[str, Dropped] = {}
        """By chunk id: the reason why a candidate was not chosen."""
        self._chunk_cap = budget.per_chunk_max or max(CHUNK_LEAST, budget.available // CHUNK_DIVISOR)
        self._format = layout or format_of(policy)
        self.shown: dict[str, str] = {}
        """By `Piece.key`: the id of the chosen chunk that is shown with this text."""
        self._spent = counter.count(self._format.text_around_parts())
        """Estimated tokens of the whole text."""
        self._by_source: dict[SourceKey, list[Piece]] = {}
        """The chosen pieces of each source."""
        self._spent_source = defaultdict[SourceKey, int](int)
        """Estimated tokens of the text of each source."""

    def fill(self, candidates: Iterable[Piece], *, share: int | None = None) -> int:
        """Choose the candidates that fit, in the given order; returns how many were chosen.

        Args:
            candidates: A neighbour is left out unless its hit was chosen before.
            share: Largest number of tokens that they may add together; None: no other limit than the budget.
        """
        before = len(self.chosen)
        limit = self.budget.available if share is None else min(self.budget.available, self._spent + share)
        ids = {piece.chunk.id for piece in self.chosen}
        for piece in candidates:
            allowed = piece.chunk.id not in ids and (piece.neighbour_of is None or piece.neighbour_of in ids)
            if allowed and self._choose_if_fits(piece, limit):
                ids.add(piece.chunk.id)
        return len(self.chosen) - before

    def take(self, piece: Piece) -> None:
        """Add a piece to the chosen ones without changing the counts of tokens."""
        self.chosen.append(piece)
        self.refused.pop(piece.chunk.id, None)
        self.shown.setdefault(piece.key, piece.chunk.id)  # of a copy, the shown chunk was taken before
        self._by_source.setdefault(piece.source, []).append(piece)

    def adopt(self, rendered: Rendered) -> bool:
        """Take chosen pieces and numbers of tokens from a finished text; returns whether it shows all chosen pieces.

        The reason of a piece that the text does not show is "total", also if it is over another cap.
        """
        shown = {piece.chunk.id for piece in rendered.pieces}
        missing = [piece for piece in self.chosen if piece.chunk.id not in shown]
        for piece in missing:
            self._refuse(piece.chunk.id, SAME_TEXT if piece.copy_of else "total", piece.copy_of)
        self.chosen, self.shown, self._by_source = [], {}, {}
        for piece in rendered.pieces:
            self.take(piece)
        self._spent, self._spent_source = rendered.tokens, _tokens_by_source(rendered.parts)
        return not missing

    def render(self, pieces: Sequence[Piece]) -> Rendered | None:
        """The finished text of these pieces; None if it is over a cap."""
        parts = lay_out(pieces, self.policy, self.counter)
        source_cap, chunk_cap = self.budget.per_source_max, self.budget.per_chunk_max
        if source_cap is not None and max(_tokens_by_source(parts).values(), default=0) > source_cap:
            return None
        shown = [piece.text for piece in pieces if piece.copy_of is None]
        if chunk_cap is not None and any(self.counter.count(text) > chunk_cap for text in shown):
            return None
        text = self._format.render(parts)
        tokens = self.counter.measure(text)
        return Rendered(tuple(pieces), parts, text, tokens) if tokens <= self.budget.available else None

    def longest_prefix(self) -> Rendered:
        """The finished text of the longest prefix of the chosen pieces that is within every cap, found by bisection: a
        shorter prefix has fewer tokens."""
        best, fits, over, tried = Rendered(), 0, len(self.chosen) + 1, len(self.chosen)
        while over - fits > 1:
            found = self.render(self.chosen[:tried])
            if found is None:
                over = tried
            else:
                best, fits = found, tried
            tried = (fits + over) // 2
        return best

    def room(self, piece: Piece) -> int:
        """Estimate of the number of tokens of this piece's text that fit under all caps."""
        first = piece.source not in self._by_source
        total = self.budget.available - self._spent - self._frame(piece, first=first)
        return min(total, self._source_room(piece), self._chunk_cap)

    def cut(self, piece: Piece, tokens: int) -> Piece:
        """The piece cut to at most `tokens` tokens, around the passage that `passage_of` returns for its chunk.

        Without a passage, or if it is blank, the piece is cut to its beginning; if that is blank, to the text after
        the blanks. If the chunk begins with the head of a table, this head is shown before the rows, unless it takes
        more than half of the tokens.
        """
        text, size = piece.chunk.text, self.counter.measure
        passage = None if self._passage_of is None else self._passage_of(piece.chunk)
        if passage is None or not text[slice(*passage)].strip():
            end = cut_to_fit(text, tokens, size)
            start = 0 if text[:end].strip() else _blanks_before(text)
            return piece.cut(start, start + cut_to_fit(text[start:], tokens, size) if start else end)
        start, end = window_to_fit(text, tokens, size, passage)
        head = text[: piece.table_head]
        left = tokens - size(head)
        head_is_cut_off = 0 < len(head) <= start
        if not head_is_cut_off or left < tokens / 2:
            return piece.cut(start, end)
        rows = text[len(head) :]
        start, end = window_to_fit(rows, left, size, (passage[0] - len(head), passage[1] - len(head)))
        below = piece.cut(start + len(head), end + len(head), with_head=True)
        return below if start < end and size(below.text) <= tokens else piece.cut(start + len(head), end + len(head))

    def _choose_if_fits(self, piece: Piece, limit: int) -> bool:
        """Choose the piece, or record why not; returns whether it was chosen. Cheap tests precede counting tokens."""
        id, cap = piece.chunk.id, self._chunk_cap
        total, source = limit - self._spent, self._source_room(piece)
        if (same := self.shown.get(piece.key)) is not None:
            return self._cite_if_fits(piece, same, total)
        room = min(total, source)
        of_source = [other for other in self._by_source.get(piece.source, ()) if other.copy_of is None]
        if room < cap and self.counter.surely_exceeds(self._new_text(piece, of_source)[0], room):
            return self._refuse(id, "total" if total < source else "source")
        if self.counter.surely_exceeds(piece.text, cap) or self.counter.count(piece.text) > cap:
            piece = self.cut(piece, cap)
        if not piece.text.strip():
            return self._refuse(id, "chunk")
        text, joined = self._new_text(piece, of_source)
        frame = 0 if joined else self._frame(piece, first=not of_source)
        tokens, tokens_of_text = self.counter.count(self._format.as_shown(text)) + frame, self.counter.count(text)
        if tokens_of_text > source or tokens > total:
            return self._refuse(id, "source" if tokens_of_text > source else "total")
        return self._choose(piece, tokens, tokens_of_text)

    def _cite_if_fits(self, piece: Piece, same: str, room: int) -> bool:
        """Choose the piece as a copy of the shown chunk `same`, if its citation takes at most `room` tokens."""
        known = piece.source in self._by_source  # then only the id is added, to the source's line in the list
        tokens = self.counter.count(self._format.as_shown(piece.chunk.id)) if known else self._frame(piece, first=True)
        if tokens > room or piece.neighbour_of is not None:
            return self._refuse(piece.chunk.id, SAME_TEXT, same)
        return self._choose(replace(piece, copy_of=same), tokens, 0)

    def _refuse(self, id: str, reason: str, by: str | None = None) -> bool:
        """Record why a piece is not chosen; returns False, the answer of `_choose_if_fits`."""
        self.refused[id] = Dropped(id, reason, by)
        return False

    def _choose(self, piece: Piece, tokens: int, tokens_of_text: int) -> bool:
        """Choose a piece that adds `tokens` to the whole text and `tokens_of_text` to its source; returns True."""
        self._spent += tokens
        self._spent_source[piece.source] += tokens_of_text
        self.take(piece)
        return True

    def _source_room(self, piece: Piece) -> int:
        cap = self.budget.per_source_max
        return sys.maxsize if cap is None else cap - self._spent_source[piece.source]

    def _new_text(self, piece: Piece, of_source: Iterable[Piece]) -> tuple[str, bool]:
        """The part of a piece that no chosen piece shows, and whether the piece is joined to one of its source.

        If it follows a chosen piece, the text begins with the joiner.
        """
        text, joined = piece.text, False
        for other in of_source:
            earlier, later = in_source_order([other, piece])
            if (found := join_of(earlier, later, self.policy.joiner)) is not None:
                joined, (start, between) = True, found
                shared = max(0, len(earlier.text) - start)
                text = text[: max(0, len(text) - shared)] if earlier is piece else between + text[shared:]
        return text, joined

    def _frame(self, piece: Piece, *, first: bool) -> int:
        """Number of tokens that the format adds around a piece that becomes a part; see `Format.text_of_part`."""
        sample = Stretch(piece)
        sample.text = SAMPLE_TEXT
        part = part_from(sample, self.counter, {piece.source: SAMPLE_NUMBER})
        return max(0, self.counter.count(self._format.text_of_part(part, first=first)) - part.tokens)


def _tokens_by_source(parts: Iterable[ContextPart]) -> defaultdict[SourceKey, int]:
    tokens = defaultdict[SourceKey, int](int)
    for part in parts:
        tokens[part.source_key] += part.tokens
    return tokens


TRIM_MIN = 24
"""Smallest number of free tokens that steps 3 and 4 fill with an excerpt; a shorter one would not help a reader."""
ROUNDS = 3
"""Largest number of times that further pieces are chosen because the finished text has fewer tokens than estimated.
Each time the text is counted again, which is slow."""


def assemble(
    hits: Sequence[Hit],
    *,
    budget: TokenBudget | int,
    policy: AssemblyPolicy | None = None,
    counter: Any = None,
    around: Mapping[str, Sequence[Chunk]] | None = None,
    passage_of: PassageOf | None = None,
    layout: Format | None = None,
) -> AssembledContext:
    """The best hits that fit the budget, as one text with its sources.

    Args:
        hits: In any order; they are sorted by falling score, then rising rank, then rising id.
        budget: The caps. A plain number limits the whole text.
        policy: Order, format, neighbours; None: `AssemblyPolicy()`.
        counter: Any token counter that `counter_for` takes; None: the default of `counter_for`.
        around: By the id of a hit: consecutive chunks of the hit's source, the hit included. At most
            `policy.neighbours` chunks on each side of the hit also become candidates.
        passage_of: Returns the passage of a chunk around which the chunk is cut if it is too long, such as the answer
            to a query (`search.passages.assemble_for`). None: such a chunk is cut to its beginning.
        layout: Writes the parts, such as an adapter that adds metadata; None: the format that the policy names.

    Returns:
        The context. It has at least one part if any hit is of a kind in `policy.kinds`: if no such hit fits, one is
        cut.

    Raises:
        BudgetError: If not even one character of a hit fits, with the text that the format adds around it.
        InputError: If a score is not finite.
        ConfigError: If `budget` or `policy` is of another type, `counter` is no token counter, or it does not
            return whole numbers.
    """
    budget, policy = asked_assembly(ASSEMBLY, budget, policy)
    offered = pieces_of(hits, policy)
    pieces = [piece for piece in offered if policy.kinds is None or piece.kind in policy.kinds]
    packing = Packing(budget, policy, counter_for(counter), passage_of, layout)
    candidates = with_questions(with_neighbours(pieces, around or {}, policy))
    if policy.pack == "density":
        tokens = {piece.chunk.id: max(1, packing.counter.count(piece.chunk.text)) for piece in candidates}
        candidates.sort(key=lambda piece: (-piece.value / tokens[piece.chunk.id], piece.preference))
    best = pieces[0] if pieces and policy.pack == "score" else None
    rendered = _packed(packing, candidates, best)
    if best is not None and rendered.pieces and all(shown.chunk.id != best.chunk.id for shown in rendered.pieces):
        alone = Packing(budget, policy, packing.counter, passage_of, layout)
        with suppress(BudgetError):  # not even one character of the best piece fits
            packing, rendered = alone, _one_hit_alone(alone, [best])
    if not rendered.pieces and pieces:
        rendered = _one_hit_alone(packing, candidates)
    if budget.per_chunk_max is None:
        rendered = _with_longer_cuts(packing, rendered)
    return AssembledContext(rendered.text, rendered.parts, _stats_of(offered, rendered, packing))


def _packed(packing: Packing, candidates: Sequence[Piece], best: Piece | None) -> Rendered:
    """The text after steps 1 to 3; `best` is cut if it does not fit. None: no piece is preferred.

    While the finished text has fewer tokens than estimated, further pieces are chosen, at most ROUNDS times.
    """
    for kind, share in packing.budget.kinds.items():
        packing.fill((piece for piece in candidates if piece.kind == kind), share=share)
    if best is not None and not packing.fill([best]):
        for room in _shrinking(packing.room(best)):  # `packing.room` is an estimate: try shorter cuts until one fits
            if packing.fill([packing.cut(best, room)]):
                break
    packing.fill(candidates)
    with_cut = _with_one_cut(packing, candidates)
    rendered = with_cut or packing.longest_prefix()
    for _ in range(ROUNDS):
        if not packing.adopt(rendered) or not packing.fill(candidates):
            break
        rendered = packing.longest_prefix()
    return rendered if with_cut else _with_one_cut(packing, candidates) or rendered


def _with_one_cut(packing: Packing, candidates: Sequence[Piece]) -> Rendered | None:
    """The text of the chosen pieces and of the best refused hit, cut to the tokens left; None: not possible."""
    for piece in candidates:
        refused = packing.refused.get(piece.chunk.id)
        lacks_tokens = refused is not None and refused.reason in ("total", "source")
        room = packing.room(piece) if lacks_tokens and piece.neighbour_of is None else 0
        if room >= TRIM_MIN and piece.key not in packing.shown:
            cut = packing.cut(piece, room)
            return packing.render([*packing.chosen, cut]) if cut.text.strip() else None
    return None


def _with_longer_cuts(packing: Packing, rendered: Rendered) -> Rendered:
    """The text with longer cut pieces, as far as tokens are left; the best piece is extended first.

    Fewer than TRIM_MIN tokens are used only if they show the whole chunk.
    """
    for piece in sorted((each for each in rendered.pieces if each.trimmed), key=lambda each: each.preference):
        for room in _shrinking(packing.budget.available - rendered.tokens):
            tokens = packing.counter.measure(piece.text) + room
            if room < TRIM_MIN and packing.counter.surely_exceeds(piece.chunk.text, tokens):
                break
            longer = packing.cut(piece, tokens)
            if room < TRIM_MIN and longer.trimmed:
                break
            found = packing.render([longer if each is piece else each for each in rendered.pieces])
            if found is not None:
                rendered = found
                break
    return rendered


def _one_hit_alone(packing: Packing, candidates: Sequence[Piece]) -> Rendered:
    """The text of one hit alone: the best hit of which at least one character fits, cut to the tokens available.

    Raises:
        BudgetError: If no character of any hit fits.
    """
    budget = packing.budget
    for piece in candidates:
        for room in _shrinking(packing.room(piece)):
            cut = packing.cut(piece, room)
            found = packing.render([cut]) if cut.text.strip() else None
            if found is not None:
                return found
        first = _blanks_before(piece.chunk.text)
        found = packing.render([piece.cut(first, first + 1)])
        if found is not None:
            return found
    caps = {"source": budget.per_source_max, "chunk": budget.per_chunk_max}
    stated = ", ".join([f"{budget.available} tokens", *(f"{cap} per {what}" for what, cap in caps.items() if cap)])
    raise BudgetError(
        f"{stated} cannot hold one character of any hit with the text that the format adds, counted by "
        f"{packing.counter.name}; raise the budget, or set citation='' and a shorter format"
    )


def _blanks_before(text: str) -> int:
    """Number of blank characters at the start of a text."""
    return len(text) - len(text.lstrip())


def _shrinking(room: int) -> Iterator[int]:
    """`room`, then three quarters of the previous number, rounded down, while it is at least 1."""
    while room >= 1:
        yield room
        room = room * 3 // 4


def _stats_of(offered: Sequence[Piece], rendered: Rendered, packing: Packing) -> ContextStats:
    """The statistics of an assembly; `offered` are the hits of all kinds, best first."""
    shown = [piece for piece in rendered.pieces if piece.copy_of is None]
    ids = {piece.chunk.id for piece in shown}
    copies = {piece.chunk.id: Dropped(piece.chunk.id, SAME_TEXT, piece.copy_of) for piece in rendered.pieces}
    dropped = list[Dropped]()
    for id, kind in ((piece.chunk.id, piece.kind) for piece in offered if piece.chunk.id not in ids):
        reason = copies.get(id, packing.refused.get(id))
        if packing.policy.kinds is not None and kind not in packing.policy.kinds:
            reason = Dropped(id, "kind")
        elif reason is None or not (reason.by is None or reason.by in ids):  # "same text" as a chunk that is not shown
            reason = Dropped(id, "total")
        dropped.append(reason)
    repeated = {drop.id for drop in dropped if drop.reason == SAME_TEXT}
    overlaps = sum(len(piece.text) for piece in shown) - sum(map(_characters_shown, rendered.parts))
    left_out = sum(len(piece.chunk.text) for piece in offered if piece.chunk.id in repeated)
    characters = sum(len(piece.chunk.text) for piece in offered)
    kinds = [piece.kind for piece in offered]
    kinds_shown = [piece.kind for piece in offered if piece.chunk.id in ids]
    return ContextStats(
        tokens=rendered.tokens,
        budget=packing.budget.available,
        sources=len({cited.number for part in rendered.parts for cited in cited_parts(part)}),
        duplication_ratio=min(1.0, (overlaps + left_out) / characters) if characters else 0.0,
        coverage={kind: (kinds_shown.count(kind), kinds.count(kind)) for kind in sorted({*kinds})},
        dropped=tuple(dropped),
        counter=packing.counter.name,
        approximate=packing.counter.approximate,
    )


def _characters_shown(part: ContextPart) -> int:
    """Number of the part's characters that belong to at least one chunk."""
    covered, reach = 0, 0
    for span in sorted(part.spans, key=lambda span: span.at):
        end = span.at + span.end - span.start
        covered += max(0, end - max(reach, span.at))
        reach = max(reach, end)
    return covered

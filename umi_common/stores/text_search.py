"""The steps of one search in a store with a `LexicalIndex`: the lexical arm, references, and the pool.

Both arms score every row of the pool. The pool also holds the chunks to which the query or the best chunks refer; see
`references`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from umi_common.errors import SearchUnavailable
from umi_common.pool import Floats, Ints, Links, Pool, source_codes
from umi_common.protocols import RecallRequest
from umi_common.stores.arrays import distinct
from umi_common.stores.chunk_names import Names
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.references import Named, References
from umi_common.stores.rows.rows import UNKNOWN, Mask, Rows, RowTable
from umi_common.stores.values import RecallTrace
from umi_common.types import microseconds

REFERRING_OF_EACH_ARM = 3
"""Number of best chunks of each arm whose references are looked up; ranking uses only the references of a few."""


@dataclass(frozen=True, slots=True, eq=False)
class TextSearch:
    """A search over one snapshot of n rows."""

    request: RecallRequest
    trace: RecallTrace
    index: LexicalIndex
    rows: Rows
    table: RowTable
    """Finds rows by id; may hold rows that were added after `rows`."""
    allowed: Mask | None
    """(n,) whether each row may be found; None: all living rows may be."""
    weights: Floats | None
    """(n,) factors of decay; None: all are 1."""

    @property
    def findable(self) -> Mask:
        """(n,) `allowed`, or which rows are living."""
        return self.rows.alive if self.allowed is None else self.allowed

    def ranked(self) -> list[LexicalHits] | None:
        """The lexical arm's ranking for each probe; None: the strategy is "vector", or an error occurred."""
        if self.request.strategy == "vector":
            return None
        try:
            return self.index.search(
                self._texts,
                k=self.request.depth,
                config=self.request.lexical,
                allowed=self.allowed,
                weights=self.weights,
                id_of=self.rows.ids.__getitem__,
            )
        except Exception as error:  # noqa: BLE001 the dense arm can answer, whatever the cause
            self.lost_lexical(error)
            return None

    def lost_lexical(self, error: Exception | str, advice: str = "") -> None:
        """Record that the lexical arm failed."""
        self.trace.lost("lexical", error, f"searched with the dense arm alone{advice}")

    def references(
        self,
        names_of: Callable[[], Names],
        lexical: Sequence[LexicalHits] | None,
        dense: Sequence[Ints],
        terms_of: Callable[[Sequence[int]], Sequence[Sequence[str]]],
        *,
        rare: bool = True,
    ) -> tuple[Named, Links | None]:
        """The rows whose names the referring probes (`RecallRequest.referring`) mention, and the references from these
        rows and from each arm's best rows for the referring probes.

        Empty and None if there is no referring probe, if the lexical arm did not answer, or if an error occurs.

        Args:
            names_of: Returns the names of the snapshot's rows.
            lexical: The lexical arm's ranking for each probe; None: the arm did not answer.
            dense: The dense arm's ranking for each probe; empty: the arm did not answer.
            terms_of: Returns the terms of each row's text, in order.
            rare: As in `References`.
        """
        nothing = Named({}, {}), None
        referring = self.request.referring()
        if not referring or lexical is None:
            return nothing
        begun, config = time.perf_counter(), self.request.lexical
        text = "\n".join(self._texts[at] for at in referring)
        try:
            query = lexical[referring[0]].query
            if len(referring) > 1:
                query = self.index.query(text, config)
            finder = References(self.index, names_of(), query, self.findable, config, rare)
            named = finder.named_by(text)
            best = [lexical[at].rows[:REFERRING_OF_EACH_ARM] for at in referring]
            if dense:
                best += [dense[at][:REFERRING_OF_EACH_ARM] for at in referring]
            sources = distinct(np.concatenate([*best, np.fromiter(named.rows, np.int64)]))
            links = finder.links_of(sources, terms_of)
        except Exception as error:  # noqa: BLE001 an optional part, whatever the cause
            self.trace.lost("references", error, "searched without references between chunks")
            return nothing
        self.trace.facts["references_ms"] = (time.perf_counter() - begun) * 1e3
        return named, links

    def known(self, ids: Sequence[str]) -> Ints:
        """The rows of those `ids` that the snapshot holds and that may be found."""
        found = self.table.rows_of(ids)
        known: Ints = found[(found != UNKNOWN) & (found < len(self.rows))]
        return known[self.findable[known]]

    def candidates(
        self, lexical: Sequence[LexicalHits] | None, dense: Sequence[Ints], named: Named, links: Links | None
    ) -> Ints:
        """The rows of the pool, sorted by id.

        - the rows of the arms' rankings, and the neighbours of the best of these rows
        - the rows with the ids of the probes
        - the rows to which the query or one of the best rows refers
        - the rows that hold a rare term of the query, since no arm may rank them if their texts are long

        Args:
            lexical, dense: See `references`.
        """
        others = [self.known(self.request.probe_ids()), np.fromiter(named.rows, np.int64)]
        if links is not None:
            others.append(links.target)
        if lexical:
            rows = self.index.scorer(self.request.lexical).rows_of_rare(lexical[0].query)
            others.append(rows[self.findable[rows]])
        rankings = [*(hits.rows for hits in lexical or ()), *dense]
        return self.rows.with_neighbours(rankings, np.concatenate(others), self.request, self.allowed)

    def scored(self, lexical: Sequence[LexicalHits] | None, rows: Ints, *, alone: bool) -> dict[str, Any]:
        """The pool's fields that the lexical index fills for these rows; only `length` if `lexical` is None or fails.

        Args:
            alone: Whether the dense arm did not answer. Then the search fails if the lexical arm fails.

        Raises:
            SearchUnavailable: If scoring fails and `alone`.
        """
        if lexical is not None:
            try:
                return self.index.score(self._texts, rows, config=self.request.lexical, searched=lexical)._asdict()
            except Exception as error:
                self.lost_lexical(error)
                if alone:
                    raise SearchUnavailable(self.trace.reasons()) from error
        return {"length": self.index.lengths(len(self.rows))[rows].astype(np.int64)}

    def pool(self, rows: Ints, named: Named, links: Links | None, **fields: Any) -> Pool:
        """The pool of these rows, sorted by id, with the fields of both arms and of the corpus. `Pool.of` ranks the
        rows by their scores, which gives the arms' own ranks."""
        return Pool.of(
            list(map(self.rows.ids.__getitem__, rows.tolist())),
            **fields,
            **named.pool_fields(rows),
            weights=None if self.weights is None else self.weights[rows],
            depth=self.request.depth,
            source=source_codes(self.rows.source[rows].tolist()),
            position=self.rows.index_in_source[rows],
            age_hours=self.rows.age_hours(microseconds(self.request.now), rows),
            links=None if links is None else links.of_rows(rows, len(self.rows)),
            degraded=tuple(self.trace.degraded),
            facts=self.trace.facts,
        )

    @property
    def _texts(self) -> list[str]:
        return [probe.text for probe in self.request.probes]

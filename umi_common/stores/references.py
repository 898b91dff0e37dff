"""References between chunks: from the best candidates of a search to chunks that may complete the answer.

A chunk may have a name, its heading; see `chunk_names`. A text mentions a name if the name's terms stand in it one
directly after the other, in their order. A text holds all terms of a name if they stand anywhere in it, in any order.
A chunk i refers to a chunk j in each of these cases:

- The text of i mentions the name of j.
- The text of j holds all terms of the name of i.
- The text of i holds the rarest term of the name of j ("Ohio" of "List of Ohio area codes").
- Both texts hold the same rare term.

The df of a term is the number of chunks that hold it. The weight of a query term is its idf times its factor in
`QueryTerms.weights`, which is below 1 for a function word. The weight of a reference grows with the weights of the
query's terms that j holds and i lacks:

    need(i, j)   = sum of the weights of the query's terms that j holds and i lacks / sum of all their weights
    weight(i, j) = (name(i, j) + part(i, j)) * min(1, 5 * need) + rare(i, j) * min(1, 5 * max(0, need - 0.2))

    w(name)      = min(1, 10 / df of the name's rarest term) / number of chunks with that name; 0 if these are over 3
    name(i, j)   = the larger of w(name of j), if i mentions it,
                   and 1/2 * w(name of i), if j holds all its terms, and at most 64 chunks hold the rarest of them
    part(i, j)   = 1/2 * min(1, 10 / df of t) / number of chunks j with this t. Here t is the rarest term of the name
                   of j; only j has this name, i holds t, the query lacks it, and at most 64 chunks hold it
    rare(i, j)   = 1 / (df - 1) of the rarest term that both hold, if 2 <= df <= 10. It is 0 for two chunks of one
                   source, which the ranking stage `neighbours` relates

Each of the last three is 0 if its conditions are false. If the weights of the references from one chunk sum to more
than 1, each is divided by the sum.

A query refers to the chunks whose names it mentions, with the weight w(name); `need` has no influence. Another chunk
gets this weight, too, if it holds all terms of the name, and if the query's terms in it weigh more than those in each
chunk with the name. If the name has codes (here: terms with a digit), as "Incident e58b98e9" has, the chunk need only
hold the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, Links, sums_by
from umi_common.stores.arrays import beginnings, distinct
from umi_common.stores.chunk_names import Name, Names
from umi_common.stores.lexical.bm25 import QueryTerms
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.rows.rows import Mask

NAME_CHUNKS_MAX = 3
"""Largest number of chunks that share a name; a heading of more chunks ("Overview") names none of them."""
NAME_DOCUMENTS = 10.0
"""A mention of a name has its full weight only if the df of the name's rarest term is at most this."""
MENTION_DOCUMENTS_MAX = 64
"""Chunks that hold all terms of a name, or its rarest term, are looked up only if the rarest term's df is at most
this."""
BACKWARD = 0.5
"""Factor on w(name of i) if j holds all its terms; 1 on w(name of j) if i mentions it."""
PART = 0.5
"""Factor on part(i, j)."""
RARE_DOCUMENTS = 10
"""Largest df of a rare term. With 20, the rankings of sets of 1,000 to 6,000 chunks were no better."""
NEED_SLOPE = 5.0
"""Factor on `need`: a reference by a name has its full weight from a need of 0.2 on, one by a rare term from 0.4."""
NEED_OF_RARE = 0.2
"""A shared rare term is a reference only if `need` is larger than this."""


class Named(NamedTuple):
    """The rows to which a query refers, and the rows that get the weight of a mentioned name, too; see the module."""

    rows: dict[int, float]
    """Row -> w(its name), for the rows whose names the query mentions."""
    holding: dict[int, float]
    """Row -> w(name), for further rows: those that hold all terms of a mentioned name, and more of the query."""

    def pool_fields(self, rows: Ints) -> dict[str, Any]:
        """The fields "named" and "mentioning" of a pool of these rows."""
        if not self.rows:
            return {}
        fields = {"named": self.rows, "mentioning": self.holding}
        return {name: np.array([weights.get(row, 0.0) for row in rows.tolist()]) for name, weights in fields.items()}


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """Finds the chunks to which the query and the best chunks of one search refer."""

    index: LexicalIndex
    """The lexical index of one snapshot of n rows."""
    names: Names
    """The names of the rows of the index, and perhaps of later rows."""
    query: QueryTerms
    """The terms of the query, as `index.search` looked them up."""
    allowed: Mask
    """(n,) whether each row may be found."""
    config: LexicalConfig
    """BM25's settings, which weigh the terms."""
    rare: bool = True
    """Whether shared rare terms count."""

    def named_by(self, text: str) -> Named:
        """The rows to which the query refers, and further rows; see `Named`. `text` is the text of the query."""
        found: dict[Name, list[int]] = {}
        for terms in self.index.terms_in_order(text) if self.names else ():
            found |= self.names.mentioned(terms, self.index.living)
        weights = {name: weight for name, weight in self._weights(found).items() if weight}
        if not weights:
            return Named({}, {})
        holders = dict(zip(weights, self._holding_all([_codes_of(name) or name for name in weights]), strict=True))
        rows = distinct(np.fromiter(chain(*(found[name] for name in weights), *holders.values()), np.int64))
        weights_held = _sums_held(self._term_weights(), self.index.held(self.query.terms, rows, self.config))
        held = dict(zip(rows.tolist(), weights_held.tolist(), strict=True))
        named: dict[int, float] = {}
        holding: dict[int, float] = {}
        for name, weight in weights.items():
            most = max(held[row] for row in found[name])
            named |= {row: weight for row in found[name] if self.allowed[row]}
            holding |= {row: weight for row in holders[name] if held[row] > most and self.allowed[row]}
        return Named(named, {row: weight for row, weight in holding.items() if row not in named})

    def links_of(self, sources: Ints, terms_of: Callable[[Sequence[int]], Sequence[Sequence[str]]]) -> Links | None:
        """The references i -> j with a weight above 0 for each i in `sources`; None: there are none, or the query has
        a single term.

        Args:
            sources: (S,) the rows i, living and rising: the best rows of the search and those that the query names.
                These are no sources in the sense of `Chunk.source`.
            terms_of: Returns the terms of each row's text, in order.
        """
        weights = self._term_weights()
        total = float(weights.sum())
        if not len(sources) or len(weights) < 2 or total <= 0 or not (self.names or self.rare):
            return None
        table = self._by_rare_term(sources) if self.rare else np.zeros((5, 0))
        if self.names:
            table = np.concatenate([self._by_name(sources, terms_of(sources.tolist())), table], axis=1)
        at_source, target, by_name, by_rare, by_part = _largest(table[:, self.allowed[table[1].astype(np.int64)]])
        if not len(target):
            return None
        source, target = sources[at_source.astype(np.int64)], target.astype(np.int64)
        rows = distinct(np.concatenate([source, target]))
        held = self.index.held(self.query.terms, rows, self.config)
        at = rows.searchsorted(source)
        need = _sums_held(weights, ~held[:, at] & held[:, rows.searchsorted(target)]) / total
        weight = (by_name + by_part) * np.minimum(1.0, NEED_SLOPE * need)
        weight += by_rare * np.minimum(1.0, NEED_SLOPE * np.maximum(0.0, need - NEED_OF_RARE))
        weight /= np.maximum(1.0, sums_by(at, weight, len(rows)))[at]
        kept = weight > 0
        return Links(source[kept], target[kept], weight[kept]) if kept.any() else None

    def _by_name(self, sources: Ints, terms: Sequence[Sequence[str]]) -> Floats:
        """A column for each reference by a name or its part: index in `sources`, target row, name, 0, part.

        The values are those of the module's formulas; 0 is in the place of `rare`. A pair may have several columns.
        """
        living, names = self.index.living, [self.names.by_row.get(row, ()) for row in sources.tolist()]
        mentioned = [self.names.mentioned(each, living) for each in terms]
        own = {name: living(self.names.rows(name)) for name in names if name}
        weights = self._weights({name: named for each in (own, *mentioned) for name, named in each.items()})
        counting = [name for name in own if weights[name]]
        holding = dict(zip(counting, self._holding_all(counting), strict=True))
        parts = self._parts(set(chain(*terms)).difference(term.text for term in self.query.terms))
        found: list[tuple[int, int, float, float, float]] = []
        for at, own_name in enumerate(names):
            for name, named in mentioned[at].items():
                found += [(at, other, weights[name], 0.0, 0.0) for other in named]
            found += [(at, other, BACKWARD * weights[own_name], 0.0, 0.0) for other in holding.get(own_name, ())]
            for term in parts.keys() & terms[at]:
                found += [(at, other, 0.0, 0.0, weight) for other, weight in parts[term]]
        table: Floats = np.array(found, dtype=np.float64).reshape(-1, 5).T
        return table[:, sources[table[0].astype(np.int64)] != table[1]]

    def _parts(self, terms: Collection[str]) -> dict[str, list[tuple[int, float]]]:
        """By term t of `terms`: (j, part(i, j)) for each row j whose part is above 0 if i holds t and the query not."""
        names, living = self.names, self.index.living
        in_names = [term for term in terms if term in names.by_term]
        counts = zip(in_names, self.index.corpus.frequencies(in_names), strict=True)
        df = {term: count for term, count in counts if count <= MENTION_DOCUMENTS_MAX}
        rows = {row for term in df for row in living(names.by_term[term])}
        own = {row: names.by_row[row] for row in rows if len(living(names.rows(names.by_row[row]))) < 2}
        rarest = self._rarest(own.values())
        rows_of: dict[str, list[int]] = {}
        for row, name in own.items():
            rows_of.setdefault(rarest[name][1], []).append(row)
        return {
            term: [(row, PART * min(1.0, NAME_DOCUMENTS / max(df[term], 1)) / len(rows)) for row in rows]
            for term, rows in rows_of.items()
            if term in df
        }

    def _by_rare_term(self, sources: Ints) -> Floats:
        """As `_by_name`, with a column for each shared rare term: index in `sources`, target row, 0, rare, 0."""
        source, target, df = self.index.sharing_rare(sources, RARE_DOCUMENTS)
        of_source, of_target = self.index.corpus.sources[sources[source]], self.index.corpus.sources[target]
        other = (target != sources[source]) & ((of_source != of_target) | (of_source == NO_SOURCE))
        none = np.zeros(int(other.sum()))
        return np.stack([source[other], target[other], none, 1.0 / (df[other] - 1), none])

    def _term_weights(self) -> Floats:
        """(T,) for each of the query's T terms, its idf times its weight in the query."""
        pairs = zip(self.query.terms, self.query.weights, strict=True)
        return np.array([weight * max(term.idf, 0.0) for term, weight in pairs])

    def _rarest(self, names: Iterable[Name]) -> dict[Name, tuple[int, str]]:
        """The df of each name's rarest term, and the term; of equally rare terms the first by code points."""
        distinct_names = set(names)
        terms = list(set(chain(*distinct_names)))
        df = dict(zip(terms, self.index.corpus.frequencies(terms), strict=True))
        return {name: min((df[term], term) for term in name) for name in distinct_names}

    def _weights(self, chunks: Mapping[Name, Sequence[int]]) -> dict[Name, float]:
        """w(name) by name; `chunks`: the living rows with each name. 0 for a name without any, or with too many."""
        rarest = self._rarest(name for name, rows in chunks.items() if 0 < len(rows) <= NAME_CHUNKS_MAX)
        weights = {name: min(1.0, NAME_DOCUMENTS / max(df, 1)) / len(chunks[name]) for name, (df, _) in rarest.items()}
        return dict.fromkeys(chunks, 0.0) | weights

    def _holding_all(self, names: Sequence[Name]) -> list[list[int]]:
        """For each name, the rows that hold all its terms, in any order; none if more than MENTION_DOCUMENTS_MAX rows
        hold the rarest."""
        corpus, query = self.index.corpus, self.index.scorer(self.config).query
        rarest = {name: term for name, (df, term) in self._rarest(names).items() if 0 < df <= MENTION_DOCUMENTS_MAX}
        rows = distinct(corpus.rows_of_rare(corpus.codes_of(set(rarest.values())), MENTION_DOCUMENTS_MAX)[1])
        terms = list({term for name in rarest for term in query(dict.fromkeys(name, 1.0)).terms})
        held = {term.text: own for term, own in zip(terms, self.index.held(terms, rows, self.config), strict=True)}
        found = {name: rows[np.all([held[term] for term in name if term in held], axis=0)].tolist() for name in rarest}
        return [found.get(name, []) for name in names]


def _sums_held(weights: Floats, held: Mask) -> Floats:
    """(n,) sum of the weights (T,) of the terms that each column of `held` (T, n) holds."""
    sums: Floats = (weights[:, np.newaxis] * held).sum(axis=0)  # `weights @ held` rounds equal columns differently
    return sums


def _largest(table: Floats) -> Floats:
    """The table with one column for each pair of source and target: in each further line, the largest of its values."""
    pairs = table[0] * (table[1].max(initial=0.0) + 1.0) + table[1]
    order = pairs.argsort()
    table, starts = table[:, order], beginnings(pairs[order])
    largest = np.maximum.reduceat(table[2:], starts, axis=1) if len(starts) else table[2:]
    return np.concatenate([table[:2, starts], largest])


def _codes_of(name: Name) -> Name:
    """The terms of a name that hold a digit."""
    return tuple(term for term in name if any(map(str.isdigit, term)))

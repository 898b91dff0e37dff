"""References between chunks: from the best candidates of a search to chunks that may complete the answer.

    query  "Who founded the maker of the Orion tent?"
    i      "Orion. A light tent, made by Tarn Outdoor."
    j      "Tarn Outdoor. A firm that Ida Falk founded."    its name is "Tarn Outdoor", which i mentions

The name of a chunk is its heading, see `chunk_names`. A text mentions a name if it holds the name's terms one directly
after the other, in their order. The df of a term is the number of chunks that hold it. A reference from a chunk (or
row) i to a chunk j is rated in three ways:

    name(i, j) = the larger of  w(name of j)        if i mentions the name of j
                                1/2 * w(name of i)  if j holds all terms of the name of i, in any order
    part(i, j) = 1/2 * few(df of t) / number of chunks j with this t
                                if i holds t, the rarest term of the name of j ("Ohio" of "List of Ohio area codes")
    rare(i, j) = 1 / (df - 1)   for the rarest term that both hold
    w(name)    = few(df of the name's rarest term) / number of chunks with that name
    few(df)    = min(1, 10 / df)

Each is 0 if its condition is false, and within these limits:

    w      0 for a name of more than 3 chunks
    name   the second case only if at most 64 chunks hold the rarest term of the name of i
    part   only if the query lacks t, at most 64 chunks hold t, and no other chunk has the name of j
    rare   only if df <= 10; 0 for two chunks of one source, which the ranking stage `neighbours` relates

The weight grows with what the query asks, j holds and i lacks. A query term weighs its idf times its factor in
`QueryTerms.weights` (below 1 for a function word). If those of one i sum to more than 1, they are divided by the sum.

    need(i, j)   = sum of the weights of the query's terms that j holds and i lacks / sum of all their weights
    weight(i, j) = (name + part) * min(1, 5 * need) + rare * min(1, 5 * max(0, need - 0.2))

A query refers to the chunks whose names it mentions, with the weight w(name). Another chunk gets this weight, too, if
it holds all terms of the name, and if the query's terms in it weigh more than those in each chunk with the name. Of a
name with codes (terms with a digit), as "Incident e58b98e9", it need only hold the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, Links, sums_by
from umi_common.stores.arrays import distinct
from umi_common.stores.chunk_names import Name, Names
from umi_common.stores.lexical.bm25 import QueryTerms
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.rows.rows import Mask

NAME_CHUNKS_MAX = 3
"""Largest number of chunks that share a name; a heading of more chunks ("Overview") names none of them."""
NAME_DOCUMENTS = 10.0
"""A mention of a name has its full weight only if the df of the name's rarest term is at most this."""
MENTION_DOCUMENTS_MAX = 64
"""Largest df of a name's rarest term with which chunks that hold it, or all terms of the name, are looked up."""
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


_Rated = Sequence[tuple[int, int, float]] | Floats
"""Triples of i, j and name(i, j), part(i, j) or rare(i, j). A pair of rows may occur several times."""


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
        holders = self._holders(map(_codes_or_all, weights))
        rows = distinct(np.fromiter(chain(*map(found.__getitem__, weights), *holders.values()), np.int64))
        sums = _sums_held(self._term_weights(), self.index.held(self.query.terms, rows, self.config))
        of_query = dict(zip(rows.tolist(), sums.tolist(), strict=True))  # weight of the query's terms in each row
        named, holding = dict[int, float](), dict[int, float]()
        for name, weight in weights.items():
            most = max(of_query[row] for row in found[name])
            named |= {row: weight for row in found[name] if self.allowed[row]}
            more = [row for row in holders[_codes_or_all(name)] if of_query[row] > most and self.allowed[row]]
            holding |= dict.fromkeys(more, weight)
        return Named(named, {row: weight for row, weight in holding.items() if row not in named})

    def links_of(self, sources: Ints, terms_of: Callable[[Sequence[int]], Sequence[Sequence[str]]]) -> Links | None:
        """The references i -> j with a weight above 0 for each i in `sources`; None: there are none, or the query has
        a single term.

        Args:
            sources: (S,) the rows i, living and rising: the best and those the query names; no `Chunk.source`.
            terms_of: Returns the terms of each row's text, in order.
        """
        weights, rows = self._term_weights(), sources.tolist()
        if not rows or len(weights) < 2 or weights.sum() <= 0:
            return None
        texts = dict(zip(rows, terms_of(rows), strict=True)) if self.names else {}
        by_name, by_part = (self._by_name(texts), self._by_part(texts)) if texts else ((), ())
        by_rare_term = self._by_rare_term(sources) if self.rare else ()
        rated = [self._pairs_of(each) for each in (by_name, by_part, by_rare_term)]
        pairs = distinct(np.concatenate([some for some, _ in rated]))
        if not len(pairs):
            return None
        source, target = np.divmod(pairs, len(self.allowed))
        name, part, rare = (_largest(pairs, *each) for each in rated)
        either = distinct(np.concatenate([source, target]))
        at_source, at_target = either.searchsorted(source), either.searchsorted(target)
        held = self.index.held(self.query.terms, either, self.config)
        need = _sums_held(weights, ~held[:, at_source] & held[:, at_target]) / weights.sum()
        weight = (name + part) * np.minimum(1.0, NEED_SLOPE * need)
        weight += rare * np.minimum(1.0, NEED_SLOPE * np.maximum(0.0, need - NEED_OF_RARE))
        weight /= np.maximum(1.0, sums_by(at_source, weight, len(either)))[at_source]
        kept = weight > 0
        return Links(source[kept], target[kept], weight[kept]) if kept.any() else None

    def _by_name(self, texts: Mapping[int, Sequence[str]]) -> _Rated:
        """name(i, j) for the rows i in `texts`, which has the terms of each row's text."""
        living = self.index.living
        own = {row: self.names.by_row[row] for row in texts if row in self.names.by_row}
        mentioned = {row: self.names.mentioned(terms, living) for row, terms in texts.items()}
        rows_of = {name: rows for names in mentioned.values() for name, rows in names.items()}
        rows_of |= {name: living(self.names.rows(name)) for name in own.values()}
        weights = self._weights(rows_of)
        holders = self._holders({name for name in own.values() if weights[name]})
        found = [(row, j, weights[name]) for row, names in mentioned.items() for name in names for j in rows_of[name]]
        found += [(row, j, BACKWARD * weights[name]) for row, name in own.items() for j in holders.get(name, ())]
        return found

    def _by_part(self, texts: Mapping[int, Sequence[str]]) -> _Rated:
        """part(i, j) for the rows i in `texts`, which has the terms of each row's text."""
        names, living = self.names, self.index.living
        not_asked = set(chain(*texts.values())).difference(term.text for term in self.query.terms)
        in_names = [term for term in not_asked if term in names.by_term]
        pairs = zip(in_names, self.index.corpus.frequencies(in_names), strict=True)
        dfs = {term: df for term, df in pairs if df <= MENTION_DOCUMENTS_MAX}
        row_of = {names.by_row[row]: row for term in dfs for row in living(names.by_term[term])}
        rows_of: dict[str, list[int]] = {}  # t -> the rows j
        for name, (_, term) in self._rarest(name for name in row_of if len(living(names.rows(name))) == 1).items():
            if term in dfs:
                rows_of.setdefault(term, []).append(row_of[name])
        weights = {term: PART * _few(dfs[term]) / len(rows) for term, rows in rows_of.items()}
        held = [(row, term) for row, terms in texts.items() for term in rows_of.keys() & terms]
        return [(row, j, weights[term]) for row, term in held for j in rows_of[term]]

    def _by_rare_term(self, sources: Ints) -> _Rated:
        """rare(i, j) for the rows i in `sources`."""
        at, j, df = self.index.sharing_rare(sources, RARE_DOCUMENTS)
        i, source = sources[at], self.index.corpus.sources
        shared = (df > 1) & ((source[i] != source[j]) | (source[i] == NO_SOURCE))
        return np.stack([i[shared], j[shared], 1.0 / (df[shared] - 1)], axis=1)

    def _pairs_of(self, rated: _Rated) -> tuple[Ints, Floats]:
        """(P,) the pairs of rows, each as the number i * n + j, and (P,) their values; without those whose j may not be
        found. A pair of a row with itself has no need, and so no weight."""
        table = np.array(rated, np.float64).reshape(-1, 3)
        i, j = table[:, :2].astype(np.int64).T
        kept = self.allowed[j]
        return (i * len(self.allowed) + j)[kept], table[kept, 2]

    def _term_weights(self) -> Floats:
        """(T,) for each of the query's T terms, its idf times its weight in the query."""
        pairs = zip(self.query.terms, self.query.weights, strict=True)
        return np.array([weight * max(term.idf, 0.0) for term, weight in pairs])

    def _weights(self, rows_of: Mapping[Name, Sequence[int]]) -> dict[Name, float]:
        """w(name) by name; `rows_of`: the living rows with each name. 0 for a name without any, or with too many."""
        rarest = self._rarest(name for name, rows in rows_of.items() if 0 < len(rows) <= NAME_CHUNKS_MAX)
        weights = {name: _few(df) / len(rows_of[name]) for name, (df, _) in rarest.items()}
        return dict.fromkeys(rows_of, 0.0) | weights

    def _rarest(self, names: Iterable[Name]) -> dict[Name, tuple[int, str]]:
        """The df of each name's rarest term, and the term; of equally rare terms the first by code points."""
        distinct_names = set(names)
        terms = list(set(chain(*distinct_names)))
        df = dict(zip(terms, self.index.corpus.frequencies(terms), strict=True))
        return {name: min((df[term], term) for term in name) for name in distinct_names}

    def _holders(self, names: Iterable[Name]) -> dict[Name, list[int]]:
        """For each name, the rows that hold all its terms, in any order; none if more than MENTION_DOCUMENTS_MAX rows
        hold the rarest."""
        corpus, query, rarest = self.index.corpus, self.index.scorer(self.config).query, self._rarest(names)
        found = {name: term for name, (df, term) in rarest.items() if 0 < df <= MENTION_DOCUMENTS_MAX}
        rows = distinct(corpus.rows_of_rare(corpus.codes_of(set(found.values())), MENTION_DOCUMENTS_MAX)[1])
        terms = {term.text: term for name in found for term in query(dict.fromkeys(name, 1.0)).terms}
        held = dict(zip(terms, self.index.held([*terms.values()], rows, self.config), strict=True))
        holders = {name: rows[np.all([held[term] for term in name], axis=0)].tolist() for name in found}
        return {name: holders.get(name, []) for name in rarest}


def _few(df: int) -> float:
    return min(1.0, NAME_DOCUMENTS / max(df, 1))


def _largest(pairs: Ints, rated: Ints, values: Floats) -> Floats:
    """(Q,) for each of the Q rising `pairs`, the largest value that it has in `rated` and `values`; 0: none."""
    largest = np.zeros(len(pairs))
    np.maximum.at(largest, pairs.searchsorted(rated), values)
    return largest


def _sums_held(weights: Floats, held: Mask) -> Floats:
    """(n,) sum of the weights (T,) of the terms that each column of `held` (T, n) holds."""
    sums: Floats = (weights[:, np.newaxis] * held).sum(axis=0)  # `weights @ held` rounds equal columns differently
    return sums


def _codes_or_all(name: Name) -> Name:
    """The terms of a name that hold a digit; all its terms if none does."""
    return tuple(term for term in name if any(map(str.isdigit, term))) or name

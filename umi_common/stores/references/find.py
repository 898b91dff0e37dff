"""References between chunks: from the best candidates of a search to the chunks that say what they leave out.

A chunk i refers to a chunk j if its text mentions the name of j, if j mentions the name of i, or if both hold a rare
term. A reference counts as far as j holds terms of the query that i lacks:

    need(i, j)   = sum of the weights of the query's terms that j holds and i lacks / sum of all their weights
    weight(i, j) = name(i, j) * min(1, 5 * need) + rare(i, j) * min(1, 5 * max(0, need - 0.2))
    name(i, j)   = min(1, 10 / df of the name's rarest term) / chunks of that name; half of it from j to i
    rare(i, j)   = 1 / (df - 1) of the rarest term that both hold, 2 <= df <= 10; else 0. Also 0 in one source, where
                   the stage of neighbours knows more

The weights of one chunk are divided by their sum where it exceeds 1. A term's weight is its idf times its weight in the
query, which is below 1 for a function word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, Links
from umi_common.stores.distinct import distinct
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.references.names import CHUNKS_OF_A_NAME, Name, Names
from umi_common.stores.rows.rows import Mask

RARE_DOCUMENTS = 10
"""Most documents of a rare term; measured on sets of 1,000 to 6,000 chunks, where 20 did no better."""
NAME_DOCUMENTS = 10.0
"""Documents of a name's rarest term above which a mention counts less."""
MENTIONS_READ = 64
"""Documents of the rarest term of a chunk's name up to which those that mention it are looked for."""
BACKWARD = 0.5
"""Share of a mention that leads from the named chunk to the one that mentions it."""
ROWS_CACHED = 10_000
"""Rows of one snapshot whose references are cached, some 200 bytes each. A full cache is emptied."""
NEED_SLOPE = 5.0
LACKING_MIN = 0.1
"""Share of the weights of the query that a candidate must lack before its references are sought."""
NEED_OF_RARE = 0.2
"""Need below which a shared rare term is not a reference."""


def find_references(
    index: LexicalIndex,
    names: Names,
    query: str,
    sources: Ints,
    terms_of: Callable[[Sequence[int]], Sequence[Sequence[str]]],
    allowed: Mask,
    config: LexicalConfig,
) -> Links | None:
    """References between rows of the index; None if the candidates hold all terms of the query, or refer to nothing.

    Args:
        index: One snapshot.
        names: Of the rows of the index, and perhaps of later ones.
        query: Its text.
        sources: (S,) living rows, rising.
        terms_of: Returns the terms of each row's text, in order.
        allowed: (n,) rows that may be found.
        config: Makes the weights of the terms.
    """
    asked = index.weighted_terms(query, config)
    weights, held = index.held(asked, sources, config)
    total = float(weights.sum())
    if len(weights) < 2 or total <= 0:
        return None
    lacking = weights @ ~held > LACKING_MIN * total
    sources, held = sources[lacking], held[:, lacking]
    if not len(sources):
        return None
    each = _of_rows(index, names, sources, terms_of, config)
    at = np.repeat(np.arange(len(each)), [some.shape[1] for some in each])
    target, by_name, by_rare = np.concatenate(each, axis=1)
    target = target.astype(np.int64)
    found = allowed[target]
    at, target, by_name, by_rare = at[found], target[found], by_name[found], by_rare[found]
    rows = distinct(target)
    missing = ~held[:, at] & index.held(asked, rows, config)[1][:, rows.searchsorted(target)]
    need = weights @ missing / total
    weight = by_name * np.minimum(1.0, NEED_SLOPE * need)
    weight += by_rare * np.minimum(1.0, NEED_SLOPE * np.maximum(0.0, need - NEED_OF_RARE))
    weight /= np.maximum(1.0, np.bincount(at, weights=weight, minlength=len(sources)))[at]
    kept = weight > 0
    return Links(sources[at[kept]], target[kept], weight[kept]) if kept.any() else None


def _of_rows(
    index: LexicalIndex,
    names: Names,
    sources: Ints,
    terms_of: Callable[[Sequence[int]], Sequence[Sequence[str]]],
    config: LexicalConfig,
) -> list[Floats]:
    """For each source (3, E): target rows, name(source, target), rare(source, target), whatever the query; cached."""
    cache = index.references
    # One look a row: another search may empty the cache meanwhile.
    found = {row: known for row in sources.tolist() if (known := cache.get(row)) is not None}
    new = np.array([row for row in sources.tolist() if row not in found], dtype=np.int64)
    if len(new):
        terms = terms_of(new.tolist())
        between = _joined(_by_name(index, names, new, terms, config), _by_rare_term(index, new, terms))
        starts = np.searchsorted(between[0], np.arange(1, len(new)))
        fresh = dict(zip(new.tolist(), np.split(between[1:], starts, axis=1), strict=True))
        if len(cache) > ROWS_CACHED:
            cache.clear()
        cache.update(fresh)
        found |= fresh
    return [found[row] for row in sources.tolist()]


def _by_name(
    index: LexicalIndex, names: Names, sources: Ints, terms: Sequence[Sequence[str]], config: LexicalConfig
) -> Floats:
    """(4, E) place of the source, target row, name(source, target), 0."""
    found: list[tuple[int, int, float, float]] = []
    for at, row in enumerate(sources.tolist()):
        for name, named in names.mentioned(terms[at], index.living).items():
            worth = _worth(index, name, len(named))
            found += [(at, other, worth, 0.0) for other in named if other != row]
        own = names.name(row)
        if own is not None:
            worth = BACKWARD * _worth(index, own, len(index.living(names.rows(own))))
            mentioning = _holding_all(index, own, config) if worth else []
            found += [(at, other, worth, 0.0) for other in mentioning if other != row]
    table: Floats = np.array(found, dtype=np.float64).reshape(-1, 4).T
    return table


def _worth(index: LexicalIndex, name: Name, chunks: int) -> float:
    """How much a mention of a name counts that so many chunks have: 1 / chunks, less for a name of common terms."""
    if not 0 < chunks <= CHUNKS_OF_A_NAME:
        return 0.0
    return min(1.0, NAME_DOCUMENTS / max(min(index.frequencies(name)), 1)) / chunks


def _holding_all(index: LexicalIndex, name: Name, config: LexicalConfig) -> list[int]:
    """The rows that hold all terms of a name; none where more than MENTIONS_READ hold the rarest."""
    _, rarest = min(zip(index.frequencies(name), name, strict=True))
    _, rows = index.rows_of_rare([rarest], MENTIONS_READ)
    holding: list[int] = rows[index.held(dict.fromkeys(name, 1.0), rows, config)[1].all(axis=0)].tolist()
    return holding


def _by_rare_term(index: LexicalIndex, sources: Ints, terms: Sequence[Sequence[str]]) -> Floats:
    """(4, E) place of the source, target row, 0, rare(source, target); a pair may occur several times."""
    numbers = {term: number for number, term in enumerate(dict.fromkeys(chain.from_iterable(terms)))}
    term, row = index.rows_of_rare(list(numbers), RARE_DOCUMENTS)
    counts = np.bincount(term, minlength=len(numbers))
    starts = np.cumsum(counts) - counts
    own = [np.array([number for each in dict.fromkeys(some) if counts[number := numbers[each]] > 1]) for some in terms]
    at = np.repeat(np.arange(len(own)), [len(some) for some in own])
    shared = np.concatenate([np.zeros(0), *own]).astype(np.int64)
    sizes = counts[shared]
    posting = np.arange(sizes.sum()) + np.repeat(starts[shared] - (np.cumsum(sizes) - sizes), sizes)
    source, target = np.repeat(at, sizes), row[posting]
    weight = np.repeat(1.0 / np.maximum(sizes - 1, 1), sizes)
    of_source, of_target = index.sources(sources[source]), index.sources(target)
    other = (target != sources[source]) & ((of_source != of_target) | (of_source == NO_SOURCE))
    return np.stack([source[other], target[other], np.zeros(int(other.sum())), weight[other]])


def _joined(*parts: Floats) -> Floats:
    """(4, E) with each pair of source and target once, and its largest weights."""
    every = np.concatenate(parts, axis=1)
    if not every.shape[1]:
        return every
    every = every[:, np.lexsort((every[1], every[0]))]
    new = np.ones(every.shape[1], dtype=np.bool_)
    new[1:] = (every[:2, 1:] != every[:2, :-1]).any(axis=0)
    largest = np.maximum.reduceat(every[2:], np.flatnonzero(new), axis=1)
    return np.concatenate([every[:2, new], largest])

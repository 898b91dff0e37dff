"""References between chunks: from the best candidates of a search to the chunks that complete their answer.

The name of a chunk is the heading at the beginning of its text, or the value of its line "title: ...". A chunk i refers
to a chunk j in each of these cases:

- The text of i mentions the name of j.
- The text of j mentions the name of i.
- The text of i holds the rarest term of the name of j ("Ohio" of "List of Ohio area codes").
- Both texts hold the same rare term.

The df of a term is the number of chunks that hold it. The weight of a reference grows with the weights of the query's
terms that j holds and i lacks:

    need(i, j)   = sum of the weights of the query's terms that j holds and i lacks / sum of all their weights
    weight(i, j) = (name(i, j) + part(i, j)) * min(1, 5 * need) + rare(i, j) * min(1, 5 * max(0, need - 0.2))
    name(i, j)   = min(1, 10 / df of the name's rarest term) / chunks with that name, if i mentions the name of j;
                   half of that if j mentions the name of i
    part(i, j)   = 1/2 * min(1, 10 / df of t) / number of names whose rarest term is t, where t is the rarest term of
                   the name of j. It is 0 unless i holds t, the query lacks t, no other chunk has the name of j, and
                   at most 64 chunks hold t
    rare(i, j)   = 1 / (df - 1) of the rarest term that both hold, if 2 <= df <= 10; else 0. It is 0 for two chunks of
                   one source, which the ranking stage `neighbours` relates

A query refers to the chunks whose names it mentions, with the weight name(query, j); `need` has no influence. Another
chunk gets the weight of a mentioned name, too, if it holds all terms of the name, and if the query's terms in it weigh
more than those in every chunk with the name. If the name has codes (terms with a digit), as "Incident e58b98e9" has,
the codes suffice.

If the weights of the references from one chunk sum to more than 1, each is divided by the sum. The weight of a query
term is its idf times its weight in the query, which is below 1 for a function word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, Links, sums_by
from umi_common.stores.arrays import distinct
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.bm25 import QueryTerms
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.lexical.languages import READ_CHARACTERS
from umi_common.stores.rows.rows import Mask

HEADING_CHARACTERS = 120
"""Number of characters at the beginning of a text that are searched for its heading."""
PATH_CHARACTERS = 200
"""Largest length of a line of titles (see PATH_END), in characters; a longer line would outweigh a short text."""
PATH_END = " >\n"
"""End of a line of titles: a first line with the titles above a text, as in "Guide > Install >". Searches find its
words, but it names no chunk, since all passages of a page share it."""
BEGINNING = max(PATH_CHARACTERS + HEADING_CHARACTERS, READ_CHARACTERS)
"""Number of characters at the beginning of a text by which its name and its language are found."""
NAME_WORDS_MAX = 8
"""Largest number of words of a name; a longer heading is taken for a sentence."""
NAME_LETTERS_MIN = 4
"""Smallest number of letters and digits of a name."""
NAME_CHUNKS_MAX = 3
"""Largest number of chunks that share a name; a heading of more chunks ("Overview") names none of them."""
NAME_DOCUMENTS = 10.0
"""A mention of a name has its full weight only if the df of the name's rarest term is at most this."""
MENTION_DOCUMENTS_MAX = 64
"""Chunks that hold a name, or its rarest term, are looked up only if the df of the rarest term is at most this."""
BACKWARD = 0.5
"""Factor on name(i, j) if j mentions the name of i; 1 if i mentions the name of j."""
PART = 0.5
"""Factor on part(i, j)."""
RARE_DOCUMENTS = 10
"""Largest df of a rare term. With 20, the rankings of sets of 1,000 to 6,000 chunks were no better."""
NEED_SLOPE = 5.0
"""Factor on `need`: a reference has its full weight if need >= 1 / 5."""
NEED_OF_RARE = 0.2
"""A shared rare term is a reference only if `need` is larger than this."""

_PATH = re.compile(rf"[^\n]*{PATH_END}")
_HEADING = re.compile(r"[#\s]*([^\n:;!?]{3,80}?)(?:(?<=\w\w)\.\s|(?<=\))\.\s|\n)")
"""The first line, or the first sentence, without a colon or a question mark; more text must follow it."""
_TITLE = re.compile(r"(?:---\n)?(?:\w+: [^\n]*\n)*?\w*title: [\"']?([^\n]{3,80}?)[\"']?\n", re.IGNORECASE)
"""A line "title: ..." after other lines of metadata, as LlamaIndex and Markdown files have them before a text."""
_IN_BRACKETS = re.compile(r"\s*\([^)]*\)")
_WORD = re.compile(r"\w+")

Name = tuple[str, ...]
"""The terms of a name, in order."""


def heading(text: str) -> str | None:
    """The heading that a text begins with, or its title, without the parts in brackets; None if there is neither.

    A line of titles before it is skipped (see PATH_END).

    A heading has at most NAME_WORDS_MAX words, at least NAME_LETTERS_MIN letters or digits, and begins with a capital
    letter, or with a digit if it has several words.
    """
    path = _PATH.match(text)
    start = path.end() if path else 0
    beginning = text[start : start + HEADING_CHARACTERS]
    if "." not in beginning and "\n" not in beginning:  # every heading ends with one of these characters
        return None
    found = _TITLE.match(beginning) or _HEADING.match(beginning)
    if found is None:
        return None
    named = _IN_BRACKETS.sub("", found.group(1))
    words = _WORD.findall(named)
    if not 1 <= len(words) <= NAME_WORDS_MAX or sum(map(len, words)) < NAME_LETTERS_MIN:
        return None
    first = words[0][0]
    return named if first.isupper() or (first.isdigit() and len(words) > 1) else None


class Names:
    """Finds rows by name, and the names in a text. One thread writes while others read.

    Rows of deleted or replaced chunks ("dead" rows) stay. A reader may also get rows that were added after its
    snapshot. `LexicalIndex.living` removes both.

    Args:
        analyzer: Splits headings into terms; the texts that are searched for mentions use the same analyzer.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._rows: dict[Name, list[int]] = {}
        self.by_row: dict[int, Name] = {}
        """The name of each row that has one, dead rows included."""
        self._by_term: dict[str, list[int]] = {}
        self._lengths: dict[str, tuple[int, ...]] = {}
        """First term of a name -> the lengths of the names that begin with it, longest first."""

    def add(self, rows: Sequence[int], texts: Sequence[str]) -> None:
        """Add the names of texts[i] as rows[i]; only the first BEGINNING characters of a text are read."""
        for row, text in zip(rows, texts, strict=True):
            text = text[:BEGINNING]
            named = heading(text)
            if named is None:
                continue
            analyzer = self._analyzer.of_language(self._analyzer.language_of(text))
            if name := tuple(analyzer.terms(named)):
                self.put(row, name)

    def put(self, row: int, name: Name) -> None:
        """Give a row a name of at least one term."""
        known = self._lengths.get(name[0], ())
        if len(name) not in known:
            self._lengths[name[0]] = tuple(sorted((*known, len(name)), reverse=True))
        self._rows.setdefault(name, []).append(row)
        self.by_row[row] = name
        for term in set(name):
            self._by_term.setdefault(term, []).append(row)

    def __len__(self) -> int:
        """Number of different names."""
        return len(self._rows)

    def rows(self, name: Name) -> list[int]:
        """The rows of that name, dead ones included."""
        return self._rows.get(name, [])

    def rows_with(self, term: str) -> list[int]:
        """The rows whose names hold a term, dead ones included."""
        return self._by_term.get(term, [])

    def mentioned(self, terms: Sequence[str], living: Callable[[Sequence[int]], list[int]]) -> dict[Name, list[int]]:
        """The names that occur in a text, each with its living rows. A name without a living row is left out.

        If names overlap in the text, the name that begins first counts; of names that begin at one term, the longest.

        Args:
            terms: The terms of the text, in order.
            living: Returns the rows, among those given, that are alive.
        """
        found: dict[Name, list[int]] = {}
        stop, lengths_of = 0, self._lengths
        for at in [at for at, term in enumerate(terms) if term in lengths_of]:
            if at < stop:
                continue
            for length in lengths_of[terms[at]]:
                name = tuple(terms[at : at + length])
                if (rows := self._rows.get(name)) and (rows := living(rows)):
                    found[name] = rows
                    stop = at + length
                    break
        return found


class Named(NamedTuple):
    """The rows to which a query refers, and the rows that get the weight of a mentioned name, too; see the module."""

    rows: dict[int, float]
    """Row -> name(query, row)."""
    mentioning: dict[int, float]
    """Row -> the weight of the name that its text holds; without the rows in `rows`."""

    def pool_fields(self, rows: Ints) -> dict[str, Any]:
        """The fields "named" and "mentioning" of a pool of these rows."""
        if not self.rows:
            return {}
        fields = {"named": self.rows, "mentioning": self.mentioning}
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
        """The rows whose names occur in `text`, the text of the query, and further rows; see `Named`."""
        found: dict[Name, list[int]] = {}
        for terms in self.index.terms_in_order(text) if self.names else ():
            found |= self.names.mentioned(terms, self.index.living)
        weights = {name: weight for name, rows in found.items() if (weight := self._weight(name, len(rows)))}
        if not weights:
            return Named({}, {})
        holding = {name: self._holding_all(_codes_of(name) or name) for name in weights}
        rows = distinct(np.fromiter(chain(*(found[name] for name in weights), *holding.values()), np.int64))
        weights_held = _sums_held(self._term_weights(), self.index.held(self.query.terms, rows, self.config))
        held = dict(zip(rows.tolist(), weights_held.tolist(), strict=True))
        named: dict[int, float] = {}
        mentioning: dict[int, float] = {}
        for name, weight in weights.items():
            named.update((row, weight) for row in found[name] if self.allowed[row])
            most = max(held[row] for row in found[name])
            mentioning.update((row, weight) for row in holding[name] if held[row] > most and self.allowed[row])
        return Named(named, {row: weight for row, weight in mentioning.items() if row not in named})

    def links_of(self, sources: Ints, terms_of: Callable[[Sequence[int]], Sequence[Sequence[str]]]) -> Links | None:
        """The references from `sources` with a weight above 0; None: there are none.

        Args:
            sources: (S,) living rows whose references are sought, rising.
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
        """(5, E): index in `sources`, target row, name, 0, and part, as in the module's formulas."""
        found: list[tuple[int, int, float, float, float]] = []
        queried = [term.text for term in self.query.terms]
        for at, row in enumerate(sources.tolist()):
            for name, named in self.names.mentioned(terms[at], self.index.living).items():
                weight = self._weight(name, len(named))
                found += [(at, other, weight, 0.0, 0.0) for other in named if other != row]
            own = self.names.by_row.get(row)
            if own is not None:
                weight = BACKWARD * self._weight(own, len(self.index.living(self.names.rows(own))))
                mentioning = self._holding_all(own) if weight else []
                found += [(at, other, weight, 0.0, 0.0) for other in mentioning if other != row]
            by_part = self._by_part(set(terms[at]).difference(queried))
            found += [(at, other, 0.0, 0.0, weight) for other, weight in by_part if other != row]
        table: Floats = np.array(found, dtype=np.float64).reshape(-1, 5).T
        return table

    def _by_part(self, terms: Collection[str]) -> list[tuple[int, float]]:
        """(row, part(text, row)) for a text that holds `terms`, for each row whose name's rarest term t is among
        `terms`, of which the query has none."""
        found: list[tuple[int, float]] = []
        in_names = [term for term in terms if self.names.rows_with(term)]
        for term, df in zip(in_names, self.index.corpus.frequencies(in_names), strict=True):
            if df > MENTION_DOCUMENTS_MAX:
                continue
            named = [row for row in self.index.living(self.names.rows_with(term)) if self._own_term(row) == term]
            weight = PART * min(1.0, NAME_DOCUMENTS / max(df, 1)) / max(len(named), 1)
            found += [(row, weight) for row in named]
        return found

    def _by_rare_term(self, sources: Ints) -> Floats:
        """(5, E): index in `sources`, target row, 0, rare, 0; a column for each shared rare term."""
        source, target, df = self.index.sharing_rare(sources, RARE_DOCUMENTS)
        of_source, of_target = self.index.corpus.sources[sources[source]], self.index.corpus.sources[target]
        other = (target != sources[source]) & ((of_source != of_target) | (of_source == NO_SOURCE))
        none = np.zeros(int(other.sum()))
        return np.stack([source[other], target[other], none, 1.0 / (df[other] - 1), none])

    def _term_weights(self) -> Floats:
        """(T,) for each of the query's T terms, its idf times its weight in the query."""
        pairs = zip(self.query.terms, self.query.weights, strict=True)
        return np.array([weight * max(term.idf, 0.0) for term, weight in pairs])

    def _own_term(self, row: int) -> str | None:
        """The rarest term of a row's name; None if another living row has the same name."""
        name = self.names.by_row.get(row)
        return None if name is None or len(self.index.living(self.names.rows(name))) > 1 else self._rarest(name)[1]

    def _rarest(self, name: Name) -> tuple[int, str]:
        """The df of a name's rarest term, and the term; of equally rare terms the first by code points."""
        return min(zip(self.index.corpus.frequencies(name), name, strict=True))

    def _weight(self, name: Name, chunks: int) -> float:
        """min(1, 10 / df of the name's rarest term) / chunks; 0 if `chunks` is 0 or above NAME_CHUNKS_MAX."""
        if not 0 < chunks <= NAME_CHUNKS_MAX:
            return 0.0
        return min(1.0, NAME_DOCUMENTS / max(self._rarest(name)[0], 1)) / chunks

    def _holding_all(self, name: Name) -> list[int]:
        """The rows that hold all terms of a name; none if more than MENTION_DOCUMENTS_MAX hold the rarest."""
        corpus = self.index.corpus
        rows = corpus.rows_of_rare(corpus.codes_of([self._rarest(name)[1]]), MENTION_DOCUMENTS_MAX)[1]
        terms = self.index.scorer(self.config).query(dict.fromkeys(name, 1.0)).terms
        holding: list[int] = rows[self.index.held(terms, rows, self.config).all(axis=0)].tolist()
        return holding


def _sums_held(weights: Floats, held: Mask) -> Floats:
    """(n,) sum of the weights (T,) of the terms that each column of `held` (T, n) holds."""
    sums: Floats = (weights[:, np.newaxis] * held).sum(axis=0)  # `weights @ held` rounds equal columns differently
    return sums


def _largest(table: Floats) -> Floats:
    """(5, E): the table with each pair of source and target once, with the largest value in each of the other rows."""
    table = table[:, np.lexsort((table[1], table[0]))]
    new = np.ones(table.shape[1], dtype=np.bool_)
    new[1:] = (table[:2, 1:] != table[:2, :-1]).any(axis=0)
    largest = np.maximum.reduceat(table[2:], np.flatnonzero(new), axis=1) if len(new) else table[2:]
    return np.concatenate([table[:2, new], largest])


def _codes_of(name: Name) -> Name:
    """The terms of a name that hold a digit."""
    return tuple(term for term in name if any(map(str.isdigit, term)))

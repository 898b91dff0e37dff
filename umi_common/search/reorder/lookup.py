"""Find the parts of a query that are looked up verbatim, such as codes and names, and raise the candidates with them.

Vectors place "error 502" near "error 501", and BM25 does not see the order of words.

For part p of the query and candidate i, `names` and `phrases` define g(p, i) >= 0: how well i holds p. Scores are
`words.raised` with g. Names always count; g of a name is 1 larger in a text that defines it (`names_defined`), and
g of a full name is 1 larger in a text that has the query's other words near it (`full_names_held`). A title that has
the words of the query and no others always counts, too. Of the other parts, only the first item of this list that any
candidate holds counts:

    1. phrases, short codes and identifiers
    2. the query without its function words, as a phrase
    3. all keywords of the query, in a text with nearly the best BM25; and entries, such as those of a glossary, whose
       first word (head) is a word of the query, or code that defines a head (`words_defined`)

Each identifier, full name and title then adds `words.best_added`, where g of an identifier is 1 in each text that holds
it. These parts count more, because few texts hold them, these texts share few other words with the query, and vectors
do not represent such parts. A text that defines a name gains as much for it, times the factor `words_beside_held`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from umi_common.pool import Floats, Ints, Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import CANDIDATES, FAR_CANDIDATES, Best
from umi_common.search.reorder.names import (
    POSSESSIVE,
    Code,
    acronyms_in,
    codes_held,
    codes_in,
    full_names_held,
    full_names_in,
    initials_in,
    names_defined,
    names_held,
    program_names_in,
    with_words_beside,
    words_beside_held,
    words_defined,
)
from umi_common.search.reorder.numbers import reader_of_measures
from umi_common.search.reorder.phrases import (
    MEANING,
    content_phrase_held,
    content_phrase_in,
    entries_held,
    heads_in,
    holds_all,
    keywords_in,
    phrases_held,
    phrases_in,
    titles_held,
    words_if_any,
)
from umi_common.search.reorder.words import TermsOf, best_added, content_words, near_best, raised, up_to_last, words_in
from umi_common.search.request import SearchRequest

KEYWORDS_SHARE = 0.7
"""A text with all keywords is raised only if it has this share of the best candidate's BM25: long lists hold any words,
but have low scores."""
HOLDING_SHARE = 0.5
"""Only texts with at least this share of the best candidate's BM25 are read for all words of the query. Of the texts
that hold all these words, 99 in 100 reach this share."""
LONG_WORDS = 50
"""Largest number of words of a query whose full names are looked up, and whose identifiers are looked up beyond
`FAR_CANDIDATES`. A longer query, such as a pasted text, holds many names and identifiers, and each is one detail of
many. Looking up all of them would take 10 to 40 ms at 30,000 passages."""

COUNTED = ("phrases", "codes", "identifiers", "names", "full_names", "keywords", "heads")
"""Fields of `Lookup` whose numbers of parts the trace gets."""


USE = frozenset({"use", "work", "works"})
"""Words of a question on a function ("how does close() work?") that the text that defines it mostly lacks."""


class Lookup(NamedTuple):
    """The parts of a query that are looked up."""

    title: str
    """The query: it may be the title of a text."""
    phrases: list[str]
    """Phrases of at least two words, in the form of `spaced(words_in(text))`."""
    codes: list[Code]
    """Codes of few digits, such as "E-1042"."""
    read: Callable[[str], str]
    """`numbers.reader_of_measures`, by which texts are read for `codes`."""
    identifiers: list[Code]
    """Codes of at least `codes.IDENTIFIER_DIGITS` digits, such as the number of an order."""
    beside: list[str]
    """The words beside short codes and names: those of the query that have only letters, without function words,
    words of MEANING and USE and the s of a possessive."""
    names: list[re.Pattern[str]]
    """Patterns of names from programs and of acronyms."""
    keywords: list[str]
    """The words of a query that consists of keywords; [] for any other query."""
    quoted: bool
    """Whether the phrases stand in quotation marks."""
    long: bool
    """Whether the query has more than `LONG_WORDS` words."""
    content: str
    """`content_phrase_in` of the query; "" if the query has too few or too many words for it."""
    full_names: list[str]
    """Full names that capital letters mark, in lower case."""
    possible_names: list[str]
    """Pairs of words that may be full names, as texts spell them."""
    initials: dict[str, str]
    """Middle initial by full name, in lower case, if the query has one."""
    heads: list[str]
    """Words of a short query with which an entry may begin; [] if the query has a code, or a full name, with which many
    texts on the person begin."""
    asks_meaning: bool
    """Whether the query asks for the meaning of its only head, so that every entry on it answers the query."""

    def candidates(self, pool: Pool, order: Ints) -> int:
        """Number of best candidates whose texts are read; 0 if nothing is looked up. `order`: rows of the pool, best
        first.

        For an identifier, texts are read up to the last candidate with a rare term, because a long text with the
        identifier has a low score. For the query's words without quotation marks, texts are read only up to the last
        text with `HOLDING_SHARE` of the best BM25.
        """
        if self.identifiers and not self.long:
            return max(FAR_CANDIDATES, up_to_last(pool.rare[0, order]))
        if self.identifiers or self.quoted or self.full_names:  # texts may hold these among many other words
            return FAR_CANDIDATES
        if self.codes or self.names or self.possible_names or self.heads:  # texts with these may have a low BM25
            return CANDIDATES
        if self.phrases or self.keywords or self.content:
            return up_to_last(near_best(pool.lexical[:1], order[:CANDIDATES], HOLDING_SHARE))
        return 0


def lookup_of(request: SearchRequest, period: tuple[int, int], *, by_time: bool) -> Lookup:
    """`looked_up` of the query of a request.

    If `request.searched` lacks words of the query, the query as typed is a phrase, too: "Show me the money" may be a
    title. A pasted text is none.

    Args:
        by_time: Whether the query asks for the latest or the first text. Words do not tell which text that is, so
            words without quotation marks are not looked up.
    """
    lookup = looked_up(request.asked, period, request.verbatim)
    if lookup.quoted:
        return lookup
    if by_time:
        return lookup._replace(title="", phrases=[], content="", keywords=[], heads=[])
    pasted, words_removed = request.asked != request.searched, request.searched != request.query
    if pasted or not words_removed:
        return lookup
    typed, _ = phrases_in(request.query)
    return lookup._replace(phrases=list(dict.fromkeys([*lookup.phrases, *typed])))


def looked_up(query: str, period: tuple[int, int] = (0, 0), verbatim: str | None = None) -> Lookup:
    """The parts of a query that are looked up.

    Args:
        period: [start, end) in `query`, in characters, of the words that name a period; of what is looked up, only
            phrases, keywords and names may hold these words.
        verbatim: The part of the query in which names are found, if it is one line; None: the whole query.
    """
    without_period = f"{query[: period[0]]} {query[period[1] :]}"
    line = query if verbatim is None else verbatim
    line = "" if "\n" in line.strip() else line  # names in several pasted lines are details
    long = len(words_in(without_period)) > LONG_WORDS
    phrases, quoted = phrases_in(query)
    read = reader_of_measures(without_period)
    codes, identifiers = codes_in(read(without_period))
    names = [*program_names_in(line), *acronyms_in(line)]
    full_names, possible_names = ([], []) if long else full_names_in(line)
    beside = content_words(POSSESSIVE.sub("", without_period))
    heads, asks_meaning = ([], False) if codes or identifiers or full_names else heads_in(without_period)
    return Lookup(
        title=query,
        phrases=phrases,
        codes=codes,
        read=read,
        identifiers=identifiers,
        beside=[word for word in beside if word.isalpha() and word not in MEANING | USE],
        names=names,
        keywords=keywords_in(query, among_function_words=bool(names)),
        quoted=quoted,
        long=long,
        content=content_phrase_in(without_period),
        full_names=full_names,
        possible_names=possible_names,
        initials=initials_in(line),
        heads=heads,
        asks_meaning=asks_meaning,
    )


def reorder_by_lookup(best: Best, *, sought: Lookup, weight: float, terms_of: TermsOf) -> RankedPool:
    """The ranking sorted as the top of this file describes; unchanged if no candidate holds a part of the query."""
    texts, own = best.texts, best.scores
    identifiers = codes_held(texts, sought.identifiers)
    full_names = full_names_held(
        texts, sought.full_names, sought.possible_names, sought.initials, sought.beside, terms_of
    )
    words = _words_held(best, texts, sought, identifiers, terms_of)
    defined = names_defined(texts, sought.names)
    titles = titles_held(best.chunks, sought.title, terms_of)
    g = np.concatenate([words, names_held(texts, sought.names) + defined, full_names, titles], axis=1)
    held = int(g.any(axis=1).sum())
    counts = {kind: len(getattr(sought, kind)) for kind in COUNTED}
    counts["full_names"] += len(sought.possible_names)
    best.facts.update(counts, held=held)
    if not held:
        return best.ranked
    added = best_added(own, np.concatenate([identifiers > 0, full_names, titles], axis=1))
    if defined.any():
        added += best_added(own, defined) * words_beside_held(texts, sought.beside, best.pool.source[best.rows])
    return best.sorted_by(raised(own, g, weight) + added)


def _words_held(best: Best, texts: list[str], sought: Lookup, identifiers: Floats, terms_of: TermsOf) -> Floats:
    """(n, P) g of the parts of the query other than names, by the list at the top of this file."""
    wanted = [each for each in (*map(str.split, sought.phrases), sought.keywords, sought.content.split()) if each]
    words = [words_if_any(text, wanted) for text in texts]
    codes = codes_held(list(map(sought.read, texts)), sought.codes)
    codes = with_words_beside(codes, texts, sought.beside, terms_of)
    first = np.concatenate([phrases_held(words, sought.phrases), codes, identifiers], axis=1)
    if first.any():
        return first
    if sought.content and (second := content_phrase_held(words, sought.content)).any():
        return second
    entries = entries_held(texts, sought.heads, asks_meaning=sought.asks_meaning, terms_of=terms_of)
    if sought.heads and not sought.names:
        entries = np.maximum(entries, words_defined(texts, sought.heads))
    if not sought.keywords:
        return entries
    near = near_best(best.pool.lexical[:1], best.rows, KEYWORDS_SHARE)
    keywords = [text != "" and holds_all(text, sought.keywords) for text in words]
    return np.concatenate([(np.array(keywords) & near)[:, np.newaxis], entries], axis=1)

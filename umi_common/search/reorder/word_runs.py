"""Raise the candidates that hold runs of the query's words in the query's order: a quotation, an error message.

    r(i) = h(i) / number of words of the query; 0 if h(i) < `HELD_MIN` or this quotient is below `SHARE_MIN`
    h(i) = number of words in the runs that candidate i holds in the query's order
    s = the share of candidates with r(i) = 0
    final(i) = score(i) * (1 + weight * s * r(i)) if s > `OTHERS_MIN`, else score(i)

A run is a sequence of adjacent words of the query, at least `RUN_WORDS_MIN` of them and not all function words. Between
two runs, words may differ, as in a quotation from memory or in the values of an error message. If the query is a
question, the questions in a text are not read: they hold the query's words, but not its answer. Nor does a text count
that has another number beside a run: "the bake sale for year 7" if the question is about year 3. Scores below 0 stay.
BM25 does not see the order of words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import Match, SequenceMatcher

import numpy as np

from umi_common.query.questions import is_question
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.words import near_best, spaced, words_in
from umi_common.stores.lexical.languages import all_function_words

CANDIDATES = 20
"""Number of best candidates whose texts are read."""
HOLDING_SHARE = 0.4
"""Texts with a smaller share of the best candidate's BM25 are not read."""
RUN_WORDS_MIN = 3
"""Number of words of the shortest run."""
HELD_MIN = 5
"""Smallest h(i). Fewer words of a short query often lack its subject: "in the attic" of "flow in the attic"."""
SHARE_MIN = 0.4
"""Smallest r(i): a text may hold a smaller share of the query's words by chance."""
OTHERS_MIN = 0.5
"""Scores change only if more than this share of the candidates holds no run. If most candidates hold runs, the runs are
phrases of the whole collection and distinguish no text."""
SENTENCE_END = re.compile(r"(?<=[.!?\n])")
CHARACTERS_MAX, QUERY_WORDS_MAX = 5_000, 128
"""Number of characters at the beginning of a text, and number of words at the beginning of a query, that are read."""
PAIRS_MAX = 20_000
"""Largest number of pairs of equal words, one in the query and one in a text. A text with more pairs, such as a table
that repeats a few words, is not compared: comparing it takes 10 ms, and its runs tell nothing."""


def reorder_by_word_runs(best: Best, *, runs: WordRuns, weight: float) -> RankedPool:
    """The ranking by the formula at the top of this file."""
    may_hold = near_best(best.pool.lexical, best.rows, HOLDING_SHARE).tolist()
    r = np.array([runs.share_in(text) if may else 0.0 for text, may in zip(best.texts, may_hold, strict=True)])
    held = best.facts["held"] = int((r > 0).sum())
    others = 1 - held / min(len(best.pool), CANDIDATES)
    if not held or others <= OTHERS_MIN:
        return best.ranked
    return best.sorted_by(best.scores + np.maximum(best.scores, 0.0) * weight * others * r)


class WordRuns:
    """Finds runs of a query's words in texts."""

    def __init__(self, query: str) -> None:
        words = self._words = words_in(query)[:QUERY_WORDS_MAX]
        sequences = [words[at : at + RUN_WORDS_MIN] for at in range(len(words) - RUN_WORDS_MIN + 1)]
        self._sequences = list(map(spaced, sequences))
        """All sequences of `RUN_WORDS_MIN` adjacent words, by the index of their first word."""
        self._any_run = any(map(_has_content, sequences))
        self._held_min = max(HELD_MIN, SHARE_MIN * len(words))
        self._asks = is_question(query)

    def __bool__(self) -> bool:
        """Whether a text may hold enough of the query."""
        return self._any_run and len(self._words) >= HELD_MIN

    def share_in(self, text: str) -> float:
        """r(i) of a text, 0..1, by the formula at the top of this file."""
        text = text[:CHARACTERS_MAX]
        words = words_in(_without_questions(text) if self._asks else text)
        if self._most_held(spaced(words)) < self._held_min:
            return 0.0
        matcher = SequenceMatcher(None, words, self._words, autojunk=False)
        places: dict[str, list[int]] = matcher.b2j  # type: ignore[attr-defined]
        if sum(len(places.get(word, ())) for word in words) > PAIRS_MAX:
            return 0.0
        runs = [run for run in matcher.get_matching_blocks() if run.size >= RUN_WORDS_MIN]
        if self._asks and any(self._other_number_beside(run, words) for run in runs):
            return 0.0
        held = sum(run.size for run in runs if _has_content(self._words[run.b : run.b + run.size]))
        return held / len(self._words) if held >= self._held_min else 0.0

    def _other_number_beside(self, run: Match, words: Sequence[str]) -> bool:
        """Whether a run of the query and of a text's words stands beside one number in the query and another one in the
        text."""
        asked, said = [*self._words, ""], [*words, ""]  # so that the word at -1 and the one after the last are ""
        beside = ((asked[run.b + at], said[run.a + at]) for at in (-1, run.size))
        return any(one.isdecimal() and other.isdecimal() and one != other for one, other in beside)

    def _most_held(self, joined: str) -> int:
        """An upper bound of h(i): number of words in the runs that a text holds in any order. h(i) takes longer."""
        starts = [at for at, sequence in enumerate(self._sequences) if sequence in joined]
        return len({at + nth for at in starts for nth in range(RUN_WORDS_MIN)})


def _without_questions(text: str) -> str:
    if "?" not in text:
        return text
    return " ".join(sentence for sentence in SENTENCE_END.split(text) if not sentence.endswith("?"))


def _has_content(words: Sequence[str]) -> bool:
    return not all_function_words().issuperset(words)

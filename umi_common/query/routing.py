"""Decide whether to ask the LLM for variations: by the words of the query, or by the evidence of a first search.

The words are prescribed by ADR-009 and ADR-015, two documents of umi's requirements. Whole words are compared, in lower
case and up to an apostrophe: "Who's" is "who", and "likely" is not "like".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from umi_common.config import RoutingConfig
from umi_common.pool import FIRST_RANK, Floats, Pool

QUESTION_WORDS = frozenset({"who", "what", "when", "where", "why", "how"})
WORD_SETS = {
    "question": QUESTION_WORDS,
    "relationship": frozenset({"related", "about", "regarding", "involving", "connected"}),
    "temporal": frozenset({"yesterday", "today", "last", "recent", "before", "after", "week", "month", "year"}),
    "abstract": frozenset({"similar", "like", "connections", "associated", "linked"}),
}
"""The four sets of ADR-015, "Deep Search Heuristics"."""
PHRASES = {"relationship": ("related to",), "temporal": ("last week", "recently")}
"""Phrases of ADR-009, "Deep Search Heuristics", that the sets of ADR-015 lack."""

EVIDENCE_SIGNALS = {
    "thin": (1.0, 0.4, "no chunk shares enough rare words"),
    "uncovered": (1.0, 0.1, "words that the corpus does not know"),
    "flat": (1.0, 0.4, "no candidate stands out"),
    "disagreement": (0.1, 0.9, "the arms disagree"),
    "pronoun": (0.3, 1.0, "a pronoun without its noun"),
}
"""Signal of `weigh_evidence` -> (its factor in the formula, the smallest value at which it is a reason to ask, this
reason in words)."""
TOP = 10
"""Number of best candidates from which "flat" and "disagreement" are computed."""
PRONOUNS = frozenset(
    {"he", "she", "it", "they", "him", "her", "them", "his", "hers", "its", "their", "theirs"}
    | {"this", "that", "these", "those"}
)
FUNCTION_WORDS = QUESTION_WORDS | frozenset(
    {"a", "am", "an", "and", "are", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "else", "for"}
    | {"from", "had", "has", "have", "i", "if", "in", "is", "me", "my", "not", "of", "ok", "on", "or", "our", "please"}
    | {"so", "tell", "the", "then", "to", "us", "was", "we", "were", "which", "whose", "will", "with", "would", "you"}
    | {"about", "after", "again", "also", "before", "many", "much", "long", "often", "really", "exactly"}
)

_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\uff07": "'"})
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to ask the LLM, and why."""

    deep: bool
    """Whether to ask the LLM."""
    reasons: tuple[str, ...] = ()
    """The reasons to ask: short phrases, in the order of `EVIDENCE_SIGNALS` or of `WORD_SETS`."""
    signals: Mapping[str, float] = field(default_factory=dict)
    """The numbers on which the decision depends, by name."""


def query_words(query: str) -> list[str]:
    """The query's words in order, lower-cased; "who's" and "Anna's" give "who" and "anna"."""
    return [word.partition("'")[0] for word in _WORD.findall(query.translate(_APOSTROPHES).lower())]


def route(query: str) -> Decision:
    """Ask the LLM if a word of `WORD_SETS` or a phrase of `PHRASES` occurs.

    The reasons name the phrases and other words found; the signals count them by set. Most English questions contain
    one of the words (92.8 % of LoCoMo's), so `route` saves few calls.
    """
    words = query_words(query)
    text = f" {' '.join(words)} "
    reasons: list[str] = []
    signals: dict[str, float] = {}
    for kind, members in WORD_SETS.items():
        phrases = [phrase for phrase in PHRASES.get(kind, ()) if f" {phrase} " in text]
        covered = {word for phrase in phrases for word in phrase.split()}
        found = phrases + [word for word in dict.fromkeys(words) if word in members and word not in covered]
        signals[kind] = float(len(found))
        reasons += [f"{kind}: {item}" for item in found]
    return Decision(bool(reasons), tuple(reasons), signals)


def weigh_evidence(pool: Pool, scores: Floats, query: str, *, config: RoutingConfig | None = None) -> Decision:
    """Ask the LLM if a search for the query alone found weak evidence.

    weakness = 1 - (1 - thin) * (1 - uncovered) * (1 - flat) * (1 - 0.1 * disagreement) * (1 - 0.3 * pronoun)

    Each signal is between 0 (strong evidence) and 1 (weak evidence):

    thin: exp(-best BM25 score / ln(number of chunks)). A BM25 score measures the information, in nats, of the words
        that a chunk shares with the query; ln(number of chunks) nats identify one chunk.
    uncovered: idf-weighted share of the query's terms that do not occur in the corpus.
    flat: the 10th best score divided by the best; 0 with fewer than 10 candidates, 1 if no score is positive.
    disagreement: share of the shorter top 10 of the two arms that the other top 10 lacks; 1 if one is empty.
    pronoun: 1 if a pronoun precedes every content word of the query, else 0.

    A search without one of the arms has no disagreement; without the lexical arm, neither thin nor uncovered.

    Args:
        pool: The candidates for the original query alone.
        scores: (n,) final score of each row, before a reranker.
        query: Used for "pronoun" only.
        config: Its `weakness` is the threshold from which the LLM is asked.
    """
    config = RoutingConfig() if config is None else config
    if not len(pool):
        return Decision(True, ("nothing found",), {"weakness": 1.0})
    signals = {"flat": _flatness(scores), "pronoun": float(pronoun_precedes_nouns(query))}
    if pool.mode != "vector":
        signals |= {"thin": _thinness(pool), "uncovered": 1.0 - float(np.clip(pool.coverage[0], 0.0, 1.0))}
    if pool.mode == "hybrid":
        signals["disagreement"] = _disagreement(pool)
    weakness = 1.0 - math.prod(1.0 - EVIDENCE_SIGNALS[name][0] * value for name, value in signals.items())
    reasons = [why for name, (_, least, why) in EVIDENCE_SIGNALS.items() if signals.get(name, 0.0) >= least]
    deep = weakness >= config.weakness
    return Decision(deep, tuple(reasons) if deep else (), {**signals, "weakness": weakness})


def pronoun_precedes_nouns(query: str) -> bool:
    """Whether a pronoun precedes every content word of a query: "what did she say", not "did Ann keep her job"."""
    return next((word for word in query_words(query) if word not in FUNCTION_WORDS), "") in PRONOUNS


def _thinness(pool: Pool) -> float:
    chunks = max(float(pool.facts.get("chunks", 0)), float(len(pool)), math.e)
    return math.exp(-float(pool.lexical[0].max()) / math.log(chunks))


def _flatness(scores: Floats) -> float:
    best = np.sort(scores)[::-1][:TOP]
    if best[0] <= 0.0:
        return 1.0
    return max(0.0, float(best[-1] / best[0])) if len(best) == TOP else 0.0


def _disagreement(pool: Pool) -> float:
    tops = [(ranks[0] >= FIRST_RANK) & (ranks[0] <= TOP) for ranks in (pool.lexical_rank, pool.dense_rank)]
    shortest = min(int(top.sum()) for top in tops)
    return 1.0 - float((tops[0] & tops[1]).sum()) / shortest if shortest else 1.0

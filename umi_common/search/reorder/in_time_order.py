"""Raise the latest of nearly equal candidates if the query asks for the latest, or the oldest if it asks for the first.

The query "Anna's current phone" matches all phones equally well that Anna has named over the years.

    final(i) = score(i) * (1 + weight * place(i))

weight is a setting. A candidate i of the best is compared if its time is known, and if it has at least the
share `SCORE` of the largest score and the share `BM25` of the largest BM25. If the query asks for the latest, a
candidate with a time in the future is not compared. The compared candidates are sorted by time: place rises in equal
steps from 0 (the oldest) to 1 (the latest), or falls from 1 to 0 if the query asks for the first. place is 0 for all
other candidates.

A text that states a change often lacks the query's words: "I moved from Berlin to Paris" answers "where do I live now".
If the query asks for the present state, and at most `CHANGES_MAX` candidates state a change, these candidates are
compared whatever their BM25 is. Their score must be at least the share `CHANGE_SCORE` of the largest, and they must
resemble the best candidate (`LIKE_BEST`), because notes on a user state changes of many things. Their weight is
`CHANGE_WEIGHT` times as large. A correction ("no wait, I meant Thursday") has at least the best score of the
`CHUNKS_BEFORE_CORRECTION` chunks before it, and need not resemble the best. Measured in docs/decisions.md.

If the query asks when something last took place ("when did I last do yoga?"), the shares are `EVENT_SCORE` and
`EVENT_BM25`. A message that plans or denies the event ("skipped yoga") is not compared, and its score is divided by
1 + weight.
"""

from __future__ import annotations

import re

import numpy as np

from umi_common.pool import NO_SOURCE, Bools, Floats
from umi_common.query.time.find import TimeOrder
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best

SCORE, BM25 = 0.65, 0.8
"""Smallest shares of the largest score and of the largest BM25 of the candidates at which a candidate is compared."""
EVENT_SCORE, EVENT_BM25 = 0.5, 0.5
"""`SCORE` and `BM25` for a query that asks when something last took place. They are shares of the largest values of
texts that do not deny the event. Smaller, because texts name an event in many ways ("did yoga", "an hour on the
mat")."""
CHANGE_SCORE = 0.4
"""Smallest share of the largest score at which a candidate that states a change is compared: "I moved to Paris" need
not hold "live"."""
CHANGE_WEIGHT = 3.0
"""Factor on `weight` for a candidate that states a change: with the default weight, the latest of them reaches a text
of 2.5 times its score."""
CHANGES_MAX = 3
"""Largest number of candidates that state a change. If more do, as notes that all end with "from now on" would, most of
them are about something else than the query; none is then compared by `CHANGE_SCORE` or weighs more."""
LIKE_BEST = 5
"""Only the best candidate and the `LIKE_BEST` others with the largest cosine with it may state a change of what the
query asks for: "I moved to Paris" resembles "I live in Berlin", "the gym days changed" does not."""
CHUNKS_BEFORE_CORRECTION = 2
"""Number of chunks before a correction that it may correct: the user's message and the reply to it."""
_CORRECTION = re.compile(
    r"\b(?:i meant|scratch that|no,? wait|correction|meinte|voulais dire|quería decir)\b", re.IGNORECASE
)
"""Words of a text that corrects the text before it and need not name its subject: "no wait, I meant Thursday"."""
CHARACTERS_READ = 1_000
"""Number of characters at the beginning of a text that are searched for a change. A message is rarely longer, and
reading more would take milliseconds."""
_WORD = re.compile(r"[^\W\d_]+")
_CHANGE_WORDS = frozenset(
    _WORD.findall(
        "new change changed changing move moved moves moving switch switched switching anymore instead quit stopped "
        "dropped cancel canceled cancelled postponed extended replaced retired raise raised raising correction meant "
        "upgraded migrated joined settled umgezogen gekündigt neu neue neuen neuer neues erhöht meinte déménagé changé "
        "nouveau nouvelle mudé cambié cambiado nuevo nueva gezogen trasferito trasferita cambiato cambiata nuovo nuova "
        "mudei mudou novo nova verhuisd veranderd nieuw nieuwe relocated relocates transferred transfers sold swapped "
        "swaps traded retires resigned unpacked halved doubled increased reduced lowered slips slipped delayed "
        "rescheduled became promoted hired adopted divorced goodbye verlegt verschoben abgesagt getauscht geändert "
        "ersetzt stattdessen annulé annulée reporté reportée remplacé remplacée aplazado aplazada cancelado cancelada "
        "pospuesto pospuesta annullato annullata rimandato rimandata rinviato adiado adiada uitgesteld afgelast"
    )
)
_CHANGE_PHRASES = (
    *("no longer", "any more", "from now on", "give up", "gave up", "given up", "back on", "i mean ", "nicht mehr"),
    *("took over", "takes over", "handed over", "pushed back", "put off", "up from", "down to"),
    *("from today", "worn out"),
    *("called off", "call off", "is off", "fell through", "scratch that", "no, wait", "no wait"),
    *("plus de", "voulais dire", "ya no ", "quería decir", "non più", "volevo dire", "niet meer", "já não"),
    *("搬到", "换了", "不再", "我是说", "新的"),
)
"""As `_CHANGE_WORDS`, words of a text that states that something has changed, or that the text before it is wrong. They
are not looked for if the query itself holds one ("my new phone"): texts that state no change then hold it, too."""
_EVENT = re.compile(r"\b(?:last|latest|newest|recent(?:ly)?)\b", re.IGNORECASE)
"""Words of a query that asks for the last event ("my last exam") and not for a state that may have changed."""
_LAST_TIME = re.compile(r"\bwhen\b.*\blast\b|\blast time\b", re.IGNORECASE)
"""A query that asks when something last took place: "when did I last do yoga?"."""
_NOT_DONE = re.compile(
    r"\b(?:should|must|needs?|wants?|wish|hope|plan(?:s|ned|ning)?|going to|will|would|could|can|thinking|skip(?:ped)?"
    r"|missed|forgot|not|no|never|cancel\w*|postponed|put off|remind\w*|how to|tomorrow|soon|due|asks?|asked)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)
"""Words of a message that plans an event, or tells that it did not take place."""
NOTE_CHARACTERS = 200
"""Largest number of characters of a text that is searched for `_NOT_DONE`: in a longer text these words mostly refer to
something else than the event."""
FUTURE_HOURS = -24.0
"""Smallest age, in hours, of a candidate that may be the latest: a planned meeting is not the last one. It is below 0,
because a local time may have been read as UTC, which makes it wrong by up to 14 hours."""


def reorder_by_time(best: Best, *, query: str, asked: TimeOrder, weight: float) -> RankedPool:
    """The ranking by the formula at the top of this file.

    Args:
        query: The query without the words that name a period.
        asked: `time_order` of `query`: whether it asks for the latest or the first.
    """
    scores, lexical = best.scores, best.pool.lexical[0, best.rows]
    nearly_equal = (scores >= SCORE * scores.max(initial=0.0)) & (lexical >= BM25 * lexical.max(initial=0.0))
    weights = np.full(len(scores), weight)
    read = [chunk.text[:CHARACTERS_READ] for chunk in best.chunks]
    if asked == "latest" and _LAST_TIME.search(query):
        done = np.array([len(text) > NOTE_CHARACTERS or _NOT_DONE.search(text) is None for text in read], dtype=bool)
        scores = np.where(done, scores, scores / (1.0 + weight))
        nearly_equal = done & (scores >= EVENT_SCORE * scores.max(initial=0.0))
        nearly_equal &= lexical >= EVENT_BM25 * lexical[nearly_equal].max(initial=0.0)
    elif asked == "latest" and not (_EVENT.search(query) or _states_change(query)):
        corrects = np.array([_CORRECTION.search(text) is not None for text in read])
        scores = _with_corrected(best, corrects)
        changes = scores >= CHANGE_SCORE * scores.max(initial=0.0)
        changes[changes] = [_states_change(text) for text, may in zip(read, changes, strict=True) if may]
        if changes.sum() <= CHANGES_MAX:
            changes &= corrects | _like_best(best, scores)
            nearly_equal |= changes
            weights[changes] *= CHANGE_WEIGHT
    ages = best.pool.age_hours[best.rows]
    compared = nearly_equal & (~np.isnan(ages) if asked == "first" else ages >= FUTURE_HOURS)
    distinct = sorted(set((-ages[compared]).tolist()))
    if len(distinct) < 2:
        return best.ranked
    best.facts.update(asked=asked, candidates=int(compared.sum()))
    places = np.searchsorted(distinct, -ages[compared]) / (len(distinct) - 1)  # 0: the oldest
    scores[compared] *= 1.0 + weights[compared] * (1.0 - places if asked == "first" else places)
    return best.sorted_by(scores)


def _like_best(best: Best, scores: Floats) -> Bools:
    """(k,) whether each candidate is the one with the largest of `scores`, or one of the `LIKE_BEST` others with the
    largest cosine with it.

    Candidates with equal cosines are all among them, so without vectors every candidate is.
    """
    vectors = best.pool.vectors[best.rows]
    cosines = vectors @ vectors[scores.argmax()]
    least = np.partition(cosines, -LIKE_BEST - 1)[-LIKE_BEST - 1] if len(cosines) > LIKE_BEST else cosines.min()
    return np.asarray(cosines >= least, dtype=bool)


def _with_corrected(best: Best, corrects: Bools) -> Floats:
    """(k,) the scores, but each correction (`corrects`) has the largest of its own score and the scores of the
    `CHUNKS_BEFORE_CORRECTION` chunks before it in its source."""
    scores, raised = best.scores, best.scores
    source, position = best.pool.source[best.rows], best.pool.position[best.rows]
    for at in np.flatnonzero(corrects):
        before = position[at] - position
        near = (source == source[at]) & (source != NO_SOURCE) & (before > 0) & (before <= CHUNKS_BEFORE_CORRECTION)
        raised[at] = scores[near].max(initial=float(scores[at]))
    return raised


def _states_change(text: str) -> bool:
    """Whether a text says in its first CHARACTERS_READ characters that something has changed."""
    text = text[:CHARACTERS_READ].lower()
    return not _CHANGE_WORDS.isdisjoint(_WORD.findall(text)) or any(phrase in text for phrase in _CHANGE_PHRASES)

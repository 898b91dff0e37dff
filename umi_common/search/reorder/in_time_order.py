"""Raise the latest of nearly equal candidates if the query asks for the latest, or the oldest if it asks for the first.

The query "Anna's current phone" matches all phones equally well that Anna has named over the years. A few of the
candidates (the best chunks so far, about fifty) are therefore compared by their times:

    final(i) = score(i) * (1 + weight(i) * place(i))

The compared candidates are sorted by time: place rises in equal steps from 0 (the oldest) to 1 (the latest), or falls
from 1 to 0 if the query asks for the first; candidates with equal times share a place. place is 0 for all other
candidates. If only records of a period are compared, the smallest place is one step, so that they come before all
others. A candidate without a time is never compared; nor, if the query asks for the latest, is one with a time in
the future (`AGE_HOURS_MIN`). If fewer than two different times are compared, and not of a period, the ranking stays as
it was.

One of four rules says which candidates are compared, and with which score(i) and weight(i); each is one function:

    _series                     short candidates hold the same words of the query ("last 3 invoices to Acme"). They get
                                the largest score of a short candidate, so that time alone decides.
    _last_event                 the query asks when something last took place ("when did I last do yoga?")
    _nearly_equal_or_changed    the query asks for the present state ("where do I live now"), which a later change may
                                replace; it does not hold "last" or "latest", or a word of change ("my new phone")
    _nearly_equal               every other query
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from umi_common.pool import Bools, Floats, Pool
from umi_common.query.time.find import COUNT, FIRST_ELSEWHERE, LAST_ELSEWHERE, TimeOrder, without_count
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import CANDIDATES, Best
from umi_common.search.reorder.speaker import SENDS, sender_in, speakers_of, without_quoted
from umi_common.search.reorder.words import DIGITS, TermsOf, content_words, words_in
from umi_common.stores.lexical.languages import ENGLISH, all_function_words, function_words

SCORE_SHARE, BM25_SHARE = 0.65, 0.8
"""Smallest shares of the largest score and of the largest BM25 of the candidates at which a candidate is compared."""
EVENT_SCORE_SHARE, EVENT_BM25_SHARE = 0.5, 0.5
"""`SCORE_SHARE` and `BM25_SHARE` for a query that asks when something last took place. They are smaller, because texts
name an event in many ways ("did yoga", "an hour on the mat")."""
SERIES, SERIES_OF_ONE_WORD = 3, 5
"""Smallest number of candidates of a series; the second if they hold only one word of the query, such as "exam", or if
the query asks for the present state."""
SERIES_BM25_SHARE = 0.6
"""`BM25_SHARE` for the series of a query that asks for the present state: a state is named in many ways."""
SERIES_WORDS_SHARE = 0.5
"""Smallest share of the query's words that a series holds: "please list the last 3 invoices to Acme" has four words
besides "last", of which invoices hold two. A series with a smaller share is mostly about something else."""
SERIES_TERMS = 100
"""Largest number of terms of a text of a series, such as a message or a record: a long text may hold the words of the
query by chance."""
SERIES_READ = 600
"""Number of best candidates that are read if there may be a long series: those of both arms and those beyond them."""
CHANGE_SCORE_SHARE = 0.4
"""Smallest share of the largest score at which a candidate that states a change is compared: "I moved to Paris" need
not hold "live"."""
CHANGE_WEIGHT = 3.0
"""Factor on `weight` for a candidate that states a change. With the default weight of 0.5, the score of the latest is
multiplied by 1 + 3 * 0.5 = 2.5."""
CHANGES_MAX = 3
"""Largest number of candidates that state a change. If more do, changes get no special treatment: most of them are then
about something else than the query, as in notes that all end with "from now on"."""
LIKE_BEST = 5
"""A change counts only in the best candidate and in the `LIKE_BEST` others with the largest cosine with it: "I moved to
Paris" resembles "I live in Berlin", "the gym days changed" does not. Corrections count in any candidate."""
CHUNKS_BEFORE_CORRECTION = 2
"""Number of chunks before a correction that it may correct: the user's message and the reply to it."""
_LAST_OF_SEVERAL = re.compile(rf"\b(?:last|latest|newest|recent(?:ly)?|{LAST_ELSEWHERE})\b", re.IGNORECASE)
"""Words of a query that asks for the last of several things ("my last exam") and not for the present state."""
MESSAGE_WORD = re.compile(
    r"\b(?:messages?|(?:e-?)?mails?|posts?|comments?|nachricht(?:en)?|beitr(?:ag|äge)|courriels?|mensajes?|correos?"
    r"|messagg[io]|mensage(?:m|ns)|berichten)\b",
    re.IGNORECASE,
)
"""Words for a message: "the last mail from Asha"."""
_LAST_TIME = re.compile(
    rf"\bwhen\b.*\blast\b|\blast time\b|\b(?:wann|quand|cuándo|quando|wanneer)\b.*\b(?:{LAST_ELSEWHERE})\b",
    re.IGNORECASE,
)
"""A query that asks when something last took place: "when did I last do yoga?"."""
_NOT_DONE = re.compile(
    r"\b(?:should|must|needs?|wants?|wish|hope|plan(?:s|ned|ning)?|going to|will|would|could|can|thinking|skip(?:ped)?"
    r"|missed|forgot|not|no|never|cancel\w*|postponed|put off|remind\w*|how to|tomorrow|soon|due|asks?|asked)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)
"""Words of a message that plans an event, or says that it did not take place."""
MESSAGE_CHARACTERS_MAX = 200
"""A text of more characters is not searched for `_NOT_DONE`: there, these words mostly refer to something else than the
event."""
AGE_HOURS_MIN = -24.0
"""Smallest age, in hours, of a candidate that may be the latest: a planned meeting is not the last one. A time less
than a day ahead is not taken for the future, because a local time that was read as UTC is wrong by up to 14 hours."""

ENDING_LETTERS, ENDING_FROM = 2, 4
"""In a query that asks for an order in another language than English, each word counts without its last
`ENDING_LETTERS` letters, such as the "en" of "Rechnungen", but with at least `ENDING_FROM` letters."""
CHARACTERS_READ = 1_000
"""Number of characters at the beginning of a text in which a change or a correction is sought. A message is rarely
longer, and reading more would take milliseconds."""
_CHANGE_WORDS = frozenset(
    (  # noqa: SIM905 a list would take thirty lines
        # English
        "new change changed changing move moved moves moving switch switched switching anymore instead quit stopped "
        "dropped cancel canceled cancelled postponed extended replaced retired raise raised raising meant upgraded "
        "migrated joined settled relocated relocates transferred transfers sold swapped swaps traded retires resigned "
        "unpacked halved doubled increased reduced lowered slips slipped delayed rescheduled became promoted hired "
        "adopted divorced goodbye "
        # German
        "umgezogen gezogen gekündigt neu neue neuen neuer neues erhöht verlegt verschoben abgesagt getauscht geändert "
        "ersetzt stattdessen "
        # French
        "déménagé changé nouveau nouvelle annulé annulée reporté reportée remplacé remplacée "
        # Spanish
        "mudé cambié cambiado nuevo nueva aplazado aplazada cancelado cancelada pospuesto pospuesta "
        # Italian
        "trasferito trasferita cambiato cambiata nuovo nuova annullato annullata rimandato rimandata rinviato "
        # Portuguese
        "mudei mudou novo nova adiado adiada "
        # Dutch
        "verhuisd veranderd nieuw nieuwe uitgesteld afgelast"
    ).split()
)
_CHANGE_PHRASES = re.compile(
    r"\b(?:no longer|any more|from now on|g[ia]ve up|given up|back on|i mean|took over|takes over|handed over"
    r"|pushed back|put off|up from|down to|from today|worn out|call(?:ed)? off|is off|fell through"
    r"|nicht mehr|n(?:e |['\u2019])\w+ plus|ya no|non più|niet meer|já não)\b"
    r"|搬到|换了|不再|新的"
)
_CORRECTION = re.compile(
    r"\b(?:i meant|scratch that|no,? wait|correction|meinte|voulais dire|quería decir|volevo dire)\b|我是说"
)
_ORDER_WORDS = frozenset({"last", "latest", "newest", "most", "recent", "recently", "first", "oldest", "earliest"})
"""Words that ask for an order; texts rarely hold them."""
_ORDER_ELSEWHERE = re.compile(rf"\b(?:{LAST_ELSEWHERE}|{FIRST_ELSEWHERE})\b", re.IGNORECASE)
"""Words of other languages that ask for an order."""
_LETTERS = re.compile(r"[^\W\d_]+")


class _Compared(NamedTuple):
    """The candidates that a rule compares by time, if their times are known. Each array has one value per candidate."""

    compared: Bools
    scores: Floats
    weights: Floats


def of_several(query: str, asked: TimeOrder) -> bool:
    """Whether a query asks for the first or the last of several texts, and not for the present state."""
    return asked == "first" or _LAST_OF_SEVERAL.search(query) is not None


def comparable(pool: Pool, several: bool) -> Bools:
    """Whether each row of the pool may be of a series, by what is known without its text: it is short and holds a term
    of the query; if the query asks for the present state, it also has a large BM25."""
    lexical = pool.lexical[0]
    least = 0.0 if several else SERIES_BM25_SHARE * lexical.max(initial=0.0)
    return np.asarray((lexical > 0) & (lexical >= least) & (pool.length <= SERIES_TERMS), dtype=bool)


def candidates_compared(pool: Pool, several: bool, *, of_messages: bool = False) -> int:
    """Number of best candidates to read: `SERIES_READ` if more than `CANDIDATES` may be compared.

    Args:
        of_messages: Whether the query asks for messages (`MESSAGE_WORD`). Those of a person need not hold a word of it.
    """
    return SERIES_READ if (several and of_messages) or comparable(pool, several).sum() > CANDIDATES else CANDIDATES


def reorder_by_time(
    best: Best,
    *,
    query: str,
    asked: TimeOrder,
    weight: float,
    terms_of: TermsOf = words_in,
    phrase: str = "",
    of_period: Bools | None = None,
) -> RankedPool:
    """The ranking by the formula at the top of this file.

    Args:
        query: The query without the words that name a period.
        asked: `time_order` of `query`: whether it asks for the latest or the first.
        weight: The setting `when.order_boost`.
        terms_of: The store's function from a text to its terms.
        phrase: The words that name a period; "" if the query names none.
        of_period: (n,) whether the time of a row lies in this period. If a candidate of a series does, or its text
            holds the phrase, the others are not of the series: "last invoice of March" is none of April. Nor are the
            messages of others if the query names a sender: "Asha's last mail on the roof".
    """
    several = of_several(query, asked)
    short = comparable(best.pool, several)[best.rows]
    subject, limits = query, list[Bools]()
    if several and MESSAGE_WORD.search(query):
        messages = _messages(best, query)
        subject, short = messages.subject, short | (messages.short & (best.pool.lexical[0, best.rows] > 0))
        limits += [] if messages.of_person is None else [messages.of_person]
    series = _series(best, short, subject, asked, terms_of) if subject or not limits else limits[0]
    if of_period is not None:
        limits.append(of_period[best.rows] | [phrase.lower() in text.lower() for text in best.texts])
    limited = False
    for limit in limits:
        if series is not None and (series & limit).any():
            series, limited = series & limit, True
    if series is not None:
        scores = np.where(series, best.scores[short | series].max(), best.scores)
        compared = _Compared(series, scores, np.full(len(scores), weight))
    elif asked == "latest" and _LAST_TIME.search(query):
        compared = _last_event(best, weight)
    elif not several and not states_change(query):
        compared = _nearly_equal_or_changed(best, weight)
    else:
        compared = _nearly_equal(best, weight)
    return _sorted_by_time(best, compared, asked, limited)


class _Messages(NamedTuple):
    """What a query for messages asks for. Each array has one value per candidate."""

    short: Bools
    """Whether it is a message with at most `SERIES_TERMS` words that its sender wrote."""
    of_person: Bools | None
    """Whether it is a message of the person whom the query names as the sender; None: it names no sender."""
    subject: str
    """The query; if it names a sender, without the sender and the words for messages. "" if only a word of order is
    left."""


def _messages(best: Best, query: str) -> _Messages:
    speakers = speakers_of(best.chunks)
    own = [len(without_quoted(text).split()) for text in best.texts]
    short = np.array([speaker is not None for speaker in speakers]) & (np.array(own) <= SERIES_TERMS)
    found = sender_in(query, {name for name in speakers if name is not None})
    if found is None:
        return _Messages(short, None, query)
    sender, part = found
    uncounted = " ".join(words_in(_ORDER_ELSEWHERE.sub(" ", without_count(query))))
    subject = MESSAGE_WORD.sub(" ", re.sub(rf"\b{part}\b(?:{SENDS})?", " ", uncounted))
    is_left = not _ORDER_WORDS.issuperset(content_words(subject))
    of_person = np.array([speaker == sender for speaker in speakers], dtype=bool)
    return _Messages(short, of_person, subject if is_left else "")


def _sorted_by_time(best: Best, candidates: _Compared, asked: TimeOrder, limited: bool) -> RankedPool:
    """The ranking by the formula at the top of this file; `limited`: only records of a period are compared."""
    ages = best.pool.age_hours[best.rows]
    compared = candidates.compared & (~np.isnan(ages) if asked == "first" else ages >= AGE_HOURS_MIN)
    times = sorted(set((-ages[compared]).tolist()))  # the oldest first
    if len(times) + limited < 2:
        return best.ranked
    best.facts.update(asked=asked, candidates=int(compared.sum()))
    earlier = np.searchsorted(times, -ages[compared])
    steps = len(times) - 1 - earlier if asked == "first" else earlier
    places = np.zeros(len(ages))
    places[compared] = (steps + limited) / (len(times) - 1 + limited)
    return best.sorted_by(candidates.scores * (1.0 + candidates.weights * places))


def _series(best: Best, short: Bools, query: str, asked: TimeOrder, terms_of: TermsOf) -> Bools | None:
    """Whether each candidate is of the series: the short candidates that hold the same words of the query as the one
    that holds the most of them. None: these words or these candidates are too few."""
    several = of_several(query, asked)
    if asked == "latest" and _LAST_TIME.search(query):
        done = short & [_took_place(chunk.text) for chunk in best.chunks]
        short = done if 2 * done.sum() >= short.sum() else short  # most plan: "due" is a word of every invoice
    words, held = _words_held(best, short, query, terms_of)
    most = max((held[at] for at in best.order if short[at]), key=len, default=frozenset[str]())
    series = np.asarray(short & [each == most for each in held], dtype=bool)
    if len(most) < max(1 if several else 2, SERIES_WORDS_SHARE * len(words)):  # "where do I live": one word
        return None
    return series if series.sum() >= (SERIES if several and len(most) > 1 else SERIES_OF_ONE_WORD) else None


def _took_place(text: str) -> bool:
    """Whether a text, if it is a message, does not plan or deny an event."""
    return len(text) > MESSAGE_CHARACTERS_MAX or _NOT_DONE.search(text) is None


def _words_held(best: Best, read: Bools, query: str, terms_of: TermsOf) -> tuple[set[str], list[frozenset[str]]]:
    """The beginnings of the query's content words, without counts and words that ask for an order; those that the
    text of each candidate in `read` holds, and none for the others. A text with an order word, or the count, before
    such a word ("Anna's first car was a Golf") holds one more.

    If the query has an English order word, a word of over two letters that is a function word of another language only
    is a content word, too: it may be a name, such as Ben.
    """
    elsewhere = _ORDER_ELSEWHERE.findall(query)
    uncounted = _ORDER_ELSEWHERE.sub(" ", COUNT.sub(" ", query))
    order = _ORDER_WORDS.intersection(words_in(query))
    others = function_words([ENGLISH]) if order else all_function_words()
    words = {*content_words(uncounted), *(word for word in content_words(uncounted, others) if len(word) > 2)}
    begun = {_beginning(word, terms_of, bool(elsewhere)) for word in words - _ORDER_WORDS}
    if not begun:
        return begun, [frozenset()] * len(best.rows)
    word = "|".join(sorted(map(re.escape, begun), reverse=True))
    asked = [count[0] for count in COUNT.finditer(query)] or [*order, *elsewhere]
    named = [f"{' '.join(words_in(each))} " for each in asked]
    begins = re.compile(rf"(?<!\w)(?:{word})(?<!\d(?=\d))")
    begins_named = re.compile(rf"\b(?:{'|'.join(named)})(?:{word})")

    def held_in(text: str) -> frozenset[str]:
        text = text.lower() if text.isascii() else " ".join(words_in(text))
        one_more = begins_named.findall(text) if any(map(text.__contains__, named)) else ()
        return frozenset([*begins.findall(text), *one_more])

    return begun, [held_in(text) if each else frozenset() for text, each in zip(best.texts, read.tolist(), strict=True)]


def _beginning(word: str, terms_of: TermsOf, elsewhere: bool) -> str:
    """The letters that the forms of a word of the query share. A word with a digit has one form: "0104" is not "0100".

    Args:
        elsewhere: Whether the query asks for an order in another language than English. A single word, such as
            "Rechnungen", does not show its language, so that `terms_of` does not stem it.
    """
    if DIGITS.search(word):
        return word
    stem = word[: min(map(len, [word, *terms_of(word)]))]
    return stem[: max(ENDING_FROM, len(stem) - ENDING_LETTERS)] if elsewhere else stem


def _nearly_equal(best: Best, weight: float) -> _Compared:
    """The candidates with at least `SCORE_SHARE` of the largest score and `BM25_SHARE` of the largest BM25."""
    scores, lexical = best.scores, best.pool.lexical[0, best.rows]
    compared = (scores >= SCORE_SHARE * scores.max(initial=0.0)) & (lexical >= BM25_SHARE * lexical.max(initial=0.0))
    return _Compared(compared, scores, np.full(len(scores), weight))


def _nearly_equal_or_changed(best: Best, weight: float) -> _Compared:
    """The nearly equal candidates, and those that state a change and have at least the share `CHANGE_SCORE_SHARE` of
    the largest score, whatever their BM25 is.

    A correction ("no wait, I meant Thursday") is a change, too. Its score is first raised to that of the text which it
    corrects (`_with_corrected`).

    The rule is not for a query that itself holds a word of change ("my new phone"): texts that state no change then
    hold this word, too.
    """
    nearly_equal, _, weights = _nearly_equal(best, weight)  # by the scores before any is raised
    texts = [chunk.text for chunk in best.chunks]
    corrects = np.array([corrects_text_before(text) for text in texts], dtype=bool)
    scores = _with_corrected(best, corrects)
    high = scores >= CHANGE_SCORE_SHARE * scores.max(initial=0.0)
    changes = np.array([bool(h) and states_change(text) for h, text in zip(high, texts, strict=True)], dtype=bool)
    if changes.sum() > CHANGES_MAX:
        return _Compared(nearly_equal, best.scores, weights)
    changes = changes & (corrects | _like_best(best, scores))
    return _Compared(nearly_equal | changes, scores, np.where(changes, weight * CHANGE_WEIGHT, weights))


def _last_event(best: Best, weight: float) -> _Compared:
    """The candidates that have at least the share `EVENT_SCORE_SHARE` of the largest score and do not plan or deny the
    event; of these, only those with at least the share `EVENT_BM25_SHARE` of their largest BM25.

    The score of a message that plans or denies the event ("skipped yoga") is first divided by 1 + weight.
    """
    lexical = best.pool.lexical[0, best.rows]
    done = [_took_place(chunk.text) for chunk in best.chunks]
    scores = np.where(done, best.scores, best.scores / (1.0 + weight))
    high = np.array(done, dtype=bool) & (scores >= EVENT_SCORE_SHARE * scores.max(initial=0.0))
    compared = high & (lexical >= EVENT_BM25_SHARE * lexical[high].max(initial=0.0))
    return _Compared(compared, scores, np.full(len(scores), weight))


def _like_best(best: Best, scores: Floats) -> Bools:
    """For each candidate, whether it is the one with the largest of `scores`, or one of the `LIKE_BEST` others with the
    largest cosine with it.

    All candidates that share the smallest of these cosines count. So without vectors, when all cosines are 0, every
    candidate counts.
    """
    vectors = best.pool.vectors[best.rows]
    cosines = vectors @ vectors[scores.argmax()]
    least = np.partition(cosines, -LIKE_BEST - 1)[-LIKE_BEST - 1] if len(cosines) > LIKE_BEST else cosines.min()
    return np.asarray(cosines >= least, dtype=bool)


def _with_corrected(best: Best, corrects: Bools) -> Floats:
    """The candidates' scores, but each correction (`corrects`) has the largest of its own score and the scores of the
    `CHUNKS_BEFORE_CORRECTION` chunks before it in its source."""
    scores = best.scores
    raised = np.array(scores)
    source, position = best.pool.source[best.rows], best.pool.position[best.rows]
    for at in np.flatnonzero(corrects):
        before = position[at] - position
        near = (source == source[at]) & (before > 0) & (before <= CHUNKS_BEFORE_CORRECTION)
        raised[at] = scores[near].max(initial=float(scores[at]))
    return raised


def corrects_text_before(text: str) -> bool:
    """Whether a text corrects the text before it, and so need not name its subject."""
    return _CORRECTION.search(text[:CHARACTERS_READ].lower()) is not None


def states_change(text: str) -> bool:
    """Whether a text says that something has changed, or corrects the text before it."""
    read = text[:CHARACTERS_READ].lower()
    by_word = not _CHANGE_WORDS.isdisjoint(_LETTERS.findall(read))
    return by_word or _CHANGE_PHRASES.search(read) is not None or _CORRECTION.search(read) is not None

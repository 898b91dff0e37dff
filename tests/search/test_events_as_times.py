"""A question that names a time by an event ("after the meeting with Bob") is answered from the time of that event."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, TimeRange, UmiConfig
from umi_common.query.time.events import event_in

NOW = datetime(2025, 3, 18, 20, tzinfo=timezone.utc)
WHO, WHAT = ("Backend", "Frontend", "QA", "Ops", "Design"), ("finished", "reviewed", "demoed", "estimated")
SMALL = [f"{who} {did} ticket {n}." for n, who in enumerate(WHO * 8) for did in WHAT]
DECISIONS = [
    (300, "Decided to hire a designer."),
    (120, "Meeting with Bob about the contract took all afternoon."),
    (118, "Decided to drop the mobile client."),
    (90, "Decided to pay for support."),
    (60, "My trip to Rome: four days of sun and churches."),
    (57, "Made a huge pot of lentil soup."),
    (45, "Made pancakes for all."),
    (62, "Half way through a novel on whales."),
    (20, "Half way through a novel on chess."),
]


@pytest.fixture(scope="module")
def memory():
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=days)) for days, text in DECISIONS)
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=2 * n + 9)) for n, text in enumerate(SMALL))
        yield store


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("What did we decide after the meeting with Bob?", "Decided to drop the mobile client."),
        ("After the meeting with Bob, what did we decide?", "Decided to drop the mobile client."),
        ("What did I cook right after my trip to Rome?", "Made a huge pot of lentil soup."),
        ("What did I cook two weeks after my trip to Rome?", "Made pancakes for all."),
        ("What was I reading the night before my trip to Rome?", "Half way through a novel on whales."),
    ],
)
def test_what_was_done_beside_an_event_is_found_although_no_word_of_the_event_is_in_the_text(memory, query, answer):
    umi = DualRetriever(memory)
    assert answer in umi.search(query, now=NOW).ids[:2]
    hits = umi.search(query, now=NOW, limit=3).hits
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert answer in umi.get_context(query, now=NOW).text


def test_the_best_text_for_the_whole_question_stays_first(memory):
    umi = DualRetriever(memory)
    query = "Who was at the meeting with Bob after the meeting with Bob?"
    off = umi.with_config(when={"enabled": False})
    assert umi.search(query, now=NOW).ids[0] == off.search(query, now=NOW).ids[0] == DECISIONS[1][1]


def test_a_time_range_and_a_switch_leave_the_event_unread(memory):
    query = "What did we decide after the meeting with Bob?"
    assert "event" in DualRetriever(memory).search(query, now=NOW).hits[0].stages
    off = DualRetriever(memory, config=UmiConfig().replaced(when={"enabled": False}))
    assert "event" not in off.search(query, now=NOW).hits[0].stages
    range_given = TimeRange(NOW - timedelta(days=100), NOW)
    assert "event" not in DualRetriever(memory).search(query, now=NOW, time_range=range_given).hits[0].stages


def test_texts_without_a_time_are_ranked_as_if_no_event_were_named():
    with HybridStore.open() as store:
        store.add(Chunk(text, text) for _, text in DECISIONS)
        hits = DualRetriever(store).search("What did we decide after the meeting with Bob?", now=NOW).hits
    assert all("event" not in hit.stages for hit in hits)


def test_texts_that_were_all_written_on_one_day_are_ranked_as_if_no_event_were_named():
    with HybridStore.open() as store:
        texts = [*(text for _, text in DECISIONS), *SMALL]
        store.add(Chunk(text, text, event_time=NOW - timedelta(hours=1)) for text in texts)
        umi, query = DualRetriever(store), "What did we decide after Rome's sun and churches?"
        off = umi.with_config(when={"enabled": False})
        assert event_in(query, NOW) is not None
        assert umi.search(query, now=NOW).ids == off.search(query, now=NOW).ids


def test_a_store_that_fails_while_the_event_is_sought_answers_without_it_and_says_so(memory):
    class Failing:
        def recall(self, probes, **options):
            if options["window"] is not None:
                raise OSError("disk")
            return memory.recall(probes, **options)

        def __getattr__(self, name):
            if name == "recall_many":
                raise AttributeError(name)
            return getattr(memory, name)

    result = DualRetriever(Failing()).search("What did we decide after the meeting with Bob?", now=NOW)
    assert len(result.hits) == 10
    (loss,) = result.degraded
    assert (loss.part, loss.reason) == ("event", "StoreUnavailable")


def test_one_search_is_counted_as_one(memory):
    umi = DualRetriever(memory)
    umi.search("What did we decide after the meeting with Bob?", now=NOW)
    assert umi.metrics().searches == 1


async def test_an_async_search_finds_the_same(memory):
    query = "What did we decide after the meeting with Bob?"
    umi = DualRetriever(memory)
    assert (await umi.asearch(query, now=NOW)).ids == umi.search(query, now=NOW).ids


@pytest.mark.parametrize(
    ("query", "phrase", "rest"),
    [
        ("What did I eat after Emma left?", "Emma left", "What did I eat?"),
        ("What was there 999 decades before the first war", "the first war", "What was there 999 decades"),
        ("What did I cook after Élise left?", "Élise left", "What did I cook?"),
        ("Who called before we moved to Rome?", "we moved to Rome", "Who called?"),
        ("Where did I stay a week before Ann's wedding", "Ann's wedding", "Where did I stay"),
        ("what did he say shortly before moving to Rome", "moving to Rome", "what did he say"),
        ("After the meeting with Bob, what did we decide?", "the meeting with Bob", "what did we decide?"),
    ],
)
def test_an_event_and_what_the_query_asks_besides(query, phrase, rest):
    event = event_in(query, NOW)
    assert event is not None
    assert (event.phrase, event.rest) == (phrase, rest)


@pytest.mark.parametrize(
    "query",
    [
        "What did I eat after Emma?",
        "who looked after the cat in the holidays?",
        "who was named after Emma Stone?",
        "what should I do after the installation?",
        "what is needed before the first start?",
        "what did I eat before lunch",
        "how to clean the filter after the wash",
        "before the meeting with Bob",
        "After we were late, who?",
        "What did we decide after the meeting with Bob? " + "The log said so. " * 99,
    ],
)
def test_a_query_that_names_no_event_or_does_not_ask_about_the_past(query):
    assert event_in(query, NOW) is None


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("What did we decide before the meeting with Bob?", (-7, 0)),
        ("What did we decide after the meeting with Bob?", (0, 7)),
    ],
)
def test_the_period_beside_an_event_is_the_week_before_or_after_it(query, days):
    event = event_in(query, NOW)
    assert event is not None
    start, end = (NOW + timedelta(days=number) for number in days)
    assert event.period_beside(NOW) == TimeRange(start, end)


def test_an_event_at_the_end_of_the_calendar_has_no_period_beside_it():
    event = event_in("What did we decide after the meeting with Bob?", NOW)
    assert event is not None
    assert event.period_beside(datetime.max.replace(tzinfo=timezone.utc)) is None

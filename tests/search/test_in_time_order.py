"""Where the query asks for the latest or the first of several texts on one matter, that one comes first."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.pool import Pool
from umi_common.query.time.find import find_time, time_order, without_count
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.in_time_order import reorder_by_time

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
PEOPLE = ["Anna Miller", "Boris Okafor", "Clara Petrov", "David Silva"]
NUMBERS = ["0461 7720", "0392 1184", "0755 4033"]
"""Oldest first."""
STAGE = "time_order"


@pytest.mark.parametrize("query", ["my last exam", "the latest exam I sat", "Which exam did I sit most recently?"])
@pytest.mark.parametrize("later", ["I no longer fear exams.", "From now on the exam office is closed."])
def test_the_last_of_several_events_is_no_later_text_that_states_a_change(query, later):
    texts = [
        "I sat my maths exam at the town hall.",
        "I sat my French exam at the library.",
        "I sat my driving exam near the station.",
        later,
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        times = [NOW - timedelta(days=days) for days in (100, 60, 30, 2)]
        store.add(
            Chunk(text, text, event_time=time, source="chat", position=at)
            for at, (text, time) in enumerate(zip(texts, times, strict=True))
        )
        assert umi.search(query, now=NOW).ids[0] == texts[2]


def phone_of(person, age):
    number = NUMBERS[age]
    moment = NOW - timedelta(days=30 * (3 - age))
    return Chunk(f"{person} {age}", f"The phone number of {person} is {number}.", event_time=moment)


def first_in_chat(query, old, new):
    """The text that a query finds first in a chat of daily messages, which begins with `old` and holds `new` later."""
    others = [f"{what} {n}" for n in range(12) for what in ("The tram was late, line", "I bought bread, number")]
    with HybridStore.open() as store:
        store.add(
            Chunk(text, text, source="chat", position=at, event_time=NOW - timedelta(days=60 - at))
            for at, text in enumerate([old, *others[:12], new, *others[12:]])
        )
        return DualRetriever(store).search(query, now=NOW).ids[0]


@pytest.fixture(scope="module")
def numbers():
    with HybridStore.open() as store:
        store.add([phone_of(person, age) for person in PEOPLE for age in (1, 2, 0)])
        store.add([Chunk("sauna", "The sauna opens at noon.", event_time=NOW)])
        yield store


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize(
    ("query", "age"),
    [
        ("What is the current phone number of {}?", 2),
        ("{} latest phone number", 2),
        ("what is {}'s phone number now?", 2),
        ("last phone number of {}", 2),
        ("what was the first phone number of {}?", 0),
        ("phone number of {} originally", 0),
    ],
)
def test_the_latest_or_the_first_of_the_values_that_a_fact_has_had_comes_first(numbers, query, age, person):
    result = DualRetriever(numbers).search(query.format(person), now=NOW)
    assert result.ids[0] == f"{person} {age}"
    assert set(result.ids[:3]) == {f"{person} {each}" for each in range(3)}


@pytest.mark.parametrize(
    "query", ["what's my phone number now", "What is my phone number now?", "my phone number currently"]
)
def test_an_older_value_that_is_worded_as_the_query_is_does_not_come_first(query):
    facts = ["My phone number is 0461 7720.", "My new phone number is 0755 4033."]
    others = [f"I bought {what} at the market." for what in ("bread", "milk", "a phone", "a number of pears", "tea")]
    with HybridStore.open() as store:
        store.add(
            Chunk(text, text, event_time=NOW - timedelta(days=9 - at)) for at, text in enumerate([*facts, *others])
        )
        assert DualRetriever(store).search(query, now=NOW).ids[:2] == [facts[1], facts[0]]


@pytest.mark.parametrize(
    ("query", "before", "change"),
    [
        ("Where do I live now?", "I live in Berlin.", "I moved from Berlin to Paris."),
        ("Where do I live?", "I live in Berlin, in Kreuzberg.", "I moved from Berlin to Paris last weekend."),
        ("When is my dentist appointment?", "My dentist appointment is on Wednesday.", "Sorry, I meant Thursday."),
        ("Where do I work now?", "I work at the hospital as a nurse.", "I joined a rehab centre, I start on Monday."),
        ("How much is our rent now?", "Our rent is 2,150 a month.", "The landlord raised the rent to 2,300."),
        ("Am I still in the rowing club?", "I joined the rowing club.", "I dropped rowing, it is too early for me."),
        ("Does Jin still work here?", "Jin works here on weekdays.", "Jin quit, he is going to Spain."),
    ],
)
def test_a_text_that_states_a_change_comes_before_the_old_fact_that_has_the_words_of_the_question(
    query, before, change
):
    others = [f"I bought {what} at the market." for what in ("bread", "milk", "tea", "pears")]
    said = [before, change, *others, "The weather is awful today.", "Tell me a joke.", "What should I cook tonight?"]
    with HybridStore.open() as store:
        store.add(
            Chunk(text, text, source="chat", position=at, event_time=NOW - timedelta(days=20 - at))
            for at, text in enumerate(said)
        )
        umi = DualRetriever(store)
        assert umi.search(query, now=NOW).ids[:2] == [change, before]
        then = NOW - timedelta(days=20, hours=6)  # 30 hours before the change
        assert umi.search(query, now=then).ids[0] == before


def test_a_change_does_not_pass_the_last_event_or_a_thing_that_the_question_calls_new():
    said = ["The exam in statistics was on Tuesday.", "I switched from statistics to history."]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=9 - at)) for at, text in enumerate(said))
        umi = DualRetriever(store)
        assert umi.search("What was my last exam in statistics?", now=NOW).ids[0] == said[0]
        assert umi.search("Where is my new exam in statistics?", now=NOW).ids[0] == said[0]


@pytest.mark.parametrize(
    ("query", "asked", "texts", "order"),
    [
        ("my new phone", "latest", ["A phone.", "A new phone.", "A phone."], [2, 1, 0]),
        ("my first phone", "first", ["A phone.", "A new phone.", "A phone."], [0, 1, 2]),
        (
            "when did I first hear her last name",
            "first",
            ["I asked her name.", "It is Lenz.", "It is Lenz."],
            [0, 1, 2],
        ),
    ],
)
def test_if_a_new_or_a_first_thing_is_asked_for_words_of_change_and_of_plans_count_no_more(query, asked, texts, order):
    pool = Pool.of(list("abc"), lexical=np.full((1, 3), 9.0), age_hours=np.array([30.0, 20.0, 10.0]))
    chunks = [Chunk(id, text) for id, text in zip(pool.ids, texts, strict=True)]
    best = Best(STAGE, pool, RankedPool(np.arange(3), np.ones(3), {}), np.arange(3), chunks)
    assert reorder_by_time(best, query=query, asked=asked, weight=0.5).order.tolist() == order


def test_a_change_counts_however_many_other_things_have_changed():
    others = [
        "The printer on floor two was replaced.",
        "The gym has changed its opening hours.",
        "The dentist appointment was postponed.",
        "The tram line was extended to the lake.",
    ]
    said = ["I live in Berlin, near the canal.", *others, "I moved to Paris."]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=60 - at)) for at, text in enumerate(said))
        assert DualRetriever(store).search("Where do I live now?", now=NOW).ids[0] == said[-1]


@pytest.mark.parametrize(
    ("query", "answer", "later"),
    [
        ("who reviews my draft?", "Mara reviews my draft on Fridays.", "I gave Mara feedback on her draft."),
        ("who waters the plants now?", "Kim waters the plants on Fridays.", "I like the plants of this office."),
        ("where is the key now?", "The key is in the drawer of Kim.", "This office has a key rack."),
    ],
)
def test_a_word_of_change_inside_another_word_is_none(query, answer, later):
    """The words "feedback on" hold "back on", and "this office" holds "is off"."""
    assert first_in_chat(query, answer, later) == answer


def test_with_too_many_changes_a_correction_keeps_its_own_score():
    said = [f"The {what} moved to Friday." for what in ("choir", "market", "yoga class", "clinic")]
    ranked = RankedPool(np.arange(6), np.array([1.0, 0.9, 0.9, 0.9, 0.9, 0.1]), {})
    ages, places = np.arange(60.0, 0.0, -10.0), np.array([0, 5, 10, 15, 20, 1])
    pool = Pool.of([*"abcdef"], lexical=np.full((1, 6), 9.0), age_hours=ages, source=np.zeros(6, int), position=places)
    chunks = [Chunk("a", "The choir is on Monday."), *(Chunk(id, text) for id, text in zip("bcde", said, strict=True))]
    best = Best(STAGE, pool, ranked, np.arange(6), [*chunks, Chunk("f", "no wait, I meant Thursday")])
    assert reorder_by_time(best, query="choir", asked="latest", weight=0.0).order.tolist()[-1] == 5


def test_where_every_note_ends_with_words_of_change_the_note_on_the_asked_topic_comes_first():
    """An assistant's notes on a user: "from now on" says nothing about which topic has changed last."""
    topics = {
        "sport": "does bouldering on Wednesdays",
        "coffee order": "takes an oat flat white",
        "shoe size": "needs running shoes in EU 41",
        "home city": "lives in Leeds",
        "text editor": "writes code in Zed",
        "pet": "has a tortoise called Gerald",
    }
    with HybridStore.open() as store:
        for person in ("Idris Prokop", "Nneka Baptiste", "Callum Vasquez"):
            for month, (topic, fact) in enumerate(topics.items(), 1):
                moment = datetime(2025, month, 3, tzinfo=timezone.utc)
                text = f"{person} / {topic} / {person.split()[0]} {fact} from now on. Noted in a talk about trains."
                store.add([Chunk(f"{person}, {topic}", text, event_time=moment)])
        umi = DualRetriever(store)
        for topic in topics:
            assert umi.search(f"What is Idris Prokop's current {topic}?", now=NOW).ids[0] == f"Idris Prokop, {topic}"


@pytest.mark.parametrize("query", ["phone number of {}", "the last name of {}", "first aid of {}"])
def test_a_query_that_asks_for_none_of_them_is_ranked_as_without_the_stage(numbers, query):
    query = query.format(PEOPLE[0])
    plain = DualRetriever(numbers, config=UmiConfig().replaced(when={"order_boost": 0.0}))
    hits = DualRetriever(numbers).search(query, now=NOW).hits
    assert [(hit.chunk.id, hit.score) for hit in hits] == [
        (hit.chunk.id, hit.score) for hit in plain.search(query, now=NOW).hits
    ]
    assert all(STAGE not in hit.stages for hit in hits)


def test_a_later_text_on_another_matter_stays_behind(numbers):
    assert "sauna" not in DualRetriever(numbers).search("current phone number of Anna Miller", now=NOW).ids[:3]


@pytest.mark.parametrize("settings", [{}, {"fusion": {"alike": False}}], ids=["defaults", "alike texts not compared"])
def test_the_latest_of_many_is_the_same_whatever_the_limit(settings):
    with HybridStore.open() as store:
        store.add(
            Chunk(f"{day}", "Report on the Falcon bridge: the work goes on.", event_time=NOW - timedelta(99 - day))
            for day in range(60, 90)
        )
        umi = DualRetriever(store, config=UmiConfig().replaced(**settings))
        for limit in (1, 4, 20):
            assert umi.search("latest report on the Falcon bridge", now=NOW, limit=limit).ids[0] == "89"


def first_three(query, texts):
    """The first three texts for a query, when each text is a day later than the one before it."""
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(40 - at)) for at, text in enumerate(texts))
        return [*DualRetriever(store).search(query, now=NOW).ids[:3]]


def test_three_texts_that_name_two_words_of_the_question_in_any_way_are_sorted_by_time():
    invoices = [
        "Invoice to Acme: invoice of Acme's pumps.",
        "Sent Acme an invoice, 300 euros, which Tom in the office wrote on the train home.",
        "Wrote the invoice for Acme while waiting for Anna at the dentist, who is late every week; 90 euros.",
    ]
    others = [f"Notes of the choir, week {n}." for n in range(6)]
    assert first_three("last invoice to Acme", invoices + others) == invoices[::-1]


def test_a_long_text_with_more_words_of_the_question_hides_no_series():
    terms = "Each delivery of a pump is followed by an invoice, which Acme pays within thirty days. " * 9
    invoices = [f"Invoice no. {n} to Acme{', paid late' * (n % 3)}." for n in range(6)]
    found = first_three("last 3 invoices to Acme for pumps", [f"Contract with Acme on pumps. {terms}", *invoices])
    assert found == invoices[:2:-1]


def test_texts_that_share_one_of_three_words_with_the_question_are_no_series():
    answer = "The puppy needs drops, the animal doctor told us, and one more thing: no walks."
    others = ["One more thing: buy milk.", "The thing with the printer is mended.", "Funny thing, the choir was full."]
    others += ["The thing in the cellar is a boiler.", "A good thing: the keys are back."]
    assert first_three("What was the last thing that the vet said about the dog?", [answer, *others])[0] == answer


def test_texts_without_a_time_are_ranked_without_the_stage():
    with HybridStore.open() as store:
        store.add([Chunk(f"{n}", f"The phone number of Anna Miller is {number}.") for n, number in enumerate(NUMBERS)])
        hits = DualRetriever(store).search("current phone number of Anna Miller", now=NOW).hits
    assert all(STAGE not in hit.stages for hit in hits)


def test_a_text_without_a_time_is_not_taken_for_the_first():
    with HybridStore.open() as store:
        store.add([phone_of("Anna Miller", age) for age in (0, 1, 2)])
        store.add([Chunk("no time", "The phone number of Anna Miller is 0117 2203.")])
        query = "what was the first phone number of Anna Miller?"
        assert DualRetriever(store).search(query, now=NOW).ids[0] == "Anna Miller 0"


def test_a_settings_switch_turns_it_off(numbers):
    off = DualRetriever(numbers, config=UmiConfig().replaced(when={"enabled": False}))
    hits = off.search("current phone number of Anna Miller", now=NOW).hits
    assert all(STAGE not in hit.stages for hit in hits)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("what's new with Falcon?", "latest"),
        ("most recent report", "latest"),
        ("the most\nrecent report", "latest"),
        ("what happened last  week", None),
        ("What did we decide last?", "latest"),
        ("oldest note", "first"),
        ("what happened last week", None),
        ("what is her last name", None),
        ("known issues", None),
        ("How long does the battery last?", None),
        ("will it last", None),
        ("when did I last visit Rome", "latest"),
        ("last four digits of the card", None),
        ("now that my card is lost", None),
        ("Right now I wonder: who pays?", None),
        ("first thing to check", None),
        ("what was the first thing I bought for the garden?", "first"),
        ("the first time I met Ann", "first"),
        ("current account", None),
        ("from the first report to now", None),
        ("first name of Petrov", None),
        ("where do I live?", "latest"),
        ("What\u2019s our rent", "latest"),
        ("how old is my dog", "latest"),
        ("Am I still a member of the gym?", "latest"),
        ("where did I live", None),
        ("how do I reset my password?", None),
        ("what was my first job", "first"),
        ("what was our original budget?", "first"),
        ("what did bread cost before the last increase", None),
        ("when does Goran need the banners at the latest?", None),
        ("Traceback (most recent call last): KeyError: 'user'. Have we seen this before?", None),
        ("by when at latest must I pay", None),
        ("when can I check in at the earliest", None),
        ("last but not least: who pays?", None),
        ("what is the maximum current of the LM317?", None),
        ("electric current in a coil", None),
        ("current draw of the fan", None),
        ("which side has alternating current", None),
        ("what is the current price?", "latest"),
        ("current CEO of the firm", "latest"),
        ("first author of the paper", None),
        ("what does the first chapter say", None),
        ("rules for the first grade", None),
        ("our first offer to Bob", "first"),
    ],
)
def test_which_of_several_texts_a_query_asks_for(query, asked):
    assert time_order(query) == asked


def test_a_date_at_the_latest_is_found_in_the_first_mail_of_a_thread_that_says_it():
    """ "At the latest" names a deadline and does not ask for the latest mail."""
    goods = ["banners", "stools", "printers", "desks", "scales", "blankets"]
    mails = [
        "Dear Emeka, we refurbish our Vigo branch and would like an offer for 157 {}. Delivery would have to be by 26 "
        "September at the latest. Kind regards, Goran",
        "Hello Goran, for the {} we can offer a total of 6,309 euros, delivered. Kind regards, Emeka",
        "Hi Emeka, please quote for 90 {} instead. When is the new price ready? Kind regards, Goran",
        "Hi Goran, no problem. The revised total for the {} that you need is 5,109 euros. Kind regards, Emeka",
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for which, thing in enumerate(goods):
            start = NOW - timedelta(days=60 - which)
            store.add(
                Chunk(
                    f"{thing} {at}",
                    f"Subject: Re: Offer {thing}. " + mail.format(thing),
                    source=thing,
                    position=at,
                    event_time=start + timedelta(days=at),
                )
                for at, mail in enumerate(mails)
            )
        for thing in goods:
            question = f"When does Goran need the {thing} delivered at the latest?"
            assert umi.search(question, now=NOW).ids[0] == f"{thing} 0"


def test_a_text_without_a_time_and_for_the_latest_a_planned_one_gain_nothing():
    ages = np.array([9.0, 5.0, np.nan, -1.0, -100.0])
    pool = Pool.of(list("abcde"), lexical=np.full((1, 5), 10.0), age_hours=ages)
    phones = [Chunk(id, "A phone.") for id in pool.ids]
    best = Best(STAGE, pool, RankedPool(np.arange(5), np.ones(5), {}), np.arange(5), phones)
    latest = reorder_by_time(best, query="", asked="latest", weight=0.5).scores
    assert (latest / latest[2]).tolist() == pytest.approx([1.0, 1.25, 1.0, 1.5, 1.0])
    first = reorder_by_time(best, query="", asked="first", weight=0.6).scores
    assert (first / first[2]).tolist() == pytest.approx([1.6, 1.4, 1.0, 1.2, 1.0])


@pytest.mark.parametrize(
    ("score", "bm25", "order"),
    [(0.9, 9.0, [1, 0]), (0.6, 9.0, [0, 1]), (0.9, 7.0, [0, 1]), (0.66, 8.1, [0, 1])],
    ids=["nearly equal", "a lower score", "fewer words", "nearly equal, but not by so much"],
)
def test_only_nearly_equal_candidates_are_compared_by_time(score, bm25, order):
    """Row 1 is the later one; 0.66 * 1.5 is less than 1."""
    pool = Pool.of(["a", "b"], lexical=np.array([[10.0, bm25]]), age_hours=np.array([9.0, 1.0]))
    ranked = RankedPool(np.arange(2), np.array([1.0, score]), {})
    best = Best(STAGE, pool, ranked, np.arange(2), [Chunk(id, "A phone.") for id in pool.ids])
    reordered = reorder_by_time(best, query="", asked="latest", weight=0.5)
    assert reordered.order.tolist() == order
    gained = score * 1.5 if bm25 > 8 and score > 0.65 else score
    assert reordered.scores[1] / reordered.scores[0] == pytest.approx(gained)


@pytest.mark.parametrize(
    "correction", ["no wait, I meant Thursday", "Scratch that, it's Thursday.", "Nein, ich meinte Donnerstag."]
)
def test_a_correction_two_messages_later_comes_before_what_it_corrects_in_a_long_memory(correction):
    small_talk = ["The trams were late.", "Tell me a joke about penguins.", "Which shoes are best for running?"]
    said = [*small_talk, "My haircut is on Tuesday at ten.", "Okay.", correction, "Thanks for telling me.", *small_talk]
    others = [f"{topic} for {n} days" for n in range(40) for topic in ("The weather was good", "I had no coffee")]
    with HybridStore.open() as store:
        for session, texts in enumerate([said, *(others[at : at + 8] for at in range(0, 80, 8))]):
            moment = NOW - timedelta(days=20 + session)
            store.add(
                Chunk(f"{session} {at}", text, source=f"s{session}", position=at, event_time=moment + timedelta(0, at))
                for at, text in enumerate(texts)
            )
        assert DualRetriever(store).search("When is my haircut?", now=NOW).ids[:2] == ["0 5", "0 3"]


@pytest.mark.parametrize("place", [2, 7, "another chat"])
def test_a_correction_before_long_after_or_in_another_chat_is_about_something_else(place):
    said = ["The trams were late.", "Tell me a joke.", "Okay.", "My haircut is on Tuesday at ten.", "Okay.", "Thanks."]
    chat = [*said, "Good night.", "The weather was good."]
    other = [*["It rained."] * 4, "no wait, I meant Thursday"] if place == "another chat" else []
    if not other:
        chat.insert(place, "no wait, I meant Thursday")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for source, texts in (("chat", chat), ("other", other)):
            start = NOW - timedelta(days=9 if source == "chat" else 5)
            store.add(
                Chunk(f"{source} {at}: {text}", text, source=source, position=at, event_time=start + timedelta(0, at))
                for at, text in enumerate(texts)
            )
        found = umi.search("When is my haircut?", now=NOW).ids
        assert "haircut" in found[0]
        assert not any("Thursday" in id for id in found[:2])


@pytest.mark.parametrize(
    "off", ["We called off Lyon, Nadia is ill.", "Lyon is off, the trains are on strike.", "I had to cancel Lyon."]
)
def test_a_plan_that_was_called_off_comes_before_the_plan(off):
    said = [
        "We are planning a trip to Lyon in spring.",
        "Booked a hotel in Lyon.",
        off,
        "Plan a weekend in Bath for me.",
    ]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=90 - 9 * at)) for at, text in enumerate(said))
        umi = DualRetriever(store)
        assert umi.search("Is my trip to Lyon still on?", now=NOW).ids[0] == off
        assert umi.search("Am I still going to Lyon?", now=NOW).ids[0] == off


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        ("Dove abito adesso?", "Abito a Roma.", "Mi sono trasferito, abito a Torino."),
        ("Onde moro agora?", "Moro em Lisboa.", "Mudei-me, agora moro no Porto."),
        ("Waar woon ik nu?", "Ik woon in Gent.", "Ik ben verhuisd, ik woon in Utrecht."),
    ],
)
def test_the_present_state_is_asked_and_changes_are_told_in_italian_portuguese_and_dutch(query, old, new):
    assert first_in_chat(query, old, new) == new


@pytest.mark.parametrize(
    ("query", "done", "denied"),
    [
        ("When did I last do yoga?", ["Did yoga this morning.", "Yoga with Ines."], "No yoga this week."),
        (
            "When did I last swim in the sea?",
            ["Swam in the sea.", "A long swim in the sea."],
            "I want to swim in the sea.",
        ),
        (
            "When did we last restore a backup?",
            ["Backup restored.", "Restored a backup of orders."],
            "Don't restore it.",
        ),
        ("When was the last time I called mum?", ["Called mum.", "Called mum, she is well."], "I should call mum."),
        (
            "Which day was the last time I called mum?",
            ["Called mum.", "Called mum, she is well."],
            "I should call mum.",
        ),
        (
            "When did I last do laundry?",
            ["Did laundry in the sink.", "Did two loads of laundry."],
            "Need to do laundry.",
        ),
        (
            "When did we last visit Brandt?",
            ["Visited Brandt.", "Visit to Brandt with Ann."],
            "We plan to visit Brandt.",
        ),
    ],
)
def test_when_something_last_took_place_is_told_by_no_message_that_plans_or_denies_it(query, done, denied):
    others = [f"I bought {what} at the market." for what in ("bread", "milk", "tea", "pears")]
    for said in ([*done, denied], [*reversed(done), denied], [denied, *done]):
        with HybridStore.open() as store:
            store.add(
                Chunk(text, text, event_time=NOW - timedelta(days=90 - 9 * at))
                for at, text in enumerate([*said, *others])
            )
            ids = DualRetriever(store).search(query, now=NOW).ids
        assert ids[0] == [each for each in said if each != denied][-1]


def test_an_entry_of_a_diary_that_says_not_of_something_else_tells_when_something_last_took_place():
    entries = [
        "Did yoga in the hall this morning with Ines and Paul. It was cold in there at first, but the sun came out "
        "after some minutes, and the three of us stayed for breakfast. Paul laughed at my headstand and my socks.",
        "Did yoga in the park this morning with Ines and Paul. It was cold out there, and the sun did not come out, so "
        "the three of us went home for breakfast. Paul could have laughed at my headstand and my socks.",
        "Went to the market and bought bread, milk, tea and pears.",
        "Painted the fence of the garden.",
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=90 - 9 * at)) for at, text in enumerate(entries))
        assert umi.search("When did I last do yoga?", now=NOW).ids[0] == entries[1]


@pytest.mark.parametrize(("score", "bm25"), [(0.3, 9.0), (0.6, 3.0)], ids=["a lower score", "fewer words"])
def test_a_later_text_on_something_else_takes_nothing_from_the_last_event(score, bm25):
    ages = np.array([30.0, 20.0, 10.0])
    pool = Pool.of([*"abc"], lexical=np.array([[10.0, 9.0, bm25]]), age_hours=ages)
    chunks = [Chunk("a", "Did yoga."), Chunk("b", "Yoga with Ines."), Chunk("c", "Yoga pants are on sale.")]
    best = Best(STAGE, pool, RankedPool(np.arange(3), np.array([1.0, 0.79, score]), {}), np.arange(3), chunks)
    reordered = reorder_by_time(best, query="When did I last do yoga?", asked="latest", weight=0.5)
    assert reordered.order.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("Treffpunkt Birkenau momentan", "latest"),
        ("wer hat mittlerweile den Schlüssel", "latest"),
        ("trikots waschen letzter Stand", "latest"),
        ("die neueste Preisliste", "latest"),
        ("quel est désormais le tarif", "latest"),
        ("¿cuál es el precio hoy en día?", "latest"),
        ("Wann sollte das Spiel ursprünglich stattfinden?", "first"),
        ("welche Halle war zuerst gemeldet", "first"),
        ("quel était le prix au départ", "first"),
        ("precio inicialmente", "first"),
        ("prezzo originariamente", "first"),
        ("oorspronkelijke prijs", "first"),
        ("der letzte Zug nach Mainz", None),
        ("letzte Woche", None),
    ],
)
def test_which_text_a_query_in_another_language_asks_for(query, asked):
    assert time_order(query) == asked


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        (
            "Wann ist jetzt das Spiel gegen Lauter?",
            "Das Spiel gegen Lauter ist am 3. um 18 Uhr.",
            "Der Staffelleiter hat Lauter verlegt, Spiel am 12. um 20:30.",
        ),
        (
            "¿A qué hora es ahora la cena con Rosa?",
            "La cena con Rosa es a las ocho.",
            "Rosa la ha aplazado, la cena será a las diez.",
        ),
        (
            "C'est quand maintenant, le dîner avec Rose ?",
            "Le dîner avec Rose est à huit heures.",
            "Rose a reporté le dîner, ce sera dix heures.",
        ),
    ],
)
def test_what_was_put_off_is_told_in_german_spanish_and_french(query, old, new):
    assert first_in_chat(query, old, new) == new


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("who is my employer at the moment?", "The user started a new job at Castor Insurance."),
        ("which days is my boss in?", "The user's boss is called Ivo."),
        ("where is my dentsit?", "The user's dentist is at the Smile Clinic."),
    ],
)
def test_a_later_change_of_something_else_does_not_pass_the_note_on_what_is_asked(query, answer):
    notes = [
        "The user's dentist is at the Smile Clinic.",
        "The user's boss is called Ivo.",
        "The user's cat Sanjay gets insulin twice a day.",
        "The user works as an analyst at Halden Bank.",
        "The user is vegetarian on weekdays.",
        "The user hates coriander in any dish.",
        "The user started a new job at Castor Insurance.",
        "The user plays the cello in an orchestra.",
        "The user compared rents in several cities.",
        "The user wants no bullet points in answers.",
        "The user's passport expires in June.",
        "The user switched editors: everything in Zed from now on.",
        "The user has moved; the address is now 78 Station Avenue, Cork.",
        "New mobile number of the user: 0154 4911143 (the old one is dead).",
        "Gym days changed to Tuesday and Friday.",
    ]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=90 - at)) for at, text in enumerate(notes))
        assert DualRetriever(store).search(query, now=NOW).ids[0] == answer


@pytest.mark.parametrize(("query", "answer"), [("last error of service auth", -1), ("first error of service auth", 0)])
def test_the_latest_of_more_equal_lines_than_an_arm_ranks_comes_first(query, answer):
    lines = [f"{'INFO' if at % 3 else 'ERROR'} service={'auth' if at % 2 else 'mailer'} timeout" for at in range(2_400)]
    errors = [f"{at:04}" for at, line in enumerate(lines) if line.startswith("ERROR service=auth")]
    assert len(errors) > UmiConfig().recall.depth
    with HybridStore.open() as store:
        store.add(
            Chunk(f"{at:04}", line, event_time=NOW - timedelta(hours=2_400 - at)) for at, line in enumerate(lines)
        )
        assert DualRetriever(store).search(query, now=NOW).ids[0] == errors[answer]


@pytest.mark.parametrize(
    ("query", "asked"), [("last 3 invoices", "latest"), ("the last three days", None), ("last 3 weeks", None)]
)
def test_a_number_behind_last_counts_texts_unless_it_counts_days(query, asked):
    assert time_order(query) == asked


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("When did we last invoice Bolt AG?", -1),
        ("latest invoice to Bolt AG", -1),
        ("first invoice to Bolt AG", 0),
    ],
)
def test_of_near_equal_invoices_that_are_all_due_the_latest_and_the_first_to_a_customer_come_first(query, answer):
    customers = ("Bolt AG", "Crane Ltd", "Dyne KG")
    invoices = [
        (f"Invoice {1_000 + 7 * at} to {customers[at % 3]}: {at * 37 % 91} pipes, {at * 53 % 97} EUR, due soon.", at)
        for at in range(60)
    ]
    letters = [(f"Letter to {each}: thanks for the visit.", 70) for each in customers]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=90 - day)) for text, day in (*invoices, *letters))
        to_bolt = [text for text, _ in invoices if "Bolt" in text]
        assert DualRetriever(store).search(query, now=NOW).ids[0] == to_bolt[answer]


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ("last 3 invoices to Acme", [-1, -2, -3]),
        ("the two most recent invoices to Acme", [-1, -2]),
        ("please list the last three invoices to Acme, newest first", [-1, -2, -3]),
        ("the first 2 invoices to Acme", [0, 1]),
        ("what was the oldest invoice to Acme?", [0]),
        ("the 3 latest invoices", [-1, -2, -3]),
    ],
)
@pytest.mark.parametrize("count", [30, 900])
def test_invoices_short_and_long_to_the_only_customer_are_sorted_by_time_and_a_count_is_no_word(query, answers, count):
    """Each text holds "Acme"; some are much shorter than others; many hold "3 May"."""
    forms = [
        "Invoice to Acme. Paper, {} EUR.",
        "Invoice of 3 May to Acme: {} chairs, 3 desk lamps, 2 boxes of toner. Payable within 14 days, no discount.",
        "Customer: Acme. Invoice {}: two monitors, three cables.",
    ]
    texts = [forms[at % 3].format(at) for at in range(count)]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=count - at)) for at, text in enumerate(texts))
        store.add([Chunk("list", "The list for the boss is with Ann.", event_time=NOW - timedelta(days=1))])
        assert DualRetriever(store).search(query, now=NOW).ids[: len(answers)] == [texts[at] for at in answers]


@pytest.mark.parametrize(
    ("query", "without"),
    [
        ("last 3 invoices", "last invoices"),
        ("the five most recent visits", "the most recent visits"),
        ("first two orders", "first orders"),
        ("top 10 latest releases", "latest releases"),
        ("last 3 weeks", "last 3 weeks"),
        ("the last 4 digits", "the last 4 digits"),
        ("first 3 chapters", "first 3 chapters"),
        ("latest 5 G network", "latest 5 G network"),
    ],
)
def test_a_count_of_texts_is_removed_from_a_query_but_no_length_of_time(query, without):
    assert without_count(query) == without


@pytest.mark.parametrize(
    ("query", "asked"), [("all invoices, newest first", "latest"), ("visits oldest first", "first")]
)
def test_a_query_may_say_how_to_sort(query, asked):
    assert time_order(query) == asked


def first_of(texts, query):
    """The best text for a query; the texts, oldest first, are a day apart."""
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=len(texts) - at)) for at, text in enumerate(texts))
        return DualRetriever(store).search(query, now=NOW).ids[0]


@pytest.mark.parametrize(
    ("queries", "form"),
    [
        (
            [
                ("letzte 3 Rechnungen von Müller", -1),
                ("die letzten drei Rechnungen Müller", -1),
                ("die aktuellste Rechnung von Müller", -1),
                ("die ersten zwei Rechnungen von Müller", 0),
                ("älteste Rechnung von Müller", 0),
                ("wann kam zuletzt eine Rechnung von Müller", -1),
            ],
            "Rechnung Nr. {} von Müller über {} Euro, {}.",
        ),
        (
            [
                ("les 3 dernières factures de Dupont", -1),
                ("dernieres factures Dupont", -1),
                ("la facture la plus récente de Dupont", -1),
                ("les deux premières factures de Dupont", 0),
                ("la plus ancienne facture de Dupont", 0),
            ],
            "Facture n° {} de Dupont, {} euros, {}.",
        ),
        (
            [
                ("las últimas 3 facturas de García", -1),
                ("ultima factura de Garcia", -1),
                ("la factura más reciente de García", -1),
                ("las dos primeras facturas de García", 0),
                ("la factura más antigua de García", 0),
            ],
            "Factura n.º {} de García, {} euros, {}.",
        ),
    ],
)
def test_the_last_and_the_first_invoice_are_asked_for_in_german_french_and_spanish(queries, form):
    states = ("offen", "bezahlt", "payée", "par virement", "pagada", "por transferencia", "ok")
    texts = [form.format(6_000 + 977 * at % 3_000, 40 + 311 * at % 800, states[at * 3 % 7]) for at in range(7)]
    texts[3:3] = ["Brot, Milch und Käse kaufen", "Acheter du pain", "Comprar pan y leche"]
    with HybridStore.open() as store:
        store.add(Chunk(text, text, event_time=NOW - timedelta(days=20 - at)) for at, text in enumerate(texts))
        umi = DualRetriever(store)
        assert {query: umi.search(query, now=NOW).ids[0] for query, _ in queries} == {
            query: texts[place] for query, place in queries
        }


@pytest.mark.parametrize(
    "query",
    [
        *("Erste Bank Filiale Graz", "erste Hilfe Kurs", "im ersten Stock wohnen", "Fahrkarte erste Klasse"),
        *("letzten Endes war es gut", "die letzte Chance", "die ersten zwei Wochen im Januar", "die Pizza war prima"),
        *("les trois derniers mois", "le premier ministre britannique", "film premiere tickets", "ma prime de Noël"),
        *("premier league table", "primer for rusty metal", "a primer on bonds", "prima facie evidence"),
        *("el cumpleaños de mi primo Juan", "la prima del seguro del coche", "primeros auxilios", "Amazon Prime"),
        *("por último los platos", "última hora en Gaza", "los últimos 5 días", "als erstes Milch kaufen"),
        *("die letzten drei Jahre", "ces dernières années", "facturas del primer trimestre", "erstes Halbjahr"),
        *("primeiros socorros", "première guerre mondiale", "in erster Linie", "la prima guerra", "erster Schritt"),
    ],
)
def test_a_word_for_last_or_first_with_another_meaning_asks_for_no_order(query):
    assert (time_order(query), without_count(query)) == (None, query)


@pytest.mark.parametrize("query", ["Anna's first car", "Anna first car", "what kind was Anna's first car?"])
def test_a_text_that_says_first_itself_comes_before_older_texts_with_the_other_words(query):
    said = "Anna's first car was a red Golf that she got at 18."
    others = [
        "Anna's car broke down near Ulm.",
        "Anna took the car to Rome.",
        "Anna sold the car.",
        "Anna parks the car.",
    ]
    assert first_of([*others, said, "The weather is nice."], query) == said


@pytest.mark.parametrize("count", [3, 5, 7])
@pytest.mark.parametrize("query", ["which plan has the first {} repairs free?", "first {} repairs free of charge"])
def test_a_count_that_texts_hold_is_found_and_is_no_number_of_texts(query, count):
    plans = [f"The first {each} repairs are free of charge under this plan." for each in (7, 5, 3)]
    plans += ["Repairs are free of charge under plan Diamond."]
    assert first_of(plans, query.format(count)) == f"The first {count} repairs are free of charge under this plan."


@pytest.mark.parametrize("parcel", [30, 31, 32, 33, 34])
def test_a_number_before_first_is_no_count(parcel):
    forms = "Parcel {} scanned in {}.", "{1}: parcel {0} scanned, delayed by snow, next truck at noon."
    cities = ("Graz", "Linz", "Wels")
    scans = [forms[at % 2].format(30 + at % 5, f"{cities[at % 3]} {at // 5}") for at in range(60)]
    assert first_of(scans, f"where was parcel {parcel} first scanned?") == scans[parcel - 30]


@pytest.mark.parametrize("query", ["current balance of the {} account", "what is the balance of {} now?"])
def test_of_many_records_on_a_present_state_the_latest_comes_first(query):
    names, notes = ("Acme", "Bolt", "Corvo", "Dunlin"), ("", "see file 7, ", "paid late, reminder sent twice, ")
    records = [f"{names[at % 4]} account: {notes[at % 3]}balance {at * 37 % 991} EUR." for at in range(120)]
    for at, name in enumerate(names):
        assert first_of(records, query.format(name)) == records[116 + at]


@pytest.mark.parametrize("name", ["Ann", "Ben", "Dan"])
def test_a_name_that_is_a_function_word_of_another_language_tells_series_apart(name):
    names, forms = ("Ann", "Ben", "Dan"), ("{} visited the dentist on day {}.", "Dentist: visit of {} for {} minutes.")
    visits = [forms[at % 2].format(names[at % 3], at) for at in range(30)]
    assert first_of(visits, f"last dentist visit of {name}") == visits[27 + names.index(name)]
    assert first_of(visits, f"first dentist visit of {name}") == visits[names.index(name)]


@pytest.mark.parametrize("failing", [2, 3])
def test_a_store_that_fails_at_the_search_beyond_the_first_candidates_costs_their_order_alone(monkeypatch, failing):
    lines = [f"auth: error {n} of the gate" for n in range(600)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(line, line, event_time=NOW - timedelta(hours=600 - n)) for n, line in enumerate(lines))
        whole = umi.search("the last error of auth", now=NOW)
        assert "recall ties" in [stage.name for stage in whole.trace.stages]
        recall, calls = store.recall, []

        def sometimes(*arguments, **options):
            calls.append(arguments)
            if len(calls) == failing:
                raise OSError("the disk is gone")
            return recall(*arguments, **options)

        monkeypatch.setattr(store, "recall", sometimes)
        result = umi.search("the last error of auth", now=NOW)
    assert len(result.hits) == 10
    assert [loss.part for loss in result.degraded] == ["time order"]


@pytest.mark.parametrize("pump", ["P40-0100", "P40-0104", "P40-0118"])
@pytest.mark.parametrize(
    ("query", "first"), [("last service of {}", 5), ("latest pressure of pump {}", 5), ("first service of {}", 0)]
)
def test_the_last_record_of_a_device_is_of_no_device_whose_number_begins_alike(pump, query, first):
    pumps = ["P40-0100", "P40-0104", "P40-0107", "P40-0110", "P40-0118"]
    done = ("Oil changed", "Filter changed", "Seal replaced")
    records = [f"Service record {pumps[at % 5]}: {done[at % 3]}, pressure {at % 4 + 5} bar." for at in range(30)]
    assert first_of(records, query.format(pump)) == records[first * 5 + pumps.index(pump)]


def test_a_function_word_with_an_umlaut_is_no_word_of_a_series():
    states = ("überfällig", "offen", "bezahlt")
    records = [f"Rechnung {400 + n}: Toner, {states[n % 3]}." for n in range(12)]
    assert first_of(records, "die neueste Rechnung über Toner") == records[-1]


def by_month(count=12):
    """(text, time) of three records a month of 2026."""
    texts = ["Invoice {} from Acme: paper.", "Invoice {} from Borel: bolts.", "Invoice {} from Acme: oil."]
    return [(texts[at % 3].format(300 + at), NOW.replace(month=at // 3 + 1, day=5 + at % 3)) for at in range(3 * count)]


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("last invoice of March 2026", 8),
        ("last invoice in March", 8),
        ("first invoice in March 2026", 6),
        ("latest invoice from Borel in February 2026", 4),
        ("last invoice of 6 February 2026", 4),
        ("first invoice of Acme in April", 9),
    ],
)
def test_the_last_record_of_a_period_is_no_later_one(query, at):
    now = NOW.replace(month=11, day=20)
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(text, text, event_time=time) for text, time in by_month(10))
        assert umi.search(query, now=now).ids[0] == by_month()[at][0]


@pytest.mark.parametrize("count", [1, 2])
def test_all_records_of_a_period_come_before_others_of_the_series(count):
    now, long = (
        NOW.replace(month=11),
        "A long record of the warehouse about an invoice of the firm of Acme, paid after a wait {}.",
    )
    of_april = [(f"Acme invoice {n}.", NOW.replace(month=4, day=n)) for n in range(1, 10)]
    of_march = [(long.format(n), NOW.replace(month=3, day=n)) for n in range(1, 1 + count)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        records = enumerate(of_april + of_march)
        store.add(Chunk(f"{n:02}", text, event_time=time) for n, (text, time) in records)
        hits = umi.search("last Acme invoice March 2026", now=now, limit=count).hits
    assert [hit.chunk.text for hit in hits] == [text for text, _ in reversed(of_march)]


@pytest.mark.parametrize("query", ["last invoice from Acme", "first invoice from Acme"])
def test_a_series_with_one_known_time_keeps_its_order(query):
    lines = [f"Invoice {100 + at} from Acme, {('paper', 'oil', 'ink')[at % 3]}." for at in range(9)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(line, line, event_time=NOW if at == 8 else None) for at, line in enumerate(lines))
        assert STAGE not in umi.search(query, now=NOW).hits[0].stages


@pytest.mark.parametrize(
    ("query", "at"),
    [
        *(("letzte Rechnung vom März", 8), ("dernière facture de mars", 8), ("primera factura de marzo", 6)),
        *(("ultima fattura di maggio", 14), ("última fatura de abril", 11), ("eerste factuur van april", 9)),
    ],
)
def test_the_last_record_of_a_month_is_asked_for_in_other_languages(query, at):
    words = "Rechnung Facture Factura Fattura Fatura Factuur"
    records = [(f"{words} {300 + n}.", time) for n, (_, time) in enumerate(by_month(10))]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(text, text, event_time=time) for text, time in records)
        assert umi.search(query, now=NOW.replace(month=11, day=20)).ids[0] == records[at][0]


@pytest.mark.parametrize("query", ["fatture prima di marzo", "facturas antes de marzo", "a partir de março", "Mars"])
def test_the_month_before_or_after_which_records_are_asked_for_is_not_their_month(query):
    assert find_time(query, NOW) is None


@pytest.mark.parametrize("query", ["latest status of the May 2025 audit", "the last status of the May 2025 audit"])
def test_a_period_that_texts_themselves_name_may_be_their_subject(query):
    months = ("April", "May", "June")
    texts = [f"Status of the {months[at % 3]} 2025 audit: {at} papers missing." for at in range(15)]
    assert first_of(texts, query) == texts[13]

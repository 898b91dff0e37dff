"""Of two alike texts with another value, a question in the present tense finds the later one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.query.time.find import asks_for_present, time_order

NOW = datetime(2025, 6, 16, 9, tzinfo=timezone.utc)
OTHERS = (
    *("Kim likes lentils.", "The roof was repaired.", "Dev lives in Turin.", "Beth bought salmon for 20 euros."),
    *("Owen works in Bern since 2019.", "Marta called about the tax.", "The user slept six hours.", "Anna has a dog."),
)
BARBECUE = "The barbecue is on Saturday 14 June at the lake.", "The barbecue is on Sunday 22 June, in Kim's garden."


def found(query: str, *texts: str, days: tuple[float | None, ...] = (40, 10), order_boost: float = 0.5) -> list[str]:
    """The ids for a query, best first; text i is `days[i]` days old, and its id is i."""
    config = UmiConfig(when={"order_boost": order_boost})
    with HybridStore.open() as store, DualRetriever(store, clock=lambda: NOW, config=config) as umi:
        times = [None if age is None else NOW - timedelta(days=age) for age in days]
        store.add(
            [Chunk(str(at), text, event_time=time) for at, (text, time) in enumerate(zip(texts, times, strict=True))]
        )
        store.add([Chunk(f"other {at}", text, event_time=NOW - timedelta(days=at)) for at, text in enumerate(OTHERS)])
        return list(umi.search(query).ids)


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("when is the barbecue?", BARBECUE),
        ("where is the barbecue?", BARBECUE),
        ("what's the guest wifi password?", ("Guest wifi password: maple-77.", "Guest wifi password: otter-12.")),
        (
            "how much is the studio rent?",
            ("The studio rent is 420 euros.", "The studio rent is 465 euros from May on."),
        ),
        ("wann ist das Grillfest?", ("Das Grillfest ist am Samstag am See.", "Das Grillfest ist am Sonntag bei Kim.")),
        ("quand est la fête ?", ("La fête est samedi au lac.", "La fête est dimanche chez Kim.")),
    ],
)
def test_the_later_of_two_alike_texts_comes_first_whichever_matches_better(query, texts):
    assert found(query, *texts)[:2] == ["1", "0"]
    assert found(query, *reversed(texts))[:2] == ["1", "0"]


@pytest.mark.parametrize("days", [(40, None), (None, None), (40, 40), (10, 40), (40, -5)])
def test_without_a_later_time_that_has_come_the_order_stays(days):
    assert found("when is the barbecue?", *BARBECUE, days=days)[0] == "0"


def test_the_order_stays_if_the_order_boost_is_off():
    assert found("when is the barbecue?", *BARBECUE, order_boost=0.0)[0] == "0"


@pytest.mark.parametrize(
    "later",
    [
        *("The Linz barbecue is on Sunday.", "No barbecue at the lake.", "Is the barbecue still on Saturday 14 June?"),
        *(
            "I ask again, where on earth and when is the barbecue at the lake?",
            "Is the barbecue on Saturday at the lake?",
        ),
    ],
)
def test_a_later_question_or_text_on_less_of_the_query_gains_nothing(later):
    query = "where is the barbecue at the lake?"
    assert found(query, BARBECUE[0], later)[:2] == found(query, BARBECUE[0], later, order_boost=0.0)[:2]


@pytest.mark.parametrize(
    "query",
    [
        *("when was the barbecue?", "where did the choir rehearse?", "what was the rent?", "who had the spare key?"),
        *(
            "what is Sofia's old address?",
            "who is the former coach?",
            "what is the previous price?",
            "rent of the studio",
        ),
        *(
            "what is the original deadline?",
            "which port does the server use before the change?",
            "barbecue at the lake",
        ),
        *(
            "where is the first office?",
            "what is the latest price?",
            "wo war das Grillfest?",
            "wie ist die alte Adresse?",
        ),
        *("où était la fête ?", "what said Tom about the roof?", "price raised in May", "¿dónde fue la fiesta?"),
        *("quelle est l'ancienne adresse ?", "what used to be the password?"),
    ],
)
def test_a_question_for_an_earlier_state_and_a_query_without_a_verb_do_not_ask_for_the_present(query):
    assert not asks_for_present(query) or time_order(query) is not None


@pytest.mark.parametrize(
    ("query", "answer", "later"),
    [
        ("who is Anna's boss?", "Anna's manager is Mr Peters.", "Anna's brother is Jonas."),
        ("what is Nora's blood type?", "Nora's blood group is A positive.", "Nora's blood pressure is high."),
        ("is Tom allergic to any animals?", "Tom is allergic to cats and horses.", "Tom is allergic to peanuts."),
        ("what is the wifi password?", "The password of the WLAN is maple.", "The password of the laptop is otter."),
        ("how much is the rent for the flat?", "The apartment rent is 900 euros.", "The garage rent is 80 euros."),
        (
            "how many vacation days do employees get?",
            "Annual leave: each employee has 27 days of paid holiday.",
            "Sick leave: each employee has 27 days with full pay.",
        ),
    ],
)
def test_a_later_text_that_lacks_a_word_of_the_subject_gains_nothing(query, answer, later):
    assert found(query, answer, later)[0] == "0"


@pytest.mark.parametrize(
    ("query", "answer", "later"),
    [
        ("how much is the rent?", "The rent is 420 euros.", "The rent includes heating."),
        ("when is the exam?", "The exam is on 3 July.", "The exam is open book."),
        ("what is the wifi password?", "The wifi password is maple-77.", "Kim forgot the wifi password."),
    ],
)
def test_a_later_text_without_a_number_is_no_later_form_of_one_with_a_number(query, answer, later):
    assert found(query, answer, later)[0] == "0"


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("where does Ben live?", ("Ben lives in Bristol near the bridge.", "Ben lives in Leeds.")),
        ("what is the priority of ticket 700?", ("[700] Priority: high.", "[700] Priority: low.")),
    ],
)
def test_a_text_may_hold_another_form_of_a_word_and_a_number_without_the_word_before_it(query, texts):
    assert found(query, *texts)[:2] == ["1", "0"]
    assert found(query, *reversed(texts))[:2] == ["1", "0"]


def test_in_a_thread_a_later_mail_that_only_shares_subject_and_quoted_question_gains_nothing():
    def mail(sender: str, to: str, body: str, *, quoted: str = "", subject: str = "Re: Summer party") -> str:
        names = f"From: {sender} Holm <{sender.lower()}@x.example>\nTo: {to} Lund <{to.lower()}@x.example>"
        return f"{names}\nSubject: {subject}\n\nHi {to},\n\n{body}{quoted}\n\n{sender}"

    quoted = "\n\n> Hi,\n> Where is the summer party?"
    thread = (
        mail("Tom", "Mira", "Where is the summer party?", subject="Summer party"),
        mail("Mira", "Tom", "At the boathouse, from six on.", quoted=quoted),
        mail("Tom", "Ola", "I will bring a cake.", quoted=quoted),
    )
    others = [mail("Kim", "Ben", f"The lift is out of order, floor {at}.", subject="Info") for at in range(5)]
    query, days = "where is the summer party?", (30, 29, 28, 0, 1, 2, 3, 4)
    plain = found(query, *thread, *others, days=days, order_boost=0.0)
    assert found(query, *thread, *others, days=days)[:3] == plain[:3]

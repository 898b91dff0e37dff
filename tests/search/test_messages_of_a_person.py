"""The first and the last messages of a person whom the query names as their sender."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.reorder.in_time_order import MESSAGE_WORD
from umi_common.search.reorder.speaker import sender_in

START = datetime(2024, 5, 6, 8, tzinfo=timezone.utc)
NAMES = ("Asha Rao", "Ben Ito", "Sabine Aigner")
MAILS = (
    ("Roof", "The roof of the boathouse leaks, says Ben."),
    ("Re: Mailing list", "Asha, I turned on moderation of the mailing list."),
    ("News", "A nice article on libraries."),
    ("Fridge", "Please empty the fridge, Asha and Sabine."),
    ("Lift", "The lift is out of order, Sabine."),
    ("Party", "Who brings the salad to the party?"),
    ("Paper", "The paper came on Wednesday, Asha."),
    ("Walk", "We walk at ten if it is dry."),
    ("Key", "Ben has the key, I think."),
)


def searched(query: str, texts: list[str]) -> list[str]:
    with HybridStore.open() as store, DualRetriever(store) as umi:
        times = (START + timedelta(days=at) for at in range(len(texts)))
        store.add(
            Chunk(str(at), text, event_time=time) for at, (text, time) in enumerate(zip(texts, times, strict=True))
        )
        return list(umi.search(query).ids)


def as_mails() -> list[str]:
    """Mail i is of the person i % 3, to the next one."""
    senders = [(NAMES[at % 3], NAMES[(at + 1) % 3]) for at in range(len(MAILS))]
    return [
        f"From: {one} <{one[:3]}@list.example>\nTo: {other}\nSubject: {subject}\n\n{text}\n\n{one}"
        for (one, other), (subject, text) in zip(senders, MAILS, strict=True)
    ]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        *(("first mail from Asha", "0"), ("last mail from Asha", "6"), ("the latest e-mail by Asha Rao", "6")),
        *(("first mail from Ben", "1"), ("Ben's last mail", "7"), ("the newest mail that Ben sent", "7")),
        *(("erste Mail von Sabine", "2"), ("letzte Mail von Sabine", "8"), ("first message of Sabine", "2")),
        *(("dernier mail de Sabine", "8"), ("último correo de Asha", "6")),
    ],
)
def test_the_first_or_last_mail_of_a_person_is_one_that_the_person_sent(query, first):
    assert searched(query, as_mails())[0] == first


def test_the_last_two_mails_of_a_person_come_first():
    assert searched("last two mails from Ben", as_mails())[:2] == ["7", "4"]


@pytest.mark.parametrize(("query", "first"), [("first message by Mira", "1"), ("Mira's last message", "5")])
def test_a_message_of_a_chat_holds_its_speaker_and_others_may_name_the_person(query, first):
    chat = [
        "Tom: Mira, are you up?",
        "Mira: yes",
        "Tom: tea, Mira?",
        "Ana: Mira is out",
        "Tom: ok",
        "Mira: bread is gone",
    ]
    assert searched(query, [*chat, "Ana: message for Mira: call home"])[0] == first


@pytest.mark.parametrize(
    ("query", "first"), [("Ben's first mail on the roof", "1"), ("last mail from Ben on the roof", "7")]
)
def test_with_a_subject_only_the_senders_mails_on_it_are_compared(query, first):
    texts = [text.replace("Subject: ", "Subject: Re: Roof, ") for text in as_mails()]
    assert searched(query, [*texts, texts[1].replace("Roof, Re: Mailing list", "Dinner")])[0] == first


def test_a_mail_that_quotes_many_words_is_one_of_the_series():
    long = "\n".join(f"> line {at} of what was said on the roof and the boathouse before" for at in range(20))
    texts = [f"From: {name}\nTo: Tom\nSubject: Roof\n\nFine." for name in NAMES]
    assert (
        searched("last mail on the roof", [*texts, f"From: Ana Roth\nTo: Tom\nSubject: Re: Roof\n\nOk.\n\n{long}"])[0]
        == "3"
    )


@pytest.mark.parametrize(
    "query",
    [
        *("last mail to Asha", "first message for Ben", "the latest post about Sabine", "first mail with Ben"),
        *(
            "last mail from Asha's landlord",
            "newest comment on Ben",
            "the last mail from Oslo",
            "first mail on the roof",
        ),
        *("last post office before Ulm", "current mail server", "first message from the moon", "Asha's last holiday"),
        *("what did Ben say last?", "when did Ben last write?", "letzte Mail an Sabine", "dernier mail à Sabine"),
        *("who wrote the first comment?", "last message", "the last three mails", "latest news from the boathouse"),
    ],
)
def test_a_query_that_names_no_sender_asks_for_no_messages_of_a_person(query):
    assert MESSAGE_WORD.search(query) is None or sender_in(query, {name.lower() for name in NAMES}) is None

"""What a mail quotes from another mail is not what its sender says."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.reorder.alike import AskedWords, Words
from umi_common.search.reorder.speaker import without_quoted

SAID = "I disagree. Number 7 prints better in black."
LAST = "Thanks to all. Then we print number 4 with the owl in blue, one sheet of paper for everybody."
OTHERS = ("The roof of the boathouse leaks again.", "Who has the key of the archive?", "The printer needs toner.")


def mail(sender: str, subject: str, body: str) -> str:
    return f"From: {sender} <{sender.split()[0].lower()}@list.example>\nSubject: {subject}\n\n{body}\n\n-- \n{sender}"


def marked(sender: str, text: str) -> str:
    return f"{sender} wrote:\n> {text}\n\n"


def below(sender: str, text: str) -> str:
    return f"\n\n-----Original Message-----\nFrom: {sender}\nSent: Sunday, 25 May\nSubject: Re: Logo contest\n\n{text}"


def found(query: str, *texts: str) -> list[str]:
    others = [mail("Ana Roth", "News", text) for text in OTHERS]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(str(at), text) for at, text in enumerate([*texts, *others])])
        return list(umi.search(query).ids)


@pytest.mark.parametrize(
    "answer",
    [
        mail("Greta Olsen", "Re: Logo contest", f"{marked('Tom Wirth', SAID)}{LAST}"),
        mail("Greta Olsen", "Re: Logo contest", f"{LAST}{below('Tom Wirth', SAID)}"),
    ],
)
def test_what_was_said_is_found_in_the_mail_that_says_it_and_not_in_one_that_quotes_it(answer):
    said = mail("Tom Wirth", "Re: Logo contest", f"{marked('Lukas Hart', 'nine entries are on the wiki.')}{SAID}")
    assert found("who said: number 7 prints better in black?", answer, said)[:2] == ["1", "0"]


def test_a_mail_that_alone_quotes_what_was_said_is_found_by_it():
    answer = mail("Greta Olsen", "Re: Logo contest", f"{marked('Tom Wirth', SAID)}{LAST}")
    assert found("who said: number 7 prints better in black?", answer)[0] == "0"


def test_a_question_that_a_mail_quotes_counts_as_said_because_the_mail_may_answer_it():
    answer = mail("Greta Olsen", "Re: Permits", marked("Tom Wirth", "Which permits do visitors need?") + "Yellow ones.")
    assert Words(answer, AskedWords("which permits do visitors need?")).content == {"permits", "visitors", "need"}


@pytest.mark.parametrize(
    "text",
    [
        "# Notes\n\n> Number 7 prints better in black.",
        ">>> print(7)\n7",
        "$ cat list\n> number 7",
        "From: Bonn\nTo: Ulm\n\n> change in Mainz",
        "Tom: see below\n> number 7",
    ],
)
def test_lines_that_begin_with_the_sign_are_kept_in_a_text_that_is_no_mail(text):
    assert without_quoted(text) == text


def test_a_mail_without_quoted_text_is_kept():
    text = mail("Tom Wirth", "Prices", "Sizes > 4 cost more.\nFrom: Bonn\nTo: Ulm\nat 9:15")
    assert without_quoted(text) == text


def test_a_quoted_mail_in_german_is_left_out_up_to_the_end():
    quoted = "Von: Tom Wirth\nGesendet: 25.05.2025 10:00\nAn: Greta Olsen\nBetreff: Logo\n\nNummer 7.\n\nGruß\nTom"
    text = mail("Greta Olsen", "AW: Logo", f"Danke, dann Nummer 4.\n\n{quoted}")
    assert without_quoted(text).strip().endswith("Danke, dann Nummer 4.")


@pytest.mark.parametrize(
    ("query", "forwarded", "others"),
    [
        (
            "delivery date of the oak table",
            "The oak table: delivery date is 12 May.",
            ("The oak table has a scratch.", "What is the delivery date for the chairs?"),
        ),
        (
            "visa requirements for the Oslo trip",
            "For the Oslo trip there are no visa requirements.",
            ("The Oslo trip was fun.", "Who pays for the Oslo trip?"),
        ),
    ],
)
def test_a_forwarded_text_that_no_other_mail_says_counts_as_said(query, forwarded, others):
    def mail(sender: str, to: str, subject: str, body: str) -> str:
        return f"From: {sender} <{sender}@x.example>\nTo: {to} <{to}@x.example>\nSubject: {subject}\n\n{body}"

    original = f"-----Original Message-----\nFrom: Lea\nSent: Monday\nTo: Office\nSubject: Info\n\n{forwarded}"
    texts = [mail("tom", "ann", "FW: Info", f"FYI, see below.\n\n{original}")]
    texts += [mail("ann", "tom", "Info", other) for other in others]
    texts += [mail("kim", "bo", "Lunch", f"Menu {at}: soup and rice.") for at in range(12)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(str(at), text) for at, text in enumerate(texts)])
        assert umi.search(query).ids[0] == "0"

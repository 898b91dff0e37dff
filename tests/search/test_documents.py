"""A question that names a document finds the part of it that answers, not its first page."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.query.answer_forms import form_asked
from umi_common.search.reorder.sources import title_of

HEAD = """{title}
This agreement is made between {landlord} (the landlord) and {tenant} (the tenant). It governs the office lease and
replaces all earlier agreements."""
CLAUSES = {
    "term": "1. Term\nThe tenancy begins on {day} {month} 2025 and runs for {years} years.",
    "rent": "2. Rent\nEUR {rent} a month are paid in advance.",
    "pets": "3. Animals\nDogs need the written consent of the landlord, also under earlier agreements.",
    "sublet": "4. Subletting\nRooms are not sublet without consent.",
    "end": "5. Notice\nEither party gives {notice} months' notice by registered letter.",
}
LEASES = {
    "brandl": {"landlord": "Egger Ltd", "tenant": "Brandl GmbH", "day": 1, "month": "April", "years": 3},
    "novak": {"landlord": "Thoma Ltd", "tenant": "Novak GmbH", "day": 1, "month": "July", "years": 5},
    "dorn": {"landlord": "Crane Ltd", "tenant": "Dorn GmbH", "day": 15, "month": "May", "years": 2},
}


def leases(*, title_in_each: bool) -> list[Chunk]:
    """Three leases of one head and five clauses each; the clauses are searched with or without the title."""
    chunks = []
    for at, (name, facts) in enumerate(LEASES.items()):
        title = f"Office lease agreement between {facts['landlord']} and {facts['tenant']}"
        texts = {"head": HEAD, **CLAUSES}
        for position, (part, text) in enumerate(texts.items()):
            shown = text.format(title=title, rent=1900 + 170 * at, notice=3 + at, **facts)
            searched = f"{title}\n{shown}" if title_in_each and part != "head" else None
            id = f"{name}-{part}"
            chunks.append(Chunk(id, shown, source=f"{name}.pdf", position=position, search_text=searched))
    return chunks


CONTRACT = (
    "Service contract with {name}\n\nThis is the service contract with {name}. The service contract between {name} and"
    " Harbour Ltd describes the duties of both parties. {name} signed it.",
    "Deliveries are made at the gate on weekdays. Damage must be reported at once.",
    "Disputes go to the court in Lund. Changes need the written form.",
    "It begins on 3 March 2025 and runs on unless one side ends it.",
    "{name} pays 420 EUR each month to the account of the other side.",
    "Either side may end it with 6 weeks of notice in writing.",
    "Both sides keep what they learn to themselves, also after it has ended.",
    "A {word} of all costs is sent each January. It is about the last year.",
)


def contracts(word: str) -> list[Chunk]:
    """Four contracts of equal clauses, with the name in the first chunk and in the clause about payments."""
    return [
        Chunk(f"{name}-{at}", text.format(name=name, word=word), source=name, position=at)
        for name in ("Brandl", "Osei", "Novak", "Silva")
        for at, text in enumerate(CONTRACT)
    ]


@pytest.mark.parametrize(
    ("question", "clause"),
    [
        ("When does the service contract with {name} start?", 3),
        ("How long is the notice period of the {name} service contract?", 5),
        ("What does the service contract with {name} cost?", 4),
    ],
)
def test_a_date_a_length_of_time_or_an_amount_that_is_asked_for_leads_to_a_clause_without_the_question_s_words(
    question, clause
):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(contracts("list"))
        found = [umi.search(question.format(name=name)).ids[0] for name in ("Brandl", "Osei", "Novak", "Silva")]
    assert found == [f"{name}-{clause}" for name in ("Brandl", "Osei", "Novak", "Silva")]


def test_a_document_of_two_chunks_is_led_to_its_second_one_too():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(chunk for chunk in contracts("list") if chunk.id.endswith(("-0", "-3")))
        assert umi.search("When does the service contract with Osei start?").ids[0] == "Osei-3"


def test_of_chunks_without_positions_none_is_the_head():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(chunk.id, chunk.text, source=chunk.source) for chunk in contracts("list"))
        assert umi.search("When does the service contract with Osei start?").ids[0] == "Osei-0"


@pytest.mark.parametrize(
    ("question", "title"),
    [("repairs under the office lease of Brandl", "Office lease of {}\n"), ("who pays for repairs?", "")],
    ids=["the title is above each chunk", "the document is not named"],
)
def test_a_first_chunk_that_is_no_head_keeps_its_place(question, title):
    texts = [
        "Repairs are paid by the tenant.",
        "The rent is paid on the first of each month, in advance.",
        "Dogs and cats need the consent of the landlord.",
        "If the repairs take longer than a week, the tenant may pay less, and the landlord finds a hotel.",
        "Keys are given back on the last day.",
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for name in ("Brandl", "Novak") if title else ("Brandl",):
            store.add(
                Chunk(f"{name}-{at}", text, source=name, position=at, search_text=title.format(name) + text)
                for at, text in enumerate(texts)
            )
        assert umi.search(question).ids[0] == "Brandl-0"


@pytest.mark.parametrize("word", ["summary", "overview", "outline"])
def test_a_document_s_summary_is_its_first_chunk_and_no_clause_with_that_word(word):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(contracts(word))
        for name in ("Brandl", "Osei", "Novak", "Silva"):
            assert umi.search(f"{word} of the service contract with {name}").ids[0] == f"{name}-0"


@pytest.mark.parametrize("title_in_each", [True, False])
@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("when does the office lease agreement with {tenant} start", "term"),
        ("how much does {tenant} pay under the office lease", "rent"),
        ("rent in the office lease agreement with {tenant}", "rent"),
        ("does the office lease with {tenant} allow dogs?", "pets"),
        ("notice period office lease {tenant}", "end"),
    ],
)
def test_the_clause_that_answers_comes_before_the_head_that_repeats_the_contract_s_name(question, part, title_in_each):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(leases(title_in_each=title_in_each))
        for name, facts in LEASES.items():
            found = umi.search(question.format(**facts))
            assert found.ids[0] == f"{name}-{part}"
            assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.mark.parametrize("title_in_each", [True, False])
@pytest.mark.parametrize(
    "question",
    [
        "office lease agreement {landlord} {tenant}",
        "which earlier agreements does the office lease with {tenant} replace",
        "summary of the office lease agreement with {tenant}",
    ],
)
def test_the_head_stays_first_if_it_answers_or_if_the_document_is_asked_for(question, title_in_each):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(leases(title_in_each=title_in_each))
        for name, facts in LEASES.items():
            assert umi.search(question.format(**facts)).ids[0] == f"{name}-head"


@pytest.mark.parametrize("speakers", [True, False])
def test_in_a_talk_the_first_message_is_no_title(speakers):
    lines = {
        "Ann": "Summer party\nWho of you brings what to the summer party this year?",
        "Bob": "I could bring bread and butter.",
        "Cem": "The salad of last year was too salty.",
        "Dan": "I have a gas grill.",
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        texts = [f"{name}: {line}" if speakers else line for name, line in lines.items()]
        store.add([Chunk(f"m{at}", text, source="talk", position=at) for at, text in enumerate(texts)])
        found = umi.search("summer party salad")
    assert found.ids[0] == ("m0" if speakers else "m2")


@pytest.mark.parametrize(
    ("query", "text", "answers"),
    [
        ("when does it start", "It begins on 1 April 2025.", True),
        ("when does it start", "It begins after the signature of 2 parties.", False),
        ("deadline for offers", "Offers arrive by 3 May, 10:00.", True),
        ("notice period", "three months before the end", True),
        ("how long is the probation", "The first 2 months", True),
        ("how much is the deposit", "a deposit of EUR 900", True),
        ("wann beginnt der Vertrag", "Er beginnt am 1. Oktober.", True),
    ],
)
def test_a_question_asks_for_a_date_a_length_of_time_or_an_amount(query, text, answers):
    form = form_asked(query)
    assert form is not None
    assert (form.search(text) is not None) == answers


@pytest.mark.parametrize(
    "query", ["by how much did it rise", "how much water do I need", "date picker bug", "who is it"]
)
def test_other_questions_ask_for_no_known_form(query):
    assert form_asked(query) is None


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Lease with Brandl\nThis agreement is made", "Lease with Brandl"),
        ("This agreement is made.\nIt governs", ""),
        ("Lease with Brandl", ""),
        ("# Jarrowby\n\nA market town.", "# Jarrowby"),
        (f"{'This agreement is made and ' * 7}\ngoverns the lease", ""),
    ],
)
def test_a_title_is_a_first_line_that_ends_no_sentence(text, title):
    assert title_of(text) == title

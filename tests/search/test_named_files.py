"""A question that names a file finds the passages of this file, although only its name holds the name."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.search.reorder.sources import spelled_name

CLAUSES = [
    "Either party may terminate by giving {} weeks' notice in writing.",
    "The rent is {}0 euros a month, payable in advance.",
    "Parking space number {} in the yard may not be sublet.",
    "Minor repairs up to {} euros are borne by the tenant.",
]
GARAGE = "One space in the garage, number {}, belongs to the flat."
LEASES = ["Huber", "Novak", "Brandl", "Dorn", "Steiner"]


def leases(path: str) -> list[Chunk]:
    """Five leases of four clauses each; no clause holds a name. Brandl's says "garage" in place of "parking"."""
    chunks = []
    for number, name in enumerate(LEASES):
        for position, clause in enumerate(CLAUSES):
            text = GARAGE if name == "Brandl" and "Parking" in clause else clause
            source = path.format(name, name=name.lower(), number=number + 3)
            chunks.append(Chunk(f"{name}-{position}", text.format(21 + number), source=source, position=position))
    return chunks


@pytest.mark.parametrize(
    ("path", "question", "expected"),
    [
        ("leases/{name}.pdf", "the notice period in brandl.pdf", "Brandl-0"),
        ("/home/ann/leases/{name}.pdf", "what does Brandl.pdf say about parking?", "Brandl-2"),
        ("Lease_{}.docx", "in Lease_Brandl.docx: rent", "Brandl-1"),
        ("C:\\scans\\Lease_{}_final.pdf", "rent in lease_brandl_final", "Brandl-1"),
        ("tenders/ITT-2024-93{number}.pdf", "ITT-2024-935: parking", "Brandl-2"),
        ("notes/v2.{number}.md", "what does v2.5.md say about repairs?", "Brandl-3"),
    ],
)
def test_a_question_that_names_a_file_finds_its_passage(path, question, expected):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(leases(path))
        found = umi.search(question)
        assert found.ids[0] == expected
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_an_answer_with_the_words_of_the_question_stays_before_a_file_that_has_them_in_its_name_by_chance():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([
            Chunk("sso", "Single sign-on is set up under Security.", source="help/login.md", position=0),
            Chunk("lock", "After five failed attempts one waits an hour.", source="help/login.md", position=1),
            Chunk("in", "Login: open your workspace, then type mail and password.", source="help/start.md", position=0),
            Chunk("vat", "The VAT number of an account is entered under Company.", source="help/bills.md", position=0),
            Chunk("delete", "Deletion takes a number of days.", source="help/account.md", position=0),
            Chunk("avatar", "Pictures are entered here.", source="help/account.md", position=1),
        ])  # fmt: skip
        assert umi.search("login with mail and password").ids[0] == "in"
        assert umi.search("where do I enter the VAT number of my account?").ids[0] == "vat"


def test_a_file_is_found_by_a_spelling_whose_words_all_files_hold():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(end, f"Names end in {end}.", source=f"a/x_y.{end}", position=0) for end in ("md", "rst")])
        assert umi.search("names in x_y.rst").ids[0] == "rst"


def test_a_text_that_names_the_file_itself_comes_before_the_passages_of_the_file():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([*leases("leases/{name}.pdf"), Chunk("note", "The space in brandl.pdf was given up.")])
        assert umi.search("which space in the garage belongs to the flat of brandl.pdf?").ids[0] == "note"


@pytest.mark.parametrize(
    ("source", "metadata"),
    [
        ("leases/{name}.pdf", {"file_path": "/tmp/tmpx9a2"}),
        ("leases/{name}.pdf", {"file_name": "upload.bin"}),
        ("node-3.{number}", {"file_path": "/docs/{name}.pdf"}),
        ("{name}.pdf_part_0", {"file_name": "{name}.pdf"}),
    ],
)
def test_a_file_is_found_by_its_source_and_by_the_path_in_its_metadata(source, metadata):
    chunks = []
    for chunk in leases("{name}/{number}"):
        name, number = chunk.source.split("/")
        own = {key: path.format(name=name.lower()) for key, path in metadata.items()}
        path = source.format(name=name.lower(), number=number)
        chunks.append(Chunk(chunk.id, chunk.text, source=path, position=chunk.position, metadata=own))
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(chunks)
        assert umi.search("the notice period in brandl.pdf").ids[0] == "Brandl-0"


def test_a_title_with_full_stops_is_no_file_whose_passages_hide_the_answer():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([
            Chunk("us0", "The United States of America (U.S.), capital Washington.", source="U.S.", position=0),
            Chunk("us1", "Its economy is the largest by nominal GDP.", source="U.S.", position=1),
            Chunk("us2", "It has 50 states and a federal district.", source="U.S.", position=2),
            Chunk("fed", "The central bank, the Federal Reserve, was created in 1913.", source="Federal Reserve"),
            Chunk("al", "Alaska was bought from Russia in 1867.", source="Alaska"),
        ])  # fmt: skip
        assert umi.search("When was the central bank of the U.S. created?").ids[0] == "fed"
        assert umi.search("From whom did the U.S. buy Alaska?").ids[0] == "al"


@pytest.mark.parametrize("path", ["", "chat", "{number}", "8d1f9c3{number}-4a1b-4c3d-9c3d-0badcafe112{number}"])
def test_sources_that_are_no_names_change_nothing(path):
    chunks = leases(path or "x")
    if not path:
        chunks = [Chunk(chunk.id, chunk.text) for chunk in chunks]
    chunks = [Chunk(chunk.id, chunk.text, source=chunk.source) for chunk in chunks]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(chunks)
        assert all("names" not in hit.stages for hit in umi.search("a chat about 5 weeks in the bad cafe"))


def test_the_stage_is_off_without_neighbours():
    config = UmiConfig(neighbours={"enabled": False})
    with HybridStore.open() as store, DualRetriever(store, config=config) as umi:
        store.add(leases("{name}.pdf"))
        assert all("names" not in hit.stages for hit in umi.search("rent brandl.pdf"))


@pytest.mark.parametrize(
    ("query", "file", "spelling"),
    [
        ("rent in Brandl.PDF", "leases/brandl.pdf", "brandl.pdf"),
        ("rent in brandl", "leases/brandl.pdf", None),
        ("itt-2024-934: rent", "ITT-2024-934.pdf", "itt-2024-934"),
        ("itt-2024-9341: rent", "ITT-2024-934.pdf", None),
        ("in 2023", "2023.pdf", None),
        ("names in x_y.rst", "x_y.md", None),
        ("read x_y.rst.", "x_y.rst", "x_y.rst"),
        ("the port in .env", "app/.env", ".env"),
        ("what does .gitignore leave out?", ".gitignore", ".gitignore"),
        ("the port in lease.env", "app/.env", None),
        ("read notes.markdown", "notes.markdown", "notes.markdown"),
        ("the economy of the U.S. today", "U.S.", None),
        ("Dr. Smith on salt", "Dr. Smith", None),
        ("what is 3.5 percent", "3.5", None),
    ],
)
def test_a_query_spells_the_name_of_a_file(query, file, spelling):
    assert spelled_name(query.lower(), file) == spelling

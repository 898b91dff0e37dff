"""The titles above a passage are searched with it: those of the file, then headings. What is shown stays the text."""

from __future__ import annotations

import pytest

from umi_common import DualRetriever, HybridStore, TokenBudget
from umi_common.files import chunks_of, index
from umi_common.sim import CountingEmbedder, HashEmbedder

TOWNS = {"Jarrowby": "Ruth Pike", "Aldmoor": "Owen Mott", "Kestwell": "Clara Vaux", "Lindham": "Hugh Sandys"}
FILLER = "The council meets on Thursdays. " * 12
SECTIONS = "## History\n\n{filler}\n\n## Government\n\nThe present mayor is {mayor}. {filler}\n"
PAGES = {
    "{town}.md": "# {town}\n\n" + SECTIONS,
    "page {n}.md": "---\ntitle: '{town}'\n---\n" + SECTIONS,
    "page {n}.html": "<title>{town} |\nTowns</title><h2>History</h2>{filler}<h2>Mayor</h2>It is {mayor}. {filler}",
    "page {n}.org": "#+TITLE: {town}\n\n* History\n\n{filler}{filler}\n\n* Mayor\n\nIt is {mayor}. {filler}",
    "page {n}.tex": "\\title{{On \\emph{{{town}}}}}\n{filler}{filler}\n\n\\section{{Mayor}}\n\nIt is {mayor}. {filler}",
    "{town}.txt": "{filler}\n\n{filler}\n\n{filler}The mayor is {mayor}. {filler}\n",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_question_that_names_the_page_finds_its_section_that_does_not(tmp_path, name):
    for n, (town, mayor) in enumerate(TOWNS.items()):
        facts = {"town": town, "mayor": mayor, "filler": FILLER, "n": n}
        (tmp_path / name.format(**facts)).write_text(PAGES[name].format(**facts))
    with HybridStore.open() as store:
        index(store, [tmp_path])
        with DualRetriever(store) as umi:
            for town, mayor in TOWNS.items():
                assert mayor in umi.search(f"who is mayor of {town}?").hits[0].chunk.text


@pytest.fixture()
def searched(tmp_path):
    """Writes a file and returns what is searched in each of its chunks where this is more than the text."""

    def read(name, content):
        (tmp_path / name).write_text(content)
        return [chunk.search_text for chunk in chunks_of(tmp_path / name)]

    return read


def test_a_passage_is_searched_with_the_headings_above_it_that_it_does_not_hold(searched):
    first, second, third = searched("a.md", f"# Guide\n\n## Install\n\n{FILLER}\n\n### Linux\n\n{FILLER * 3}")
    assert first is None
    assert second.startswith("Guide > Install >\n### Linux\n\nThe council")
    assert third.startswith("Guide > Install > Linux >\nThe council")


def test_the_title_of_a_file_is_not_repeated_where_the_passage_or_its_headings_say_it(searched):
    assert searched("town-guide.md", "# A guide to the town\n\nText.") == [None]
    assert searched("guide.txt", "The guide begins here.") == [None]
    assert searched("2026-11-18_minutes.txt", "All were there.") == ["2026-11-18 minutes >\nAll were there."]


@pytest.mark.parametrize("name", ["x1.txt", "9fceb02d0ae598e95dc970b74767f193.txt", "2026-11-18.txt"])
def test_a_name_without_a_word_is_no_title(searched, name):
    assert searched(name, "All were there.") == [None]


def test_a_turn_of_a_chat_is_searched_alone(searched):
    log = "[2024-06-11 19:15] Mira: Nine thousand.\n[2024-06-11 19:16] Jonas: That is fair.\n"
    assert searched("chat with Jonas.txt", log) == [None, None]


def test_a_long_heading_does_not_outweigh_a_short_passage(searched):
    long = "Heading of very many words " * 40
    *_, last = searched("a.md", f"# {long}\n\n{FILLER}\n\n## {long}\n\n{FILLER}\n\nMIT.\n\n{FILLER * 2}")
    path, _, text = last.partition("\n")
    assert path.startswith("Heading of") and len(path) <= 200 and text.startswith("The council")


def test_many_nested_headings_do_not_outweigh_a_short_passage(searched):
    levels = "\n".join(f"{'*' * level} Level {level} of the tree\n{FILLER}" for level in range(1, 90))
    *_, last = searched("a.org", f"{levels}\n{FILLER * 3}")
    path, _, _ = last.partition("\n")
    assert len(path) <= 200 and "Level 89" in path and "Level 1 " not in path


def test_a_date_in_a_heading_counts_for_every_passage_under_it(tmp_path):
    days = ("5 March 2024", "11 April 2024", "20 May 2024")
    events = [f"{FILLER * 2}Then we {done}." for done in ("ate soup", "bought a boat", "met Carla")]
    diary = "\n\n".join(part for day in days for part in (f"## {day}", *events))
    (tmp_path / "diary.md").write_text(f"# Diary\n\n{diary}")
    with HybridStore.open() as store:
        index(store, [tmp_path])
        with DualRetriever(store) as umi:
            best = umi.search("what did we buy in April 2024?").hits[0].chunk
    assert best.metadata["section"] == "Diary > 11 April 2024" and "bought a boat" in best.text


def test_later_rows_of_a_table_are_searched_with_its_heading_and_shown_with_its_head_alone(tmp_path):
    rows = "".join(f"| opt_{n} | Controls feature {n} of the renderer |\n" for n in range(90))
    content = f"# Settings\n\n| Name | Meaning |\n|---|---|\n{rows}"
    (tmp_path / "a.md").write_text(content)
    chunks = chunks_of(tmp_path / "a.md")
    assert all(chunk.search_text == f"Settings >\n{chunk.text}" for chunk in chunks[1:]) and len(chunks) > 2
    assert all(chunk.text.startswith("| Name | Meaning |") for chunk in chunks[1:])


def test_a_context_shows_the_text_without_the_titles_that_were_searched(tmp_path):
    content = f"# Jarrowby\n\n## History\n\n{FILLER}\n\n## Government\n\nThe present mayor is Ruth Pike. {FILLER}"
    (tmp_path / "a.md").write_text(content)
    with HybridStore.open() as store:
        index(store, [tmp_path])
        with DualRetriever(store) as umi:
            context = umi.get_context("who is mayor of Jarrowby?", budget=TokenBudget(max_total=2_000))
    assert "Jarrowby >" not in context.text and context.text.count("# Jarrowby") == 1


def test_a_page_with_a_new_title_is_embedded_again_and_one_with_a_new_section_only_there(tmp_path):
    page, embedder = tmp_path / "docs" / "a.md", CountingEmbedder(HashEmbedder(16))
    page.parent.mkdir()
    parts = [f"## Part {n}\n\n{FILLER}" for n in range(3)]
    page.write_text("\n\n".join(["# Boats", *parts]))
    with HybridStore.open(tmp_path / "store", embedder=embedder) as store:
        index(store, [page.parent])
        for title, last, embedded in (("Boats", "New.", 1), ("Ships", "New.", 3)):
            before = len(embedder.texts)
            page.write_text("\n\n".join([f"# {title}", *parts[:2], parts[2] + last]))
            index(store, [page.parent])
            assert len(embedder.texts) - before == embedded

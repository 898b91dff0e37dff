"""Cutting texts: passages are slices, never too long, lose nothing but white space, and know their headings."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from umi_common.files.readers.html_text import HtmlText
from umi_common.files.readers.markup import headings, markdown_tables, tables_and_lists
from umi_common.files.readers.passages import passages, spans
from umi_common.files.readers.pdf import without_divided_words

PAGE = """# Guide

Intro.

## Install

Run the program.

```sh
# not a heading
make
```

## Use

Ask it.
"""


@given(st.text(), st.integers(1, 40))
def test_spans_are_in_order_short_enough_and_lose_only_white_space(text, size):
    found = list(spans(text, size=size))
    assert all(0 < end - start <= size for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    kept = "".join(text[start:end] for start, end in found)
    assert "".join(kept.split()) == "".join(text.split())


def test_a_long_text_is_cut_at_paragraphs_then_sentences_then_words():
    paragraph = "One two three. Four five six."
    assert [p.text for p in passages(f"{paragraph}\n\n{paragraph}", size=40)] == [paragraph, paragraph]
    assert [p.text for p in passages(paragraph, size=20)] == ["One two three.", "Four five six."]
    steps = "1. Open the valve.\n2. Wait. Then look.\n3. Close it."
    assert [p.text for p in passages(steps, size=22)] == ["1. Open the valve.", "2. Wait. Then look.", "3. Close it."]
    assert [p.text for p in passages("one two three", size=8)] == ["one two", "three"]
    assert [p.text for p in passages("abcdefgh", size=3)] == ["abc", "def", "gh"]


def test_a_passage_ends_at_a_heading_and_knows_the_path_of_headings():
    found = list(passages(PAGE, headings(PAGE, ".md"), size=64))
    assert [p.metadata["section"] for p in found] == ["Guide", "Guide > Install", "Guide > Use"]
    assert all(PAGE[p.start :].startswith(p.text) for p in found)


def test_a_heading_alone_joins_what_follows():
    text = "# Title\n\n## First\n\n" + "word " * 30
    first = next(passages(text, headings(text, ".md"), size=200))
    assert first.text.startswith("# Title\n\n## First\n\nword")


@pytest.mark.parametrize("titles", ["# Title\n\n", "# Title\n\n## Part\n"])
@pytest.mark.parametrize(
    "body", ["A sentence of eight words stands here, friend. " * 40, "word " * 40 + "\n\n" + "more " * 60]
)
def test_a_title_above_a_long_section_is_no_passage_of_its_own(titles, body):
    text = f"{titles}## Section\n\n{body}"
    first, *others = passages(text, headings(text, ".md"), size=200)
    assert first.text.startswith(f"{titles}## Section\n\n{body[:20]}")
    assert all(len(passage.text) <= 200 for passage in (first, *others))
    assert {passage.metadata["section"] for passage in (first, *others)} == {"Title > Section"}


def test_a_short_section_with_a_text_stays_apart_from_a_long_one():
    text = "## License\n\nMIT.\n\n## Use\n\n" + "word " * 100
    first = next(passages(text, headings(text, ".md"), size=200))
    assert first.text == "## License\n\nMIT."


def test_a_comment_in_a_code_fence_is_no_heading():
    assert [heading.title for heading in headings(PAGE, ".md")] == ["Guide", "Install", "Use"]


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".org", "* Boats\n\nIntro.\n\n** Sails\n\nJib.\n\n* Cars"),
        (".adoc", "= Boats\n\nIntro.\n\n== Sails\n\nJib.\n\n= Cars"),
        (".md", "Boats\n=====\n\nIntro.\n\n## Sails\n\nJib.\n\nCars\n====\n\n---"),
        (
            ".rst",
            "Boats\n*****\n\nIntro.\n\nSails\n-----\n\nJib.\n\nCars\n*****\n\n===== ===\nname  cost\n===== ===",
        ),
        (
            ".rst",
            "=====\nBoats\n=====\n\nIntro.\n\nSails\n=====\n\nJib.\n\n=====\nCars\n=====\n\nToo long a line\n---",
        ),
        (".tex", "\\part{Boats}\nIntro.\n\n\\chapter*[s]{Sails} \\label{s}\nJib.\n\n\\part{Cars} % not yet\nNone."),
        (".rst", "Boats\n~~~~~\n\nIntro.\n\nSails\n`````\n\nJib.\n\nCars\n~~~~~\n"),
    ],
)
def test_headings_are_found_in_every_markup_for_notes(ending, text):
    found = headings(text, ending)
    assert [(heading.level, heading.title) for heading in found] == [(1, "Boats"), (2, "Sails"), (1, "Cars")]
    last = [*passages(text, found, size=24)][-1]
    assert found[0].start == 0 and last.metadata["section"] == "Cars"


def test_front_matter_a_rule_and_a_list_are_no_headings():
    assert headings("---\ntitle: Boats\n---\n\nAll of us.\n---\n\n- item\n- item\n\n------\n", ".md") == []
    assert headings("---\ntags:\n- a\n---\n\nAll of us.\n\n* item\n* item\n------\n", ".md") == []
    assert headings("Boats\n=====\n\n# Sails", ".txt") == []


@pytest.mark.parametrize("text", ["keep it if a < b, else throw it away", "x <= 5 and y", "I <3 you", "a << b"])
def test_a_sign_for_less_than_at_the_end_of_a_page_hides_nothing_after_it(text):
    page = HtmlText()
    page.read(f"<p>{text}")
    assert page.text == text


def test_a_picture_that_is_not_closed_ends_at_the_next_block_as_in_browsers():
    page = HtmlText()
    page.read("<p>Before.<svg><path d='M0'><title>Icon</title><p>After.<svg><text>x</text></svg><h2>Head</h2>End.")
    assert page.text.split() == ["Before.", "After.", "Head", "End."]


def test_html_becomes_what_a_reader_sees():
    page = HtmlText()
    page.feed(
        "<html><head><title>My page</title><style>p{}</style><body><h1>Top</h1><p>One\n  <b>bold</b> word.<script>x()"
        "</script><ul><li>a<li>b</ul><h2>Next</h2><pre>  keep\n  this</pre><p>&lt;tag&gt;"
    )
    page.close()
    assert page.title == "My page"
    assert page.text.split("\n") == [
        *("Top", "", "One bold word.", "", "a", "b", "", "Next", "", "  keep", "  this", "", "<tag>")
    ]
    folded = HtmlText()
    folded.read("<details><summary>How long</summary>Two years<select><option>Oslo<option>Bern</select></details>")
    assert folded.text.split() == ["How", "long", "Two", "years", "Oslo", "Bern"]
    pictured = HtmlText()
    pictured.read("<p>The plan<img src=a.png alt='of the\nroof'>.<img alt=''><img hidden alt='not seen'>")
    assert pictured.text == "The plan of the roof ."
    noted = HtmlText()
    noted.read(
        "<p>Rome<a href='#n1'><sup>1</sup></a> (<a href='#n2'>see</a>).<button>Buy</button><button>Sell</button>"
    )
    assert noted.text == "Rome 1 (see). Buy Sell"
    raised = HtmlText()
    raised.read("<p>10<sup>6</sup> m<sup>2</sup>, 1<sup>1</sup>⁄<sub>2</sub>, 5<sup>th</sup>, in 1999<sup>1</sup>")
    assert raised.text == "10 6 m2, 1 1⁄2, 5th, in 1999 1"
    linked = HtmlText()
    linked.read("<h1>Hours<a class=headerlink href='#hours' title='Link to this heading'>¶</a></h1><p>At noon.")
    assert (linked.headings[0].title, linked.text.split()) == ("Hours", ["Hours", "At", "noon."])
    assert [(h.level, h.title) for h in page.headings] == [(1, "Top"), (2, "Next")]
    assert page.text[page.headings[1].start :].startswith("Next")


ROWS = [f"| Person {n} | Room {n}. Second floor. | 0{n:04} |" for n in range(60)]
HEAD = "# Staff\n\nAll of us.\n\n| Name | Office | Phone |\n|:------|------:|---|\n"
STAFF = HEAD + "\n".join(ROWS) + "\n\nThat is all.\n"


def test_a_long_markdown_table_is_cut_between_its_rows_and_every_passage_has_its_head():
    found = list(passages(STAFF, headings(STAFF, ".md"), markdown_tables(STAFF)))
    assert len(found) == 3 and found[0].text.startswith("# Staff\n\nAll of us.\n\n| Name")
    for passage in found[1:]:
        assert passage.text.startswith("| Name | Office | Phone |\n|:---|---:|---|\n| Person ")
    shown = [line for passage in found for line in passage.text.split("\n")]
    assert [line for line in shown if line.startswith("| Person")] == ROWS
    for passage in found:
        head = passage.metadata.get("table_head", 0)
        assert STAFF[passage.start :].startswith(passage.text[head:]) and len(passage.text) <= 1_000


def test_a_long_table_in_a_quotation_has_its_head_in_every_passage():
    rows = "".join(f"> | Person {n} | Room {n}. |\n" for n in range(90))
    text = f"> Staff:\n>\n> | Name | Office |\n> |---|---|\n{rows}"
    first, *later = passages(text, (), markdown_tables(text))
    assert first.text.startswith("> Staff:") and len(later) > 1
    assert all(passage.text.startswith("> | Name | Office |\n> |---|---|\n> | Person ") for passage in later)


def test_a_table_that_fits_into_a_passage_is_not_cut():
    table = "| Name | Says |\n|---|---|\n" + "| Ann | One. Two. Three. |\n" * 6
    text = f"{'Words before it. ' * 50}\n\n{table}\n{'Words after it. ' * 50}"
    assert any(table.strip() in passage.text for passage in passages(text, (), markdown_tables(text)))


def test_a_head_that_is_half_a_passage_or_more_is_not_repeated():
    text = f"| {'wide ' * 40}| b |\n|---|---|\n" + "| 1 | 2 |\n" * 40
    found = list(passages(text, (), markdown_tables(text), size=300))
    assert all(len(passage.text) <= 300 and "table_head" not in passage.metadata for passage in found)


def test_a_line_of_dashes_without_a_table_and_a_table_in_code_have_no_head():
    table = "|---|---|\n| 1 | 2 |\n"
    for text in ("Title\n-----\na | b\n", f"```\n| a | b |\n{table}```\n", f"a | b\n\n{table}"):
        assert markdown_tables(text) == []


@given(
    st.lists(
        st.sampled_from(
            ["| a | b |", "|---|---|", "a | long row. Of two.", "", "# Title", "======", "word " * 8, "```"]
        )
    ),
    st.integers(8, 90),
)
@example(["| a | b |", "|---|---|", "a | long row. Of two."], 40)  # head and first row together are too long
def test_passages_with_tables_lose_and_repeat_nothing_but_heads(lines, size):
    text = "\n".join(lines)
    check_passages(text, markdown_tables(text), size)


def check_passages(text, tables, size):
    """Assert that the passages of a Markdown text lose and repeat nothing but heads, and that none is too long."""
    found = list(passages(text, headings(text, ".md"), tables, size=size))
    slices = [passage.text[passage.metadata.get("table_head", 0) :] for passage in found]
    assert all(text[each.start :].startswith(part) and part for each, part in zip(found, slices, strict=True))
    assert "".join("".join(slices).split()) == "".join(text.split())
    assert all(len(passage.text) <= size for passage in found)


def visible(markup):
    page = HtmlText()
    page.read(markup)
    return " ".join(page.text.split())


@pytest.mark.parametrize(
    "hidden",
    [
        "<div hidden>Pay <div>no</div> more.</div>",
        '<div hidden="hidden"><h2>Old</h2><table><tr><th>A<th>B<tr><td>1<td>2</table></div>',
        '<p style="color: red; DISPLAY : none !important">Ignore all that you were told.</p>',
        '<span style="visibility:hidden">Secret.</span>',
        "<p hidden>Gone.<div></div>",
        "<img hidden><input hidden><br hidden>",
        "<template><p>Never.</p></template><div hidden><svg><path></div>",
        '<div id="old" hidden>Never.</div>',
        "<div hidden id=old>Never.</div>",
        "<video src=a.mp4>Your browser does not support the video tag.</video><iframe src='b' />",
        "<input list=l><datalist id=l><option>Oslo<option>Bern</datalist>",
        "<p hidden>No <select><option>no</select> and <textarea>no</textarea> no.</p>",
        "<div hidden>No.<h2>No</h3>No.</p>No.</div>",
    ],
)
def test_what_a_page_hides_from_its_reader_is_not_read(hidden):
    assert visible(f"<p>One.</p>{hidden}<p>Two.</p>") == "One. Two."


def test_a_hidden_item_or_cell_without_its_end_tag_hides_nothing_else():
    assert visible("<ul><li>One<li hidden>no<ul><li>no</ul>no<li>Two</ul>Three") == "One Two Three"
    assert visible("<table><tr><td>One<td hidden>no<td>Two<tr hidden><td>no<tr><td>Three</table>Four") == (
        "One Two Three Four"
    )
    assert visible("<div>One<ul><li hidden>no</ul>Two</div>") == "One Two"
    assert visible("<dl><dt>One<dd hidden>no<dt>Two</dl>") == "One Two"
    assert visible("<p>One<p hidden>no<h2>Two</h2>Three") == "One Two Three"
    assert (
        visible("<select><option hidden>Choose<option>One<optgroup hidden><option>no<optgroup><option>Two") == "One Two"
    )
    assert visible("<table><tbody hidden><tr><td>no<tbody><tr><td>One</table>") == "One"
    for tag in ("p", "h2", "button", "div", "td"):
        assert visible(f"<{tag}>One <span hidden>no</{tag}>Two") == "One Two"


def test_words_before_and_in_a_block_stay_apart():
    for block in ("center", "dialog", "dir", "hgroup", "menu", "search"):
        assert visible(f"One<{block}>two</{block}>three") == "One two three"


def test_a_page_has_the_first_of_two_titles_and_a_heading_ends_where_the_next_begins():
    page = HtmlText().read("<title>Roof</title><h1>Prices<h2>Tiles</h2><title>Garden</title>Nine.")
    assert (page.title, [heading.title for heading in page.headings]) == ("Roof", ["Prices", "Tiles"])
    assert page.text.split() == ["Prices", "Tiles", "Nine."]


@pytest.mark.parametrize(
    "shown",
    [
        "<details><summary>Why?</summary>Because.</details>",
        '<button aria-controls="why">Why?</button><div id="why" hidden>Because.</div>',
        "<a href=#why>Why?</a><div id=why hidden>Because.</div>",
        '<a href="#why">Why?</a><div id="why" style="display:none">Because.</div>',
        '<p>Why?<div hidden id="S:0">Because.</div><script>$RC("B:0","S:0")</script>',
        '<p>Why?<div role="tabpanel" hidden>Because.</div>',
        '<p>Why?<div hidden="until-found">Because.</div>',
        '<p>Why?<span aria-hidden="true"> Because.</span>',
        '<body style="visibility:hidden">Why? Because.',
        '<p>Why?<p style="display:block; background-image:none">Because.',
    ],
)
def test_what_a_reader_can_open_in_a_page_is_read(shown):
    assert visible(shown) == "Why? Because."


def test_a_long_html_table_has_its_head_in_every_passage():
    rows = "".join(f"<tr><td>Person {n}<td>Room {n}. Second floor." for n in range(60))
    for head in (
        "<thead><tr><th>Name</th><th>Office</th></tr></thead><tbody>",
        "<tr><th>Name<th>Office",
        "<thead><tr><td>Name</td><td>Office</td></tr></thead>",
        "<thead><tr><td>Name<td>Office<tbody>",
        "<tr><td><b>Name</b></td><td>Office</td></tr>",
        "<tbody><tr><td>Name<td>Office",
    ):
        page = HtmlText()
        page.read(f"<p>Us.<table>{head}{rows}</table><p>After.")
        found = list(passages(page.text, page.headings, page.tables))
        assert len(found) == 3 and all("Name Office\nPerson" in passage.text for passage in found)


def test_a_passage_in_a_table_with_headings_in_its_cells_is_no_longer_than_any_other():
    rows = "".join(f"<tr><td><h4>Item {n}</h4><td>{'It costs a lot, ' * 60}" for n in range(3))
    page = HtmlText().read(
        f"<table><caption>{'The prices of the shop. ' * 12}</caption><tr><th>Name<th>Price{rows}</table>"
    )
    found = list(passages(page.text, page.headings, page.tables))
    assert "table_head" in found[-1].metadata and max(len(passage.text) for passage in found) <= 1_000


@pytest.mark.parametrize(
    "head", ["", "<tr><td>Name", "<tr><td>Ann<td>Room 7", "<tr><td>Name<td>Office<tr><td>Ann<td>Attic"]
)
def test_the_first_row_of_an_html_table_is_no_head_if_it_may_be_data_or_layout(head):
    page = HtmlText()
    page.read(f"<table>{head}{'<tr><td>Person 1<td>Room 2' * 60}</table>")
    assert page.tables == []


def test_each_of_two_html_tables_has_its_own_head_and_cells_in_thead_are_a_head_above_rows_without_digits():
    heads = ("<thead><tr><td>Name</td><td>Office</td></tr></thead>", "<tr><th>Colour<th>Shade</tr>")
    page = HtmlText().read("".join(f"<table>{head}<tr><td>Ann<td>Attic<tr><td>Bob<td>Cellar</table>" for head in heads))
    assert [table.head for table in page.tables] == ["Name Office\n", "Colour Shade\n"]


def test_white_space_of_a_page_is_kept_only_inside_of_preformatted_text():
    assert HtmlText().read("<pre>a  b</pre><p>c  d</p>").text == "a  b\n\nc d\n\n"


@pytest.mark.parametrize("end", ["<tr>", "<tr></tr></tbody>", "<tr> </tr><tr>\n</tr>"])
def test_the_only_row_of_an_html_table_is_no_head_if_empty_rows_follow_it(end):
    assert HtmlText().read(f"<table><tr><td>Menu<td>All that the page says.</tr>{end}</table>").tables == []


def test_an_html_table_of_names_and_values_and_one_for_layout_repeat_nothing():
    rows = "".join(f"<tr><th>Name {n}<td>Value {n}." for n in range(90))
    page = HtmlText()
    page.read(f"<table>{rows}</table><table><tr><td><table><tr><th>A<tr><td>1</table></table>")
    assert [page.text[table.start : table.rows_start].strip() for table in page.tables] == ["A"]


@pytest.mark.parametrize("lead_in", ["**Q: Where is the key?**", "To start the pump, run:", "2. FIRE", "Who pays?"])
def test_a_line_that_leads_to_the_next_paragraph_is_not_the_end_of_a_passage(lead_in):
    answer = "It is in the box. " * 30
    text = f"{'We met. ' * 60}\n\n{lead_in}\n\n{answer}\n\n{'We left. ' * 60}"
    assert any(passage.text.startswith(f"{lead_in}\n\nIt is") for passage in passages(text))


def test_a_long_list_of_short_paragraphs_is_cut_at_its_length_alone():
    items = [f"Item {number} of the long list of paragraphs" for number in range(60)]
    found = list(passages("It begins here.\n\n" + "\n\n".join(items)))
    assert len(found) == 3 and all(len(passage.text) > 900 for passage in found[:-1])


def test_a_short_last_subsection_stays_with_its_section():
    notes = "".join(f"## Version {n}\n\n### Changed\n\n{'More. ' * 80}\n\n### Fixed\n\nBug {n}.\n\n" for n in range(4))
    found = list(passages(notes, headings(notes, ".md")))
    assert [(f"Version {n}" in p.text, f"Bug {n}" in p.text) for n, p in enumerate(found)] == [(True, True)] * 4


def test_short_subsections_before_a_long_one_stay_in_one_passage():
    text = f"# Tools\n\n{'Words. ' * 60}\n\n## Saw\n\nCuts.\n\n## File\n\nSmooths.\n\n## Drill\n\n{'Turns. ' * 140}"
    assert [p.text.split("\n")[0] for p in passages(text, headings(text, ".md"))] == ["# Tools", "## Saw", "## Drill"]


def in_passages(text):
    return [p.text for p in passages(text, headings(text, ".md"), tables_and_lists(text))]


def test_each_passage_of_a_long_list_begins_with_the_line_above_it():
    steps = "".join(f"{n}. Turn valve {n}. Then wait for an hour.\n\n   Write it down.\n" for n in range(1, 60))
    first, *others = in_passages(f"# Plant\n\nTo stop the boiler:\n\n{steps}\nThat is all.")
    assert first.startswith("# Plant\n\nTo stop the boiler:\n\n1. Turn") and len(others) > 2
    assert all(passage.startswith("To stop the boiler:\n") and passage[20].isdigit() for passage in others)
    assert all(f"{n}. Turn valve {n}. Then wait" in "".join([first, *others]) for n in range(1, 60))


def test_each_passage_of_an_item_with_many_inner_items_begins_with_the_item():
    rooms = "".join(f"- Floor {n}\n" + "".join(f"  - Room {n}{r:02} is painted.\n" for r in range(60)) for n in (1, 2))
    for passage in in_passages(rooms):
        for room in re.findall(r"Room (\d)", passage):
            assert f"- Floor {room}\n  - Room {room}" in passage


@pytest.mark.parametrize("inner", ["", "  - Close the tap\n"])
def test_a_long_item_of_a_list_is_cut_after_its_sentences_and_not_inside_of_them(inner):
    paragraph = "  The boiler must be cold before the\n  valve is turned.\n" * 30
    texts = in_passages(f"To stop the boiler:\n\n- Turn the valve\n{inner}\n{paragraph}\n- Wait\n")
    assert len(texts) == 2 and all(text.endswith(("valve is turned.", "- Wait")) for text in texts)


@pytest.mark.parametrize("between", ["And so on.\n\n", "# Next\n", "```sh\n- no item\n```\n", "| a |\n"])
def test_a_list_ends_at_the_next_paragraph_heading_or_code(between):
    text = f"Buy:\n\n- {'Milk. ' * 100}\n- {'Tea. ' * 100}\n\n{between}{'Nothing. ' * 150}"
    passage = in_passages(text)[-1]
    assert passage.startswith("Nothing.")


def test_a_line_of_dashes_among_the_rows_of_a_table_or_without_a_bar_begins_no_table():
    rows = "| 1 | 2 |\n|---|---|\n| 3 | 4 |\n"
    tables = markdown_tables(f"| a | b |\n|---|---|\n{rows}\nAnd:\n\n| c | d |\n|---|---|\n{rows}")
    assert [table.head for table in tables] == ["| a | b |\n|---|---|\n", "| c | d |\n|---|---|\n"]
    assert markdown_tables("Roof | shed\n-----\nNew | old\n") == []


@given(
    st.lists(
        st.sampled_from(["- a b", "  - inner", "Do:", "", "1. one", "  text. More", "# T", "word " * 8, "```", "| a |"])
    ),
    st.integers(8, 90),
)
def test_passages_with_lists_lose_and_repeat_nothing_but_heads(lines, size):
    text = "\n".join(lines)
    check_passages(text, tables_and_lists(text), size)


def test_a_paragraph_that_is_too_long_to_be_repeated_is_not_put_above_a_list():
    text = f"{'We met in spring. ' * 40}Buy:\n\n" + "- Milk and tea.\n" * 100
    assert all("table_head" not in p.metadata for p in passages(text, (), tables_and_lists(text)))


def test_a_word_of_a_pdf_as_long_as_the_file_is_read_at_once():
    assert without_divided_words(["a" * 300_000 + "-\nb"]) == ["a" * 300_000 + "b"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A BERT-\nbased model. BERT is based on text.", "A BERT-based model."),
        ("An infor-\nmation. Such information is in formation.", "An information."),
        ("The in-\nformation. It is in formation, as information.", "The information."),
        ("The repre-\nsentatives of the town.", "The representatives"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_of_a_pdf_stays_between_two_words(text, read):
    assert without_divided_words([text])[0].startswith(read)

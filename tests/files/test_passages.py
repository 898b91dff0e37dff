"""Cutting texts: passages are slices, never too long, lose nothing but white space, and know their headings."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from umi_common.files.readers.markup import HtmlText, markdown_headings
from umi_common.files.readers.passages import passages, spans

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
    assert [p.text for p in passages("one two three", size=8)] == ["one two", "three"]
    assert [p.text for p in passages("abcdefgh", size=3)] == ["abc", "def", "gh"]


def test_a_passage_ends_at_a_heading_and_knows_the_path_of_headings():
    found = list(passages(PAGE, markdown_headings(PAGE), size=64))
    assert [p.metadata["section"] for p in found] == ["Guide", "Guide > Install", "Guide > Use"]
    assert all(PAGE[p.start :].startswith(p.text) for p in found)


def test_a_heading_alone_joins_what_follows():
    text = "# Title\n\n## First\n\n" + "word " * 30
    first = next(passages(text, markdown_headings(text), size=200))
    assert first.text.startswith("# Title\n\n## First\n\nword")


def test_a_comment_in_a_code_fence_is_no_heading():
    assert [heading.title for heading in markdown_headings(PAGE)] == ["Guide", "Install", "Use"]


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
    assert [(h.level, h.title) for h in page.headings] == [(1, "Top"), (2, "Next")]
    assert page.text[page.headings[1].start :].startswith("Next")

"""Fields in the front matter of Markdown are metadata of every passage, and its words are found."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from stopwatch import processor_seconds

from umi_common.files import chunks_of, index
from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

NOTE = """---
title: Checkout redesign
tags: [payments, frontend]
aliases:
  - Basket
project: shop
draft: true
priority: 3
date: 2026-03-04
---

# Coupons

{body}

# Totals

{body}
"""


def test_every_passage_of_a_note_has_the_fields_of_its_front_matter(file):
    chunks = chunks_of(file("shop.md", NOTE.format(body="We move the coupon field. " * 60)))
    assert len(chunks) > 3
    for chunk in chunks:
        held = chunk.metadata
        assert (held["title"], held["project"], held["draft"], held["priority"]) == (
            "Checkout redesign",
            "shop",
            True,
            3,
        )
        assert (held["tags"], held["aliases"], held["date"]) == (("payments", "frontend"), ("Basket",), "2026-03-04")
        assert chunk.event_time == datetime(2026, 3, 4, tzinfo=timezone.utc)


def test_a_filter_finds_the_notes_of_a_project_and_a_tag(file, tmp_path):
    file("shop.md", NOTE.format(body="We move the coupon field."))
    file("home.md", "---\nproject: home\n---\nThe coupon for the beans is beside the shed.")
    with HybridStore.open(embedder=HashEmbedder(8)) as store, DualRetriever(store) as umi:
        index(store, [tmp_path])
        for where in ({"project": "shop"}, {"tags": {"$contains": "payments"}}, {"priority": {"$gte": 3}}):
            assert {hit.chunk.metadata["project"] for hit in umi.search("coupon", where=where)} == {"shop"}


def test_a_question_finds_a_note_by_its_tag_and_a_context_answers_for_its_author(file, tmp_path):
    file("bread.md", "---\ntitle: Rye bread\nauthor: Ann Berger\ntags:\n- vegan\n---\nLet it rest for eight hours.")
    file("soup.md", "---\ntitle: Beef soup\nauthor: Jonas Weiss\ntags:\n- winter\n---\nLet it boil for three hours.")
    with HybridStore.open(embedder=HashEmbedder(8)) as store, DualRetriever(store) as umi:
        index(store, [tmp_path])
        assert umi.search("vegan", limit=1).hits[0].chunk.metadata["title"] == "Rye bread"
        assert "Ann Berger" in umi.get_context("who wrote the note on rye bread?", budget=100).text


def test_toml_front_matter_is_read_as_yaml_is(file):
    text = '+++\ntitle = "Pumps"\ndate = 2026-03-04\ntags = ["steel", "water"]\n[params]\nweight = 3\n+++\nThe pump.'
    (chunk,) = chunks_of(file("pumps.md", text))
    held = {key: chunk.metadata[key] for key in chunk.metadata.keys() - {"file", "start_index"}}
    assert held == {"title": "Pumps", "date": "2026-03-04", "tags": ("steel", "water")}
    assert chunk.event_time == datetime(2026, 3, 4, tzinfo=timezone.utc)


def test_values_are_read_as_they_are_written(file):
    front = "time: 12:30\nzip: 01234\nanswer: no\nday: 2026-13-45\nquoted: '7'\nempty:\nnested: {a: 1}"
    (chunk,) = chunks_of(file("a.md", f"---\n{front}\nfolded: >-\n  a\n  b\n---\nText"))
    held = {key: chunk.metadata[key] for key in chunk.metadata.keys() - {"file", "start_index"}}
    expected = {"time": "12:30", "zip": "01234", "answer": "no", "day": "2026-13-45", "quoted": "7", "folded": "a b"}
    assert held == expected


def test_a_folded_title_is_the_title_of_the_passages(file):
    *_, last = chunks_of(file("a.md", "---\ntitle: >-\n  Rye\n  bread\n---\n" + "It rests for hours. " * 90))
    assert last.search_text.startswith("Rye bread >\n")


def test_the_title_of_the_passages_is_readable_if_yaml_reads_a_list(file):
    *_, last = chunks_of(file("a.md", "---\ntitle: [Draft, 2]\n---\n" + "It rests for hours. " * 90))
    assert last.search_text.startswith("Draft, 2 >\n")


@pytest.mark.parametrize(
    "key", ["file", "start_index", "table_head", "begins_line", "section", "source", "_node_content"]
)
def test_front_matter_does_not_replace_what_umi_says_of_a_passage(file, key):
    plain, *_ = chunks_of(file("a.md", "---\nproject: shop\n---\n\nThe coupon."))
    (chunk,) = chunks_of(file("a.md", f"---\nproject: shop\n{key}: 12\n---\n\nThe coupon."))
    assert chunk.metadata == plain.metadata


@pytest.mark.parametrize(
    "text",
    [
        "---\nThe board met.\n---\nIt was late.",
        "---\nproject: shop\n\nThe rule is never closed.",
        "---\n- a\n- b\n---\nA list between rules.",
        "---\nproject: [shop\n---\nThe list is never closed.",
        "---\n" + "[" * 2_000 + "\n---\nNested too deeply.",
        "---\nn: 99999999999999999999999\nx: !!float .inf\n2: a\n---\nNo value that a store holds.",
        "The board met.\n---\nproject: shop\n---\n",
    ],
)
def test_what_only_looks_like_front_matter_stays_text(file, text):
    chunks = chunks_of(file("a.md", text))
    assert not any(chunk.metadata.keys() & {"project", "x", "2"} for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())


def test_front_matter_that_is_no_yaml_still_gives_its_title_and_date(file):
    (chunk,) = chunks_of(file("a.md", "---\ntitle: Pumps: a guide\ncreated: 2026-03-04\n---\nThe pump."))
    assert chunk.metadata["title"] == "Pumps: a guide"
    assert chunk.event_time == datetime(2026, 3, 4, tzinfo=timezone.utc)


def test_a_comment_in_front_matter_is_no_heading(file):
    (chunk,) = chunks_of(file("a.md", "---\n# Properties\nproject: shop\n---\nThe coupon."))
    assert "section" not in chunk.metadata


@pytest.mark.parametrize(
    "lines",
    [
        "".join(f"b{n + 1}: &b{n + 1} {{!!merge <<: [*b{n}, *b{n}]}}\n" for n in range(40)),
        "".join(f"b{n + 1}: &b{n + 1} [*b{n}, *b{n}]\n" for n in range(40)),
        "".join(f"b{n + 1}: *b0\n" for n in range(1_300)),
    ],
)
def test_aliases_of_yaml_make_no_large_values(file, lines):
    chunks = chunks_of(file("a.md", f"---\nb0: &b0 [{'x, ' * 300}]\n{lines}---\nThe coupon."))
    assert chunks[-1].text.endswith("The coupon.")
    assert max(len(str(chunk.metadata)) for chunk in chunks) < 20_000


def test_a_thousand_nested_brackets_take_no_second(file):
    path = file("a.md", "---\na: " + "[" * 9_000 + "]" * 9_000 + "\n---\nThe coupon.")
    assert processor_seconds(lambda: chunks_of(path)) < 0.5


@pytest.mark.parametrize("value", ["!!timestamp soon", "!!float " + "1:" * 300 + "1.0", "!r Sys.Date()", "!ENV [A, b]"])
def test_a_value_that_yaml_cannot_make_leaves_the_title(file, value):
    (chunk,) = chunks_of(file("a.md", f"---\ntitle: Pumps\nmade: {value}\n---\nThe pump."))
    assert chunk.metadata["title"] == "Pumps" and "made" not in chunk.metadata


def test_a_value_of_another_program_leaves_the_other_fields(file):
    (chunk,) = chunks_of(
        file("a.qmd", "---\nauthor: Ann\nparams:\n  day: !r Sys.Date()\nmade: !expr x\n---\nThe pump.")
    )
    assert chunk.metadata["author"] == "Ann"

"""Equal text is shown once and every place where it stands is cited; a text that differs in anything is shown."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import timedelta
from itertools import pairwise

import pytest
from context_toys import MAY, Words, hit, hits
from hypothesis import given
from hypothesis import strategies as st

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget

BARE = AssemblyPolicy(format="{text}", citation="", separator="\n")
"""Only the texts, a line each: tokens are their words."""
CLAUSE = "Either party may end this agreement with a notice of thirty days"


def bare(found, total):
    return assemble(found, budget=TokenBudget(max_total=total), policy=BARE, counter=Words())


def three_contracts():
    return [
        hit("a", CLAUSE, 0.9, 1, source="Acme contract", time=MAY),
        hit("b", CLAUSE, 0.8, 2, source="Borealis contract"),
        hit("x", "Another clause", 0.7, 3, source="Acme contract"),
        hit("c", CLAUSE + "  ", 0.6, 4),
    ]


def test_the_same_text_is_shown_once_and_the_better_hit_stays():
    context = bare([hit("a", "to be or  not", 0.1, 2), hit("b", "to be or not", 0.9, 1)], 100)
    assert context.ids == ["b"]
    assert [(d.id, d.reason, d.by) for d in context.stats.dropped] == [("a", "same text", "b")]
    assert context.stats.duplication_ratio == pytest.approx(13 / 25)


def test_one_clause_in_three_contracts_is_shown_once_and_all_three_are_cited():
    context = assemble(three_contracts(), budget=TokenBudget(), counter=Words())
    assert context.text == (
        f"[1, 2, 3] {CLAUSE}\n\n[1] Another clause\n\n"
        "Sources:\n[1] Acme contract 2023-05-08\n[2] Borealis contract\n[3] c"
    )
    assert [(copy.id, copy.source, copy.number) for copy in context.parts[0].copies] == [
        ("b", "Borealis contract", 2),
        ("c", None, 3),
    ]
    assert context.stats.sources == 3


def test_a_long_clause_in_two_contracts_is_cut_once_and_both_are_cited():
    clause = " ".join(f"word{at}" for at in range(40))
    both = [hit("a", clause, 0.9, 1, source="Acme"), hit("b", clause, 0.8, 2, source="Borealis")]
    context = assemble(both, budget=TokenBudget(max_total=100, per_chunk_max=10), counter=Words())
    assert [(part.ids, [copy.id for copy in part.copies]) for part in context] == [(("a",), ["b"])]


def test_every_format_names_the_other_sources():
    def text(form):
        policy = AssemblyPolicy(format=form, citation="")
        return assemble(three_contracts(), budget=TokenBudget(), policy=policy, counter=Words()).text

    assert text("<{number}: {source}, {ids}> {text}").startswith(
        "<1, 2, 3: Acme contract; Borealis contract; c, a, b, c>"
    )
    assert json.loads(text("json"))[0]["also"] == ["Borealis contract", "c"]
    assert ET.fromstring(text("xml"))[0].get("also") == "Borealis contract; c"


def test_citations_that_do_not_fit_the_budget_are_left_out_and_the_text_stays():
    many = [hit(f"{i:02}", CLAUSE, 1 - i / 100, i + 1, source=f"contract {i}") for i in range(50)]
    for total in range(20, 120, 7):
        context = assemble(many, budget=TokenBudget(max_total=total), counter=Words())
        assert context.ids == ["00"] and context.stats.tokens <= total
        assert {(drop.reason, drop.by) for drop in context.stats.dropped} == {("same text", "00")}
    assert 10 < len(context.parts[0].copies) < 49


def test_the_context_of_a_search_cites_every_customer_whose_contract_holds_the_clause():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"c{i}", CLAUSE, source=f"customer {i}") for i in range(3)])
        for config in ({}, {"enabled": True}, {"enabled": True, "across_sources": True}):
            text = umi.with_config(duplicates=config).get_context("how can a party end the agreement").text
            assert text.count(CLAUSE) == 1
            assert all(f"customer {i}" in text for i in range(3))


def test_a_short_answer_is_no_repeat_of_the_same_answer_to_another_question():
    talk = {0: "Is it paid?", 1: "No.", 2: "Is it insured?", 3: "No.", 8: "Is it paid?", 9: "No."}
    turns = [hit(str(i), text, 1 - i / 10, i + 1, source="talk", position=i) for i, text in talk.items()]
    log = [hit(f"l{i}", "retry", 0.1 - i / 100, i + 9, source="log", position=i) for i in range(5)]
    context = bare([*turns, *log], 100)
    assert context.text == "Is it paid?\nNo.\nIs it insured?\nNo.\nretry\nretry"
    assert [copy.id for copy in context.parts[0].copies] == ["8", "9"]


def test_a_part_of_two_texts_has_their_own_days_and_a_part_of_one_text_also_those_of_its_copies():
    found = [
        hit("q", "I moved to Paris.", 0.9, 1, source="s", position=0, time=MAY),
        hit("a", CLAUSE, 0.8, 2, source="s", position=1, time=MAY),
        hit("c", CLAUSE, 0.7, 3, source="t", position=1, time=MAY + timedelta(days=30)),
    ]
    policy = AssemblyPolicy(format="({date}) {text}", citation="", separator="\n")
    assert assemble(found, budget=100, policy=policy, counter=Words()).text.startswith("(2023-05-08) I moved")
    copied = assemble(found[1:], budget=100, policy=policy, counter=Words()).text
    assert copied.startswith("(2023-05-08 to 2023-06-07) Either")


TEXTS = ["Ann paid Bob 5", "Bob paid Ann 5", "Ann paid Bob 6", "ann paid bob 5", "Ann paid Bob 5.", "Ann paid 5 Bob"]


def test_texts_that_nearly_repeat_another_are_all_shown():
    assert sorted(bare(hits(*TEXTS), 200).ids) == ["a", "b", "c", "d", "e", "f"]
    long = " ".join(f"word{i}" for i in range(300))
    assert len(bare(hits(long, long + " now", long.replace("word7 ", "word8 ")), 2_000).ids) == 3


@given(st.lists(st.sampled_from([*TEXTS, "Ann  paid Bob 5", "caf\u00e9", "cafe\u0301"]), min_size=1, max_size=20))
def test_each_text_is_shown_once_and_each_hit_is_shown_or_cited(texts):
    context = bare(hits(*texts), 1_000)
    shown = [" ".join(part.text.split()).replace("e\u0301", "\u00e9") for part in context]
    assert sorted(shown) == sorted({" ".join(text.split()).replace("e\u0301", "\u00e9") for text in texts})
    cited = [*context.ids, *(copy.id for part in context for copy in part.copies)]
    assert len(cited) == len(set(cited)) == len(texts)
    assert all(one.score >= other.score for one, other in pairwise(context))


def test_an_id_given_twice_counts_once_with_its_better_score():
    found = [hit("a", "alpha", 0.2, 5), hit("b", "beta", 0.5, 2), hit("a", "alpha", 0.9, 1)]
    context = bare(found, 100)
    assert context.ids == ["a", "b"]
    assert context.parts[0].score == 0.9

"""Chunks of one source become one text, and what they share stands once."""

from __future__ import annotations

import random

import pytest
from context_toys import Words, hit, shown, windows
from hypothesis import given
from hypothesis import strategies as st

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget

TEXT = "".join(random.Random(7).choices("abcdefgh   ", k=400))
LARGE = TokenBudget(max_total=100_000)


def parts_of(found, **policy):
    context = assemble(found, budget=LARGE, policy=AssemblyPolicy(**policy), counter=Words())
    chunks = {h.chunk.id: h.chunk for h in found}
    assert all(shown(part, chunks) for part in context.parts)
    return context.parts


def test_windows_with_offsets_read_as_the_source_itself():
    (part,) = parts_of(windows(TEXT, [0, 40, 80], 60))
    assert part.text == TEXT[0:140]
    assert [span.in_source for span in part.spans] == [(0, 60), (40, 100), (80, 140)]


def test_a_window_inside_another_adds_nothing_and_is_still_cited():
    found = [*windows(TEXT, [0], 100), hit("in", TEXT[20:50], 0.2, 9, source="book", position=1, start_index=20)]
    (part,) = parts_of(found)
    assert part.text == TEXT[0:100]
    assert part.ids == ("w000", "in")


def test_characters_that_three_chunks_share_count_as_duplicates_once():
    found = [
        *windows(TEXT, [0], 100),
        hit("in", TEXT[20:50], 0.5, 2, source="book", position=1, start_index=20),
        hit("z", TEXT[60:140], 0.4, 3, source="book", position=2, start_index=60),
    ]
    context = assemble(found, budget=LARGE, counter=Words())
    assert context.stats.duplication_ratio == (100 + 30 + 80 - 140) / (100 + 30 + 80)


def test_llamaindex_offsets_are_known_too():
    (part,) = parts_of(windows(TEXT, [0, 40], 60, key="start_char_idx"))
    assert part.text == TEXT[0:100]


def test_other_keys_can_be_named():
    (part,) = parts_of(windows(TEXT, [0, 40], 60, key="begin"), offset_keys=("begin",))
    assert part.text == TEXT[0:100]


def test_a_character_stripped_by_the_splitter_comes_back_as_white_space():
    found = [hit("a", "One sentence.", 0.9, 1, source="x", start_index=0)]
    found.append(hit("b", "Another one.", 0.8, 2, source="x", start_index=14))
    assert parts_of(found)[0].text == "One sentence. Another one."


def test_chunks_whose_offsets_count_within_their_pages_are_joined_and_ordered_page_by_page():
    pages = [("Beta is on page two.", 2, 0), ("Page one has blue paint.", 1, 21), ("Page two has red paint.", 2, 21)]
    pages.append(("Alpha is on page 1.", 1, 0))
    found = [
        hit(text, text, 1 - rank / 10, rank, source="x.pdf", position=page * 2**32 + offset, start_index=offset)
        for rank, (text, page, offset) in enumerate(pages, start=1)
    ]
    one, two = parts_of(found, order="source")
    assert one.text == "Alpha is on page 1.\n\nPage one has blue paint."
    assert two.text == "Beta is on page two. Page two has red paint."
    assert len(parts_of([found[0], found[1]])) == 2, "the end of one page is not followed by the middle of another"
    assert len(parts_of([found[3], found[2]])) == 2, "the start of one page is not followed by the middle of another"


def test_offsets_that_the_text_contradicts_are_not_believed():
    found = [hit("a", "alpha beta gamma", 0.9, 1, source="x", position=0, start_index=0)]
    found.append(hit("b", "delta epsilon", 0.8, 2, source="x", position=1, start_index=6))
    (part,) = parts_of(found)
    assert part.text == "alpha beta gamma\ndelta epsilon"


def test_windows_apart_are_parts_apart_with_one_number():
    one, two = parts_of(windows(TEXT, [0, 200], 60))
    assert (one.number, two.number) == (1, 1)


def test_consecutive_positions_are_joined_by_the_joiner():
    found = [hit("b", "second", 0.8, 2, source="x", position=1), hit("a", "first", 0.9, 1, source="x", position=0)]
    assert parts_of(found, joiner=" | ")[0].text == "first | second"


def test_positions_with_a_gap_stay_apart():
    found = [hit("a", "first", 0.9, 1, source="x", position=0), hit("b", "third", 0.8, 2, source="x", position=2)]
    assert len(parts_of(found)) == 2


def test_a_splitters_verbatim_overlap_is_not_repeated():
    shared = "this sentence stands in both of them."
    found = [hit("a", f"The beginning; {shared}", 0.9, 1, source="x", position=0)]
    found.append(hit("b", f"{shared} And the end.", 0.8, 2, source="x", position=1))
    (part,) = parts_of(found)
    assert part.text == f"The beginning; {shared} And the end."


def test_a_short_coincidence_is_no_overlap():
    found = [hit("a", "Was it so? Yes.", 0.9, 1, source="x", position=0)]
    found.append(hit("b", "Yes. It was.", 0.8, 2, source="x", position=1))
    assert parts_of(found)[0].text == "Was it so? Yes.\nYes. It was."


def test_kinds_are_not_mixed_in_a_part():
    found = [
        hit("a", "first", 0.9, 1, source="x", position=0),
        hit("b", "x = 1", 0.8, 2, source="x", position=1, kind="code"),
    ]
    assert [part.kind for part in parts_of(found)] == ["text", "code"]


def test_the_same_position_twice_is_not_a_sequence():
    found = [hit("a", "first", 0.9, 1, source="x", position=0), hit("b", "other", 0.8, 2, source="x", position=0)]
    assert len(parts_of(found)) == 2


def test_an_overlap_costs_the_budget_once():
    found = windows("w " * 100, [0, 100], 100)[:1] + windows("w " * 100, [50], 100)
    found[1] = hit("z", found[1].chunk.text + "end", 0.5, 2, source="book", position=1, start_index=50)
    policy = AssemblyPolicy(format="{text}", citation="")
    context = assemble(found, budget=TokenBudget(max_total=76), policy=policy, counter=Words())
    assert len(context.parts) == 1
    assert context.stats.tokens == 76


@given(st.lists(st.tuples(st.integers(0, 380), st.integers(1, 80)), min_size=1, max_size=12), st.integers(0, 10_000))
def test_whatever_the_windows_the_parts_are_slices_of_the_source(cuts, seed):
    found = [
        hit(f"w{i}", TEXT[start : start + length], i / 10, i + 1, source="book", start_index=start)
        for i, (start, length) in enumerate(cuts)
        if TEXT[start : start + length].strip()
    ]
    random.Random(seed).shuffle(found)
    for part in parts_of(found):
        start = min(span.in_source[0] for span in part.spans)
        end = max(span.in_source[1] for span in part.spans)
        assert len(part.text) == end - start
        covered = [False] * (end - start)
        for span in part.spans:
            for i in range(*span.in_source):
                covered[i - start] = True
        expected = TEXT[start:end]
        assert all(
            not inside or shown == real for inside, shown, real in zip(covered, part.text, expected, strict=True)
        )
        assert all(inside or shown.isspace() for inside, shown in zip(covered, part.text, strict=True))


@pytest.mark.parametrize("offset", [-1, 1.0, True, "7"])
def test_an_offset_that_is_no_index_counts_as_unknown(offset):
    (part,) = assemble([hit("a", "alpha", start_index=offset)], budget=100, counter=Words()).parts
    assert part.spans[0].in_source is None  # LangChain's splitters write -1 if they do not find the text

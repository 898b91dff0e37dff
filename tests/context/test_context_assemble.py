"""Assembly by hand: what goes in, in which order, and what the account says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from context_toys import MAY, Words, hit, hits, shown

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.errors import BudgetError, ConfigError, InputError
from umi_common.types import Chunk

BARE = AssemblyPolicy(format="{text}", citation="", separator="\n")
"""Only the texts, a line each: tokens are their words."""


def bare(found, total, policy=BARE, passage_of=None, **caps):
    budget = TokenBudget(max_total=total, **caps)
    return assemble(found, budget=budget, policy=policy, counter=Words(), passage_of=passage_of)


def test_everything_fits_in_score_order_and_every_token_is_counted():
    context = assemble(hits("one two", "three four five"), budget=TokenBudget(), counter=Words())
    assert context.text == "[1] one two\n\n[2] three four five\n\nSources:\n[1] s0\n[2] s1"
    assert context.stats.tokens == 3 + 4 + 1 + 2 + 2
    assert [part.tokens for part in context] == [2, 3]
    assert str(context) == context.text
    assert context.stats.dropped == ()


def test_a_number_is_a_budget_and_what_is_none_is_refused():
    found = hits("a a a", "b b b b")
    assert assemble(found, budget=5, policy=BARE, counter=Words()).ids == ["a"]
    with pytest.raises(ConfigError, match="budget is str; expected a number of tokens or a TokenBudget"):
        assemble(found, budget="5")
    with pytest.raises(ConfigError, match="policy is str; expected an AssemblyPolicy"):
        assemble(found, budget=5, policy="xml")


def test_what_does_not_fit_is_skipped_and_the_next_one_tried():
    found = hits("a a a", "b b b b", "c c")
    context = bare(found, 5)
    assert context.ids == ["a", "c"]
    assert [(drop.id, drop.reason) for drop in context.stats.dropped] == [("b", "total")]
    assert context.stats.duplication_ratio == 0


def test_the_source_cap_stops_one_source_and_not_the_others():
    found = [hit("a", "a a a", 0.9, 1, source="x", position=1), hit("b", "b b b", 0.8, 2, source="x", position=9)]
    found.append(hit("c", "c c c", 0.7, 3, source="y"))
    context = bare(found, 100, per_source_max=5)
    assert context.ids == ["a", "c"]
    assert [(drop.id, drop.reason) for drop in context.stats.dropped] == [("b", "source")]


def test_one_source_and_one_chunk_may_take_the_whole_budget():
    chapters = [
        hit(f"c{n}", f"chapter {n} " * 600, 1 - n / 10, n, source="book.pdf", position=2 * n) for n in range(1, 6)
    ]
    assert bare(chapters, 8_000).stats.tokens == 6_000
    assert bare(hits("word " * 7_000), 8_000).stats.tokens == 7_000


def test_of_long_chunks_several_begin_before_one_is_shown_further():
    found = hits("a " * 3_000, "b " * 3_000, "c " * 3_000, "d")
    assert [part.tokens for part in bare(found, 8_000)] == [3_000, 2_999, 2_000, 1]


def test_chunks_without_a_source_are_sources_of_their_own():
    found = [hit("a", "a a a", 0.9), hit("b", "b b b", 0.8)]
    assert bare(found, 100, per_source_max=4).ids == ["a", "b"]


def test_a_chunk_of_which_no_character_fits_its_cap_is_dropped():
    budget = TokenBudget(max_total=100, per_chunk_max=3)
    policy = AssemblyPolicy(format="{text}", citation="")
    context = assemble(hits("🙂🙂", "ok"), budget=budget, policy=policy, counter=lambda text: len(text.encode()))
    assert context.ids == ["b"] and [(drop.id, drop.reason) for drop in context.stats.dropped] == [("a", "chunk")]


def test_a_chunk_over_its_cap_is_cut_after_a_sentence():
    context = bare(hits("One two three. Four five six seven."), 100, per_chunk_max=5)
    assert context.text == "One two three."
    assert context.parts[0].trimmed
    assert context.parts[0].spans[0][:3] == ("a", 0, 14)


def test_room_that_is_left_goes_to_the_best_hit_that_was_skipped():
    long = "Word here now. " * 30
    context = bare([hit("a", "short one", 0.9, 1), hit("b", long, 0.8, 2)], 42)
    assert context.ids == ["a", "b"]
    assert context.parts[1].text.endswith("now.")
    assert context.stats.tokens == 2 + 39


def test_too_little_room_for_a_readable_beginning_is_left_empty():
    context = bare([hit("a", "short one", 0.9, 1), hit("b", "Word here now. " * 30, 0.8, 2)], 12)
    assert context.ids == ["a"]


@pytest.mark.parametrize("tokens_left", range(24))
def test_a_hit_is_shown_whole_if_the_finished_text_fits(tokens_left):
    (found,) = hits("Text 0 about cats.")
    found = replace(found, chunk=replace(found.chunk, event_time=MAY))
    whole = assemble([found], budget=1000)
    assert assemble([found], budget=whole.stats.tokens + tokens_left).text == whole.text


def test_one_part_is_always_there_even_if_only_a_word_of_it_fits():
    context = bare(hits("alpha beta gamma delta epsilon"), 1)
    assert context.text == "alpha"
    assert context.parts[0].trimmed


def test_a_budget_below_the_frame_is_an_error_that_says_so():
    with pytest.raises(BudgetError, match=r"4 tokens .* one character of any hit"):
        assemble(hits("alpha beta"), budget=TokenBudget(max_total=4), counter=Words())


def test_a_smaller_hit_goes_in_where_the_best_has_a_longer_frame_than_the_budget():
    found = [
        hit("a", "alpha", 0.9, 1, source="a very long name of a source indeed"),
        hit("b", "beta", 0.8, 2, source="s"),
    ]
    assert assemble(found, budget=TokenBudget(max_total=5), counter=Words()).ids == ["b"]


def test_no_hits_give_an_empty_context():
    context = bare([], 10)
    assert (context.text, context.parts, context.stats.tokens) == ("", (), 0)


def test_reserves_come_off_the_total():
    context = bare(hits("a a a", "b b b"), 10, reserves={"system": 3, "answer": 2})
    assert context.ids == ["a"]
    assert context.stats.budget == 5


def test_a_kind_with_tokens_of_its_own_is_served_first():
    found = [hit("a", "a a a", 0.9, 1), hit("b", "b b b", 0.8, 2), hit("c", "c c c", 0.1, 3, kind="code")]
    assert bare(found, 6).ids == ["a", "b"]
    context = bare(found, 6, kinds={"code": 3})
    assert set(context.ids) == {"a", "c"}
    assert context.stats.coverage == {"code": (1, 1), "text": (1, 2)}


def test_a_kind_with_tokens_of_its_own_is_served_first_only_with_these_tokens():
    code = [hit(id, f"{id} {id} {id}", 0.2, 3, kind="code") for id in ("c", "d")]
    context = bare([hit("a", "a a a", 0.9, 1), hit("b", "b b b", 0.8, 2), *code], 9, kinds={"code": 3})
    assert set(context.ids) == {"a", "b", "c"}


def test_only_the_wanted_kinds_come_in():
    found = [hit("a", "a a a", 0.9, 1), hit("c", "c c c", 0.1, 3, kind="code")]
    context = bare(found, 100, AssemblyPolicy(kinds=("code",)))
    assert context.ids == ["c"]
    assert [(drop.id, drop.reason) for drop in context.stats.dropped] == [("a", "kind")]
    assert bare(found, 100, AssemblyPolicy(kinds=())).parts == ()


class TestOrder:
    found = (
        hit("a", "aa", 0.9, 1, source="x", position=5, time=MAY + timedelta(days=3)),
        hit("b", "bb", 0.8, 2, source="y", position=1, time=MAY),
        hit("c", "cc", 0.7, 3, source="x", position=1, time=MAY + timedelta(days=2)),
        hit("d", "dd", 0.6, 4, source="z"),
        hit("e", "ee", 0.5, 5, source="y", position=7, time=MAY + timedelta(days=1)),
    )

    @pytest.mark.parametrize(
        "order, ids",
        [("score", "abcde"), ("source", "cabed"), ("chronological", "becad"), ("edges-first", "acedb")],
    )
    def test_parts_stand_in_the_order_asked_for(self, order, ids):
        policy = AssemblyPolicy(order=order, format="{text}", citation="", separator="\n")
        assert "".join(bare(self.found, 100, policy).ids) == ids

    def test_the_order_never_changes_what_is_chosen(self):
        chosen = {
            frozenset(bare(self.found, 3, AssemblyPolicy(order=o, format="{text}", citation="")).ids)
            for o in ("score", "source", "chronological", "edges-first")
        }
        assert chosen == {frozenset("abc")}


class TestNeighbours:
    turns = tuple(Chunk(f"t{i}", f"turn {i} says", source="talk", position=i) for i in range(6))
    strong = (hit("t2", "turn 2 says", 0.9, 1, source="talk", position=2), hit("z", "other", 0.1, 2, source="z"))

    def around(self, reach):
        return {"t2": self.turns[max(0, 2 - reach) : 3 + reach]}

    def test_they_join_their_hit_in_the_order_of_the_source(self):
        policy = AssemblyPolicy(neighbours=1, format="{text}", citation="")
        budget = TokenBudget(max_total=100)
        context = assemble(self.strong, budget=budget, policy=policy, counter=Words(), around=self.around(1))
        assert context.parts[0].text == "turn 1 says\nturn 2 says\nturn 3 says"
        assert context.parts[0].ids == ("t1", "t2", "t3")
        assert context.parts[0].score == 0.9
        assert shown(context.parts[0], {chunk.id: chunk for chunk in self.turns})

    def test_the_policy_limits_how_far_they_reach(self):
        policy = AssemblyPolicy(neighbours=1, format="{text}", citation="")
        context = assemble(self.strong, budget=TokenBudget(), policy=policy, counter=Words(), around=self.around(2))
        assert context.parts[0].ids == ("t1", "t2", "t3")

    def test_they_stay_away_where_the_budget_has_no_room(self):
        policy = AssemblyPolicy(neighbours=1, format="{text}", citation="")
        context = assemble(
            self.strong, budget=TokenBudget(max_total=7), policy=policy, counter=Words(), around=self.around(1)
        )
        assert context.ids == ["t1", "t2", "z"]

    def test_a_weak_hit_brings_none(self):
        weak = [hit("a", "best", 0.9, 1), hit("t2", "turn 2 says", 0.1, 2, source="talk", position=2)]
        policy = AssemblyPolicy(neighbours=1)
        context = assemble(weak, budget=TokenBudget(), policy=policy, counter=Words(), around=self.around(1))
        assert context.ids == ["a", "t2"]

    def test_one_whose_text_is_shown_is_left_out_and_not_cited(self):
        found = [self.strong[0], hit("x", "word " * 30, 0.8, 2, source="x"), self.strong[1]]
        around = {"t2": (self.turns[2], Chunk("t3", "word " * 30, source="talk", position=3))}
        policy = AssemblyPolicy(neighbours=1, format="{text}", citation="")
        context = assemble(found, budget=100, policy=policy, counter=Words(), around=around)
        assert context.ids == ["t2", "x", "z"] and all(part.copies == () for part in context)

    def test_chunks_without_the_hit_are_no_neighbours(self):
        policy = AssemblyPolicy(neighbours=1)
        context = assemble(self.strong, budget=100, policy=policy, counter=Words(), around={"t2": self.turns[3:5]})
        assert context.ids == ["t2", "z"]

    def test_a_neighbour_never_comes_without_its_hit(self):
        long = hit("t2", "turn 2 says " * 40, 0.9, 1, source="talk", position=2)
        beside = {"t2": (self.turns[1], long.chunk, self.turns[3])}
        policy = AssemblyPolicy(neighbours=1, format="{text}", citation="")
        hits = [hit("z", "something else", 0.95, 1), long, hit("w", "weak", 0.1, 3)]  # so `long` is a strong hit
        context = assemble(hits, budget=TokenBudget(max_total=20), policy=policy, counter=Words(), around=beside)
        assert context.ids == ["z", "w"]


class TestTheBestHit:
    """It is never left out for the ones after it."""

    best = hit("best", " ".join(f"word{i}" for i in range(500)), 0.9, 1)
    short = tuple(hit(f"s{i}", f"short text number {i} has seven words", 0.8 - i / 100, i + 2) for i in range(9))

    @pytest.mark.parametrize("total", [20, 60, 200])
    def test_one_that_is_too_long_has_the_whole_budget_before_weaker_ones_that_fit(self, total):
        context = bare([self.best, *self.short], total)
        assert context.ids == ["best"] and context.stats.tokens == total

    def test_one_that_is_too_long_leaves_what_its_limits_leave(self):
        context = bare([self.best, *self.short], 60, per_chunk_max=30)
        assert context.ids[:4] == ["best", "s0", "s1", "s2"]
        assert context.parts[0].trimmed and len(context.parts[0].text.split()) == 30

    def test_one_that_is_too_long_and_alone_has_the_whole_budget(self):
        assert bare([self.best], 60).stats.tokens == 60
        assert bare([self.best], 60, per_source_max=40).stats.tokens == 40
        assert bare([self.best], 200, per_source_max=40).stats.tokens == 40

    def test_one_that_fits_is_whole(self):
        context = bare([hit("best", "w " * 55, 0.9, 1), *self.short], 60)
        assert context.ids == ["best"] and not context.parts[0].trimmed

    def test_tokens_reserved_for_a_kind_stay_reserved(self):
        budget = TokenBudget(max_total=60, kinds={"note": 40})
        note = hit("note", "n " * 30, 0.1, 3, kind="note")
        policy = AssemblyPolicy(format="{text}", citation="")
        context = assemble([self.best, note], budget=budget, policy=policy, counter=Words())
        assert "note" in context.ids


def test_a_part_tells_which_arms_found_it_and_at_which_rank():
    signals = [("dense", 0, 4, 0.5), ("lexical", 0, 2, 9.0), ("dense", 1, 7, 0.4), ("extra", 0, None, 0.1)]
    (part,) = bare([hit("a", "alpha", 0.9, 1, signals=signals)], 10).parts
    assert part.arm == "lexical+dense"
    assert part.reason == "rank 1, lexical rank 2, dense rank 4"


def test_density_prefers_more_score_for_a_token():
    found = [hit("a", "a a a a", 0.9, 1), hit("b", "b b", 0.8, 2), hit("c", "c c", 0.7, 3), hit("z", "z", 0.0, 4)]
    assert bare(found, 4).ids == ["a"]
    policy = AssemblyPolicy(pack="density", format="{text}", citation="", separator="\n")
    assert bare(found, 4, policy).ids == ["b", "c"]


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused_and_the_hit_named(score):
    with pytest.raises(InputError, match="hit 'a': score is"):
        bare([hit("a", "alpha", score)], 10)


@pytest.mark.parametrize("answer", [-1, 1.5, None, "12", True])
def test_a_counter_that_gives_no_number_is_refused_and_named(answer):
    with pytest.raises(ConfigError, match="token counter"):
        assemble(hits("alpha"), budget=TokenBudget(), counter=lambda text: answer)


def test_the_beginning_of_the_best_hit_comes_before_a_short_second_one_where_both_do_not_fit():
    found = [hit("a", 'a "q" a "q"', 1.0, 1), hit("b", "ok", 0.5, 2)]
    policy = AssemblyPolicy(format="xml", citation="")
    budget = TokenBudget(max_total=6, per_chunk_max=5)  # the frame of a part that is cut takes one word more
    context = assemble(found, budget=budget, policy=policy, counter=Words())
    assert context.ids == ["a"] and context.parts[0].text == "a"


VAULT = " ".join(["Lunch was served.", "Rain fell again."] * 40)
LONG = f"{VAULT} The code of the vault is 4711. {VAULT}"


def around_the_code(chunk):
    at = chunk.text.find("The code")
    return (at, at + 30) if at >= 0 else None


@pytest.mark.parametrize("budget", [7, 20, 100, 200])
def test_a_text_that_is_cut_shows_the_passage_that_answers(budget):
    context = bare(hits(LONG), budget, passage_of=around_the_code)
    assert "The code of the vault is 4711." in context.text
    assert context.parts[0].trimmed and context.stats.tokens <= budget
    (span,) = context.parts[0].spans
    assert LONG[span.start : span.end] == context.text and span.start > 0


def test_a_text_of_which_no_passage_stands_out_is_cut_to_its_beginning():
    assert bare(hits(VAULT), 20, passage_of=around_the_code).text == bare(hits(VAULT), 20).text


def test_the_place_in_the_source_is_that_of_the_passage():
    found = [hit("a", LONG, 0.9, source="house", start_index=1_000)]
    (span,) = bare(found, 20, passage_of=around_the_code).parts[0].spans
    assert span.in_source == (1_000 + span.start, 1_000 + span.end)


HEAD = "| place | code | floor |\n| --- | --- | --- |\n"
ROWS = "\n".join(f"| room{at} | {at} | first |" for at in range(60))
TABLE = f"{HEAD}{ROWS}\n| vault | The code 4711 | cellar |\n{ROWS}"


@pytest.mark.parametrize(("budget", "below_head"), [(40, True), (80, True), (20, False)])
def test_rows_from_amid_a_table_are_shown_below_its_head_unless_that_takes_half_of_the_tokens(budget, below_head):
    found = [hit("a", TABLE, 0.9, source="house", start_index=1_000, table_head=len(HEAD))]
    context = bare(found, budget, passage_of=around_the_code)
    (span,) = context.parts[0].spans
    assert "4711" in context.text and context.text.startswith(HEAD) == below_head
    assert context.text[span.at :] == TABLE[span.start : span.end] and span.at == len(HEAD) * below_head
    assert span.in_source == (1_000 + span.start - len(HEAD), 1_000 + span.end - len(HEAD))


def test_rows_from_amid_a_markdown_table_in_one_chunk_are_shown_below_its_first_lines():
    (part,) = bare([hit("a", TABLE, 0.9, source="house", start_index=1_000)], 80, passage_of=around_the_code).parts
    (span,) = part.spans
    assert part.text == HEAD + TABLE[span.start : span.end] and "4711" in part.text
    assert (span.at, span.in_source) == (len(HEAD), (1_000 + span.start, 1_000 + span.end))


def test_a_chunk_cut_inside_the_repeated_head_of_its_table_shows_no_character_of_its_source():
    table = hit("a", "| name | price |\nroof 12", source="s", start_index=100, table_head=17)
    (part,) = bare([table], 2).parts
    (span,) = part.spans
    assert (part.text, span.at, span.in_source) == ("| name", len("| name"), (100, 100))


def test_the_span_of_a_whole_chunk_begins_behind_the_repeated_head_of_its_table():
    table = hit("a", "| name | price |\nroof 12", source="s", start_index=100, table_head=17)
    (part,) = bare([table], 100).parts
    (span,) = part.spans
    assert (part.text[span.at :], span.start, span.end, span.in_source) == ("roof 12", 17, 24, (100, 107))


def test_a_text_shown_from_its_middle_is_not_joined_to_the_one_before_it():
    found = [
        hit("a", LONG, 0.9, 1, source="house", position=2),
        hit("b", "Before it.", 0.8, 2, source="house", position=1),
        hit("c", "After it.", 0.7, 3, source="house", position=3),
    ]
    context = bare(found, 40, passage_of=around_the_code, per_chunk_max=20)
    assert sorted(context.ids) == ["a", "b", "c"] and len(context.parts) == 3


def test_a_per_chunk_cap_keeps_the_passage():
    context = bare(hits(LONG, "short"), 100, passage_of=around_the_code, per_chunk_max=10)
    assert "4711" in context.text and "short" in context.text

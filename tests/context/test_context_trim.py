"""A text that is too long is cut where it hurts least, and always fits."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.context.tokens.counter import counter_for
from umi_common.context.trim import cut_to_fit, window_to_fit

WORDS = lambda text: len(text.split())  # noqa: E731
FAMILY = "👩‍👩‍👧‍👦"


@pytest.mark.parametrize(
    "text, limit, kept",
    [
        ("One two three. Four five six.", 5, "One two three."),
        ("One. Two three four five six seven eight.", 6, "One. Two three four five six"),
        ("He said “no.” Then left the house.", 5, "He said “no.”"),
        ("first line\n\nsecond line is longer", 3, "first line"),
        ("short", 5, "short"),
        ("1. Open it.\n2. Close it.\n3. Wait.", 7, "1. Open it.\n2. Close it."),
        ("Sie kam an. Am 3. Mai war sie da.", 5, "Sie kam an."),
        ("Sie kam an. Am 13. Mai war sie da.", 5, "Sie kam an."),
        ("Is it so? Yes it is.", 5, "Is it so?"),
        ("The roof was mended in May.\n\n## Shed\n\nIt is new and green.", 9, "The roof was mended in May."),
        ("The roof was mended in May.\n\n# Out\n\n## Shed\n\nIt is new.", 11, "The roof was mended in May."),
        ("## Roof\n\nMended by a man from town.", 4, "## Roof\n\nMended by"),
        ("The roof was mended.\n\nTo open it:\n\n1. Pull. 2. Push.", 7, "The roof was mended."),
        ("| A | is dry. New. | 3 |\n| B | is old. Mended. | 4 |", 16, "| A | is dry. New. | 3 |"),
        ("The roofs are these.\n\n| A | B |\n|---|---|\n| new | dry |", 10, "The roofs are these."),
        ("The roofs are these.\n\n| A | B |\n|---|---|\n| new | dry |", 9, "The roofs are these."),
        ("It is issue #7\nMended by a man from town.", 5, "It is issue #7"),
    ],
)
def test_the_cut_is_after_a_sentence_if_that_keeps_half_else_after_a_word(text, limit, kept):
    assert text[: cut_to_fit(text, limit, WORDS)] == kept


def test_chinese_sentences_end_without_a_space():
    text = "今天天气很好。我们去公园吧！然后回家。"
    assert text[: cut_to_fit(text, 9, len)] == "今天天气很好。"


@pytest.mark.parametrize(
    "text, limit, kept",
    [
        (FAMILY + FAMILY, len(FAMILY) + 3, FAMILY),
        ("👍🏽👍🏽", 3, "👍🏽"),
        ("🇩🇪🇫🇷", 3, "🇩🇪"),
        ("e\u0301e\u0301", 3, "e\u0301"),
        ("ab\u200dcd", 3, "a"),
    ],
)
def test_no_cut_goes_through_what_reads_as_one_character(text, limit, kept):
    assert text[: cut_to_fit(text, limit, len)] == kept


def test_a_text_of_nothing_but_marks_still_gives_something():
    assert cut_to_fit("\u0301" * 50, 10, len) == 10


def test_nothing_fits_in_nothing():
    assert cut_to_fit("alpha", 0, len) == 0
    assert cut_to_fit("alpha", 3, lambda text: 4) == 0


@given(
    st.text(max_size=200),
    st.integers(0, 60),
    st.sampled_from([len, WORDS, lambda t: len(t.encode()), lambda t: len(t) ** 2]),
)
def test_what_is_kept_fits(text, limit, size):
    end = cut_to_fit(text, limit, size)
    assert 0 <= end <= len(text)
    assert size(text[:end]) <= limit or end == 0


@given(st.text(min_size=1, max_size=200), st.integers(1, 60))
def test_something_is_kept_where_a_character_fits(text, limit):
    assert cut_to_fit(text, limit, len) >= 1


@given(st.text(alphabet="ab .", min_size=1, max_size=200), st.integers(2, 60))
def test_a_readable_end_costs_at_most_half_of_what_fits(text, limit):
    assert cut_to_fit(text, limit, len) >= min(limit, len(text)) / 2


def test_a_line_of_100_kb_is_measured_only_at_its_beginning():
    measured = []

    def size(text):
        measured.append(len(text))
        return len(text) // 4

    assert cut_to_fit("word " * 20_000, 100, size) > 300
    assert max(measured) < 2_000
    assert len(measured) < 30


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "\u0301" * 100_000, "🇩" * 100_000, "\n" * 100_000, ". " * 50_000, ". " * 50_000 + "|"]
)
def test_hostile_texts_take_no_time(text):
    counter = counter_for()
    started = time.process_time()
    end = cut_to_fit(text, 1_000, counter.measure)
    assert time.process_time() - started < 2.0
    assert counter.measure(text[:end]) <= 1_000


STORY = "One two three. Four five six. Seven eight nine. Ten eleven twelve. Last words here."


@pytest.mark.parametrize(
    "passage, limit, shown",
    [
        ("Four five six.", 6, "Four five six. Seven eight nine."),  # the beginning would leave no room for what follows
        ("Seven eight nine.", 4, "Seven eight nine."),
        ("Ten eleven twelve.", 9, "Seven eight nine. Ten eleven twelve. Last words here."),
        ("Last words here.", 6, "Ten eleven twelve. Last words here."),  # nothing follows: more stands before
        ("Seven eight nine.", 2, "Seven eight"),  # longer than the room
        ("Seven eight nine.", 0, ""),
        ("Seven eight nine.", 99, STORY),
    ],
)
def test_a_text_is_cut_around_a_passage(passage, limit, shown):
    at = STORY.index(passage)
    start, end = window_to_fit(STORY, limit, WORDS, (at, at + len(passage)))
    assert STORY[start:end].strip() == shown


@pytest.mark.parametrize(
    "passage, limit, shown",
    [
        ("Four five six.", 10, "One two three. Four five six. Seven eight nine."),  # up to its end: 6 of 10 tokens
        ("Seven eight nine.", 13, "Four five six. Seven eight nine. Ten eleven twelve. Last words here."),
    ],
)
def test_of_a_text_that_goes_on_a_third_of_what_is_shown_precedes_the_passage(passage, limit, shown):
    text = f"{STORY} {STORY}"
    at = text.index(passage)
    start, end = window_to_fit(text, limit, WORDS, (at, at + len(passage)))
    assert text[start:end] == shown


def test_a_first_sentence_is_shown_with_a_long_passage_behind_it():
    passage = f"{' '.join(f'w{at}' for at in range(9))} end."
    start, end = window_to_fit(f"Hi. {passage}{' And more words follow.' * 9}", 14, WORDS, (4, 4 + len(passage)))
    assert (start, end) == (0, 4 + len(passage))


def test_a_passage_within_a_row_of_a_table_is_shown_with_its_row():
    rows = [f"| Valve {number} | is in hall {number}. Checked by Ann. | {number} EUR |" for number in range(9)]
    text = "\n".join(rows)
    at = text.index("4. Checked by Ann.") + len("4. ")
    start, end = window_to_fit(text, 16, WORDS, (at, at + len("Checked by Ann.")))
    shown = text[start:end].strip().split("\n")
    assert rows[4] in shown and set(shown) <= set(rows)


def test_a_passage_is_shown_although_its_row_of_a_table_is_too_long():
    row = f"| Valve 4 | {'It is in hall 4. ' * 20}| Checked by Ann. | 7 EUR |"
    text = f"The valves are these.\n{row}\nThe end.\n"
    at = text.index("Checked by Ann.")
    start, end = window_to_fit(text, 16, WORDS, (at, at + len("Checked by Ann.")))
    assert "Checked by Ann." in text[start:end]


def test_a_function_that_is_asked_for_is_shown_with_its_body_and_not_with_the_one_before_it():
    one, two = (f"def {name}(v):\n    a = v * 2\n    return a + 7" for name in ("one", "two"))
    text = f"{one}\n\n\n{two}\n\n\ndef three(v):\n"
    at = text.index(two)
    start, end = window_to_fit(text, 60, len, (at, at + len("def two(v):")))
    assert two in text[start:end]


@given(
    st.text(alphabet="ab. \n", min_size=1, max_size=300),
    st.integers(0, 80),
    st.sampled_from([len, WORDS, lambda t: len(t.encode()), lambda t: len(t) ** 2]),
    st.data(),
)
def test_a_window_fits_and_begins_no_later_than_its_passage(text, limit, size, data):
    first = data.draw(st.integers(0, len(text) - 1))
    last = data.draw(st.integers(first + 1, len(text)))
    start, end = window_to_fit(text, limit, size, (first, last))
    assert 0 <= start <= first and start <= end <= len(text)
    assert size(text[start:end]) <= limit or end == start


@given(st.text(alphabet="ab. ", min_size=40, max_size=300), st.data())
def test_a_window_with_room_for_its_passage_holds_it(text, data):
    first = data.draw(st.integers(0, len(text) - 10))
    assert window_to_fit(text, 25, len, (first, first + 10))[1] >= first + 10


def test_the_text_before_a_passage_gives_way_if_it_has_more_tokens_than_its_length_suggests():
    passage = " ".join(["long" * 5] * 10)
    text = "x " * 400 + passage + " end" * 50
    start, end = window_to_fit(text, 20, WORDS, (800, 800 + len(passage)))
    assert start < 800 and passage in text[start:end] and WORDS(text[start:end]) <= 20

"""A quotation that is not exact, or an error message with other values, finds the text that holds most of it."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.search.reorder.phrases import WordRuns
from umi_common.search.reorder.words import words_in

OFF = UmiConfig().replaced(fusion={"word_run_weight": 0.0})
BODY = "for key, value in sorted(given.items()): rows.append((key, value)); return dict(rows)"
MESSAGES = {
    "package": f"raise ValueError(f'bad package name in {{given!r}} of a dotted list'); {BODY}",
    "compiler": f"raise BuildError(f'it was made with {{given}}, and parts need the same version'); {BODY}",
    "closed": f"raise OSError(f'the pool {{given}} was closed while {{n}} jobs were running'); {BODY}",
}
SPEECH = "Here is the answer which I will give: put your confidence in us, and under Providence all will be well."
ALIKE = [
    "def package_name(name): the name of a package in a list",
    "def bad_name(name): whether the name of a package is bad",
    "def same_version(parts): whether parts were made with the same version",
    "def close(pool): the pool was closed while it was running",
    "def jobs(pool): the jobs of the pool that were running",
    "def running(jobs): jobs that were running while a pool closed",
]


@pytest.fixture(scope="module")
def umi():
    with HybridStore.open() as store:
        store.add([Chunk(name, text) for name, text in MESSAGES.items()])
        store.add([Chunk(text, text) for text in ALIKE])
        with DualRetriever(store) as umi:
            yield umi


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("bad package name in 'version=5' of a dotted list", "package"),
        ("how to fix it was made with version 14, and parts need the same version", "compiler"),
        ("OSError: the pool jobs was closed while 3 jobs were running", "closed"),
    ],
)
def test_a_message_with_other_values_finds_the_line_that_raises_it(umi, query, answer):
    assert umi.search(query).ids[0] == answer


def test_a_quotation_with_one_wrong_word_finds_its_text():
    said = f"{SPEECH} We shall neither fail nor falter; we shall not weaken or tire."
    alike = [
        "Shall we tire or weaken? Neither, and we shall not stumble.",
        "The runners stumble, tire and fail.",
    ]
    with HybridStore.open() as store:
        store.add([Chunk(text, text) for text in [*alike, said]])
        query = "we shall neither fail nor stumble we shall not weaken or tire"
        assert DualRetriever(store).search(query).ids[0] == said


@pytest.mark.parametrize(
    ("query", "text", "share"),
    [
        ("the cat sat on the mat", "There the cat sat on the mat.", 1.0),
        ("the cat sat on the mat", "The cat sat in the hat, on the mat.", 1.0),
        ("the cat sat quietly on the mat", "The cat sat, and on the mat lay a dog.", 6 / 7),
        ("the cat sat on the mat", "on the mat the cat sat", 0.0),
        ("why has the old grey cat of my aunt sat on the mat", "a cat sat on the mat", 0.0),
        ("what is it that we had", "what is it that we had", 0.0),
        ("Le café était fermé hier", "LE CAFE\u0301 E\u0301TAIT FERME\u0301 hier", 1.0),
        ("one two", "one two", 0.0),
        ("flow in the old attic", "Load in the old attic: 283", 0.0),
        ("sugar in red wine vinegar", "red wine vinegar", 0.0),
        ("red wine vinegar", "red wine vinegar", 0.0),  # `lookup` raises it
    ],
)
def test_the_share_of_a_query_that_a_text_holds_in_runs_of_three_words(query, text, share):
    runs = WordRuns(query)
    assert runs.share_in(text) == pytest.approx(share)


@pytest.mark.parametrize("query", ["How much did I pay for my laptop?", "how much did I pay for my laptop"])
def test_the_same_question_in_a_text_is_no_answer(query):
    held = "I paid a lot. How much did I pay for my laptop? I forgot."
    assert WordRuns(query).share_in(held) == 0
    assert WordRuns("I forgot how much did I pay for my laptop").share_in(held) == pytest.approx(0.8)


@pytest.mark.parametrize("query", ["red wine vinegar", "what is it that we had", ""])
def test_a_query_of_four_words_or_of_function_words_has_no_runs(query):
    assert not WordRuns(query)


def test_a_table_of_a_few_words_is_not_compared():
    assert WordRuns("no value yes " * 42).share_in("no value yes " * 400) == 0
    assert WordRuns("no value yes " * 4).share_in("no value yes " * 4) == 1


def test_a_phrase_that_most_candidates_hold_changes_nothing():
    with HybridStore.open() as store:
        store.add([Chunk(str(n), f"Kind regards from the team of office {n}") for n in range(15)])
        store.add([Chunk(str(n), f"The team of office {n} has kind regards from here") for n in range(15, 25)])
        on, off = DualRetriever(store), DualRetriever(store, config=OFF)
        query = "kind regards from the team"
        assert [hit.score for hit in on.search(query)] == [hit.score for hit in off.search(query)]


@pytest.mark.parametrize(
    ("query", "share"),
    [
        ("when is the bake sale for year 3 in may", 0.0),
        ("when is the bake sale for year 7 in may", 0.7),
        ("the bake sale for year 3 in may", 5 / 8),  # no question: another value of a message
    ],
)
def test_in_a_question_a_run_beside_another_number_is_about_something_else(query, share):
    assert WordRuns(query).share_in("The bake sale for year 7, in the canteen") == pytest.approx(share)


def test_a_question_for_a_class_finds_its_notice_before_the_same_words_about_another_class():
    notices = [
        Chunk("swim-7", "The swimming gala for Year 7 takes place on 6 November in the pool. Please bring £57.50."),
        Chunk("swim-5", "Year 5 swimming gala: Saturday 11 January at 17:30 in the pool. Cost £40.50 per child."),
        Chunk("chess-5", "The chess tournament for Year 5 takes place on 12 August in room 12. Please bring £14.50."),
        Chunk("chess-7", "Year 7 chess tournament: Thursday 26 June at 14:15 in room 12. Cost £33.50 per child."),
        Chunk("bake-3", "Eleni is organising the Year 3 bake sale (23 May, 14:45, the canteen). The price is £33.50."),
        Chunk("bake-7", "The bake sale for Year 7 takes place on 5 April in the canteen. Please bring £18.50."),
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(notices)
        assert umi.search("When is the swimming gala for year 5?").ids[0] == "swim-5"
        assert umi.search("When is the chess tournament for year 7?").ids[0] == "chess-7"
        assert umi.search("When is the bake sale for year 3?").ids[0] == "bake-3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Müllers Straße 5, Kraków: Čaj", ("mullers", "strasse", "5", "krakow", "caj")),
        ("Müller aus Москва", ("muller", "aus", "москва")),  # letters of two scripts: word by word
        ("Ǿre und ø", ("øre", "und", "o")),  # accents are removed once
        ("\u1ac4 é", ("e",)),  # a mark alone is no word
    ],
)
def test_the_words_of_a_text_have_no_accents_on_latin_letters(text, words):
    assert words_in(text) == words

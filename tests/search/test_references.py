"""References: a question finds the passage that it names; a passage leads to one that it names or shares a rare word
with, if that holds what the question still asks."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pytest import approx

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.config import AnalyzerConfig
from umi_common.explain.reasons import reasons
from umi_common.pool import Links
from umi_common.ranking.references import with_references
from umi_common.sim import HashEmbedder
from umi_common.stores.chunk_names import Names, heading
from umi_common.stores.lexical.analyzer import Analyzer

QUESTION = "Where was the author of the play Brand born?"
PLAY = Chunk("play", "Brand. The play Brand has an author, Zorbian Quell, who wrote it in spring.")
AUTHOR = Chunk("author", "Zorbian Quell. Born in Skien, he left home at fifteen.", metadata={"public": True})
OTHERS = [Chunk(f"x{at}", f"Note {at}: writers, towns, boats and harbours of the north.") for at in range(40)]
NONE = np.zeros(0)
OFF = UmiConfig(references={"enabled": False})


def store_of(*chunks: Chunk) -> HybridStore:
    store = HybridStore.open(embedder=HashEmbedder())
    store.add(list(chunks))
    return store


def test_a_question_of_two_steps_finds_the_passage_that_the_first_one_names():
    with store_of(PLAY, AUTHOR, *OTHERS) as store, DualRetriever(store) as umi:
        assert set(umi.search(QUESTION).ids[:2]) == {"play", "author"}
        result = umi.search(QUESTION)
        assert "references" in result.hits[0].stages


CHURCH = Chunk("church", "Atwater Church. It is a wooden church of 1841 in Atwater, Ohio, with a slender tower.")
CODES = Chunk("codes", "List of Ohio area codes. 216 Cleveland, 330 Akron, 513 Cincinnati.")
RIVERS = [Chunk(f"r{name}", f"List of {name} rivers. Two of them are long.") for name in ("Utah", "Iowa")]
OHIO = [Chunk(f"o{at}", f"note {at}: the weather of Ohio was mild, with rain in spring.") for at in range(12)]
"""So many that Ohio is no rare term."""
LISTS = [Chunk(f"l{at}", f"note {at}: another list of codes for an area.") for at in range(20)]
"""So many that Ohio is the rarest term of its heading."""


@pytest.mark.parametrize(
    ("question", "gains"),
    [
        ("What is the area code of Cincinnati in the state with the Atwater Church?", True),
        ("Is Atwater Church in the Ohio region of Cincinnati?", False),
    ],
)
def test_a_word_that_marks_out_a_heading_leads_to_it_unless_the_question_says_it(question, gains):
    with store_of(CHURCH, CODES, *RIVERS, *OHIO, *LISTS, *OTHERS) as store, DualRetriever(store) as umi:
        found = {hit.chunk.id: hit for hit in umi.search(question).hits}
    assert (found["codes"].through == "church") == gains
    assert all(found[chunk.id].through is None for chunk in RIVERS if chunk.id in found)


def test_a_word_leads_to_no_heading_that_several_passages_share():
    twin = Chunk("twin", "List of Ohio area codes. 419 Toledo, 740 Marietta.")
    question = "What is the area code of Cincinnati in the state with the Atwater Church?"
    with store_of(CHURCH, CODES, twin, *OHIO, *LISTS, *OTHERS) as store, DualRetriever(store) as umi:
        found = {hit.chunk.id: hit for hit in umi.search(question).hits}
    assert found["codes"].through is None


def test_a_rare_word_of_both_texts_leads_on_where_neither_has_a_heading():
    first = Chunk("letter", "the parcel went to quolwick by the evening boat, said the clerk")
    second = Chunk("ledger", "quolwick paid four crowns for lamps and rope")
    question = "how many crowns were paid where the parcel went by the evening boat"
    with store_of(first, second, *OTHERS) as store:
        ranks = [DualRetriever(store, config=config).search(question) for config in (UmiConfig(), OFF)]
    on, off = ({hit.chunk.id: hit for hit in result.hits} for result in ranks)
    assert on["ledger"].score > off["ledger"].score
    assert on["ledger"].through == "letter" and off["ledger"].through is None


def test_a_question_that_one_passage_answers_is_ranked_as_without_references():
    with store_of(PLAY, AUTHOR, *OTHERS) as store:
        on, off = (
            DualRetriever(store, config=config.replaced(feedback={"enabled": False})).search("play by which author")
            for config in (UmiConfig(), OFF)
        )
    assert {hit.chunk.id: hit.score for hit in on.hits} == approx(
        {hit.chunk.id: hit.score for hit in off.hits}, abs=1e-6
    )


def test_among_few_passages_a_shared_word_does_not_put_another_before_the_best():
    texts = {
        "install": "Run pip install umi to set the package up.",
        "car": "Bob said that I may use the car on Fridays.",
        "train": "A night train to Graz leaves at nine.",
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(id, text) for id, text in texts.items())
        assert umi.search("how do I install it?").ids[0] == "install"


def test_among_few_passages_words_around_a_question_do_not_put_another_before_its_answer():
    texts = {
        "email": "How do I change my email address? Go to Settings, Account, and enter the new address. You must "
        "confirm it with a link.",
        "cancel": 'How do I cancel my subscription? Open Settings, Billing, and choose "Cancel plan". You keep access '
        "until the end of the period.",
        "payment": "Which payment methods do you accept? Visa, Mastercard, PayPal and SEPA direct debit. We do not "
        "accept cheques.",
        "delete": 'How do I delete my account? Under Settings, Account, click "Delete account". All data is erased '
        "after 14 days.",
        "support": "How do I contact support? Use the chat in the app from 9 to 17, or write to help@example.com.",
        "offline": "Can I use the product offline? The desktop app works offline; changes are synced when you are "
        "back online.",
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(id, text) for id, text in texts.items())
        assert umi.search("How do I reach support?").ids[0] == "support"
        assert umi.search("I am new here. How do I reach support? I need it today.").ids[0] == "support"


def test_a_question_finds_the_passage_that_it_names_though_others_hold_more_of_its_words():
    play = Chunk("play", "Brand (play). A verse tragedy in five acts, printed in 1865 and performed in Stockholm.")
    others = [Chunk(f"f{at}", f"The author {at} of this firm is a citizen of country {at}.") for at in range(8)]
    with store_of(play, *others, *OTHERS) as store:
        question = "What country was the author of Brand a citizen of?"
        on, off = (DualRetriever(store, config=config).search(question) for config in (UmiConfig(), OFF))
    assert on.ids.index("play") == 0 and off.ids.index("play") == 8
    assert on.hits[0].named and not on.hits[1].named
    assert reasons(on.hits[0])[-1] == "references #9 → #1 (named in the question)"


def test_a_heading_of_many_passages_names_none_of_them():
    notes = [Chunk(f"n{at}", f"Weekly report. In week {at} the pump ran for {at} hours.") for at in range(8)]
    with store_of(*notes) as store:
        on, off = (
            DualRetriever(store, config=config).search("weekly report on the pump") for config in (UmiConfig(), OFF)
        )
    assert [(hit.chunk.id, hit.score) for hit in on.hits] == [(hit.chunk.id, hit.score) for hit in off.hits]


def test_a_question_in_one_language_names_a_passage_in_another():
    novel = Chunk("novel", "Alte Häuser. Ein Roman in langen Kapiteln, von einer Lehrerin für ihre Kinder geschrieben.")
    german = [Chunk(f"g{at}", f"Im Jahr {at} wurde das Boot von dem Fischer verkauft.") for at in range(20)]
    english = [Chunk(f"e{at}", f"In the year {at} the boat was sold by the painter who built it.") for at in range(40)]
    with store_of(novel, *german, *english) as store:
        question = "In which year was Alte Häuser sold by the painter who built the boat?"
        on, off = (DualRetriever(store, config=config).search(question) for config in (UmiConfig(), OFF))
    assert on.ids[0] == "novel" and on.hits[1].score < off.hits[1].score / 1.3


@pytest.mark.parametrize("question", [QUESTION, "Where was Zorbian Quell born?"])
def test_neither_a_reference_nor_a_name_leads_past_the_filter(question):
    with store_of(PLAY, AUTHOR, *OTHERS) as store, DualRetriever(store) as umi:
        assert "author" not in umi.search(question, where={"public": {"$exists": False}}).ids


def test_references_depend_on_the_chunks_and_not_on_the_history_of_writes():
    chunks = [PLAY, AUTHOR, *OTHERS]
    with store_of(*chunks) as fresh, HybridStore.open(embedder=HashEmbedder()) as grown:
        shuffled = random.Random(5).sample(chunks, len(chunks))
        grown.add([Chunk("gone", "Zorbian Quell. Another man of that name, born in Bergen."), *shuffled[:20]])
        with DualRetriever(grown) as umi:
            umi.search(QUESTION)  # names are read now and kept up to date by the writes below
            grown.add(shuffled[20:])
            grown.delete(["gone"])
            later = umi.search(QUESTION)
        with DualRetriever(fresh) as umi:
            assert [(hit.chunk.id, hit.score) for hit in later.hits] == [
                (hit.chunk.id, hit.score) for hit in umi.search(QUESTION).hits
            ]


@pytest.mark.parametrize("others", range(1, 12))
def test_a_passage_with_the_same_words_of_the_question_gains_nothing_by_a_name_wherever_the_named_one_is_stored(others):
    question = "luna foo_bar window accounting"
    luna = Chunk("luna", "Luna\nThe grey cat, foo_bar, sits at the window and does the accounting.")
    alike = [
        Chunk(f"a{at}", f"{at} dogs bark at luna, the accounting of foo_bar and a window.") for at in range(others)
    ]
    distant = [
        Chunk(f"d{at}", f"{at} trees: {word} and rain.") for at, word in enumerate(["foo", "bar", "window", "luna"] * 5)
    ]
    found = []
    for chunks in ([luna, *alike, *distant], [*distant, *alike, luna]):
        with store_of(*chunks) as store, DualRetriever(store) as umi:
            found.append([(hit.chunk.id, hit.score) for hit in umi.search(question, limit=40).hits])
    assert found[0] == found[1] and found[0][0][0] == "luna"


def test_a_text_has_the_same_name_when_it_is_added_as_after_the_store_is_opened_again(tmp_path):
    long_line = Chunk("long", "Ohio River. " + "It flows on and on. " * 40 + " >\nZorbian Quell\nHe was born in Skien.")
    found = []
    with HybridStore.open(tmp_path, embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add(OTHERS)
        umi.search(QUESTION)  # reads the names of the stored texts; `add` continues them
        store.add([long_line, PLAY])
        found.append([(hit.chunk.id, hit.score) for hit in umi.search("Who was Zorbian Quell?").hits])
    with HybridStore.open(tmp_path, embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        found.append([(hit.chunk.id, hit.score) for hit in umi.search("Who was Zorbian Quell?").hits])
    assert found[0] == found[1]


def test_the_gain_is_the_formula():
    scores = np.array([1.0, 0.5, 0.2])
    links = Links(np.array([0, 1]), np.array([2, 2]), np.array([0.4, 1.0]))
    gain = 0.4 * 1.0**5 + 1.0 * 0.5**5
    expected = np.array([1.0, 0.5, 0.2 + 0.7 * gain])
    assert with_references(scores, NONE, NONE, links, 0.7) == approx(expected / expected.max())


def test_a_chunk_that_mentions_a_named_one_keeps_half_of_the_advantage_if_it_was_before_it():
    scores, named, mentioning = np.array([1.0, 0.5, 0.8]), np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])
    own = np.array([1.0 + 0.35, 0.5, 0.8 + 0.7])
    assert with_references(scores, named, mentioning, None, 0.7) == approx(own / own.max())


def test_a_stub_under_the_name_that_is_asked_for_does_not_pass_the_text_that_answers():
    texts = {}
    for name, town in (("Lena Hale", "Lyon"), ("Omar Dietz", "Graz"), ("Ines Rook", "Bath"), ("Paul Venn", "Kiel")):
        texts[name] = f"{name}. Born 1972 in {town}."
        texts[f"{name} fire"] = f"The fire at the mill was reported by {name}, who lived next door to it in {town}."
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(id, text) for id, text in texts.items())
        for name in ("Lena Hale", "Omar Dietz", "Ines Rook", "Paul Venn"):
            assert umi.search(f"who reported the fire, {name}?").ids[0] == f"{name} fire"


def test_a_report_that_states_only_the_number_of_an_incident_is_not_passed_by_the_incident():
    numbers, fixes = ("e58b98e9", "086d17e3", "4680e535", "9cbd3fac"), ("ledger", "cookie", "volume", "socket")
    texts = {}
    for number, part in zip(numbers, fixes, strict=True):
        texts[number] = (
            f"Incident {number}\nTraceback (most recent call last):\n" + '  File "run.py", line 88, in run\n' * 6
        )
        texts[f"{number} report"] = f"Post-mortem of {number}: the root cause was a full {part}; it is emptied now."
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(id, text) for id, text in texts.items())
        for number in numbers:
            assert umi.search(f"root cause of incident {number}").ids[0] == f"{number} report"
            assert umi.search(f"incident {number}").ids[0] == number


def test_a_named_chunk_gains_before_its_references_count():
    named, links = np.array([0.0, 0.0, 1.0]), Links(np.array([2]), np.array([1]), np.array([0.4]))
    own = np.array([1.0, 0.5, 0.8 + 0.7]) / 1.5
    expected = own + np.array([0.0, 0.7 * 0.4, 0.0])
    assert with_references(np.array([1.0, 0.5, 0.8]), named, NONE, links, 0.7) == approx(expected / expected.max())
    assert with_references(np.array([1.0, 0.5, 0.8]), named, NONE, None, 0.7) == approx(own)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Demon Dice. Demon Dice is a game.", "Demon Dice"),
        ("# Refund policy\nMoney comes back.", "Refund policy"),
        ("M. Ward. A singer.", "M. Ward"),
        ("Brand (play). A play.", "Brand"),
        ("12 Angry Men. A film.", "12 Angry Men"),
        ("2024\nThe year of the move.", None),
        ("file_name: plays.md\ntitle: Brand\n\nIt is a play.", "Brand"),
        ("---\ntitle: 'Refund policy'\n---\nMoney comes back.", "Refund policy"),
        ("file_name: plays.md\n\nIt is a play.", None),
        ("Gina: Thanks. See you.", None),
        ("yes. no.", None),
        ("Guide to refunds > Cards >\n## Refund policy\nMoney comes back.", "Refund policy"),
        (f"{'A long title ' * 15} >\nRefund policy\nMoney comes back.", "Refund policy"),
        ("Guide to refunds >\nmoney comes back.", None),
        ("Did it rain? It did. So.", None),
        ("This is a whole sentence that is much too long to be the name of anything at all. Next.", None),
    ],
)
def test_a_heading_is_a_short_beginning_in_capitals(text, name):
    assert heading(text) == name


def test_the_longest_name_is_mentioned():
    names = Names(Analyzer(AnalyzerConfig()))
    names.add([0, 1], ["New York. A city.", "New York City Ballet. A company."])
    terms = Analyzer(AnalyzerConfig()).terms("She danced at the New York City Ballet in New York.")
    assert sorted(names.mentioned(terms, list).values()) == [[0], [1]]


def test_a_name_of_removed_chunks_does_not_hide_a_shorter_one():
    names = Names(Analyzer(AnalyzerConfig()))
    names.add([0, 1], ["New York. A city.", "New York City Ballet. A company."])
    terms = Analyzer(AnalyzerConfig()).terms("She danced at the New York City Ballet.")
    assert list(names.mentioned(terms, lambda rows: [row for row in rows if row == 0]).values()) == [[0]]


@pytest.mark.parametrize("seed", range(12))
def test_scores_are_the_same_to_the_last_bit_whatever_the_order_of_the_writes(seed):
    rng, found = random.Random(seed), []
    words = [[f"w{rng.randrange(25)}" for _ in range(6)] for _ in range(30)]
    chunks = [Chunk(f"c{at}", f"{' '.join(each)} boat{rng.randrange(9)}") for at, each in enumerate(words)]
    for order in (chunks, chunks[::-1]):
        with store_of(*order) as store, DualRetriever(store) as umi:
            results = [umi.search(question, limit=30) for question in ("w1 boat1", "w2 w3", "boat4 w7")]
            found.append([[(hit.chunk.id, hit.score) for hit in result.hits] for result in results])
    assert found[0] == found[1]


TOOLS = {
    "hoist": "Hoist\n\nHow the hoist is lifted.\nSee also: Winch.\nRopes, hooks.\nTwo people.",
    "winch": "---\ntitle: Winch Rules\n---\nTurn slowly.\nNobody stands below.\nThen lock it.",
    "ladder": "Ladder > Use >\nTurn the ladder.\nRules:\n- two people\n- no ropes\n- lock the hooks",
    "crane": "The crane lifts in se-\ncret.\nRopes and rules of the winch\nare below.\nPeople turn slowly.",
}


def test_a_text_with_line_ends_of_windows_is_ranked_like_the_same_text_with_those_of_unix():
    results = []
    for line_end in ("\n", "\r\n"):
        with HybridStore.open() as store, DualRetriever(store) as umi:
            store.add([Chunk(name, text.replace("\n", line_end)) for name, text in TOOLS.items()])
            questions = ("Who stands below by the Winch Rules?", "turn slowly", "ropes of the hoist", "secret")
            results.append([[(hit.chunk.id, approx(hit.score)) for hit in umi.search(each)] for each in questions])
    assert results[0] == results[1]

"""The language of each text: found by its function words, and a query meets texts of every language."""

from datetime import datetime, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.lexical.test_postings_file import MARK
from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.errors import ReindexRequired
from umi_common.sim import HashEmbedder
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.lexical.languages import NOT_FOUND, differ, language_of

AUTO = Analyzer(AnalyzerConfig())
CONFIG = LexicalConfig()
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
TEXTS = {
    "german": "Die alten Häuser wurden verkauft, und der Käufer ist mit dem Preis zufrieden.",
    "spanish": "Las casas de la ciudad se vendieron por mucho dinero, pero no todas.",
    "turkish": "Bu evler için çok para ödendi ve bir yıl sonra yine satıldı.",
    "romanian": "Casele vechi din oraș au fost vândute pentru o sumă foarte mare.",
    "polish": "Stare domy zostały sprzedane, ale nie wszystkie, bo kupujący jest zadowolony z ceny.",
    "czech": "Staré domy byly prodány a kupující je s cenou spokojen, protože nebyla vysoká.",
    "english": "The old houses were sold, and the buyer is happy with the price.",
    "not found": "Rechnungen bezahlen",
}
OTHER_LETTERS = {
    "Cyrillic": "Старые дома были проданы, и покупатель доволен ценой.",
    "Han": "旧房子已经卖掉了，买家对价格很满意。",
    "Hangul": "오래된 집들이 팔렸고 구매자는 가격에 만족한다.",
    "Thai": "บ้านเก่าถูกขายไปแล้วและผู้ซื้อพอใจกับราคา",
    "Greek": "Τα παλιά σπίτια πουλήθηκαν και ο αγοραστής είναι ευχαριστημένος.",
}


def index_of(texts: list[str], analyzer: Analyzer = AUTO) -> LexicalIndex:
    index = LexicalIndex(analyzer)
    index.update(range(len(texts)), texts, [-1] * len(texts))
    return index


def found(index: LexicalIndex, query: str) -> list[tuple[int, float]]:
    (hits,) = index.search([query], k=10, config=CONFIG)
    return list(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))


@pytest.mark.parametrize(("language", "text"), [*TEXTS.items(), *OTHER_LETTERS.items()])
def test_the_language_of_a_sentence_is_found(language, text):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Umowy najmu nie można rozwiązać przed końcem roku, jeśli lokal jest zajęty.", "rozwiązanie umowa najem"),
        ("Smlouvu je možné ukončit jen písemně, protože to zákon vyžaduje.", "ukončení smlouva"),
    ],
)
def test_other_forms_of_polish_and_czech_words_are_found(text, query):
    sentences = "Sklep jest czynny od poniedziałku.", "Obchod je otevřen jen v pondělí, protože to tak je."
    others = [*sentences * 3]
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(id=str(at), text=each) for at, each in enumerate([*others, text])])
        assert umi.search(query, strategy="text").ids[:1] == [str(len(others))]


@pytest.mark.parametrize(
    ("query", "answer", "other"),
    [
        ("Mietvertragskündigung", "Die Kündigung des Mietvertrags ist nicht mehr möglich.", "Bus {} ist da."),
        ("reisverzekering", "De verzekering van uw reis is bij ons niet duur.", "Bus {} is er nog niet."),
        ("försäkringsavgift", "En avgift för din försäkring ska betalas i maj.", "Buss {} är inte här än."),
    ],
)
def test_a_compound_finds_the_text_that_holds_its_parts(query, answer, other):
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(id="answer", text=answer), *(Chunk(id=f"{n}", text=other.format(n)) for n in range(9))])
        assert umi.search(query, strategy="text").ids == ["answer"]
        store.add([Chunk(id="compound", text=f"Bus: {query}")])
        assert umi.search(query, strategy="text").ids == ["compound"]  # a text holds the word as it is typed


@pytest.mark.parametrize(
    ("query", "answer", "other"),
    [
        ("Wasserleitung undicht", "Die Leitung für das Wasser ist neu.", "Das Wort Wasserleitung ist nicht von ihr."),
        ("Leitung für Wasser undicht", "Dort ist eine Wasserleitung.", "Der Bus ist nicht da und nicht hier."),
        ("huissleutel vergeten", "De sleutel van het huis is nieuw.", "Het woord huissleutel is niet van haar."),
        ("sleutel van huis vergeten", "Daar is de huissleutel.", "De bus is er nog niet en ook niet hier."),
        ("skolavgift borta", "Den nya avgiften för en skola är här.", "Ordet skolavgift är inte här och inte där."),
        ("avgift för skola borta", "Här är en skolavgift till.", "Bussen är inte här än och inte där."),
    ],
)
def test_a_compound_and_its_two_words_are_found_by_each_other_where_texts_hold_both(query, answer, other):
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(id="answer", text=answer), *(Chunk(id=f"{n}", text=other) for n in range(9))])
        assert "answer" in umi.search(query, strategy="text", limit=10).ids


def test_the_compound_of_two_words_weighs_the_same_in_either_order_of_the_words():
    texts = [
        "Die Wasserleitung im Keller ist undicht.",
        "Das Wasser im Keller steht hoch. Die Pumpe ist kaputt.",
        "Die Leitung nach Berlin ist gestört und das Wasser auch.",
        "Wasser ist knapp in diesem Sommer.",
        "Der Sommer ist heiß und trocken.",
        "Die Pumpe läuft nicht mehr seit gestern.",
    ]
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{n}", text) for n, text in enumerate(texts)])
        found = [umi.search(query, strategy="text") for query in ("Leitung Wasser", "Wasser Leitung")]
    one, other = ({hit.chunk.id: hit.score for hit in result} for result in found)
    assert one == pytest.approx(other)


def test_an_irregular_form_that_looks_like_a_compound_is_found_beside_german_texts():
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk("form", "She can understand the plan."), Chunk("stood", "He stood in the rain.")])
        store.add([Chunk("german", "Er ist unter der Brücke und wartet auf den Bus.")])
        assert "form" in umi.search("understood", strategy="text").ids


def test_a_compound_alone_that_a_german_text_holds_is_not_split_in_a_store_of_mostly_english_texts():
    texts = "Die Stromrechnung war nicht hoch.", "Die Rechnung für den Strom ist da."
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(id=f"{n}", text=f"The bus {n} is not here and it was not there.") for n in range(9)])
        store.add([Chunk(id=text, text=text) for text in texts])
        assert umi.search("Stromrechnung", strategy="text").ids == [texts[0]]


def test_an_english_word_is_not_taken_apart():
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(id="1", text="The fire was put out and the wall is to be painted by you.")])
        assert umi.search("firewall", strategy="text").ids == []


def test_an_older_snowball_stems_a_language_that_it_lacks_as_english(monkeypatch):
    import Stemmer

    known = Stemmer.algorithms()
    monkeypatch.setattr(Stemmer, "algorithms", lambda: [each for each in known if each != "polish"])
    analyzer = Analyzer(AnalyzerConfig())
    assert analyzer.of_language("polish") is analyzer.of_language("english")


@pytest.mark.parametrize(
    "text",
    [
        "Die Hard is on tonight",
        "Rio de Janeiro, Los Angeles, La Paz",
        "Marketing: So okay ? Cool . That's me .",
        "def _release(self):\n    del self.funcs\n    del self.variables",
        "a b c d e o y s t",
        "de en es fr it nl",
        "Um right so",
        "",
    ],
)
def test_names_code_and_short_turns_are_no_other_language(text):
    assert language_of(text) in (NOT_FOUND, "english")


@pytest.mark.parametrize(
    ("language", "other", "expected"),
    [
        ("german", "german", False),
        ("german", "english", True),
        ("german", NOT_FOUND, False),
        ("Han", "english", True),
        ("Han", NOT_FOUND, True),
        (NOT_FOUND, NOT_FOUND, False),
    ],
)
def test_two_languages_differ_if_both_are_known_or_their_letters_are_others(language, other, expected):
    assert differ(language, other) is differ(other, language) is expected


def test_a_chinese_text_with_english_names_is_chinese_and_an_english_one_with_a_chinese_name_is_english():
    assert language_of("请先安装 Docker Desktop，然后运行 Kubernetes 集群") == "Han"
    assert language_of("The founder of the company is 王小明, and she lives in Berlin.") == "english"


@pytest.mark.parametrize(
    ("query", "language"), [("Haus", "german"), ("casa vendida", "spanish"), ("ev", "turkish"), ("house", "english")]
)
def test_under_the_defaults_another_form_of_a_word_finds_a_text_in_its_language(query, language):
    others = [text for name, text in TEXTS.items() if name != language]
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store, clock=lambda: NOW) as umi:
        store.add([Chunk(id=language, text=TEXTS[language]), *(Chunk(id=text, text=text) for text in others)])
        assert umi.search(query, strategy="text").ids[0] == language


def words_of(text: str) -> list[str]:
    return text.replace(",", "").replace(".", "").split()


@given(st.lists(st.sampled_from(list(TEXTS.values())), min_size=1, unique=True), st.data())
def test_a_word_finds_every_text_in_which_it_is_spelled_so_whatever_their_languages(texts, data):
    word = data.draw(st.sampled_from(data.draw(st.sampled_from(texts)).replace(",", "").replace(".", "").split()))
    rows = {row for row, _ in found(index_of(texts), word)}
    assert rows.issuperset(
        row for row, text in enumerate(texts) if word in text.replace(",", "").replace(".", "").split()
    )


@given(st.sets(st.integers(0, len(TEXTS) - 1)), st.sampled_from(list(TEXTS.values())))
def test_removed_texts_leave_no_trace_of_their_languages(removed, query):
    texts = list(TEXTS.values())
    index = index_of(texts)
    index.update(removed=sorted(removed))
    kept = [row for row in range(len(texts)) if row not in removed]
    fresh = found(index_of([texts[row] for row in kept]), query)
    assert found(index, query) == [(kept[row], score) for row, score in fresh]


def test_an_index_that_was_saved_knows_the_languages(tmp_path):
    index = index_of(list(TEXTS.values()))
    index.save(tmp_path, MARK, np.arange(len(TEXTS)), [])
    loaded = LexicalIndex.load(tmp_path, AUTO, MARK.__eq__)
    assert loaded is not None
    for query in ("Haus", "casa", "house", "Rechnungen"):
        assert found(loaded[0], query) == found(index, query)


def test_texts_in_one_language_are_searched_as_with_that_language_in_the_settings():
    texts = [TEXTS["german"], "Der Verkauf ist vorbei, und das Haus wird nicht mehr angeboten."]
    german = index_of(texts, Analyzer(AnalyzerConfig(language="german")))
    for query in ("Häuser", "Wer hat die Häuser verkauft?", "verkauft"):
        assert found(index_of(texts), query) == found(german, query)


def test_a_store_keeps_the_analyzer_it_was_made_with_unless_the_settings_name_another(tmp_path):
    english = UmiConfig(analyzer={"language": "english"})
    HybridStore.open(tmp_path, embedder=HashEmbedder(), config=english).close()
    with HybridStore.open(tmp_path, embedder=HashEmbedder(), config=UmiConfig(mmr={"enabled": True})) as store:
        assert store.config.analyzer.language == "english"
        assert store.config.mmr.enabled
    with pytest.raises(ReindexRequired):
        HybridStore.open(tmp_path, embedder=HashEmbedder(), config=UmiConfig(analyzer={"language": "auto"}))


def test_near_equal_texts_are_told_apart_although_the_language_of_some_is_not_found():
    families = [
        "Schmidt",
        "Jones",
        "von der Heide",
        "van den Berg",
        "Meiers",
        "Wolters",
        "Krügers",
        "von Stein",
        "Vogels",
    ]
    names = [f"{name} {family}" for name in ("Anna", "Karl", "Jutta", "Peter", "Petra", "Emil") for family in families]
    texts = [
        f"Lieferung {4711 + at} an {name}, {100 + 7 * at} Stück, geliefert {at}. Mai" for at, name in enumerate(names)
    ]
    assert {language_of(text) for text in texts}.issuperset(["german", NOT_FOUND])
    index = index_of(texts)
    for row, name in enumerate(names):
        for query in (f"Wie viele Stück wurden an {name} geliefert?", f"Lieferung {name}", f"Lieferung {4711 + row}"):
            assert found(index, query)[0][0] == row

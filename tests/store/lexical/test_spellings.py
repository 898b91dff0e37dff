"""A word with accents is found as people type it: with them, without them, and with two letters for an umlaut."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.sim import HashEmbedder
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.lexical.spellings import without_accents

NAMES = (
    *("Müller", "Jäger", "Köhler", "Sørensen", "Øster", "Håkon", "Peña", "García"),
    *("Šimůnek", "Łukasz", "Çelik", "François", "Zoë", "Weiß", "Wójcik"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "store"
    with HybridStore.open(path, embedder=HashEmbedder()) as made:
        made.add([Chunk(name, f"{name} signed the lease of the flat at the corner.") for name in NAMES])
        made.add(
            [Chunk(f"other {at}", f"Tenant {at} signed the lease of the flat at the corner.") for at in range(300)]
        )
    with HybridStore.open(path, embedder=HashEmbedder()) as opened:  # the index is loaded, not made
        yield opened


def first(store: HybridStore, query: str) -> str:
    return DualRetriever(store).search(query, strategy="text").ids[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_found_with_and_without_its_accents(store, name: str):
    for typed in (name, name.upper(), without_accents(name.lower())):
        assert first(store, f"what did {typed} sign?") == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [("Mueller", "Müller"), ("Jaeger", "Jäger"), ("koehler", "Köhler"), ("Soerensen", "Sørensen"), ("Haakon", "Håkon")],
)
def test_a_name_is_found_with_two_letters_for_one(store, typed: str, name: str):
    assert first(store, f"{typed} lease") == name


def test_a_name_without_accents_in_the_text_is_found_with_them():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(name, f"{name} signed the lease.") for name in ("Muller", "Jaeger", "Pena", "Tenant")])
        assert first(store, "Peña lease") == "Pena"
        assert first(store, "Müller lease") == "Muller"
        assert first(store, "Jäger lease") == "Jaeger"


def test_a_german_text_is_found_with_two_letters_for_an_umlaut():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        texts = {
            "key": "Der Schlüssel liegt unter der Matte und nicht im Haus.",
            "door": "Die Tür ist offen und das Licht ist an.",
            "room": "Das Zimmer ist kalt und die Heizung ist aus.",
        }
        store.add([Chunk(id, text) for id, text in texts.items()])
        assert first(store, "wo ist der Schluessel") == "key"
        assert first(store, "ist die Tuer offen?") == "door"


def test_a_pasted_query_with_a_word_cut_at_a_line_is_searched():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk("right", "a blue-green vase"), Chunk("other", "a red cup")])
        assert next(id for id, _ in store.search_lexical("ue-\nance of a vase, true-\nae")) == "right"


def test_who_types_accents_is_given_the_word_that_has_them_first():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk("year", "El año fue largo."), Chunk("other", "El ano fue largo.")])
        assert first(store, "año") == "year"
        assert first(store, "ano") == "other"


def test_a_phrase_in_quotation_marks_is_found_without_its_accents():
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(str(at), f"the café of the corner, table {at}, la vie en rose") for at in range(20)])
        store.add([Chunk("right", "a long text about a corner where la vie est belle, and the table of the café")])
        assert umi.search('"la vie est belle" cafe').ids[0] == "right"


@pytest.mark.parametrize("typed", ["Guilford", "Guidlford", "Guildfird", "guilldford", "GUILDFORD", "Guildford"])
def test_a_mistyped_name_is_found(typed: str):
    with HybridStore.open(embedder=HashEmbedder()) as store:
        towns = "Guildford", "Gilching", "Bradford", "Stamford", "Lindau"
        store.add([Chunk(town, f"The council of {town} met on Monday.") for town in towns])
        assert first(store, f"when did the council of {typed} meet?") == "Guildford"


def test_a_word_beside_its_own_misspelling_weighs_as_much_as_alone():
    index = LexicalIndex(Analyzer(AnalyzerConfig()))
    english = ["this is the town that we have", "they are in the town of the lake", "it was the lake and the sun"]
    german = ["das ist die Schule und der Garten", "sie sind nicht mit der Schule da"]
    index.update(range(5), [*english, *german], [-1] * 5)
    alone = index._snapshot.weighted_terms("Schule town", LexicalConfig())
    assert index._snapshot.weighted_terms("Schuule Schule town", LexicalConfig()) == {**alone, "schuul": 1.0}


def test_a_word_that_a_text_holds_stands_for_no_other():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk("filter", "clean the filter weekly"), Chunk("filler", "store the filler in a dry place")])
        assert [id for id, _ in store.search_lexical("filler")] == ["filler"]
        assert [id for id, _ in store.search_lexical("12345x fill3r " + "filler" * 20_000)] == []


def test_a_word_typed_without_accents_finds_both_spellings():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(name, f"{name} signed the lease.") for name in ("Muller", "Müller", "Miller")])
        assert {id for id, _ in store.search_lexical("Muller")} == {"Muller", "Müller"}


def test_a_word_that_a_text_spells_with_accents_is_not_taken_for_mistyped():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(name, f"{name} signed the lease.") for name in ("Müller", "Miller")])
        assert [id for id, _ in store.search_lexical("Muller")] == ["Müller"]


def test_a_word_in_every_text_in_two_spellings_is_scored_under_okapi():
    index = LexicalIndex(Analyzer(AnalyzerConfig()))
    index.update(range(3), ["cafe or café"] * 3, [-1] * 3)
    assert len(index.search(["cafe"], k=3, config=LexicalConfig(variant="okapi", epsilon=0.25))) == 1


def test_other_scripts_keep_their_marks():
    assert without_accents("किताब") == "किताब"
    assert without_accents("ёлка") == "ёлка"
    assert without_accents("plain") == "plain"


def test_of_a_long_query_the_rarest_word_is_sought_in_other_spellings():
    letters = "bcdfghjklm"
    common = [f"{one}a{other}o" for one in letters for other in letters[:7]]
    with HybridStore.open() as store:
        store.add([Chunk(str(n), " ".join(common)) for n in range(5)])
        store.add([Chunk("bin", "Der Mülleimer steht hinter dem Haus und wird am Montag von der Stadt geleert.")])
        found = store.search_lexical(" ".join([*common, "Muelleimer"]), k=10)
    assert "bin" in [id for id, _ in found]

"""Chunks that resemble each other are other answers: none is lost unless the caller asks for folding."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timezone

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_langchain import UmiRetriever as LangChainRetriever
from umi_langchain import UmiVectorStore
from umi_llamaindex import UmiRetriever as LlamaIndexRetriever

LOG = [f"2023-05-{day:02} 10:00:00 ERROR payments: the connection to the database was lost" for day in range(1, 29)]
ORDERS = [
    f"Purchase order {4400 + i}: {10 + i} steel bolts for Harbour Works, due in week {20 + i}." for i in range(20)
]
CLAUSE = "Either party may end this agreement with a notice of thirty days in writing."
MATERIAL = {
    "28 log lines that differ in the date": (LOG, "when was the connection to the database lost"),
    "20 purchase orders": (ORDERS, "purchase orders for steel bolts"),
    "who paid whom": (["Ann paid Bob", "Bob paid Ann"], "who paid Ann"),
    "allowed and not allowed": (["Smoking is allowed here", "Smoking is not allowed here"], "is smoking allowed here"),
    "FAQ answers Yes and No": (
        ["Can I return a used boat? Yes.", "Can I return a used boat? No."],
        "can I return a used boat",
    ),
    "one clause in three contracts": ([CLAUSE] * 3, "how can a party end this agreement"),
}


@pytest.fixture(params=MATERIAL, ids=lambda name: name.replace(" ", "-"))
def material(request):
    texts, query = MATERIAL[request.param]
    return [f"c{i:02}" for i in range(len(texts))], texts, query


def test_a_search_returns_all_that_resemble_each_other(material):
    ids, texts, query = material
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(id, text, source=f"file {id}") for id, text in zip(ids, texts, strict=True)])
        assert sorted(umi.search(query, limit=50).ids) == ids


def test_chunks_of_one_file_that_resemble_each_other_are_all_returned(material):
    ids, texts, query = material
    with HybridStore.open() as store, DualRetriever(store) as umi:
        both = enumerate(zip(ids, texts, strict=True))
        store.add([Chunk(id, text, source="file", position=place) for place, (id, text) in both])
        assert sorted(umi.search(query, limit=50).ids) == ids


def test_the_langchain_parts_return_all_that_resemble_each_other(material):
    ids, texts, query = material
    documents = [Document(text, id=id, metadata={"customer": id}) for id, text in zip(ids, texts, strict=True)]
    vectors = UmiVectorStore.from_documents(documents, None)
    assert sorted(found.id for found in vectors.similarity_search(query, k=50)) == ids
    retriever = LangChainRetriever.from_documents(documents, k=50)
    assert sorted(found.id for found in retriever.invoke(query)) == ids


def test_the_llamaindex_retriever_returns_all_that_resemble_each_other(material):
    ids, texts, query = material
    nodes = [TextNode(id_=id, text=text, metadata={"customer": id}) for id, text in zip(ids, texts, strict=True)]
    retriever = LlamaIndexRetriever.from_nodes(nodes, similarity_top_k=50)
    assert sorted(found.node.node_id for found in retriever.retrieve(query)) == ids


class OneDirection:
    """Every text has the same vector, so that the words alone decide."""

    name, dim = "one direction", 2

    def embed_documents(self, texts):
        return [[1.0, 0.0]] * len(texts)

    embed_queries = embed_documents


def folded(*chunks: Chunk, limit: int = 10, **duplicates) -> dict[str, tuple[str, ...]]:
    """With folding on: the ids of the hits, and which chunks each stands for."""
    config = UmiConfig(duplicates={"enabled": True, **duplicates}, neighbours={"enabled": False})
    with HybridStore.open(embedder=OneDirection()) as store, DualRetriever(store, config=config) as umi:
        store.add(chunks)
        result = umi.search("is the door to the boiler room open", limit=limit)
    assert sorted(gone.id for gone in result.suppressed) == sorted(id for hit in result for id in hit.duplicates)
    return {hit.chunk.id: hit.duplicates for hit in result}


def test_folding_that_is_asked_for_takes_equal_texts_of_one_place_and_lists_them():
    texts = [
        "The café's door is open.",
        unicodedata.normalize("NFD", "the  café\u2019s\ndoor is OPEN!"),
        "\u201cThe café's door is open\u201d",
    ]
    found = folded(*(Chunk(f"c{i}", text, source="house") for i, text in enumerate(texts)))
    assert [sorted((id, *others)) for id, others in found.items()] == [["c0", "c1", "c2"]]


def test_folding_takes_a_text_with_plain_words_added():
    found = folded(Chunk("a", "The door to the room is open"), Chunk("b", "The door to the boiler room is open again"))
    assert [sorted((id, *others)) for id, others in found.items()] == [["a", "b"]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The door cost 300 euros", "The door cost 400 euros"),
        ("The door cost 300 euros", "The door cost 300 euros in 2023"),
        ("Ann opened the door", "Bob opened the door"),
        ("The door was opened", "The door was opened by Ann"),
        ("The door is open", "The door is not open"),
        ("The door is open", "The door isn't open"),
        ("The door is open", "The door is open only sometimes"),
        ("Is the door open? Yes", "Is the door open? No"),
        ("the door leads to the room", "the room leads to the door"),
        ("The door is open", "The door is shut"),
        ("The door opens before noon", "The door opens after noon"),
        ("door = -5", "door = 5"),
        ("door < 5", "door > 5"),
        ("door !open", "door open"),
        ("10² doors", "102 doors"),
    ],
)
def test_another_fact_is_never_folded(one, other):
    assert list(folded(Chunk("a", one), Chunk("b", other)).values()) == [(), ()]
    assert len(folded(Chunk("a", one), Chunk("b", other), similarity=0.5, across_sources=True)) == 2


MAY = datetime(2023, 5, 1, tzinfo=timezone.utc)
PLACES = [{"source": "acme"}, {"source": "zenith"}, {"metadata": {"customer": "kite"}}, {"event_time": MAY}, {}]


def test_another_place_is_folded_only_where_texts_are_equal_and_the_option_says_so():
    text = "The door to the boiler room is open"
    same = [Chunk(f"c{i}", text, **place) for i, place in enumerate(PLACES)]
    near = [Chunk(f"c{i}", text + " now" * i, **place) for i, place in enumerate(PLACES)]
    assert len(folded(*same)) == len(folded(*near)) == len(folded(*near, across_sources=True)) == len(PLACES)
    (others,) = folded(*same, across_sources=True).values()
    assert len(others) == len(PLACES) - 1


def test_the_next_best_take_the_places_of_the_folded():
    copies = [Chunk(f"a{i}", "The door to the boiler room is open") for i in range(8)]
    others = [Chunk(f"b{i}", f"Door {i} is open") for i in range(5)]
    found = folded(*copies, *others, limit=4)
    assert len(found) == 4 and sum(map(len, found.values())) == 7


def test_every_folded_chunk_is_listed_by_a_hit():
    """ "c" is equal to "b" but for its case, and both are "a" with a plain word added."""
    texts = {
        "a": "the red boat is in the harbour",
        "b": "the red boat is in the old harbour",
        "c": "The Red boat is in the old harbour",
    }
    folding = UmiConfig(duplicates={"enabled": True, "similarity": 0.5})
    with HybridStore.open() as store, DualRetriever(store, config=folding) as umi:
        store.add([Chunk(id, text, source="log") for id, text in texts.items()])
        result = umi.search("the red boat is in the harbour")
        assert [hit.chunk.id for hit in result.hits] == ["a"]
        assert sorted(result.hits[0].duplicates) == ["b", "c"]

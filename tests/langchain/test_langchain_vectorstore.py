"""The LangChain vector store: LangChain's own suite, indexing with a record manager, MMR, thresholds."""

from __future__ import annotations

import random
from datetime import datetime, timezone

import chromadb
import numpy as np
import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_classic.retrievers import TimeWeightedVectorStoreRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.stores import InMemoryByteStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, InvalidChunk, ReindexRequired, SearchUnavailable
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_langchain import UmiRetriever, UmiVectorStore

QUESTION = "run a coroutine with a timeout"


class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        store = UmiVectorStore(self.get_embeddings())
        yield store
        store.close()


class TestStandardOnDisk(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = UmiVectorStore(self.get_embeddings(), str(tmp_path / "umi"))
        yield store
        store.close()


@pytest.fixture(scope="module")
def filled(documents):
    made = UmiVectorStore()
    made.add_documents(documents)
    yield made
    made.close()


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def test_documents_come_back_as_they_were_given(filled, documents):
    assert filled.get_by_ids(ids(documents[:5])[::-1]) == documents[:5][::-1]
    assert filled.get_by_ids(["unknown", documents[0].id]) == documents[:1]


async def test_searches_are_those_of_the_core(filled):
    expected = filled.umi.search(QUESTION, limit=6)
    assert ids(filled.similarity_search(QUESTION, k=6)) == expected.ids
    assert ids(await filled.asimilarity_search(QUESTION, k=6)) == expected.ids
    scored = filled.similarity_search_with_score(QUESTION, k=6)
    assert [score for _, score in scored] == [hit.score for hit in expected]
    assert await filled.asimilarity_search_with_score(QUESTION, k=6) == scored
    assert ids(filled.as_retriever(search_kwargs={"k": 6}).invoke(QUESTION)) == expected.ids
    assert ids(filled.retriever(k=6).invoke(QUESTION)) == expected.ids


def test_a_filter_holds_for_every_kind_of_search(filled):
    where = {"source": "heapq"}
    found = [
        filled.similarity_search("merge", filter=where),
        filled.max_marginal_relevance_search("merge", filter=where),
        filled.as_retriever(search_kwargs={"filter": where}).invoke("merge"),
    ]
    assert all(documents and {d.metadata["source"] for d in documents} == {"heapq"} for documents in found)


@pytest.mark.parametrize("live", [False, True], ids=["umi's store", "a live Chroma collection"])
@pytest.mark.parametrize("acl", [{"groups": ["board"]}, {}, [{"group": "board"}], [["board"]]])
def test_nested_metadata_is_there_and_is_not_none_to_a_filter(acl, live, tmp_path):
    """A chunk with restrictions does not pass a filter for chunks without any."""
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("nested")
    store = ChromaStore(collection, HashEmbedder()) if live else HybridStore.open(embedder=HashEmbedder())
    secret = Document("the merger plan", metadata={"acl": acl, "n": 1})
    documents = UmiVectorStore(store=store)
    documents.add_documents(
        [secret, Document("the merger news", metadata={"n": 2}), Document("merger", metadata={"acl": None})]
    )

    def found(condition):
        return {document.page_content for document in documents.similarity_search("merger", filter={"acl": condition})}

    assert found(None) == found({"$exists": False}) == {"the merger news", "merger"}
    assert found({"$exists": True}) == found({"$ne": None}) == {"the merger plan"}
    assert [document.metadata for document in documents.similarity_search("plan", filter={"n": 1})] == [secret.metadata]


async def test_a_vector_finds_its_nearest(filled):
    vector = default_embedder().embed_documents(["merge sorted inputs"])[0]
    texts = {id: filled.get_by_ids([id])[0].page_content for id in filled.store.ids()}
    cosines = default_embedder().embed_documents(list(texts.values())) @ vector
    nearest = [list(texts)[row] for row in np.argsort(-cosines)[:3]]
    plain = UmiVectorStore(store=filled.store, neighbours={"enabled": False}, duplicates={"enabled": False})
    assert ids(plain.similarity_search_by_vector(vector.tolist(), k=3)) == nearest
    assert ids(await plain.asimilarity_search_by_vector(vector.tolist(), k=3)) == nearest


async def test_a_vector_finds_as_many_as_are_asked_for_those_of_a_negative_cosine_last():
    store = UmiVectorStore.from_texts(["170", "95", "10", "-60"], Compass())
    nearest = ["10", "-60", "95", "170"]
    assert [document.page_content for document in store.similarity_search_by_vector([1.0, 0.0], k=4)] == nearest
    assert [document.page_content for document in store.similarity_search("0", k=4, strategy="vector")] == nearest
    behind = UmiVectorStore.from_texts(["170", "95"], Compass())
    assert [document.page_content for document in behind.similarity_search_by_vector([1.0, 0.0])] == ["95", "170"]


async def test_relevance_is_that_of_the_hits_and_falls_and_a_threshold_cuts_by_it(filled):
    scored = filled.similarity_search_with_relevance_scores(QUESTION, k=20)
    assert await filled.asimilarity_search_with_relevance_scores(QUESTION, k=20) == scored
    hits = filled.umi.search(QUESTION, limit=20)
    assert [(document.id, relevance) for document, relevance in scored] == [
        (hit.chunk.id, hit.relevance) for hit in hits
    ]
    assert 1 >= scored[0][1] > scored[-1][1] >= 0
    assert [relevance for _, relevance in scored] == sorted((relevance for _, relevance in scored), reverse=True)
    cut = sorted(relevance for _, relevance in scored)[10]
    retriever = filled.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"k": 20, "score_threshold": cut}
    )
    assert ids(retriever.invoke(QUESTION)) == [d.id for d, relevance in scored if relevance >= cut]
    assert ids(await retriever.ainvoke(QUESTION)) == ids(retriever.invoke(QUESTION))


class Compass(Embeddings):
    """Texts are directions in degrees."""

    def embed_query(self, text: str) -> list[float]:
        angle = np.radians(float(text))
        return [float(np.cos(angle)), float(np.sin(angle))]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def test_a_reranker_is_not_asked_where_there_is_no_query_but_a_vector():
    """It was asked for the query "", and its order replaced that of the cosines."""
    longest_first = lambda query, texts: [float(len(text)) for text in texts]  # noqa: E731
    with UmiVectorStore.from_texts(["0", "10", "-170"], Compass(), reranker=longest_first) as store:
        nearest = store.similarity_search_by_vector([1.0, 0.0])
        assert [document.page_content for document in nearest] == ["0", "10", "-170"]
        assert store.similarity_search("0")[0].page_content == "-170"


async def test_mmr_comes_in_the_order_of_choice_with_scores():
    # Cosines to 0: 10 .985, 20 .940, -40 .766, 60 .5; to 10: 20 .985, -40 .643, 60 .643. With lambda .3, after 10:
    # 20 .3 * .940 - .7 * .985 = -.408, -40 .3 * .766 - .7 * .643 = -.220, 60 .3 * .5 - .7 * .643 = -.300.
    stages = {"neighbours": {"enabled": False}, "duplicates": {"enabled": False}}
    store = UmiVectorStore.from_texts(["10", "20", "60", "-40"], Compass(), **stages)
    query = [1.0, 0.0]
    texts = [document.page_content for document in store.similarity_search_by_vector(query, k=3)]
    assert texts == ["10", "20", "-40"]
    diverse = store.max_marginal_relevance_search_by_vector(query, k=2, lambda_mult=0.3)
    assert [document.page_content for document in diverse] == ["10", "-40"]
    assert await store.amax_marginal_relevance_search_by_vector(query, k=2, lambda_mult=0.3) == diverse
    scored = store.max_marginal_relevance_search_with_score("0", k=3)
    assert [document for document, _ in scored] == await store.amax_marginal_relevance_search("0", k=3)
    assert all(np.isfinite(score) for _, score in scored)
    store.close()


def test_ids_given_beside_the_documents_win_and_documents_stay_as_they_are():
    document = Document(id="own", page_content="text")
    store = UmiVectorStore()
    assert store.add_documents([document], ids=["given"]) == ["given"]
    assert document.id == "own"
    with pytest.raises(ConfigError, match="1 documents and 2 ids"):
        store.add_documents([document], ids=["a", "b"])
    store.close()


async def test_texts_go_in_and_out_asynchronously():
    store = UmiVectorStore()
    assert await store.aadd_texts(["one", "two"], [{"n": 1}, {"n": 2}], ids=["a", "b"]) == ["a", "b"]
    assert ids(await store.aget_by_ids(["b"])) == ["b"]
    await store.adelete(["a"])
    assert ids(await store.asimilarity_search("one")) == ["b"]
    store.close()


async def test_texts_added_asynchronously_are_all_stored_or_refused_as_by_the_synchronous_call():
    store = UmiVectorStore()
    assert len(await store.aadd_texts(text for text in ("one", "two"))) == 2
    assert await store.aadd_texts(["three"], None, ["c"]) == ["c"]
    with pytest.raises(ConfigError, match="3 texts and 2 ids"):
        await store.aadd_texts(["four", "five", "six"], ids=["d", "e"])
    store.close()


def test_a_bad_document_stops_the_whole_batch():
    store = UmiVectorStore()
    with pytest.raises(InvalidChunk, match="document 1"):
        store.add_documents([Document(page_content="good"), Document(page_content="")])
    assert len(store.store) == 0
    store.close()


def test_a_directory_and_a_store_are_not_given_together(tmp_path):
    with HybridStore.open() as store, pytest.raises(ConfigError, match="leave embedding and persist_directory out"):
        UmiVectorStore(persist_directory=str(tmp_path), store=store)


WORDS = "apple bread cloud drum eagle forest glass honey island jungle kettle lemon mirror ocean".split()  # noqa: SIM905


def corpus(size: int, version: int) -> list[Document]:
    draw = random.Random(11)
    found = []
    for n in range(size):
        text = " ".join(draw.choices(WORDS, k=8)) + f" item{n}"
        if n % 10 == 0:
            text += f" version{version}"
        found.append(Document(page_content=text, metadata={"source": f"file{n // 20}"}))
    return found


def agrees(store: UmiVectorStore, documents: list[Document]) -> None:
    """Both arms know exactly these documents."""
    assert len(store.store) == len(documents)
    kept = store.get_by_ids(store.store.ids())
    assert {d.page_content for d in kept} == {d.page_content for d in documents}
    assert store.store.verify()
    draw = random.Random(5)
    for document in draw.sample(documents, 10):
        for strategy in ("text", "vector"):
            found = store.similarity_search(document.page_content, k=3, strategy=strategy)
            assert document.page_content in [d.page_content for d in found]


@pytest.mark.parametrize("cleanup", [None, "incremental", "full", "scoped_full"])
def test_indexing_two_thousand_documents_three_times_keeps_both_arms_in_step(cleanup):
    store = UmiVectorStore(neighbours={"enabled": False})
    records = InMemoryRecordManager("umi")
    records.create_schema()

    def run(documents: list[Document]) -> dict[str, int]:
        return index(documents, records, store, cleanup=cleanup, source_id_key="source", key_encoder="blake2b")

    first = corpus(2_000, 1)
    assert run(first)["num_added"] == 2_000
    agrees(store, first)
    changed = corpus(2_000, 2)
    counts = run(changed)
    assert counts["num_added"] == 200 and counts["num_skipped"] == 1_800
    stale = first[::10] if cleanup is None else []
    agrees(store, changed + stale)
    shorter = corpus(1_980, 2)
    counts = run(shorter)
    assert counts["num_added"] == 0 and counts["num_deleted"] == (20 if cleanup == "full" else 0)
    agrees(store, (shorter if cleanup == "full" else changed) + stale)
    store.close()


async def test_asynchronous_indexing_does_the_same():
    store = UmiVectorStore()
    records = InMemoryRecordManager("umi")
    await records.acreate_schema()
    for size in (300, 200):
        await aindex(corpus(size, 1), records, store, cleanup="full", source_id_key="source", key_encoder="blake2b")
        agrees(store, corpus(size, 1))
    store.close()


def test_the_retriever_over_it_sees_what_is_written(filled, documents):
    retriever = filled.retriever(k=3)
    assert isinstance(retriever, UmiRetriever)
    filled.add_texts(["zyzzyva beetles eat palms"], ids=["beetle"])
    assert retriever.invoke("zyzzyva")[0].id == "beetle"
    filled.delete(["beetle"])
    assert all(document.id != "beetle" for document in retriever.invoke("zyzzyva"))


class KeyExpires(Embeddings):
    """Embeds documents; refuses queries, as a provider does once the key has expired."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        raise PermissionError("key sk-1 has expired")


async def test_a_score_threshold_that_cannot_be_evaluated_is_an_error():
    store = UmiVectorStore.from_texts(["one text", "another text"], KeyExpires())
    retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5})
    with pytest.raises(SearchUnavailable, match=r"score_threshold need the vectors.*embedder: PermissionError"):
        retriever.invoke("text")
    with pytest.raises(SearchUnavailable, match="similarity_search_with_score"):
        await retriever.ainvoke("text")
    assert store.similarity_search_with_score("text")
    store.close()
    plain = UmiVectorStore.from_texts(["one text"])
    with pytest.raises(SearchUnavailable, match="the strategy is 'text'"):
        plain.similarity_search_with_relevance_scores("text", strategy="text")
    plain.close()
    empty = UmiVectorStore()
    assert empty.similarity_search_with_relevance_scores("text", score_threshold=0.5) == []
    empty.close()


class Model(KeyExpires):
    """An embedding model that states its name, as OpenAIEmbeddings does; all have the same dimension."""

    def __init__(self, model: str) -> None:
        self.model = model

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]


def test_a_store_refuses_another_model_of_the_same_dimension_also_behind_a_cache(tmp_path):
    def cached(model: str) -> Embeddings:
        return CacheBackedEmbeddings.from_bytes_store(
            Model(model), InMemoryByteStore(), namespace=model, key_encoder="blake2b"
        )

    UmiVectorStore.from_texts(["one"], cached("large"), persist_directory=str(tmp_path)).close()
    for other in (cached("small"), Model("small"), None):
        with pytest.raises(ReindexRequired, match="Model/large"):
            UmiVectorStore(other, str(tmp_path))
    UmiVectorStore(Model("large"), str(tmp_path)).close()


@pytest.fixture
def two_users():
    made = UmiVectorStore.from_texts(
        ["a note", "one note"], metadatas=[{"user": "ann"}, {"user": "bob"}], ids=["a", "b"]
    )
    yield made
    made.close()


@pytest.mark.parametrize("query", ["note", "", "  "])
async def test_filter_and_where_must_both_pass_also_for_a_blank_query(two_users, query):
    ann, bob = {"user": "ann"}, {"user": "bob"}
    for options in ({"filter": ann}, {"where": ann}, {"filter": ann, "where": {"user": {"$ne": "bob"}}}):
        assert ids(two_users.similarity_search(query, **options)) == ["a"]
        assert ids(await two_users.asimilarity_search(query, **options)) == ["a"]
    assert two_users.similarity_search(query, filter=ann, where=bob) == []
    assert two_users.as_retriever(search_kwargs={"filter": ann}).invoke(query, where=bob) == []
    with pytest.raises(TypeError, match="no option 'fliter'; did you mean filter"):
        two_users.similarity_search(query, fliter=ann)


async def test_a_delete_with_an_option_that_there_is_not_removes_nothing(two_users):
    for options in ({"filter": {"user": "ann"}}, {"delete_all": True}):
        with pytest.raises(TypeError, match="expected one of ids, where"):
            two_users.delete(["a", "b"], **options)
        with pytest.raises(TypeError, match="expected one of ids, where"):
            await two_users.adelete(["a", "b"], **options)
    two_users.delete(["a", "b"], where={"user": "ann"})
    assert two_users.store.ids() == ["b"]


class OfAnn(UmiVectorStore):
    """Searches Ann's documents alone."""

    def similarity_search_with_score(self, query, k=4, filter=None, **options):
        return super().similarity_search_with_score(query, k, {"user": "ann"}, **options)

    def max_marginal_relevance_search(self, query, k=4, **options):
        return super().max_marginal_relevance_search(query, k, **{**options, "filter": {"user": "ann"}})


async def test_what_a_subclass_changes_in_a_search_holds_for_the_asynchronous_one():
    with OfAnn() as store:
        store.add_texts(["the plan of Ann", "the plan of Bob"], [{"user": "ann"}, {"user": "bob"}])
        assert len(store.similarity_search("plan")) == len(await store.asimilarity_search("plan")) == 1
        for kind in ("similarity", "mmr"):
            (found,) = await store.as_retriever(search_type=kind).ainvoke("plan")
            assert found.metadata == {"user": "ann"}


async def test_what_a_subclass_changes_in_the_scores_of_mmr_holds_for_every_search_by_mmr():
    class Rounded(UmiVectorStore):
        def max_marginal_relevance_search_with_score(self, *args, **options):
            found = super().max_marginal_relevance_search_with_score(*args, **options)
            return [(Document("rounded", id=document.id), round(score)) for document, score in found]

    with Rounded.from_texts(["the plan of Ann"]) as store:
        for found in (store.max_marginal_relevance_search("plan"), await store.amax_marginal_relevance_search("plan")):
            assert [document.page_content for document in found] == ["rounded"]


def test_a_listing_of_more_than_a_hundred_may_be_asked_for_by_a_number_of_numpy():
    with UmiVectorStore.from_texts([f"text {n}" for n in range(102)]) as store:
        assert len(store.similarity_search("", k=np.int64(101))) == len(store.similarity_search("", k=101)) == 101


def test_a_threshold_is_given_by_one_name():
    with UmiVectorStore.from_texts(["the plan of Ann"]) as store, pytest.raises(ConfigError, match="two names of one"):
        store.similarity_search_with_relevance_scores("plan", score_threshold=0.1, min_relevance=0.9)


def test_a_time_weighted_retriever_over_the_store_takes_the_time_of_its_documents():
    with UmiVectorStore() as store:
        retriever = TimeWeightedVectorStoreRetriever(vectorstore=store, decay_rate=0.01, k=1)
        moment = datetime(2024, 5, 1, tzinfo=timezone.utc).replace(tzinfo=None)  # as that retriever compares times
        retriever.add_documents([Document(page_content="the kettle is red")], current_time=moment)
        (found,) = retriever.invoke("kettle")
        assert found.metadata["created_at"] == moment


def test_a_cell_with_a_store_or_a_retriever_in_it_shows_where_the_texts_are(tmp_path):
    with UmiVectorStore(persist_directory=str(tmp_path / "memory")) as store:
        where = f"HybridStore({str(tmp_path / 'memory')!r})"
        assert repr(store) == f"UmiVectorStore({where})"
        assert repr(store.retriever(k=3)) == f"UmiRetriever(umi=DualRetriever({where}), k=3)"
        assert repr(store) in repr(store.as_retriever())


def test_a_store_is_made_from_a_loaders_lazy_documents():
    lazy = (Document(page_content=f"text number {n}", metadata={"n": n}) for n in range(3))
    with UmiVectorStore.from_documents(lazy) as store:
        assert [document.metadata["n"] for document in store.similarity_search("text number 2", k=1)] == [2]


def test_a_retriever_from_umis_own_vector_store_says_where_it_is(filled):
    with pytest.raises(ConfigError, match=r"if a UmiVectorStore, use its \.retriever\(\)"):
        UmiRetriever.from_vectorstore(filled)

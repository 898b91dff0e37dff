"""What a LangChain engineer types first, in the ecosystem's own words."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from uuid import uuid4

import pandas
import pytest
from langchain_chroma import Chroma
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, RemoveMessage
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.schema import TextNode

from umi_common import Chunk, HybridStore
from umi_common.errors import (
    ConfigError,
    EmptyQuery,
    InputError,
    InvalidChunk,
    InvalidLimit,
    InvalidTimeRange,
    InvalidVector,
    ReindexRequired,
    StoreClosed,
    StoreLocked,
)
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.directory import WriterLock
from umi_langchain import (
    UmiCompressor,
    UmiDecay,
    UmiMMR,
    UmiRetriever,
    UmiStore,
    UmiVectorStore,
    create_umi_context,
    create_umi_tool,
)
from umi_langchain._messages import as_turns

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
TEXTS = ["Ann met Bob in Paris", "Bob met Carl in Rome", "Carl met Dora in Oslo"]
METADATAS = [{"user": user, "timestamp": (MAY + timedelta(days=d)).isoformat()} for d, user in enumerate("aba")]


class OnlyAsynchronous(Embeddings):
    """A model that has asynchronous methods alone."""

    def embed_documents(self, texts):
        raise NotImplementedError

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        return DeterministicFakeEmbedding(size=64).embed_documents(texts)

    async def aembed_query(self, text):
        return (await self.aembed_documents([text]))[0]


@pytest.fixture
def retriever():
    made = UmiRetriever.from_texts(TEXTS, metadatas=METADATAS, ids=["0", "1", "2"])
    yield made
    made.close()


@pytest.fixture
def store():
    made = UmiVectorStore.from_texts(TEXTS, metadatas=METADATAS, ids=["0", "1", "2"])
    yield made
    made.close()


def ids(documents):
    return {document.id for document in documents}


def test_documents_is_the_keyword_and_docs_still_works():
    documents = [Document(id="a", page_content="one")]
    for retriever in (UmiRetriever.from_documents(documents=documents), UmiRetriever.from_documents(docs=documents)):
        assert ids(retriever.invoke("one")) == {"a"}
        retriever.close()


def test_texts_take_an_embedding_as_vector_stores_do_or_metadatas_as_retrievers_do(embeddings):
    as_stores = UmiRetriever.from_texts(TEXTS, embeddings, METADATAS, ["0", "1", "2"])
    assert embeddings.documents == 3
    without_a_model = UmiRetriever.from_texts(TEXTS, None, METADATAS, ["0", "1", "2"])
    as_retrievers = UmiRetriever.from_texts(TEXTS, METADATAS, ["0", "1", "2"])
    for retriever in (as_stores, without_a_model, as_retrievers):
        assert ids(retriever.invoke("who met Carl?", filter={"user": "b"})) == {"1"}
        retriever.close()


def test_an_empty_filter_is_no_filter(retriever, store):
    assert len(retriever.invoke("who met Carl?", filter={})) == len(store.similarity_search("Carl", filter={})) == 3
    assert len(UmiRetriever.from_store(store.store, filter={}).invoke("who met Carl?")) == 3


async def test_a_query_of_the_store_that_is_no_text_is_refused(store):
    with pytest.raises(InputError, match="query is NoneType; expected str"):
        store.similarity_search(None)
    with pytest.raises(InputError, match="query is NoneType; expected str"):
        await store.asimilarity_search(None)


@pytest.mark.parametrize("search_type", ["similarity", "mmr"])
def test_a_vector_store_takes_the_messages_of_a_chat_as_history(store, search_type):
    history = [HumanMessage("Who is Dora?"), AIMessage("She met Carl in Oslo.")]
    for search in (store.search, store.as_retriever(search_type=search_type).invoke):
        options = {"search_type": search_type} if search == store.search else {}
        assert "2" in ids(search("and where was that?", k=2, history=history, **options))


async def test_a_blank_query_lists_by_filter_as_self_query_retrievers_ask(store):
    for blank in (" ", ""):
        assert ids(store.similarity_search(blank, filter={"user": "a"})) == {"0", "2"}
        assert ids(await store.asimilarity_search(blank, filter={"user": "a"}, k=1)) == {"0"}
        assert store.similarity_search_with_score(blank, k=2)[0][1] == 0.0
        assert len(await store.asimilarity_search_with_score(blank)) == 3
        assert ids(store.max_marginal_relevance_search(blank, filter={"user": "a"})) == {"0", "2"}
        assert ids(await store.amax_marginal_relevance_search(blank, filter={"user": "a"}, k=1)) == {"0"}
    assert ids(store.similarity_search(" ", time_range=(MAY + timedelta(days=1), None))) == {"1", "2"}


async def test_a_blank_query_has_no_relevance_to_lack_and_lists_what_passes_the_filter(store):
    """`SelfQueryRetriever` with a threshold sends a blank query when the LLM wrote a filter alone."""
    asked = {"filter": {"user": "a"}, "score_threshold": 0.9}
    for found in (
        store.similarity_search_with_relevance_scores(" ", **asked),
        await store.asimilarity_search_with_relevance_scores("", **asked),
    ):
        assert [(document.id, relevance) for document, relevance in found] == [("0", 1.0), ("2", 1.0)]
    found = store.as_retriever(search_type="similarity_score_threshold", search_kwargs=asked).invoke("")
    assert ids(found) == ids(store.similarity_search("", filter={"user": "a"}, min_relevance=0.9)) == {"0", "2"}


@pytest.mark.parametrize("query", ["", "Ann"])
def test_a_wrong_option_of_a_blank_query_is_refused_like_that_of_any_other(store, query):
    for error, options in (
        (ConfigError, {"strategy": "zz"}),
        (ConfigError, {"min_relevance": 7}),
        (InvalidLimit, {"limit": "a"}),
        (InvalidTimeRange, {"now": 3}),
    ):
        with pytest.raises(error):
            store.similarity_search(query, **options)


def test_a_search_by_no_vector_says_what_it_expects(store):
    for search in (store.similarity_search_by_vector, store.max_marginal_relevance_search_by_vector):
        with pytest.raises(InvalidVector, match="embedding is None; expected a list of numbers"):
            search(None)


@pytest.mark.parametrize("query", ["", "Ann"])
@pytest.mark.parametrize("k", ["2", None, 2.0])
def test_a_number_of_documents_that_is_no_whole_number_is_named(store, query, k):
    for search in (store.similarity_search, store.max_marginal_relevance_search):
        with pytest.raises(InvalidLimit, match=f"k {k!r}: expected a whole number"):
            search(query, k=k)


def test_a_pool_of_mmr_that_is_no_number_is_named(store):
    with pytest.raises(ConfigError, match=r"mmr\.pool"):
        store.max_marginal_relevance_search("Ann", fetch_k=None)


def test_a_retriever_refuses_a_blank_query(retriever):
    with pytest.raises(EmptyQuery):
        retriever.invoke(" ")


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"persist_dir": "x"}, "did you mean persist_directory"),
        ({"rernaker": None}, "did you mean reranker"),
        ({"collection_name": "x"}, "persist_directory"),
        ({"search_kwargs": {}}, "k and filter"),
        ({"config": None}, "fusion="),
        ({"strategy": "text"}, "invoke"),
        ({"weights": [0.5, 0.5]}, "lexical_weight"),
    ],
)
def test_an_unknown_parameter_says_what_was_meant(option, advice):
    for make in (UmiRetriever.from_documents, UmiVectorStore):
        with pytest.raises(ConfigError, match=f"no option '{next(iter(option))}'.*{advice}"):
            make(**option)


def test_the_letter_k_is_not_taken_for_a_reranker():
    with pytest.raises(ConfigError, match="no option 'k'; expected one of embedding"):
        UmiVectorStore(k=3)


def test_the_settings_of_the_embedder_are_given_like_those_of_every_stage(embeddings):
    """`embedder` is also the name of an argument inside umi: the call raised a TypeError."""
    for made in (
        UmiRetriever.from_texts(TEXTS, embeddings, embedder={"retry_seconds": 5}),
        UmiVectorStore.from_texts(TEXTS, embeddings, embedder={"retry_seconds": 5}),
    ):
        with made:
            assert made.umi.config.embedder.retry_seconds == 5


@pytest.mark.parametrize("fields", [{}, {"whole": "section"}])
def test_a_retriever_of_nothing_says_how_one_is_made(fields):
    with pytest.raises(ConfigError, match=r"umi is missing; UmiRetriever\.from_documents\(documents, \.\.\.\)"):
        UmiRetriever(**fields)


def test_an_unknown_option_of_a_call_says_what_was_meant(retriever):
    with pytest.raises(TypeError, match=r"no option 'filters'; did you mean filter"):
        retriever.invoke("who?", filters={})


def test_a_time_range_of_a_call_narrows_the_retrievers_own(store):
    own = store.retriever(time_range=(MAY + timedelta(days=1), None))
    assert ids(own.invoke("who met?", time_range=(MAY, MAY + timedelta(days=2)))) == {"1"}
    with pytest.raises(InvalidTimeRange, match="lies outside the retriever's own"):
        own.invoke("who met?", time_range=(MAY, MAY + timedelta(hours=1)))


@pytest.mark.parametrize(
    "history",
    [[("human", "hello"), ("ai", "hi")], [{"role": "user", "content": "hello"}, AIMessage("hi")], ["hello", "hi"]],
)
def test_history_is_taken_in_every_form_of_chat_messages(store, history):
    prompts = []

    def llm(prompt):
        prompts.append(prompt)
        return "[]"

    retriever = UmiRetriever.from_store(store.store, llm=llm, routing={"mode": "always"})
    retriever.invoke("who met Carl?", history=history)
    assert "hello" in prompts[0] and "hi" in prompts[0]
    retriever.close()


def test_a_deep_copy_searches_the_same_store(retriever):
    assert ids(copy.deepcopy(retriever).invoke("Carl")) == ids(retriever.invoke("Carl"))


def test_two_retrievers_of_one_class_may_be_arms(store):
    class Fixed(BaseRetriever):
        found: list[Document]

        def _get_relevant_documents(self, query, *, run_manager):
            return self.found

    arms = [Fixed(found=[Document(id=str(n), page_content=TEXTS[n])]) for n in range(2)]
    retriever = UmiRetriever.from_store(store.store, arms=arms)
    result = retriever.search("Carl")
    assert {"Fixed", "Fixed 2"} <= {signal.arm for hit in result for signal in hit.signals}
    retriever.close()


def test_millisecond_timestamps_are_times():
    milliseconds = int(MAY.timestamp() * 1000)
    retriever = UmiRetriever.from_texts(["May Day"], metadatas=[{"timestamp": milliseconds}])
    assert retriever.invoke("day", time_range=(MAY, MAY + timedelta(days=1)))
    retriever.close()


@pytest.mark.parametrize(
    ("package", "framework", "extra"),
    [("umi_langchain", "langchain_core", "langchain"), ("umi_llamaindex", "llama_index", "llamaindex")],
)
def test_a_missing_framework_gives_the_pip_line(package, framework, extra):
    code = f"import sys; sys.modules[{framework!r}] = None; import {package}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'umi-retrieval[{extra}]'" in run.stderr


def test_a_pickled_retriever_reads_the_same_directory_and_one_in_memory_says_what_to_do(tmp_path, retriever):
    kept = UmiRetriever.from_texts(
        TEXTS, metadatas=METADATAS, persist_directory=str(tmp_path), k=2, fusion={"method": "rrf"}
    )
    found = kept.invoke("Carl", filter={"user": "a"})
    pickled = pickle.dumps(kept)
    kept.close()
    again = pickle.loads(pickled)  # noqa: S301 our own bytes
    assert again.invoke("Carl", filter={"user": "a"}) == found
    assert (again.k, again.umi.config.fusion.method, again.umi.store.read_only) == (2, "rrf", True)
    again.close()
    with pytest.raises(ConfigError, match=r"in memory cannot be pickled.*directory"):
        pickle.dumps(retriever)


@pytest.mark.parametrize("model", [DeterministicFakeEmbedding(size=64), OnlyAsynchronous()], ids=["model", "async"])
def test_a_vector_store_with_a_model_of_langchains_can_be_pickled(tmp_path, model):
    """As Ray, Dask and `multiprocessing` do; a retriever over it is pickled with it."""
    with UmiVectorStore.from_texts(TEXTS, model, ids=["0", "1", "2"], persist_directory=str(tmp_path)) as kept:
        for made in (kept, kept.retriever(k=1), kept.as_retriever()):
            again = pickle.loads(pickle.dumps(made))  # noqa: S301 our own bytes
            found = again.similarity_search(TEXTS[2]) if made is kept else again.invoke(TEXTS[2])
            assert found[0].page_content == TEXTS[2]


def test_a_retriever_with_parts_of_langchains_can_be_pickled(tmp_path):
    arm = InMemoryVectorStore.from_texts(["Emil met Fay in Prag"], DeterministicFakeEmbedding(size=64))
    parts = {"reranker": UmiMMR(top_n=1), "arms": [arm], "llm": FakeListChatModel(responses=['["Prag"]'])}
    with UmiRetriever.from_texts(TEXTS, persist_directory=str(tmp_path), **parts) as kept:
        again = pickle.loads(pickle.dumps(kept))  # noqa: S301 our own bytes
        found = again.search("Emil")
        assert found.ids == kept.search("Emil").ids and len(found.ids) == 1 and not found.degraded
        again.close()


def test_a_retriever_pickled_in_another_process_searches_beside_the_writer(tmp_path):
    kept = UmiRetriever.from_texts(TEXTS, ids=["0", "1", "2"], persist_directory=str(tmp_path / "store"))
    (tmp_path / "pickled").write_bytes(pickle.dumps(kept))
    code = "import pickle, sys; print([d.id for d in pickle.load(open(sys.argv[1], 'rb')).invoke('Paris', k=1)])"
    command = [sys.executable, "-c", code, str(tmp_path / "pickled")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "['0']", run.stderr
    kept.close()


@pytest.mark.parametrize("ask", ["k of a call", "k of a retriever", "k of a vector store"])
def test_more_than_a_hundred_are_refused_with_the_way_to_more(retriever, store, ask):
    with pytest.raises(InvalidLimit, match=r"k 200: expected a whole number from 1 to 100; .*scan"):
        if ask == "k of a call":
            retriever.invoke("Carl", k=200)
        elif ask == "k of a retriever":
            store.retriever(k=200)
        else:
            store.similarity_search("Carl", k=200)


def test_a_list_by_filter_has_no_bound(store):
    store.add_texts([f"note {n}" for n in range(150)], metadatas=[{"user": "many"}] * 150)
    assert len(store.similarity_search("", k=200, filter={"user": "many"})) == 150
    with pytest.raises(InvalidLimit, match="k 0"):
        store.similarity_search("", k=0)


async def test_ids_are_taken_after_the_documents_as_by_the_in_memory_vector_store(retriever, store):
    for made in (InMemoryVectorStore(DeterministicFakeEmbedding(size=8)), store, retriever):
        assert made.add_documents([Document(page_content="Dora met Emil")], ["first"]) == ["first"]
        assert await made.aadd_documents([Document(page_content="Emil met Fay")], ["second"]) == ["second"]


async def test_a_retriever_takes_and_removes_documents(retriever):
    given = [Document(id="new", page_content="Dora met Emil in Bern", metadata={"user": "c"})]
    assert retriever.add_documents(given) == ["new"]
    assert ids(retriever.invoke("Emil", k=1)) == {"new"}
    assert await retriever.aadd_documents([Document(page_content="Emil met Fay in Prag")], ids=["newer"]) == ["newer"]
    assert ids(retriever.invoke("Fay", k=1)) == {"newer"}
    assert retriever.delete(["new", "unknown"]) and await retriever.adelete(["newer"])
    assert ids(retriever.invoke("Emil")) == {"0", "1", "2"}
    scoped = UmiRetriever.from_store(retriever.umi.store, filter={"user": "a"})
    assert (
        scoped.delete(["0", "1"]) and scoped.delete(where={"user": "b"}) and ids(retriever.invoke("Emil")) == {"1", "2"}
    )
    assert retriever.delete(where={"user": "a"}) and ids(retriever.invoke("Emil")) == {"1"}
    with pytest.raises(InputError):
        scoped.delete()


@pytest.mark.parametrize("given", [["Ann met Bob"], Document("Ann met Bob"), "Ann met Bob", None])
def test_what_is_no_list_of_documents_says_what_to_pass(store, given):
    for take in (UmiRetriever.from_documents, UmiVectorStore.from_documents, store.add_documents):
        with pytest.raises(InvalidChunk, match=r"expected a list of LangChain Documents; from_texts takes strings"):
            take(given)


def test_nodes_chunks_and_tables_in_place_of_documents_say_what_takes_them(store):
    table = pandas.DataFrame({"text": ["Ann met Bob"], "year": [2024]})
    for take in (UmiRetriever.from_documents, UmiVectorStore.from_documents, store.add_documents):
        with pytest.raises(InvalidChunk, match=r"umi_llamaindex.UmiRetriever.from_nodes takes LlamaIndex nodes"):
            take([TextNode(text="Ann met Bob")])
        with pytest.raises(InvalidChunk, match=r"HybridStore.add takes chunks, and UmiRetriever.from_store"):
            take([Chunk("a", "Ann met Bob")])
        with pytest.raises(InvalidChunk, match="documents is DataFrame, a table") as caught:
            take(table)
    code = str(caught.value).partition("; give ")[2]
    (made,) = eval(code, {"Document": Document, "table": table})
    assert (made.page_content, made.metadata) == ("Ann met Bob", {"year": 2024})


def test_a_document_whose_metadata_were_taken_away_is_named(store):
    bare = Document("Dora met Ann")
    bare.metadata = None
    with pytest.raises(InvalidChunk, match="document 1: metadata is NoneType; expected a dict"):
        store.add_documents([Document("Emil met Ann"), bare])


def test_a_blank_page_says_how_to_leave_blank_pages_out():
    with pytest.raises(InvalidChunk, match=r"document 1: .*on_invalid=\"skip\""):
        UmiRetriever.from_documents([Document("Page one."), Document("  ")])


def test_a_skipped_document_without_a_source_has_none():
    skipping = UmiRetriever.from_documents([Document("Page one."), Document("  ")], on_invalid="skip")
    assert [skipped.source for skipped in skipping.skipped] == [None]


async def test_a_vector_store_leaves_blank_pages_out_if_asked(tmp_path):
    """One blank page of a PDF must not stop `index()`, which has no argument for it."""
    pages = [Document(f"Page {n}." if n != 1 else " ", metadata={"source": "a.pdf", "page": n}) for n in range(3)]
    with pytest.raises(InvalidChunk, match=r"UmiVectorStore\(on_invalid=\"skip\"\)"):
        UmiVectorStore.from_documents(pages)
    with UmiVectorStore(on_invalid="skip") as store:
        records = InMemoryRecordManager("memory")
        records.create_schema()
        index(pages, records, store, cleanup="full", source_id_key="source", key_encoder="blake2b")
        assert len(store.store) == 2 and [gone.source for gone in store.skipped] == ["a.pdf"]
        assert len(await store.aadd_documents(pages, ids=["0", "1", "2"])) == 2
    with pytest.raises(ConfigError, match="expected 'raise' or 'skip'"):
        UmiVectorStore(on_invalid="ignore")
    with pytest.raises(ConfigError, match="expected 'raise' or 'skip'"):
        UmiRetriever.from_documents(pages, on_invalid="ignore")
    with UmiRetriever.from_documents(pages, on_invalid="skip") as retriever:
        assert len(retriever.add_documents([Document("Page 4."), Document("")])) == 1
        assert len(retriever.skipped) == 2


def test_a_vector_store_that_skips_returns_no_id_of_a_text_that_it_left_out():
    with UmiVectorStore(on_invalid="skip") as store:
        assert store.add_texts([" ", "a", "b"], ids=["p", "q", "q"]) == ["q"]
        assert [(gone.place, gone.id) for gone in store.skipped] == [(0, "p"), (2, "q")]
        assert [document.page_content for document in store.get_by_ids(["q"])] == ["a"]


def test_a_vector_store_that_skips_says_that_the_old_text_of_an_id_stays(caplog):
    with UmiVectorStore(on_invalid="skip") as store:
        store.add_texts(["The fee is 3 euros."], ids=["fee"])
        assert store.add_texts([" ", " "], ids=["fee", "new"]) == []
        assert store.get_by_ids(["fee"])[0].page_content == "The fee is 3 euros."
    (told,) = [record.getMessage() for record in caplog.records]
    assert "fee" in told and "delete" in told and "new" not in told
    assert told.startswith("2 documents were left out") and "for 1 of them the store still holds an older" in told


def test_a_skipped_document_with_a_number_as_id_does_not_fail_the_call_after_the_others_are_stored():
    with UmiVectorStore(on_invalid="skip") as store:
        pages = [Document("Cats purr."), Document("Dogs bark."), Document("  ")]
        assert store.add_documents(pages, ids=["cats", 7, "blank"]) == ["cats"]
        assert [(each.place, each.id) for each in store.skipped] == [(1, None), (2, "blank")]


def test_a_deep_copy_of_a_vector_store_shares_the_store(store, tmp_path):
    for copied in (copy.deepcopy(store), copy.deepcopy(store.as_retriever()).vectorstore):
        copied.add_texts(["Emil met Fay"], ids=["new"])
        assert ids(store.similarity_search("Emil", k=1)) == {"new"}
        store.delete(["new"])


def test_a_retriever_over_chroma_says_why_it_cannot_be_pickled(tmp_path):
    chroma = Chroma("pickled", DeterministicFakeEmbedding(size=8), persist_directory=str(tmp_path))
    with UmiRetriever.from_vectorstore(chroma) as retriever, pytest.raises(ConfigError, match="in the other process"):
        pickle.dumps(retriever)


@pytest.mark.parametrize("start", ["2024-05-01", MAY.date()])
def test_a_time_range_that_is_no_datetime_shows_one(retriever, start):
    with pytest.raises(InvalidTimeRange, match=r"datetime\(2024, 5, 1, tzinfo=timezone.utc\)"):
        retriever.invoke("Bob", time_range=(start, None))


@pytest.mark.parametrize(
    "times", [{"time_range": ("May", "June")}, {"time_range": (MAY, MAY)}, {"now": datetime(2024, 5, 1)}]
)
def test_a_wrong_time_of_a_retriever_is_said_when_it_is_made_and_not_by_every_search(times):
    with pytest.raises(InvalidTimeRange):
        UmiRetriever.from_texts(TEXTS, **times)


@pytest.mark.parametrize("twice", [{"metadatas": METADATAS}, {"ids": ["a", "b", "c"]}])
def test_texts_with_two_lists_of_metadata_or_ids_are_refused(twice):
    with pytest.raises(TypeError, match="twice, by position and by name"):
        UmiRetriever.from_texts(TEXTS, None, [{"n": 1}] * 3, ["0", "1", "2"], **twice)


async def test_a_vector_store_of_documents_needs_no_embedding():
    documents = [Document(text) for text in TEXTS]
    assert UmiVectorStore.from_documents(documents).similarity_search("Oslo", k=1)[0].page_content == TEXTS[2]
    assert (await UmiVectorStore.afrom_documents(documents)).similarity_search("Oslo", k=1)
    assert (await UmiVectorStore.afrom_texts(TEXTS)).similarity_search("Oslo", k=1)


def test_a_compressors_budget_is_a_number_of_tokens():
    assert UmiCompressor(budget=500).budget.max_total == 500
    assert UmiCompressor().budget == UmiCompressor.model_fields["budget"].default


def test_an_embedding_class_is_refused_with_what_is_missing():
    with pytest.raises(ConfigError, match=r"class DeterministicFakeEmbedding; .*DeterministicFakeEmbedding\(\.\.\.\)"):
        UmiRetriever.from_documents([Document(TEXTS[0])], DeterministicFakeEmbedding)


def test_a_tool_tells_the_model_which_argument_was_wrong(retriever):
    assert "k" in (said := create_umi_tool(retriever).invoke({"query": "Bob", "k": "two"})) and "integer" in said


def test_a_tool_takes_null_and_empty_arguments_for_missing_ones(retriever):
    """OpenAI's strict mode makes a model send every argument."""
    tool = create_umi_tool(retriever)
    left_open = {"k": None, "filter": None, "start": "", "end": None}
    assert tool.invoke({"query": "who met Dora?", **left_open}) == tool.invoke({"query": "who met Dora?"})
    assert "query is empty" in tool.invoke({"query": "", **left_open})


def test_a_star_import_works_without_the_packages_of_agents():
    code = (
        "import sys; sys.modules.update(langchain=None, langgraph=None)\n"
        "from umi_langchain import *\nprint(UmiRetriever.__name__)\n"
        "try:\n    from umi_langchain import UmiStore\nexcept ImportError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == ("UmiRetriever\nlanggraph is not installed; run: pip install 'umi-retrieval[agents]'\n"), (
        run.stderr
    )


def test_with_closes_a_retriever_and_a_vector_store(tmp_path):
    path = str(tmp_path / "store")
    with UmiRetriever.from_texts(["Ann met Bob"], persist_directory=path) as retriever:
        assert retriever.invoke("who met Bob?")
    with UmiVectorStore(persist_directory=path) as store:
        assert store.similarity_search("who met Bob?")
    for closed in (retriever, store):
        with pytest.raises(StoreClosed):
            closed.add_documents([Document(page_content="Bob met Carl")])


async def test_async_with_closes_a_retriever_and_a_vector_store():
    async with UmiRetriever.from_texts(["Ann met Bob"]) as retriever:
        assert await retriever.ainvoke("who met Bob?")
    async with UmiVectorStore.from_texts(["Ann met Bob"]) as store:
        assert await store.asimilarity_search("who met Bob?")
    for closed in (retriever, store):
        with pytest.raises(StoreClosed):
            closed.add_documents([Document(page_content="Bob met Carl")])


def test_a_store_that_another_process_writes_says_what_a_langchain_user_types(tmp_path):
    path = str(tmp_path / "store")
    code = f"from umi_common import HybridStore; store = HybridStore.open({path!r}); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"open\n"
        for opened in (UmiVectorStore, UmiRetriever.from_documents):
            with pytest.raises(StoreLocked, match=r"read_only=True to UmiVectorStore, UmiRetriever\.from_documents"):
                opened(persist_directory=path)
            opened(persist_directory=path, read_only=True).close()
        writer.communicate(b"\n")


@pytest.mark.parametrize("make", [UmiVectorStore.from_texts, UmiRetriever.from_texts])
def test_another_process_can_open_a_directory_after_texts_that_could_not_be_stored(tmp_path, make):
    with pytest.raises(InvalidChunk) as failure:  # its traceback keeps the local variables of the call alive
        make(["Ann met Bob", " "], persist_directory=str(tmp_path))
    WriterLock(tmp_path).release()  # acquires the lock as another process does
    assert failure.value


class Sized(Embeddings):
    """A model without a name, of any dimension."""

    def __init__(self, dim):
        self.dim = dim

    def embed_documents(self, texts):
        return HashEmbedder(self.dim).embed_documents(texts).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.mark.parametrize("read_only", [False, True])
def test_another_dimension_of_the_same_class_is_told_when_the_store_is_opened(tmp_path, read_only):
    path = str(tmp_path / "store")
    UmiVectorStore.from_texts(["Ann met Bob"], Sized(64), persist_directory=path).close()
    with pytest.raises(ReindexRequired, match=r"64 dimensions and embedder '.*Sized' gives 32; .*reindex"):
        UmiVectorStore(Sized(32), path, read_only=read_only)
    with UmiVectorStore(Sized(64), path, read_only=read_only) as store:
        assert store.similarity_search("who met Bob?")


def test_a_store_opens_although_its_model_fails(tmp_path):
    class Failing(Sized):
        def embed_query(self, text):
            raise ValueError("no key")

    Failing.__qualname__ = Sized.__qualname__
    path = str(tmp_path / "store")
    UmiVectorStore.from_texts(["Ann met Bob"], Sized(64), persist_directory=path).close()
    with UmiVectorStore(Failing(64), path) as store:
        assert store.similarity_search("who met Bob?")


@pytest.mark.parametrize("wrong", ["top_k", "similarity_top_k", "limit"])
def test_the_number_of_results_is_called_k(retriever, wrong):
    with pytest.raises(ConfigError, match="did you mean k"):
        UmiRetriever.from_texts(TEXTS, **{wrong: 3})
    with pytest.raises(TypeError, match="did you mean k"):
        retriever.invoke("who?", **{wrong: 3})


def test_one_text_and_none_are_refused_in_place_of_a_list(store):
    with pytest.raises(InvalidChunk, match="texts is one string"):
        UmiRetriever.from_texts("Ann met Bob")
    with pytest.raises(InvalidChunk, match="texts is one string"):
        store.add_texts("Ann met Bob")
    with pytest.raises(InvalidChunk, match="metadatas is one dict; expected a list: "):
        store.add_texts(["Ann met Bob"], {"user": "ann"})


def test_what_holds_no_texts_or_ids_is_refused_by_name(store):
    with pytest.raises(InvalidChunk, match="texts is NoneType; expected a list"):
        UmiRetriever.from_texts(None)
    with pytest.raises(InvalidChunk, match="metadatas is int; expected a list"):
        store.add_texts(["Ann met Bob"], 5)
    with pytest.raises(InvalidChunk, match="ids is int; expected a list"):
        store.add_documents([Document("Ann met Bob")], ids=5)


def test_one_id_in_place_of_a_list_is_refused_and_replaces_no_text(store):
    """It was read letter by letter: the texts with the ids "0" and "1" were replaced."""
    new = ["Dora met Emil", "Emil met Fay"]
    for write in (store.add_texts, lambda texts, ids: store.add_documents([Document(text) for text in texts], ids=ids)):
        with pytest.raises(InvalidChunk, match=r"ids is one string; expected a list: \['01'\]"):
            write(new, ids="01")
    assert [document.page_content for document in store.get_by_ids(["0", "1"])] == TEXTS[:2]


def test_a_text_that_is_no_string_and_a_metadata_that_is_no_dict_are_named(store):
    with pytest.raises(InvalidChunk, match="text 1 is NoneType; expected str"):
        store.add_texts(["Ann met Bob", None])
    with pytest.raises(InvalidChunk, match="metadata 0 is str; expected a dict"):
        UmiRetriever.from_texts(["Ann met Bob"], metadatas=["ann"])


def test_an_id_that_is_no_string_is_named(store):
    for id in (1, uuid4()):
        with pytest.raises(InvalidChunk, match=rf"id 0 is {type(id).__name__}; expected str"):
            store.add_texts(["Ann met Bob"], ids=[id])
        with pytest.raises(InvalidChunk, match=r"document 0: .*expected a non-empty string"):
            store.add_documents([Document(page_content="Ann met Bob")], ids=[id])
        for call in (store.delete, store.get_by_ids):
            with pytest.raises(InputError, match=r"id 0 is .*; expected str"):
                call([id])


def test_ids_and_metadata_may_come_from_a_generator(store):
    texts = ["Dora met Emil", "Emil met Finn"]
    assert store.add_texts(iter(texts), iter([{"n": 1}, {"n": 2}]), ids=iter("xy")) == ["x", "y"]
    assert store.add_documents((Document(page_content=text) for text in texts), ids=iter("vw")) == ["v", "w"]
    assert [document.metadata for document in store.get_by_ids(iter("xyv"))] == [{"n": 1}, {"n": 2}, {}]


def test_a_text_may_have_no_metadata(store):
    added = store.add_texts(["Dora met Emil", "Emil met Finn"], [{"user": "d"}, None])
    assert [document.metadata for document in store.get_by_ids(added)] == [{"user": "d"}, {}]


def test_search_kwargs_say_what_was_meant(store):
    with pytest.raises(TypeError, match="no option 'top_k'; did you mean k"):
        store.as_retriever(search_kwargs={"top_k": 1}).invoke("Ann")
    assert len(store.as_retriever(search_kwargs={"k": 1, "strategy": "text"}).invoke("Ann")) == 1


def test_a_context_takes_a_number_of_tokens(retriever):
    context = create_umi_context(retriever, budget=500)
    assert "Ann met Bob" in context.invoke("who met Bob?")


def test_a_path_is_no_store():
    with pytest.raises(ConfigError, match=r"store is str; expected a store: HybridStore\.open\(path\)"):
        UmiRetriever.from_store("./memory")


def test_a_wrong_setting_of_a_stage_says_what_was_meant():
    with pytest.raises(ConfigError, match=r"fusion\.methd: no such setting; did you mean method\?; got 'rrf'"):
        UmiRetriever.from_texts(TEXTS, fusion={"methd": "rrf"})


@pytest.mark.parametrize(("stage", "names"), [({"mmr": True}, "enabled, trade_off"), ({"embedder": "minilm"}, "model")])
def test_a_stage_that_is_given_one_value_names_its_settings(stage, names):
    with pytest.raises(ConfigError, match=f"expected a dict of settings: {names}"):
        UmiRetriever.from_texts(TEXTS, **stage)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda store: UmiRetriever(umi=store), r"expected a DualRetriever: DualRetriever\(store\)"),
        (lambda store: UmiMMR(topn=1), "did you mean top_n"),
        (lambda store: UmiDecay(), r"UmiDecay\.half_life_hours is missing"),
        (lambda store: UmiCompressor(max_tokens=500), "expected one of budget"),
        (create_umi_tool, r"retriever is HybridStore; .*UmiRetriever\.from_store\(store\)"),
        (create_umi_context, r"retriever is HybridStore; .*UmiRetriever\.from_store\(store\)"),
    ],
)
def test_a_wrong_field_says_what_was_meant(make, advice):
    with HybridStore.open() as store, pytest.raises(ConfigError, match=advice):
        make(store)


LONG = "blah é " * 5_010 + "who met Dora?"


async def test_a_long_message_of_a_chat_is_searched_by_its_end(retriever, store, caplog):
    asked = [
        retriever.invoke(LONG),
        await retriever.ainvoke(LONG),
        *retriever.batch([LONG]),
        retriever.search(LONG).hits,
        store.similarity_search(LONG),
        store.max_marginal_relevance_search(LONG),
        await store.asimilarity_search(LONG),
    ]
    assert all("Dora" in getattr(found[0], "page_content", str(found[0])) for found in asked)
    assert "Dora" in create_umi_context(retriever).invoke(LONG)
    (record,) = caplog.records
    assert "a message of 40,093 bytes is too long: only its last 10,000 are searched" in record.getMessage()
    assert "blah" not in record.getMessage()
    with pytest.raises(InputError, match="query is int; expected str"):
        retriever.invoke(3)


def test_the_embeddings_of_a_vector_store_make_the_vectors_that_it_searches_by(store):
    embeddings = store.embeddings
    assert isinstance(embeddings, Embeddings)
    vectors = embeddings.embed_documents(TEXTS)
    assert all(isinstance(value, float) for vector in vectors for value in vector)
    assert [store.similarity_search_by_vector(vector, k=1)[0].page_content for vector in vectors] == TEXTS
    given = DeterministicFakeEmbedding(size=8)
    with HybridStore.open() as chunks, UmiVectorStore(store=chunks) as other, UmiVectorStore(given) as third:
        assert embeddings.embed_query("who?") == other.embeddings.embed_query("who?")
        assert third.embeddings is given


def test_a_directory_opens_with_the_embeddings_of_its_own_store(tmp_path):
    with UmiVectorStore.from_texts(TEXTS, persist_directory=str(tmp_path)) as store:
        embeddings = store.embeddings
    with UmiVectorStore(embeddings, str(tmp_path)) as store:
        assert len(store.similarity_search("who met Bob?", k=3)) == 3


def test_an_option_of_a_write_that_there_is_not_is_refused(store):
    with pytest.raises(TypeError, match="no option 'search_txt'; did you mean search_text"):
        store.add_texts(["Eve met Finn"], search_txt=["user"])
    assert store.similarity_search("Eve", filter={"user": "eve"}) == []
    assert len(store.get_by_ids(["0", "1", "2"])) == len(store.store) == 3


def test_a_number_of_results_beside_search_kwargs_is_refused_as_it_would_have_no_effect(store):
    with pytest.raises(TypeError, match=r"no option 'k'; .*search_kwargs=\{'k': ...\}"):
        store.as_retriever(k=1)
    assert len(store.as_retriever(search_kwargs={"k": 1}, tags=["mine"]).invoke("who met?")) == 1


async def test_one_question_in_place_of_a_batch_is_not_read_letter_by_letter(retriever):
    with pytest.raises(InputError, match="inputs is str; expected a list of queries"):
        retriever.batch("who met Bob?")
    with pytest.raises(InputError, match="inputs is str; expected a list of queries"):
        await retriever.abatch("who met Bob?")


@pytest.mark.filterwarnings("ignore:The class `InMemoryChatMessageHistory` was deprecated")
@pytest.mark.parametrize("kept", [InMemoryChatMessageHistory, ChatPromptValue])
def test_a_history_object_in_place_of_its_messages_is_refused_with_what_to_give(retriever, kept):
    history = kept(messages=[HumanMessage("Who is Dora?")])
    with pytest.raises(InputError, match=rf"history is {kept.__name__}; .*give history\.messages"):
        retriever.invoke("who met Bob?", history=history)
    assert retriever.invoke("who met Bob?", history=history.messages)


def test_a_set_of_messages_has_no_order_and_is_no_history(retriever):
    with pytest.raises(InputError, match="history is set; expected a list of messages or strings"):
        retriever.invoke("who met Bob?", history={"Who is Dora?", "A friend of Bob."})


def test_the_state_of_an_agent_in_place_of_its_messages_is_refused_with_what_to_give(retriever):
    with pytest.raises(InputError, match=r'history is dict; .*give history\["messages"\]'):
        retriever.invoke("who met Bob?", history={"messages": [HumanMessage("Who is Dora?")]})


@pytest.mark.parametrize("turn", [{"role": "tool", "content": "x"}, {"role": ["user"], "content": "x"}])
def test_a_dict_that_langchain_cannot_read_is_refused_with_what_is_expected(retriever, turn):
    with pytest.raises(InputError, match=r"history\[0\].*tool \(with its tool_call_id\)"):
        retriever.invoke("who met Bob?", history=[turn])


def test_a_history_holds_who_said_what_without_reasoning_and_without_turns_that_have_no_text():
    said = [
        ChatMessage(role="user", content="Who is Dora?"),
        AIMessage([{"type": "reasoning", "text": "let me think"}, {"type": "text", "text": "A friend."}]),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
        RemoveMessage(id="1"),
    ]
    assert as_turns(said) == ["user: Who is Dora?", "ai: A friend."]


@pytest.mark.parametrize("turn", [1, ("friend", "hello"), {"text": "hello"}, None])
def test_a_turn_of_the_history_that_is_no_message_is_refused_with_what_is_expected(retriever, turn):
    with pytest.raises(InputError, match=r"history\[1\].*expected a message, a string, a \(role, text\) pair"):
        retriever.invoke("who met Bob?", history=["hello", turn])


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"retrievers": []}, "arms=.*BM25 and vectors are part of umi"),
        ({"documents": []}, "from_documents takes them"),
        ({"vectorstore": None}, "from_vectorstore takes it"),
        ({"score_threshold": 0.5}, "min_relevance"),
        ({"where": {}}, "did you mean filter"),
    ],
)
def test_what_other_retrievers_are_made_of_has_its_place_here_too(option, advice):
    with pytest.raises(ConfigError, match=f"no option '{next(iter(option))}'; .*{advice}.*; expected one of"):
        UmiRetriever(**option)


def test_a_name_of_a_constructor_given_to_a_search_is_told_without_a_gap(retriever):
    with pytest.raises(TypeError, match="'collection_name'; each store has its directory; expected one of"):
        retriever.invoke("who?", collection_name="x")


@pytest.mark.parametrize("given", ["as_retriever", "name", None])
def test_what_is_no_vector_store_is_refused_with_what_to_pass(store, given):
    wrong = store.as_retriever() if given == "as_retriever" else given
    with pytest.raises(ConfigError, match=f"vectorstore is {type(wrong).__name__}; expected langchain_chroma.Chroma"):
        UmiRetriever.from_vectorstore(wrong)


def test_a_bare_collection_of_chroma_is_told_of_ChromaStore(tmp_path):
    fake = DeterministicFakeEmbedding(size=4)
    collection = Chroma(embedding_function=fake, persist_directory=str(tmp_path))._collection
    with pytest.raises(ConfigError, match=r"vectorstore is Collection;.*from_store\(ChromaStore\(collection, embedder"):
        UmiRetriever.from_vectorstore(collection)


def test_a_store_given_to_the_constructor_is_told_of_from_store(store):
    with pytest.raises(ConfigError, match="no option 'store'; from_store takes it; expected one of"):
        UmiRetriever(store=store.store)


def test_the_name_of_a_model_of_another_library_is_told_to_give_the_model():
    with pytest.raises(ConfigError, match=r"'text-embedding-3-small'; expected .*pass the model itself"):
        UmiRetriever.from_texts(["a"], "text-embedding-3-small")


def test_a_k_that_was_assigned_wrongly_is_refused_by_the_tool_with_the_retrievers_message(retriever):
    retriever.k = "7"
    with pytest.raises(InvalidLimit, match="k '7': expected a whole number"):
        create_umi_tool(retriever)


def test_a_vector_store_in_place_of_its_store_or_retriever_says_where_they_are(store):
    for make in (UmiRetriever.from_store, create_umi_tool):
        with pytest.raises(ConfigError, match=r"is UmiVectorStore; expected .*\.retriever\(\)"):
            make(store)
    with pytest.raises(ConfigError, match=r"is UmiRetriever; expected a store.*\.umi\.store"):
        UmiStore(store.retriever())


def test_texts_take_metadatas_and_ids_by_place_as_chromas_do(store):
    assert store.add_texts(["Dora met Ann"], [{"user": "b"}], ["3"]) == ["3"]
    with UmiVectorStore.from_texts(TEXTS, None, METADATAS, ["0", "1", "2"]) as other:
        assert ids(other.similarity_search("Oslo", k=3)) == {"0", "1", "2"}


@pytest.mark.parametrize(
    "option, advice",
    [
        ("where_document", "put the words into the query"),
        ("fetch_k", "max_marginal_relevance_search"),
        ("score_threshold", "did you mean min_relevance?"),
    ],
)
def test_an_option_of_chromas_search_says_what_to_write_here(store, option, advice):
    with pytest.raises(TypeError, match=f"no option '{option}'; .*{re.escape(advice)}"):
        store.as_retriever(search_kwargs={option: 1}).invoke("Oslo")


@pytest.mark.parametrize("option, advice", [("search_type", "mmr="), ("id_key", "known by its id")])
def test_an_option_of_langchains_retrievers_says_what_to_write_here(option, advice):
    with pytest.raises(ConfigError, match=f"no option '{option}'; .*{advice}"):
        UmiRetriever.from_texts(TEXTS, **{option: "mmr"})


def test_an_argument_that_a_tool_does_not_have_is_told_and_not_left_out(retriever):
    said = create_umi_tool(retriever).invoke({"query": "who met Bob?", "user": "a"})
    assert "user" in said and "Extra inputs are not permitted" in said and "Paris" not in said


def test_wrong_arguments_are_told_to_the_model_without_an_address_to_visit(retriever):
    said = create_umi_tool(retriever).invoke({"query": "who met Bob?", "k": 0, "filter": "user=ann"})
    assert said == "k: Input should be greater than or equal to 1; filter: Input should be a valid dictionary"


def test_many_wrong_arguments_with_long_names_are_told_in_one_short_line(retriever):
    unknown = {f"{n}\n{'x' * 10_000}": 1 for n in range(100)}
    said = create_umi_tool(retriever).invoke({"query": "who met Bob?", "k": 0, **unknown})
    assert said.startswith("k: Input should be greater than or equal to 1; 0 xxx")
    assert len(said) < 1_000 and "\n" not in said


def test_scores_fall_along_every_result(documents):
    with UmiRetriever.from_documents(documents) as retriever:
        for query in ("how to copy a tree of files", "wait for the first task", "heappush", "what changed last week?"):
            scores = [document.metadata["relevance_score"] for document in retriever.invoke(query)]
            assert len(scores) == 10 and scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("option", ["persist_directory", "embedding", "mirror", "search_text", "read_only"])
def test_an_option_of_a_new_store_is_refused_for_an_open_one(option):
    with pytest.raises(ConfigError, match=f"^{option} is an option of from_documents, which opens a store itself"):
        UmiRetriever.from_store(HybridStore.open(), **{option: None})


@pytest.mark.parametrize("k", [0, 101, "5"])
def test_a_tool_and_a_context_with_an_impossible_k_are_refused_when_they_are_made(store, k):
    retriever = UmiRetriever.from_store(store.store)
    for name, make in (("k_max", create_umi_tool), ("k", create_umi_context)):
        with pytest.raises(InvalidLimit, match=f"^{name} {k!r}: expected a whole number from 1 to 100"):
            make(retriever, **{name: k})


def test_a_vector_store_that_cannot_be_made_leaves_its_directory_free(tmp_path):
    with pytest.raises(ConfigError) as refused:
        UmiVectorStore(persist_directory=str(tmp_path), reranker=3)
    with HybridStore.open(tmp_path, embedder=HashEmbedder()) as other:
        assert len(other) == 0
    assert "reranker" in str(refused.value)


async def test_a_vector_store_whose_first_documents_are_refused_leaves_its_directory_free(tmp_path):
    """A notebook keeps the last exception, and with it every object of its traceback."""
    blank = [Document(page_content=" ")]
    with pytest.raises(InvalidChunk) as refused:
        UmiVectorStore.from_documents(blank, persist_directory=str(tmp_path))
    with pytest.raises(InvalidChunk) as refused_too:
        await UmiVectorStore.afrom_documents(blank, persist_directory=str(tmp_path))
    with HybridStore.open(tmp_path, embedder=HashEmbedder()) as other:
        assert len(other) == 0
    assert str(refused.value) == str(refused_too.value)


async def test_searches_that_wait_while_their_retriever_is_closed_are_told_and_not_cancelled(retriever):
    waiting = [asyncio.create_task(retriever.ainvoke("who met Bob?")) for _ in range(40)]
    await asyncio.sleep(0)
    retriever.close()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in found} <= {list, StoreClosed} and StoreClosed in map(type, found)


@pytest.mark.parametrize("given", [{"question": "kettle"}, HumanMessage("kettle")])
def test_a_chain_that_hands_on_a_dict_or_a_message_is_told_to_take_its_text(retriever, given):
    with pytest.raises(InputError, match=r"expected str; from a dict or message take the text: inputs\['question'\]"):
        retriever.invoke(given)


def test_documents_that_the_retrievers_own_filter_hides_are_told(caplog):
    anns = Document(page_content="The cat eats fish.", metadata={"user": "ann"})
    bobs = Document(page_content="The cow eats grass.", metadata={"user": "bob"})
    with UmiRetriever.from_documents([anns, bobs], filter={"user": "ann"}) as retriever:
        retriever.add_documents([anns])
        assert not caplog.records
        retriever.add_documents([Document(page_content="The dog eats bones.")])
        assert "of the 1 documents stored now, none passes" in caplog.text and "ann" not in caplog.text
    caplog.clear()
    UmiRetriever.from_documents([bobs], filter={"user": "ann"}).close()
    assert "of the 1 documents stored now, none passes" in caplog.text


def test_a_store_that_is_open_for_writing_is_not_made_read_only_by_a_word_that_is_ignored(tmp_path):
    with HybridStore.open(tmp_path) as store:
        with pytest.raises(ConfigError, match="read_only=True opens a directory"):
            UmiVectorStore(store=store, read_only=True)
        UmiVectorStore(store=store).add_texts(TEXTS)
        with HybridStore.open(tmp_path, read_only=True) as reading:
            assert UmiVectorStore(store=reading, read_only=True).similarity_search("Carl")


def test_a_class_in_place_of_its_instance_is_refused_where_it_is_given():
    with pytest.raises(ConfigError, match=r"reranker is the class UmiMMR; expected an instance of it: UmiMMR\("):
        UmiRetriever.from_texts(TEXTS, reranker=UmiMMR)
    with pytest.raises(ConfigError, match=r"HybridStore.open\(path\) opens one"):
        UmiRetriever.from_store(HybridStore)


def test_a_directory_in_the_place_of_the_embedding_says_where_it_belongs(tmp_path):
    with pytest.raises(ConfigError, match="persist_directory"):
        UmiVectorStore(str(tmp_path / "memory"))


def test_metadata_with_a_number_for_a_key_names_the_key():
    with pytest.raises(InvalidChunk, match=r"document 0: metadata\['pages'\] has the key 3 \(int\); expected str"):
        UmiRetriever.from_documents([Document("Ann met Bob", metadata={"pages": {3: "Paris"}})])


def test_a_timestamp_beyond_all_numbers_is_left_out_as_other_values_that_cannot_be_stored():
    made = UmiRetriever.from_documents(
        [Document("Ann met Bob", metadata={"timestamp": 10**400}), Document("Bob met Carl")], on_invalid="skip"
    )
    assert len(made.umi.store) == 1 and "64 bits" in made.skipped[0].reason
    made.close()


def test_one_document_in_place_of_a_list_is_named():
    with pytest.raises(InvalidChunk, match=r"documents is Document; expected a list of LangChain Documents"):
        UmiRetriever.from_documents(Document("Ann met Bob"))


def test_a_cell_runs_again_with_other_settings_while_the_retriever_of_its_last_run_is_open(tmp_path):
    first = UmiRetriever.from_texts(TEXTS, persist_directory=str(tmp_path))
    second = UmiRetriever.from_texts(
        TEXTS, persist_directory=str(tmp_path), fusion={"method": "rrf"}, lexical={"k1": 2}
    )
    store = UmiVectorStore(persist_directory=str(tmp_path), mmr={"trade_off": 0.9})
    assert (first.umi.config.fusion.method, second.umi.config.fusion.method) == ("convex", "rrf")
    assert (second.umi.config.lexical.k1, store.umi.config.mmr.trade_off) == (2, 0.9)
    assert len(second.invoke("Bob")) == len(first.invoke("Bob")) == 3
    for opened in (first, second, store):
        opened.close()


def test_progress_bars_show_that_texts_are_embedded_and_stored(capsys):
    documents = [Document(f"Note {number}.") for number in range(20)]

    def shown(write, **options):
        with write(**options):
            bars = capsys.readouterr().err
        return [step for step in ("embedding", "storing") if f"{step}: 100%" in bars]

    def added(**options):
        made = UmiRetriever.from_documents()
        made.add_documents(documents, **options)
        return made

    def indexed(**options):
        made, records = UmiVectorStore(), InMemoryRecordManager("notes")
        records.create_schema()
        index(documents, records, made, key_encoder="blake2b", upsert_kwargs=options)
        return made

    for write in (
        lambda **options: UmiRetriever.from_documents(documents, **options),
        lambda **options: UmiVectorStore.from_documents(documents, **options),
        added,
        indexed,
    ):
        assert shown(write) == []
        assert shown(write, show_progress=True) == ["embedding", "storing"]


def test_from_documents_calls_an_add_documents_of_a_subclass_that_has_no_show_progress():
    class Own(UmiVectorStore):
        def add_documents(self, documents, ids=None):
            return super().add_documents(documents, ids)

    with Own.from_documents([Document("Ann met Bob")]) as made:
        assert len(made.store) == 1

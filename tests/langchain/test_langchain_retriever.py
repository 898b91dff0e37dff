"""The LangChain retriever: the contract, the options, what it is made from, and a chain over it."""

from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta, timezone

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, ToolMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from langchain_tests.integration_tests import RetrieversIntegrationTests

from umi_common.embedders import default_embedder
from umi_common.errors import (
    ConfigError,
    DuplicateId,
    FilterError,
    InputError,
    InvalidLimit,
    InvalidTimeRange,
    ReindexRequired,
)
from umi_common.retriever import DualRetriever
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.tenants import Tenants
from umi_langchain import UmiRetriever, UmiTranslator, UmiVectorStore

QUESTION = "run a coroutine with a timeout"
MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def retriever(documents):
    made = UmiRetriever.from_documents(documents, k=5)
    yield made
    made.close()


@pytest.fixture
def notes():
    texts = ["Ann met Bob", "Bob met Carl", "Carl met Dora", "Dora met Ann"]
    metadatas = [
        {"user": user, "timestamp": (MAY + timedelta(days=day)).isoformat()}
        for day, user in enumerate(["ann", "bob", "ann", "bob"])
    ]
    made = UmiRetriever.from_texts(texts, metadatas, ids=["n0", "n1", "n2", "n3"])
    yield made
    made.close()


class TestStandard(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _core(self, documents):
        made = UmiRetriever.from_documents(documents)
        self.core = made.umi
        yield
        made.close()

    @property
    def retriever_constructor(self):
        return UmiRetriever

    @property
    def retriever_constructor_params(self):
        return {"umi": self.core}

    @property
    def retriever_query_example(self):
        return QUESTION


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def test_documents_are_those_of_the_core_with_their_score_and_with_reasons_only_if_asked(retriever):
    result = retriever.umi.search(QUESTION, limit=5)
    found = retriever.invoke(QUESTION)
    assert ids(found) == result.ids
    assert [document.metadata["relevance_score"] for document in found] == [hit.score for hit in result]
    assert all(set(document.metadata) == {"source", "position", "relevance_score"} for document in found)
    asked = retriever.model_copy(update={"reasons": True}).invoke(QUESTION)
    assert all(isinstance(line, str) for document in asked for line in document.metadata["umi_reasons"])
    json.dumps([document.metadata for document in asked])


def test_a_documents_own_relevance_score_is_not_overwritten():
    document = Document(page_content="one text", metadata={"relevance_score": "high"})
    retriever = UmiRetriever.from_documents([document])
    assert retriever.invoke("text")[0].metadata == {"relevance_score": "high"}
    retriever.close()


def test_the_score_is_written_under_the_key_that_is_asked_for_or_not_at_all(retriever):
    scores = [hit.score for hit in retriever.search(QUESTION)]
    asked = retriever.model_copy(update={"score_key": "score"}).invoke(QUESTION)
    assert [document.metadata["score"] for document in asked] == scores
    assert all(set(document.metadata) == {"source", "position", "score"} for document in asked)
    (without,) = retriever.model_copy(update={"score_key": None}).batch([QUESTION])
    assert ids(without) == ids(asked) and all(set(each.metadata) == {"source", "position"} for each in without)


def test_changing_what_came_back_changes_nothing_in_the_store(retriever):
    retriever.invoke(QUESTION)[0].metadata["source"] = "changed"
    assert retriever.invoke(QUESTION)[0].metadata["source"] != "changed"


def test_documents_given_are_not_changed(documents):
    before = copy.deepcopy(documents[:20])
    UmiRetriever.from_documents(documents[:20]).close()
    assert documents[:20] == before


def test_every_option_holds_for_one_call(notes):
    assert len(notes.invoke("who met whom", k=2)) == 2
    assert set(ids(notes.invoke("met", filter={"user": "ann"}))) == {"n0", "n2"}
    assert set(ids(notes.invoke("met", time_range=(MAY + timedelta(days=2), None)))) == {"n2", "n3"}
    assert len(notes.invoke("met")) == 4


async def test_every_option_holds_for_one_asynchronous_call(notes):
    assert len(await notes.ainvoke("who met whom", k=2)) == 2
    assert set(ids(await notes.ainvoke("met", filter={"user": "ann"}))) == {"n0", "n2"}
    assert set(ids(await notes.ainvoke("met", time_range=(MAY + timedelta(days=2), None)))) == {"n2", "n3"}


async def test_the_present_and_the_history_reach_the_core(notes, monkeypatch):
    seen = []
    search, asearch = notes.umi.search, notes.umi.asearch
    monkeypatch.setattr(notes.umi, "search", lambda query, **options: seen.append(options) or search(query, **options))
    monkeypatch.setattr(
        notes.umi, "asearch", lambda query, **options: seen.append(options) or asearch(query, **options)
    )
    notes.invoke("met yesterday", now=MAY, history=["hello"], deep_search=False)
    await notes.ainvoke("met yesterday", now=MAY, history=["hello"], deep_search=False)
    assert seen[0] == seen[1]
    assert (seen[0]["now"], seen[0]["history"], seen[0]["deep_search"]) == (MAY, ["hello"], False)


async def test_sync_async_batch_and_stream_agree(retriever):
    expected = ids(retriever.invoke(QUESTION, k=3))
    assert ids(await retriever.ainvoke(QUESTION, k=3)) == expected
    assert [ids(found) for found in retriever.batch([QUESTION] * 2, k=3)] == [expected] * 2
    assert [ids(found) for found in await retriever.abatch([QUESTION] * 2, k=3)] == [expected] * 2
    assert [ids(found) for found in retriever.stream(QUESTION, k=3)] == [expected]
    assert [ids(found) async for found in retriever.astream(QUESTION, k=3)] == [expected]


def test_a_calls_filter_narrows_the_retrievers_own_and_never_widens_it(notes):
    anns = UmiRetriever.from_store(notes.umi.store, filter={"user": "ann"})
    assert set(ids(anns.invoke("met"))) == {"n0", "n2"}
    assert anns.invoke("met", filter={"user": "bob"}) == []


def test_a_filter_that_its_caller_changes_for_the_next_user_stays_as_it_was():
    with UmiVectorStore() as store:
        store.add_texts(["ann's secret", "bob's secret"], [{"user": "ann"}, {"user": "bob"}])
        scope, of = {"user": ""}, {}
        for user in ("ann", "bob"):
            scope["user"] = user
            of[user] = store.retriever(filter=scope)
        assert [document.page_content for document in of["ann"].invoke("secret")] == ["ann's secret"]


@pytest.mark.parametrize("lost", ["", [], 0, False, ()])
def test_a_filter_that_was_lost_is_refused_and_does_not_open_everything(notes, lost):
    for refused in (
        lambda: notes.invoke("met", filter=lost),
        lambda: UmiRetriever.from_store(notes.umi.store, filter=lost),
        lambda: UmiVectorStore(store=notes.umi.store).similarity_search("met", filter=lost),
        lambda: UmiTranslator(filter=lost),
        lambda: notes.delete(where=lost),
    ):
        with pytest.raises(FilterError, match=r"filter .*expected a dict"):
            refused()
    anns = UmiRetriever.from_store(notes.umi.store, filter={"user": "ann"})
    assert set(ids(anns.invoke("met", filter={}))) == {"n0", "n2"}, "an empty dict is no filter, as in Chroma"
    with pytest.raises(FilterError, match="empty"):
        anns.delete(where={})
    assert len(notes.umi.store) == 4


def test_one_moment_is_no_time_range_and_one_message_no_history(notes):
    with pytest.raises(InvalidTimeRange, match="expected TimeRange"):
        notes.invoke("met", time_range=datetime(2024, 5, 1, tzinfo=timezone.utc))
    for one in (5, "and Carl?", HumanMessage("and Carl?"), {"role": "user", "content": "and Carl?"}):
        with pytest.raises(InputError, match=r"history is .*expected a list"):
            notes.invoke("met", history=one)


def test_options_can_be_configured_fields(retriever):
    adjustable = retriever.configurable_fields(k=ConfigurableField(id="k"), filter=ConfigurableField(id="filter"))
    found = adjustable.invoke(QUESTION, {"configurable": {"k": 2, "filter": {"source": "heapq"}}})
    assert [document.metadata["source"] for document in found] == ["heapq"] * 2


def test_documents_are_added_under_the_keys_and_to_the_store_that_the_retriever_has_now():
    ann = UmiRetriever.from_documents([Document("Ann moved to Oslo.", id="a")])
    letter = Document("The roof leaks.", id="b", metadata={"file": "letter.txt", "sent": "2024-05-01"})
    renamed = ann.model_copy(update={"source_key": "file", "time_key": "sent"})
    renamed.add_documents([letter])
    (chunk,) = ann.umi.store.get(["b"])
    assert chunk.source == "letter.txt" and chunk.event_time == datetime(2024, 5, 1, tzinfo=timezone.utc)
    ann.source_key = "file"
    ann.add_documents([letter.model_copy(update={"id": "c"})])
    assert ann.umi.store.get(["c"])[0].source == "letter.txt"
    with HybridStore.open() as store, DualRetriever(store) as umi:
        ann.model_copy(update={"umi": umi}).add_documents([Document("Bob's safe opens with 1234.", id="d")])
        assert store.ids() == ["d"] and "d" not in ann.umi.store.ids()
    ann.close()


def test_wrong_options_are_refused_and_not_ignored(retriever):
    with pytest.raises(TypeError, match="top_k"):
        retriever.invoke(QUESTION, top_k=3)
    with pytest.raises(InvalidLimit):
        retriever.invoke(QUESTION, k=0)
    with pytest.raises(FilterError):
        retriever.invoke(QUESTION, filter={"n": {}})
    with pytest.raises(ConfigError, match=r"no option 'top_k'; did you mean k.*expected one of .*k, filter"):
        UmiRetriever(umi=retriever.umi, top_k=3)
    with pytest.raises(InvalidLimit, match="k 101"):
        UmiRetriever(umi=retriever.umi, k=101)
    with pytest.raises(FilterError):
        UmiRetriever(umi=retriever.umi, filter={"n": {"$like": 1}})
    with pytest.raises(ConfigError, match="method"):
        UmiRetriever.from_texts(["text"], fusion={"method": "magic"})


def test_stages_are_set_at_construction():
    retriever = UmiRetriever.from_texts(["one text"], fusion={"method": "rrf"}, mmr={"enabled": True})
    assert retriever.umi.config.fusion.method == "rrf" and retriever.umi.config.mmr.enabled


def test_a_directory_keeps_the_documents_and_what_it_holds_is_not_embedded_again(tmp_path, documents, embeddings):
    first = UmiRetriever.from_documents(documents[:50], embeddings, persist_directory=str(tmp_path / "umi"))
    expected = ids(first.invoke(QUESTION))
    first.close()
    again = UmiRetriever.from_documents(documents[:52], embeddings, persist_directory=str(tmp_path / "umi"))
    assert embeddings.documents == 52
    assert set(ids(again.invoke(QUESTION, k=50))) >= set(expected)
    again.close()


def test_a_failed_construction_lets_go_of_the_directory(tmp_path, documents):
    twice = [documents[0], documents[0]]
    with pytest.raises(DuplicateId):
        UmiRetriever.from_documents(twice, persist_directory=str(tmp_path / "umi"))
    UmiRetriever.from_documents(documents[:2], persist_directory=str(tmp_path / "umi")).close()


def test_the_callers_store_stays_open(documents):
    with HybridStore.open() as store:
        retriever = UmiRetriever.from_store(store)
        retriever.close()
        assert len(store) == 0


def test_a_chroma_store_is_copied_and_three_texts_are_embedded_to_check_the_model(tmp_path, documents, embeddings):
    chroma = Chroma(embedding_function=embeddings, persist_directory=str(tmp_path / "chroma"))
    bare = [Document(page_content="bare text without metadata", id="bare")]
    chroma.add_documents(documents[:60] + bare)
    assert embeddings.documents == 61
    retriever = UmiRetriever.from_vectorstore(chroma, k=5, copy=True)
    assert embeddings.documents == 61 + 3
    direct = UmiRetriever.from_documents(documents[:60] + bare, embeddings, k=5)
    assert embeddings.documents == 61 + 3 + 61
    assert retriever.umi.store.ids() == sorted(ids(documents[:60] + bare))
    assert retriever.umi.store.get(["bare"])[0].metadata == {}
    for query in (QUESTION, "bare text", "cancel all tasks"):
        assert retriever.invoke(query) == direct.invoke(query)
    retriever.close()
    direct.close()


@pytest.mark.parametrize("copied", [True, False])
def test_on_invalid_is_refused_for_a_chroma_store_whose_blank_texts_are_left_out_anyway(tmp_path, embeddings, copied):
    chroma = Chroma(embedding_function=embeddings, persist_directory=str(tmp_path / "chroma"))
    chroma.add_texts(["a pear", "  "], ids=["pear", "blank"])
    with pytest.raises(ConfigError, match="leave it out here: records of a vector store that have no text are always"):
        UmiRetriever.from_vectorstore(chroma, copy=copied, on_invalid="skip")
    with UmiRetriever.from_vectorstore(chroma, copy=copied) as retriever:
        assert ids(retriever.invoke("pear")) == ["pear"]


def test_documents_that_umi_added_to_a_chroma_store_are_whole_in_its_copy(tmp_path, embeddings):
    chroma = Chroma(embedding_function=embeddings, persist_directory=str(tmp_path / "chroma"))
    added = Document(page_content="the roof leaks", id="a", metadata={"source": "s.md", "nested": {"x": 1}})
    with UmiRetriever.from_vectorstore(chroma) as live:
        live.add_documents([added])
        found = live.invoke("roof")
    with UmiRetriever.from_vectorstore(chroma, copy=True) as copied:
        assert copied.invoke("roof") == found
        assert found[0].metadata["nested"] == {"x": 1} and "_umi" not in found[0].metadata


def test_a_copy_made_again_holds_no_text_that_its_source_has_lost(tmp_path, embeddings):
    chroma = Chroma(embedding_function=embeddings, persist_directory=str(tmp_path / "chroma"))
    texts = {"a1": "the roof leaks", "a2": "the roof was sold", "b1": "the cellar is dry", "none": "no file names me"}
    for id, text in texts.items():
        chroma.add_documents([Document(id=id, page_content=text, metadata={} if id == "none" else {"source": id[0]})])

    def copied(**options):
        with UmiRetriever.from_vectorstore(
            chroma, persist_directory=str(tmp_path / "copy"), copy=True, **options
        ) as retriever:
            return retriever.umi.store.ids()

    assert copied() == ["a1", "a2", "b1", "none"]
    chroma.delete(["a2", "b1", "none"])
    assert copied() == ["a1", "b1", "none"]  # nothing says that the others were removed rather than moved elsewhere
    assert copied(mirror=True) == ["a1"]
    chroma.delete(["a1"])
    with pytest.raises(InputError, match="would empty the store"):
        copied(mirror=True)
    with pytest.raises(ConfigError, match="copy=True"):
        UmiRetriever.from_vectorstore(chroma, mirror=True)


def test_a_copy_made_again_under_one_users_filter_keeps_what_is_stored_for_others(tmp_path, embeddings):
    chroma = Chroma(embedding_function=embeddings, persist_directory=str(tmp_path / "chroma"))
    for user in ("ann", "bob"):
        chroma.add_documents([Document(id=user, page_content=f"{user} has a key", metadata={"user": user})])
    options = {"persist_directory": str(tmp_path / "copy"), "copy": True}
    UmiRetriever.from_vectorstore(chroma, **options).close()
    chroma.delete(["ann", "bob"])
    chroma.add_documents([Document(id="ann 2", page_content="ann has no key", metadata={"user": "ann"})])
    with UmiRetriever.from_vectorstore(chroma, filter={"user": "ann"}, mirror=True, **options) as retriever:
        assert retriever.umi.store.ids() == ["ann 2", "bob"]


class OfFiles(UmiRetriever):
    """Reads the source of a document from another key."""

    source_key: str | None = "file"


@pytest.mark.parametrize("copy", [False, True], ids=["live", "copied"])
def test_the_keys_that_a_subclass_states_are_those_of_its_chroma_store(tmp_path, embeddings, copy):
    chroma = Chroma("of-files", embeddings, persist_directory=str(tmp_path))
    chroma.add_texts(["Ann met Bob"], [{"file": "a.md", "position": 3}])
    with OfFiles.from_vectorstore(chroma, copy=copy) as own:
        (hit,) = own.search("Ann")
        assert (hit.chunk.source, hit.chunk.position) == ("a.md", 3)


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("size", [8, 256])
def test_a_chroma_store_of_another_model_is_refused_and_its_directory_is_left_free(tmp_path, documents, size, copy):
    others = DeterministicFakeEmbedding(size=size)
    chroma = Chroma(embedding_function=others, persist_directory=str(tmp_path / "chroma"))
    chroma.add_documents(documents[:4])
    folder = str(tmp_path / "umi")
    with pytest.raises(ReindexRequired, match=rf"the vectors of collection 'langchain' \({size} dimensions\)") as error:
        UmiRetriever.from_vectorstore(chroma, default_embedder(), persist_directory=folder, copy=copy)
    assert copy or "embedding= in LangChain" in str(error.value)
    with UmiRetriever.from_vectorstore(chroma, persist_directory=str(tmp_path / "own"), copy=copy) as own:
        assert len(own.umi.store) == 4


def test_any_other_vector_store_is_refused_with_the_way_to_go(documents, embeddings):
    from langchain_core.vectorstores import InMemoryVectorStore

    with pytest.raises(ConfigError, match=r"InMemoryVectorStore; expected langchain_chroma.Chroma.*from_documents"):
        UmiRetriever.from_vectorstore(InMemoryVectorStore(embeddings))


@pytest.mark.parametrize("copy", [False, True])
def test_a_vector_store_over_a_collection_of_another_database_is_refused_too(embeddings, copy):
    """MongoDB's keeps a `_collection`, of which every attribute is another collection, which cannot be called."""
    from langchain_core.vectorstores import InMemoryVectorStore

    class Documents:
        def __getattr__(self, name):
            return Documents()

        def __call__(self, *_, **__):
            raise TypeError("'Collection' object is not callable")

    class MongoDBAtlasVectorSearch(InMemoryVectorStore):
        def __init__(self, embeddings):
            super().__init__(embeddings)
            self._collection = Documents()

    with pytest.raises(
        ConfigError, match=r"MongoDBAtlasVectorSearch; expected langchain_chroma.Chroma.*from_documents"
    ):
        UmiRetriever.from_vectorstore(MongoDBAtlasVectorSearch(embeddings), copy=copy)


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


async def test_a_chain_answers_from_what_umi_found(retriever):
    prompt = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")
    seen = []
    model = FakeListChatModel(responses=["use wait_for"])
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | prompt.with_listeners(on_end=lambda run: seen.append(run.outputs["output"].to_string()))
        | model
        | StrOutputParser()
    )
    assert chain.invoke(QUESTION) == "use wait_for"
    assert await chain.ainvoke(QUESTION) == "use wait_for"
    assert all("wait_for" in text and QUESTION in text for text in seen) and len(seen) == 2


def test_a_chat_model_rewrites_the_query_for_deep_search(notes):
    model = FakeListChatModel(responses=['["Carl met Dora"]'])
    retriever = UmiRetriever.from_store(notes.umi.store, llm=model, routing={"mode": "always"})
    assert retriever.umi.search("somebody else").query_variations == ("Carl met Dora",)
    assert len(retriever.invoke("somebody else", deep_search=False)) == 4


def test_earlier_turns_reach_the_model_and_nothing_else(notes):
    from langchain_core.messages import AIMessage, HumanMessage

    prompts = []
    retriever = UmiRetriever.from_store(
        notes.umi.store,
        llm=lambda prompt: prompts.append(prompt) or "[]",
        routing={"mode": "always"},
        rewrite={"template": "{history}\nRewrite: {query}"},
    )
    history = [HumanMessage("Who is Carl?"), AIMessage([{"type": "text", "text": "A friend of Dora."}]), "plain words"]
    retriever.invoke("whom did he meet?", history=history)
    assert all(said in prompts[0] for said in ("human: Who is Carl?", "ai: A friend of Dora.", "plain words"))
    assert retriever.search("whom did he meet?", history=history).query == "whom did he meet?"


def test_a_tracer_sees_who_searched_and_a_run_for_every_stage(retriever):
    from langchain_core.tracers import BaseTracer

    class Tracer(BaseTracer):
        def __init__(self):
            super().__init__()
            self.roots = []

        def _persist_run(self, run):
            self.roots.append(run)

    tracer = Tracer()
    retriever.invoke(QUESTION, {"callbacks": [tracer]})
    (root,) = tracer.roots
    assert root.extra["metadata"]["ls_retriever_name"] == "umi"
    assert root.extra["metadata"]["ls_embedding_model"] == "wordllama/l2_supercat_256"
    names = [run.name for run in root.child_runs]
    assert {"umi.route", "umi.recall", "umi.fuse", "umi.fetch"} <= set(names)
    assert all(run.outputs["milliseconds"] >= 0 for run in root.child_runs)
    assert QUESTION not in str([(run.inputs, run.outputs) for run in root.child_runs])


async def test_an_asynchronous_tracer_sees_the_same(retriever):
    events = [(e["event"], e["name"]) async for e in retriever.astream_events(QUESTION, version="v2")]
    assert ("on_chain_end", "umi.recall") in events


def test_importing_the_adapter_needs_langchain_core_only():
    import subprocess
    import sys

    code = "import sys, umi_langchain; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {
        "langchain",
        "langchain_chroma",
        "langchain_classic",
        "langchain_community",
        "chromadb",
        "langgraph",
    } & set(loaded)


def test_a_retriever_over_a_core_of_ones_own(documents):
    with HybridStore.open() as store:
        assert UmiRetriever(umi=DualRetriever(store), k=3).invoke(QUESTION) == []


def test_a_retriever_over_a_tenants_own_store_finds_the_same_whatever_others_hold(tmp_path, documents):
    def shown(retriever: UmiRetriever) -> list[Document]:
        return retriever.batch(["split a string", "remove a directory tree"], k=5)

    with Tenants(tmp_path) as tenants, tenants.store("ann") as ann, tenants.store("bob") as bob:
        UmiVectorStore(store=ann).add_documents(documents[:40])
        retriever = UmiRetriever.from_store(ann)
        alone = shown(retriever)
        UmiVectorStore(store=bob).add_documents(documents)
        assert shown(retriever) == shown(UmiRetriever.from_store(ann)) == alone
        assert shown(UmiRetriever.from_store(bob)) != alone
        retriever.close()
        assert len(ann) == 40  # the store stays open: it is the tenants' to close


def test_the_roles_of_earlier_messages_are_not_searched():
    texts = ["Humans are told what an AI is.", "The valve of the boiler leaks.", "An AI is no human."]
    with UmiRetriever.from_texts(texts) as retriever:
        talk = [HumanMessage("Is the boiler old?"), ("ai", "It is from 1990."), "Mira: Well."]
        asked = [retriever.search("and what about its valve?", history=talk[:n]).query_variations for n in (2, 3)]
        assert asked[0] == ("Is the boiler old?\nIt is from 1990.\nand what about its valve?",)
        assert asked[1] == ("It is from 1990.\nMira: Well.\nand what about its valve?",)


def test_a_follow_up_question_in_an_agents_state_is_searched_after_what_user_and_model_said():
    call = AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}])
    state = [
        HumanMessage("Is the boiler old?"),
        call,
        ToolMessage("[1] 400 pages", tool_call_id="1"),
        AIMessage("It is from 1990."),
    ]
    with UmiRetriever.from_texts(["The valve of the boiler leaks.", "The roof is new."]) as retriever:
        asked = retriever.search("and what about its valve?", history=state).query_variations
    assert asked == ("Is the boiler old?\nIt is from 1990.\nand what about its valve?",)


def test_a_message_that_was_streamed_has_the_role_of_a_whole_one():
    streamed = [HumanMessage("Is the boiler old?"), AIMessageChunk("It is "), ToolMessageChunk("[1]", tool_call_id="1")]
    streamed[1] += AIMessageChunk("from 1990.")
    with UmiRetriever.from_texts(["The valve of the boiler leaks.", "The roof is new."]) as retriever:
        asked = retriever.search("and what about its valve?", history=streamed).query_variations
    assert asked == ("Is the boiler old?\nIt is from 1990.\nand what about its valve?",)

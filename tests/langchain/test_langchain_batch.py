"""`batch` and `abatch`: one search for all inputs, a run for each; and what a tracer sees of every search."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tracers import BaseTracer

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, EmptyQuery, UmiError
from umi_langchain import UmiRetriever, create_umi_context, create_umi_tool

QUERIES = ["run a coroutine with a timeout", "merge sorted inputs", "copy a directory tree"]


class Counting(Embeddings):
    """umi's built-in model, slow and counting its calls where it can embed many queries at once."""

    model = "slow"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.calls = seconds, 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return default_embedder().embed_documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        self.calls += 1
        time.sleep(self.seconds)
        return self.embed_documents([text])[0]


class Tracer(BaseTracer):
    """Keeps whole trees."""

    def __init__(self):
        super().__init__()
        self.roots = []

    def _persist_run(self, run):
        self.roots.append(run)


@pytest.fixture(scope="module")
def retriever(documents):
    made = UmiRetriever.from_documents(documents, k=4)
    yield made
    made.close()


class CountingStore:
    """Counts how often it is asked."""

    def __init__(self, store):
        self._store, self.recalls = store, []

    def recall(self, probes, **options):
        self.recalls.append(len(probes))
        return self._store.recall(probes, **options)

    def recall_many(self, searches):
        self.recalls.append(sum(len(asked.probes) for asked in searches))
        return self._store.recall_many(searches)

    def __getattr__(self, name):
        return getattr(self._store, name)


async def test_a_batch_is_one_recall_and_gives_what_invoke_gives(retriever):
    store = CountingStore(retriever.umi.store)
    counted = UmiRetriever.from_store(store, k=4)
    expected = [retriever.invoke(query, k=3, filter={"source": {"$ne": "os"}}) for query in QUERIES]
    options = {"k": 3, "filter": {"source": {"$ne": "os"}}}
    assert counted.batch(QUERIES, **options) == expected
    assert await counted.abatch(QUERIES, **options) == expected
    assert store.recalls == [3, 3]
    assert counted.batch((query for query in QUERIES), **options) == expected
    assert counted.batch([]) == await counted.abatch([]) == []


async def test_a_chain_hands_its_whole_batch_on(retriever):
    store = CountingStore(retriever.umi.store)
    chain = RunnableLambda(str.upper) | UmiRetriever.from_store(store, k=1) | RunnableLambda(lambda found: found[0].id)
    expected = [chain.invoke(query) for query in QUERIES]
    store.recalls.clear()
    assert chain.batch(QUERIES) == await chain.abatch(QUERIES) == expected
    assert store.recalls == [3, 3]


def test_configured_fields_hold_in_a_batch(retriever):
    adjustable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    found = adjustable.batch(QUERIES[:2], [{"configurable": {"k": 1}}, {"configurable": {"k": 2}}])
    assert [len(documents) for documents in found] == [1, 2]


async def test_one_bad_input_stops_the_batch_or_takes_its_place_alone(retriever):
    with pytest.raises(EmptyQuery):
        retriever.batch([*QUERIES, " "])
    with pytest.raises(EmptyQuery):
        await retriever.abatch([*QUERIES, " "])
    with pytest.raises(TypeError, match="kk"):
        retriever.batch(QUERIES, kk=1)
    expected = [retriever.invoke(query) for query in QUERIES]
    for answers in (
        retriever.batch([" ", *QUERIES], return_exceptions=True),
        await retriever.abatch([" ", *QUERIES], return_exceptions=True),
    ):
        assert isinstance(answers[0], EmptyQuery)
        assert answers[1:] == expected
    assert [type(error) for error in retriever.batch(QUERIES, kk=1, return_exceptions=True)] == [TypeError] * 3


async def test_every_input_of_a_batch_has_a_run_of_its_own_with_its_stages(retriever):
    for use_async in (False, True):
        tracer = Tracer()
        config = {"callbacks": [tracer], "tags": ["mine"], "metadata": {"who": "me"}}
        await retriever.abatch(QUERIES, config) if use_async else retriever.batch(QUERIES, config)
        assert [root.inputs["query"] for root in tracer.roots] == QUERIES
        for root in tracer.roots:
            assert (root.run_type, root.name, root.tags) == ("retriever", "UmiRetriever", ["mine"])
            assert root.extra["metadata"]["ls_retriever_name"] == "umi" and root.extra["metadata"]["who"] == "me"
            assert {"umi.recall", "umi.route", "umi.fuse", "umi.fetch"} <= {run.name for run in root.child_runs}
            assert len(root.outputs["documents"]) == 4


async def test_a_failed_batch_ends_every_run_with_its_error(retriever):
    for use_async in (False, True):
        tracer = Tracer()
        with pytest.raises(EmptyQuery):
            if use_async:
                await retriever.abatch(["fine", " "], {"callbacks": [tracer]})
            else:
                retriever.batch(["fine", " "], {"callbacks": [tracer]})
        assert len(tracer.roots) == 2
        assert all("EmptyQuery" in root.error and root.end_time is not None for root in tracer.roots)


async def test_child_runs_open_and_close_when_their_stages_do(documents):
    slow = UmiRetriever.from_documents(documents[:20], Counting(seconds=0.1))
    for use_async in (False, True):
        tracer = Tracer()
        config = {"callbacks": [tracer]}
        await slow.ainvoke(QUERIES[1], config) if use_async else slow.invoke(QUERIES[0], config)
        (root,) = tracer.roots
        spans = {run.name: (run.start_time, run.end_time) for run in root.child_runs}
        begun, ended = spans["umi.recall"]
        assert timedelta(seconds=0.09) < ended - begun < timedelta(seconds=1.0)
        begun, ended = spans["umi.fuse"]
        assert ended - begun < timedelta(seconds=0.09)
        assert all(root.start_time <= begun <= ended <= root.end_time for begun, ended in spans.values())
    slow.close()


async def test_async_handlers_are_told_in_order_and_all_before_the_answer(retriever):
    told = []

    class Handler(AsyncCallbackHandler):
        async def on_chain_start(self, serialized, inputs, *, run_id, name=None, **kwargs):
            told.append(("start", name, run_id))

        async def on_chain_end(self, outputs, *, run_id, **kwargs):
            told.append(("end", None, run_id))

        async def on_retriever_end(self, documents, **kwargs):
            told.append(("answer", None, None))

    await retriever.ainvoke(QUERIES[0], {"callbacks": [Handler()]})
    assert told[-1][0] == "answer"
    opened = [run for kind, _, run in told if kind == "start"]
    assert opened == [run for kind, _, run in told if kind == "end"]
    assert "umi.recall" in [name for kind, name, _ in told]


async def test_an_error_of_a_handler_costs_the_other_handlers_no_stage_and_hides_no_error_of_the_search(documents):
    class Raising(AsyncCallbackHandler):
        raise_error = True

        async def on_chain_start(self, serialized, inputs, **kwargs):
            raise RuntimeError("the handler failed")

    told = []

    class Telling(AsyncCallbackHandler):
        async def on_chain_start(self, serialized, inputs, *, name=None, **kwargs):
            told.append(name)

    with UmiRetriever.from_documents(documents[:5], Counting()) as retriever:
        with pytest.raises(RuntimeError, match="the handler failed"):
            await retriever.ainvoke(QUERIES[0], {"callbacks": [Raising(), Telling()]})
        assert {"umi.route", "umi.recall", "umi.fuse", "umi.fetch"} <= set(told)
        retriever.umi.store.close()
        with pytest.raises(UmiError):
            await retriever.ainvoke(QUERIES[0], {"callbacks": [Raising()]})


def test_what_was_lost_is_a_run_and_no_run_holds_the_query(documents):
    class Failing(Counting):
        def embed_query(self, text):
            raise RuntimeError(text)

    broken = UmiRetriever.from_documents(documents[:20], Failing())
    tracer = Tracer()
    broken.invoke(QUERIES[0], {"callbacks": [tracer]})
    (root,) = tracer.roots
    assert "umi.without embedder" in [run.name for run in root.child_runs]
    assert QUERIES[0] not in str([(run.inputs, run.outputs) for run in root.child_runs])
    broken.close()


async def test_a_batch_has_no_more_inputs_in_work_than_max_concurrency(documents):
    working, most = 0, []

    def llm(prompt):
        nonlocal working
        working += 1
        most.append(working)
        time.sleep(0.02)
        working -= 1
        return "[]"

    retriever = UmiRetriever.from_documents(documents[:20], llm=llm, k=1, routing={"mode": "always"})
    queries = [f"{word} {query}" for word in ("how to", "where to") for query in QUERIES]
    expected = [retriever.invoke(query) for query in queries]
    for use_async in (False, True):
        for at_once in (1, 2):
            fresh = UmiRetriever.from_store(retriever.umi.store, llm=llm, k=1, routing={"mode": "always"})
            most.clear()
            config = {"max_concurrency": at_once}
            found = await fresh.abatch(queries, config) if use_async else fresh.batch(queries, config)
            assert found == expected and max(most) == at_once
            fresh.close()
    with pytest.raises(ConfigError, match="max_concurrency 0"):
        retriever.batch(queries, {"max_concurrency": 0})
    retriever.close()


async def test_a_batch_tells_callbacks_what_invoke_tells_them(retriever):
    class Keeping(BaseCallbackHandler):
        def __init__(self):
            self.told = []

        def on_retriever_start(self, serialized, query, *, tags=None, metadata=None, name=None, **kwargs):
            self.told.append((query, sorted(tags), metadata, name))

        def on_retriever_end(self, documents, **kwargs):
            self.told.append([document.id for document in documents])

        def on_retriever_error(self, error, **kwargs):
            self.told.append(type(error))

    own = retriever.model_copy(update={"tags": ["own"], "metadata": {"team": "search"}})
    for queries in (QUERIES[:1], [" "]):
        told = []
        for way in ("invoke", "batch", "ainvoke", "abatch"):
            handler = Keeping()
            config = {"callbacks": [handler], "tags": ["mine"], "metadata": {"who": "me"}, "run_name": "notes"}
            with suppress(EmptyQuery):
                answer = getattr(own, way)(queries if "batch" in way else queries[0], config)
                _ = await answer if way.startswith("a") else answer
            told.append(handler.told)
        assert told == [told[0]] * 4 and len(told[0]) == 2


class OfTasks(UmiRetriever):
    """Returns the documents of one module alone, as a subclass does that checks permissions."""

    def _get_relevant_documents(self, query, *, run_manager, **options):
        found = super()._get_relevant_documents(query, run_manager=run_manager, **options)
        return [document for document in found if document.metadata["source"] == "asyncio.tasks"]


async def test_a_subclass_that_leaves_documents_out_leaves_them_out_of_every_call(retriever):
    own = OfTasks.from_store(retriever.umi.store, k=4)
    expected = [own.invoke(query, k=20) for query in QUERIES]
    assert expected[0] and not any(d.metadata["source"] != "asyncio.tasks" for found in expected for d in found)
    assert own.batch(QUERIES, k=20) == await own.abatch(QUERIES, k=20) == expected
    assert [await own.ainvoke(query, k=20) for query in QUERIES] == expected
    (found,) = (RunnableLambda(str.upper) | own).batch(QUERIES[:1])
    assert {document.metadata["source"] for document in found} == {"asyncio.tasks"}


class Shortest(UmiRetriever):
    """Returns one document, unless it is asked for more."""

    k: int = 1


def test_a_subclass_with_another_default_limit_keeps_it_however_it_is_made(retriever):
    with Shortest.from_texts(["Ann met Bob", "Bob met Cem"]) as own:
        assert len(own.invoke("Bob")) == 1
    assert Shortest.from_store(retriever.umi.store).k == 1
    assert Shortest.from_store(retriever.umi.store, k=2).k == 2


def test_a_tool_and_a_context_refuse_a_subclass_whose_own_search_they_would_pass_over(retriever):
    own = OfTasks.from_store(retriever.umi.store)
    for made in (create_umi_tool, create_umi_context):
        with pytest.raises(ConfigError, match="OfTasks has its own _get_relevant_documents"):
            made(own)


def test_a_tool_refuses_a_subclass_whose_search_it_would_pass_over(retriever):
    class OfOne(UmiRetriever):
        def search(self, query, **options):
            return super().search(query, **{**options, "filter": {"source": "asyncio.tasks"}})

    for made in (create_umi_tool, create_umi_context):
        with pytest.raises(ConfigError, match="OfOne has its own search"):
            made(OfOne.from_store(retriever.umi.store))


async def test_between_the_answers_of_a_batch_the_loop_runs_other_tasks(retriever):
    seen: list[int] = []
    turns = 0

    class Noting(UmiRetriever):
        def documents(self, result):
            seen.append(turns)
            return super().documents(result)

    async def other_task() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_task())
    await Noting(umi=retriever.umi).abatch(QUERIES)
    other.cancel()
    assert len(set(seen)) == len(QUERIES)


async def test_a_tool_and_a_context_have_a_child_run_for_each_stage_and_for_what_was_lost(documents):
    class Failing(Counting):
        def embed_query(self, text):
            raise RuntimeError(text)

    broken = UmiRetriever.from_documents(documents[:20], Failing())
    wanted = {"umi.recall", "umi.fetch", "umi.without embedder"}
    for whole in (None, "source"):
        retriever = broken.model_copy(update={"whole": whole})
        for runnable, asked in (
            (create_umi_tool(retriever), {"query": QUERIES[0]}),
            (create_umi_context(retriever), QUERIES[0]),
        ):
            tracer = Tracer()
            runnable.invoke(asked, {"callbacks": [tracer]})
            await runnable.ainvoke(asked, {"callbacks": [tracer]})
            for root in tracer.roots:
                assert wanted <= {run.name for run in root.child_runs}
                assert all(run.end_time is not None for run in root.child_runs)
            assert len(tracer.roots) == 2
    broken.close()


async def test_the_llm_that_is_asked_is_a_child_run_of_the_call(documents):
    llm = FakeListChatModel(responses=['["copy many files"]'])
    asking = UmiRetriever.from_documents(documents[:20], llm=llm, routing={"mode": "always"}, rewrite={"cache_size": 0})
    chain, tool = RunnableLambda(lambda query: query) | asking, create_umi_tool(asking)
    for runnable, asked in ((asking, QUERIES[2]), (chain, QUERIES[2]), (tool, {"query": QUERIES[2]})):
        tracer = Tracer()
        runnable.invoke(asked, {"callbacks": [tracer]})
        await runnable.ainvoke(asked, {"callbacks": [tracer]})
        for root in tracer.roots:
            call = root.child_runs[-1] if runnable is chain else root
            assert [run.name for run in call.child_runs if run.run_type == "llm"] == ["FakeListChatModel"]
            assert "FakeListChatModel" not in [run.name for run in root.child_runs] or root is call
    asking.close()


class Guard(BaseCallbackHandler):
    """Raises for queries that hold a word, at one of the calls that LangChain makes to a handler."""

    raise_error = True

    def __init__(self, moment, word="directory"):
        self.moment, self.word, self.refused = moment, word, set()

    def _check(self, moment, *runs):
        if moment == self.moment and not self.refused.isdisjoint(runs):
            raise ValueError(f"refused at {moment}")

    def on_retriever_start(self, serialized, query, *, run_id, **kwargs):
        if self.word in str(query):
            self.refused.add(run_id)
        self._check("start", run_id)

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
        if parent_run_id in self.refused:
            self.refused.add(run_id)
        self._check("stage start", run_id)

    def on_chain_end(self, outputs, *, run_id, **kwargs):
        self._check("stage end", run_id)

    def on_retriever_end(self, documents, *, run_id, **kwargs):
        self._check("end", run_id)

    def on_retriever_error(self, error, *, run_id, **kwargs):
        self._check("error", run_id)


@pytest.mark.parametrize("moment", ["start", "stage start", "stage end", "end"])
async def test_a_handler_that_raises_for_one_input_takes_the_answer_of_this_input_alone(retriever, moment):
    expected = [retriever.invoke(query) for query in QUERIES[:2]]
    guard = {"callbacks": [Guard(moment)]}
    for config in (guard, [{}, {}, guard]):
        options = {"config": config, "return_exceptions": True}
        for answers in (retriever.batch(QUERIES, **options), await retriever.abatch(QUERIES, **options)):
            assert answers[:2] == expected
            assert isinstance(answers[2], ValueError) and str(answers[2]) == f"refused at {moment}"
    chain = retriever | RunnableLambda(len)
    counts = chain.batch(QUERIES, guard, return_exceptions=True)
    assert counts[:2] == [4, 4] and isinstance(counts[2], ValueError)
    other = retriever.with_fallbacks([RunnableLambda(lambda query: [])])
    assert other.batch(QUERIES, guard) == await other.abatch(QUERIES, guard) == [*expected, []]
    for use_async in (False, True):
        tracer = Tracer()
        config = {"callbacks": [Guard(moment), tracer]}
        with pytest.raises(ValueError, match=f"refused at {moment}"):
            await retriever.abatch(QUERIES, config) if use_async else retriever.batch(QUERIES, config)
        ended = {root.inputs["query"]: root.error for root in tracer.roots if root.end_time is not None}
        assert ended[QUERIES[0]] is ended[QUERIES[1]] is None


async def test_a_handler_that_raises_while_it_is_told_of_an_error_takes_the_answer_of_this_input_alone(retriever):
    expected = retriever.invoke(QUERIES[0])
    options = {"config": {"callbacks": [Guard("error", " \t")]}, "return_exceptions": True}
    for answers in (
        retriever.batch([" \t", QUERIES[0]], **options),
        await retriever.abatch([" \t", QUERIES[0]], **options),
    ):
        assert str(answers[0]) == "refused at error" and answers[1] == expected

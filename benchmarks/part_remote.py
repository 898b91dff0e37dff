"""Models that are services: embedder, LLM and reranker with latency, a rate limit and failures; umi and its peers."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Plan, Row
from umi_common.sim import HashEmbedder, RemoteModel, ScriptedLLM

SIZES = (500,)
"""Chunks. Few, because the services' time is measured and not the search's."""
CALLERS = (1, 16, 64)
EMBEDDER_SECONDS = (0.05, 0.2)
LLM_SECONDS = (0.3, 1.5)
RERANKER_SECONDS = 0.1
FAILURES = 0.01
LIMITED = (20, 0.05)
"""Calls per second, and seconds of a call, of the rows with a rate limit."""
UMI = "umi"
ENSEMBLE = "EnsembleRetriever"
FUSION = "QueryFusionRetriever"
MULTI = "MultiQueryRetriever"
VARIATIONS = ["the boat by the house", "a river house", "boats and rivers"]

Ask = Callable[[str], Any]
AAsk = Callable[[str], Awaitable[Any]]


class System:
    """One retriever: `ask` blocks, `aask` does not, `batch` takes several questions; None: it has none."""

    def __init__(
        self, ask: Ask, aask: AAsk, batch: Callable[[list[str]], Any] | None, close: Callable[[], None]
    ) -> None:
        self.ask, self.aask, self.batch, self.close = ask, aask, batch, close


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """Rows for plain searches by callers and mode, for the rate limit, and for an LLM and a reranker."""
    texts = [f"the boat {n} lies on river {n % 7} by house {n % 13}" for n in range(size)]
    rows: list[Row] = []
    for what, name, build, service, callers, modes in _cases():
        say(f"{what}: {name}")
        row = {"what": what, "size": size, "system": name}
        model = RemoteModel(seconds=0.0, failures=0.0)
        try:
            system = build(texts, model)
        except ImportError as error:
            rows.append({**row, "skipped": f"{error.name} is not installed"})
            continue
        for setting, value in service.items():
            setattr(model, f"_{setting}", value)
        has = [mode for mode in modes if mode != "batch" or system.batch is not None]
        rows += [{**row, **_asked(system, mode, count)} for count in callers for mode in has]
        system.close()
    return rows


def _cases() -> Iterator[tuple[str, str, Callable[..., System], dict[str, Any], Sequence[int], Sequence[str]]]:
    """(what, system, its builder, settings of the embedder once it is built, numbers of callers, modes)."""
    plain = ((UMI, _umi), (ENSEMBLE, _ensemble), (FUSION, _fusion))
    for seconds in EMBEDDER_SECONDS:
        what = f"embedder {seconds * 1e3:.0f} ms, {FAILURES:.0%} failures"
        for name, build in plain:
            yield what, name, build, {"seconds": seconds, "failures": FAILURES}, CALLERS, tuple(_MODES)
    rate, seconds = LIMITED
    what = f"embedder {seconds * 1e3:.0f} ms, {rate} calls/s, {FAILURES:.0%} failures"
    for name, build in plain:
        service = {"seconds": seconds, "failures": FAILURES, "calls_per_second": rate}
        yield what, name, build, service, (64,), ("asyncio",)
    for llm in LLM_SECONDS:
        what = f"LLM {llm * 1e3:.0f} ms, embedder 200 ms"
        for name, deep in ((UMI, _umi_deep), (f"{UMI}, reranker 100 ms", _umi_reranked), (MULTI, _multi)):
            yield what, name, partial(deep, llm_seconds=llm), {"seconds": 0.2}, CALLERS, ("asyncio",)


_asked_before = 0


def _asked(system: System, mode: str, callers: int) -> Row:
    """Each caller asks one question, all at one moment; no question is asked twice."""
    global _asked_before
    questions = [f"boat {_asked_before + n} river" for n in range(callers)]
    _asked_before += callers
    begun = time.perf_counter()
    outcomes = _MODES[mode](system, questions, begun)
    total = time.perf_counter() - begun
    times = [milliseconds for milliseconds, _ in outcomes]
    return {
        "mode": mode,
        "callers": callers,
        "seconds": total,
        "p50_ms": statistics.median(times),
        "p95_ms": float(np.quantile(times, 0.95)),
        "without_vectors": sum(_lost(outcome) for _, outcome in outcomes),
        "errors": sum(isinstance(outcome, Exception) for _, outcome in outcomes),
    }


def _asyncio(system: System, questions: Sequence[str], begun: float) -> list[tuple[float, Any]]:
    async def one(question: str) -> tuple[float, Any]:
        try:
            outcome = await system.aask(question)
        except Exception as error:  # noqa: BLE001 - counted in the row
            outcome = error
        return (time.perf_counter() - begun) * 1e3, outcome

    async def every() -> list[tuple[float, Any]]:
        return await asyncio.gather(*(one(question) for question in questions))

    return asyncio.run(every())


def _threads(system: System, questions: Sequence[str], begun: float) -> list[tuple[float, Any]]:
    def one(question: str) -> tuple[float, Any]:
        try:
            outcome = system.ask(question)
        except Exception as error:  # noqa: BLE001 - counted in the row
            outcome = error
        return (time.perf_counter() - begun) * 1e3, outcome

    with ThreadPoolExecutor(len(questions)) as pool:
        return list(pool.map(one, questions))


def _batch(system: System, questions: Sequence[str], begun: float) -> list[tuple[float, Any]]:
    assert system.batch is not None, "asked of systems that have it"
    try:
        outcomes = list(system.batch(list(questions)))
    except Exception as error:  # noqa: BLE001 - counted in the row
        outcomes = [error] * len(questions)
    return [((time.perf_counter() - begun) * 1e3, outcome) for outcome in outcomes]


_MODES = {"asyncio": _asyncio, "threads": _threads, "batch": _batch}


def _lost(outcome: Any) -> bool:
    """Whether a result of umi says that it was found without vectors."""
    return any(loss.part == "embedder" for loss in getattr(outcome, "degraded", ()))


def _umi(texts: list[str], model: RemoteModel, **parts: Any) -> System:
    from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig

    store = HybridStore.open(embedder=model)
    store.add([Chunk(f"c{n}", text, source="s", position=n) for n, text in enumerate(texts)])
    mode = "always" if "rewriter" in parts else "never"
    umi = DualRetriever(store, config=UmiConfig(routing={"mode": mode}), **parts)

    def close() -> None:
        umi.close()
        store.close()

    return System(umi.search, umi.asearch, umi.search_many, close)


def _umi_deep(texts: list[str], model: RemoteModel, llm_seconds: float) -> System:
    return _umi(texts, model, rewriter=ScriptedLLM(lambda _: VARIATIONS, delay=llm_seconds))


def _umi_reranked(texts: list[str], model: RemoteModel, llm_seconds: float) -> System:
    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        time.sleep(RERANKER_SECONDS)
        return [float(len(set(query.split()) & set(text.split()))) for text in texts]

    llm = ScriptedLLM(lambda _: VARIATIONS, delay=llm_seconds)
    return _umi(texts, model, rewriter=llm, reranker=rerank)


def _dense(texts: list[str], model: RemoteModel) -> Any:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Service(Embeddings):
        embed_documents = staticmethod(model.embed_documents)
        embed_query = staticmethod(model.embed_query)
        aembed_documents = staticmethod(model.aembed_documents)
        aembed_query = staticmethod(model.aembed_query)

    return InMemoryVectorStore.from_texts(texts, Service()).as_retriever(search_kwargs={"k": 10})


def _ensemble(texts: list[str], model: RemoteModel) -> System:
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever

    both = EnsembleRetriever(retrievers=[BM25Retriever.from_texts(texts), _dense(texts, model)], weights=[0.5, 0.5])
    return System(both.invoke, both.ainvoke, both.batch, lambda: None)


def _multi(texts: list[str], model: RemoteModel, llm_seconds: float) -> System:
    from langchain_classic.retrievers import MultiQueryRetriever
    from langchain_core.runnables import RunnableLambda

    async def areply(_: Any) -> list[str]:
        await asyncio.sleep(llm_seconds)
        return list(VARIATIONS)  # the retriever appends to it

    def reply(_: Any) -> list[str]:
        time.sleep(llm_seconds)
        return list(VARIATIONS)  # the retriever appends to it

    many = MultiQueryRetriever(
        retriever=_dense(texts, model), llm_chain=RunnableLambda(reply, areply), include_original=True
    )
    return System(many.invoke, many.ainvoke, many.batch, lambda: None)


def _fusion(texts: list[str], model: RemoteModel) -> System:
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    hashed = HashEmbedder()

    class Service(MockEmbedding):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return hashed.embed_documents(texts).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return model.embed_query(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return await model.aembed_query(query)

    nodes = [TextNode(id_=f"c{n}", text=text) for n, text in enumerate(texts)]
    index = VectorStoreIndex(nodes, embed_model=Service(embed_dim=hashed.dim))
    fused = QueryFusionRetriever(
        [index.as_retriever(similarity_top_k=10), BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=10)],
        llm=MockLLM(),
        num_queries=1,
        similarity_top_k=10,
        use_async=False,
    )
    return System(fused.retrieve, fused.aretrieve, None, lambda: None)

"""Settings that change while searches run: from a file, by hand, for contexts; each acts or is refused."""

from __future__ import annotations

import copy
import logging
import os
import pickle

import numpy as np
import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from umi_common import Chunk, DualRetriever, HybridStore, TokenBudget, UmiConfig
from umi_common.config import AnalyzerConfig, AssemblyConfig
from umi_common.context.budget import AssemblyPolicy
from umi_common.errors import ConfigError, InputError, LedgerDamaged, ReindexRequired, StoreUnavailable
from umi_common.sim import HashEmbedder
from umi_langchain import UmiRetriever as LangChainRetriever
from umi_langchain import UmiVectorStore, create_umi_tool
from umi_llamaindex import UmiRetriever as LlamaIndexRetriever

TEXTS = ["Ann met Bob in the garden.", "Bob met Carl.", "Carl met Dora and Bob."]


@pytest.fixture
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add([Chunk(str(at), text, source="diary", position=at) for at, text in enumerate(TEXTS)])
        yield store


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "umi.toml"
    file.write_text("[fusion]\nrrf_k = 10\n")
    return file


def rewrite(file, text):
    file.write_text(text)
    later = file.stat().st_mtime + 5  # as if some seconds had passed
    os.utime(file, (later, later))


def test_a_changed_settings_file_is_noticed_by_the_next_search(store, file, caplog):
    caplog.set_level(logging.INFO, logger="umi")
    umi = DualRetriever(store)
    assert umi.watch(file, seconds=0).fusion.rrf_k == 10
    umi.search("Bob")
    assert caplog.messages == []
    rewrite(file, "[mmr]\nenabled = true\n")
    assert "mmr" in [stage.name for stage in umi.search("Bob").trace]
    assert umi.config.fusion.rrf_k == UmiConfig().fusion.rrf_k
    assert "read again" in caplog.text


async def test_every_kind_of_search_notices_it(store, file):
    umi = DualRetriever(store)
    umi.watch(file, seconds=0)
    searches = (
        lambda: umi.asearch("Bob"),
        lambda: umi.asearch_many(["Bob"]),
        lambda: umi.aget_context("Bob"),
    )
    for at, search in enumerate(searches, 20):
        rewrite(file, f"[fusion]\nrrf_k = {at}\n")
        await search()
        assert umi.config.fusion.rrf_k == at
    rewrite(file, "[fusion]\nrrf_k = 99\n")
    assert umi.with_config(mmr={"enabled": True}).config.fusion.rrf_k == 99


@pytest.mark.parametrize(
    "wrong",
    [
        "[fusion]\nrrf_k = 'many'",
        "[fusion",
        "[analyzer]\nlanguage = 'german'",
        "[assembly]\nformat = 'markdown'",
        "[assembly]\ncitation = '{page}'",
    ],
)
def test_a_wrong_file_keeps_the_settings_and_says_so(store, file, caplog, wrong):
    umi = DualRetriever(store)
    umi.watch(file, seconds=0)
    rewrite(file, wrong)
    assert umi.search("Bob") and umi.config.fusion.rrf_k == 10
    assert "is not used, the previous settings stay in force" in caplog.text
    caplog.clear()
    umi.search("Bob")
    assert caplog.text == ""  # said once
    file.unlink()
    assert umi.search("Bob")
    with pytest.raises(ConfigError, match="cannot read the settings file"):
        umi.watch(file)


def test_a_file_with_a_relative_path_is_watched_after_the_process_changed_its_directory(
    store, file, tmp_path, monkeypatch
):
    umi = DualRetriever(store)
    monkeypatch.chdir(tmp_path)
    umi.watch(file.name, seconds=0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    rewrite(file, "[fusion]\nrrf_k = 20\n")
    umi.search("Bob")
    assert umi.config.fusion.rrf_k == 20


def test_the_number_of_seconds_may_be_of_numpy(store, file):
    assert DualRetriever(store).watch(file, seconds=np.int64(0)).fusion.rrf_k == 10


@pytest.mark.parametrize("seconds", ["1", None, float("nan"), -1])
def test_a_wrong_number_of_seconds_is_refused_when_the_file_is_named_and_not_by_every_search(store, file, seconds):
    umi = DualRetriever(store)
    with pytest.raises(ConfigError, match=r"seconds is .*; expected a number of seconds, at least 0"):
        umi.watch(file, seconds=seconds)
    assert umi.search("Bob").ids


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_retriever_and_its_copy_both_notice_a_changed_file(store, file, duplicate):
    umi = DualRetriever(store)
    umi.watch(file, seconds=0)
    twin = duplicate(umi)
    rewrite(file, "[fusion]\nrrf_k = 20\n")
    for each in (umi, twin):
        each.search("Bob")
        assert each.config.fusion.rrf_k == 20


def test_a_file_without_an_analyzer_goes_with_any_store(file):
    german = UmiConfig(analyzer={"language": "german"})
    with HybridStore.open(embedder=HashEmbedder(64), config=german) as store:
        umi = DualRetriever(store)
        umi.watch(file)
        assert umi.config.analyzer == german.analyzer
        assert umi.with_config(mmr={"enabled": True}).config.analyzer.language == "german"
        assert DualRetriever(store, config=UmiConfig().replaced(mmr={"enabled": True})).config.mmr.enabled


def test_a_retriever_without_settings_of_its_own_has_those_with_which_its_store_was_opened():
    settings = UmiConfig(fusion={"method": "rrf", "rrf_k": 20}, mmr={"enabled": True})
    with HybridStore.open(embedder=HashEmbedder(64), config=settings) as store:
        assert DualRetriever(store).config == settings
        assert DualRetriever(store, config=UmiConfig(mmr={"enabled": False})).config.fusion.method == "convex"
        for face in (LangChainRetriever, LlamaIndexRetriever):
            assert face.from_store(store).umi.config == settings
            changed = face.from_store(store, fusion={"rrf_k": 10}).umi.config
            assert changed == settings.replaced(fusion={"rrf_k": 10})
        with UmiVectorStore(store=store, mmr={"enabled": False}) as vectors:
            assert vectors.umi.config == settings.replaced(mmr={"enabled": False})


def test_an_analyzer_that_the_store_was_not_made_with_is_refused(store):
    german = UmiConfig(analyzer=AnalyzerConfig(language="german"))
    for change in (
        lambda: DualRetriever(store, config=german),
        lambda: DualRetriever(store).reconfigure(german),
        lambda: DualRetriever(store).with_config(analyzer={"language": "german"}),
        lambda: LangChainRetriever.from_store(store, analyzer={"language": "german"}),
    ):
        with pytest.raises(ReindexRequired, match="the analyzer is part of the index"):
            change()


def test_settings_of_the_embedder_act_in_the_store_and_are_refused_elsewhere(store):
    fewer = UmiConfig(embedder={"batch_texts": 3})
    umi = DualRetriever(store)
    for change in (lambda: umi.reconfigure(fewer), lambda: DualRetriever(store, config=fewer)):
        with pytest.raises(ConfigError, match=r"store\.reconfigure"):
            change()
    store.reconfigure(store.config.replaced(embedder={"batch_texts": 3}))
    assert DualRetriever(store, config=fewer).config.embedder.batch_texts == 3
    assert umi.reconfigure(umi.config.replaced(mmr={"enabled": True})).embedder.batch_texts == 3


def test_a_retriever_follows_the_settings_of_its_stores_embedder_and_can_then_be_pickled(tmp_path):
    with HybridStore.open(tmp_path) as store:
        umi = DualRetriever(store)
        store.reconfigure(store.config.replaced(embedder={"batch_texts": 3}))
        assert umi.config.embedder.batch_texts == 3
        assert DualRetriever(store, config=umi.config).config == umi.config
        pickled = pickle.dumps(umi)
    with pickle.loads(pickled) as again:  # noqa: S301 our own bytes
        assert again.config == umi.config


def test_keeping_the_replies_of_the_llm_is_switched_on_and_off_while_the_retriever_is_open(tmp_path):
    replies = tmp_path / "rewrites.db"
    with HybridStore.open(tmp_path, embedder=HashEmbedder(64)) as store:
        store.add([Chunk("a", TEXTS[0])])
        umi = DualRetriever(
            store, rewriter=lambda prompt: '["Ann and Bob"]', config=UmiConfig(routing={"mode": "always"})
        )
        umi.search("who met Ann?")
        assert not replies.exists()
        umi.reconfigure(rewrite={"keep_replies": True})
        umi.search("who met Bob?")
        size = replies.stat().st_size
        umi.reconfigure(rewrite={"keep_replies": False})
        replies.unlink()
        umi.search("who met Carl?")
        assert size > 0 and not replies.exists()


def test_a_directory_with_replies_of_the_llm_and_without_its_ledger_is_a_damaged_store(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(64)) as store:
        store.add([Chunk("a", TEXTS[0])])
        settings = UmiConfig(routing={"mode": "always"}, rewrite={"keep_replies": True})
        DualRetriever(store, rewriter=lambda prompt: '["Ann and Bob"]', config=settings).search("who met Ann?")
    for path in tmp_path.glob("umi.db*"):
        path.unlink()
    with pytest.raises(LedgerDamaged, match=r"has lost umi\.db; restore it from a copy"):
        HybridStore.open(tmp_path, embedder=HashEmbedder(64))


def test_an_unknown_stage_is_refused(store):
    with pytest.raises(ConfigError, match="dense"):
        DualRetriever(store).reconfigure(dense={"ef": 10})


@pytest.mark.parametrize("given", ["rrf", {"fusion": {"method": "rrf"}}, 5])
def test_settings_and_a_budget_of_another_type_are_refused_by_name(store, given):
    with DualRetriever(store) as umi:
        for change in (umi.reconfigure, store.reconfigure):
            with pytest.raises(ConfigError, match="expected UmiConfig"):
                change(given)
        with pytest.raises(ConfigError, match="expected an AssemblyPolicy"):
            umi.get_context("boat", policy=given)
        for budget in (1.5, "500", {"max_total": 500}):
            with pytest.raises(ConfigError, match="expected a number of tokens"):
                umi.get_context("boat", budget=budget)


def test_settings_say_what_a_context_looks_like(store):
    settings = UmiConfig(assembly={"max_total": 60, "format": "xml", "order": "source", "neighbours": 1})
    umi = DualRetriever(store, config=settings)
    context = umi.get_context("Bob")
    assert context.stats.budget == 60 and "<" in context.text
    assert umi.get_context("Bob", budget=TokenBudget(max_total=30)).stats.budget == 30
    assert "<" not in umi.get_context("Bob", policy=AssemblyPolicy()).text
    tool = create_umi_tool(LangChainRetriever(umi=umi))
    assert "<" in tool.invoke({"query": "Bob"})


def test_a_budget_without_arguments_is_that_of_the_settings():
    settings, budget, policy = AssemblyConfig(), TokenBudget(), AssemblyPolicy()
    stated = {name: getattr(budget, name, getattr(policy, name, None)) for name in AssemblyConfig.model_fields}
    assert stated == settings.model_dump()


def test_lists_of_anything_with_an_id_are_merged(store):
    merge = DualRetriever(store).merge_rrf
    first, second = DualRetriever(store).search("Bob"), DualRetriever(store).search("Carl")
    assert merge(["b", "a"], ["c", "a"]) == ["a", "b", "c"] == merge([["b", "a"], ("c", "a")])
    assert [hit.chunk.id for hit in merge(first, second)] == merge(first.ids, second.ids)
    assert merge([first, second]) == merge(first, second)
    for items in (
        [Document(id=name, page_content=name) for name in "ab"],
        [Chunk(name, name) for name in "ab"],
        [TextNode(id_=name, text=name) for name in "ab"],
        [NodeWithScore(node=TextNode(id_=name, text=name), score=1.0) for name in "ab"],
    ):
        assert merge(items, items[1:]) == items[::-1]
        assert merge(items) == items
    assert merge() == merge([]) == merge([[]]) == []


def test_a_document_without_an_id_cannot_be_merged(store):
    with pytest.raises(InputError, match="Document without an id"):
        DualRetriever(store).merge_rrf([Document(page_content="a")])


@pytest.mark.parametrize("failing", ["recall", "get"])
@pytest.mark.parametrize("error", [ConnectionRefusedError("10.0.0.1 refused"), TimeoutError("late"), OSError("disk")])
async def test_the_oserror_of_a_store_of_ones_own_is_a_typed_error(store, failing, error):
    class Own:
        def __getattr__(self, name):
            if name in ("recall_many", "aembed", "get_versions", "path"):
                raise AttributeError(name)
            return getattr(store, name)

        def recall(self, *args, **options):
            if failing == "recall":
                raise error
            return store.recall(*args, **options)

        def get(self, ids):
            raise error

    umi = DualRetriever(Own())
    for search in (umi.search, umi.get_context):
        with pytest.raises(StoreUnavailable, match=type(error).__name__) as raised:
            search("Bob")
        assert raised.value.__cause__ is error
    with pytest.raises(StoreUnavailable):
        await umi.asearch("Bob")
    with pytest.raises(StoreUnavailable):
        umi.search_many(["Bob", "Carl"])

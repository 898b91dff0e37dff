"""`make demo`: five questions over the real standard library, each with a right answer among the first three."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest
from rich.console import Console

from umi_common.demo import run as demo
from umi_common.demo.corpus import module_chunks, standard_library
from umi_common.demo.run import STDLIB_QUESTIONS, open_standard_library, run, show_live_chroma
from umi_common.demo.story import NOW, REWRITES, conversation
from umi_common.errors import MissingExtra
from umi_common.retriever import DualRetriever
from umi_common.sim import ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

RIGHT_ANSWERS = {
    "run a coroutine with a timeout": {"asyncio.tasks.wait_for", "asyncio.timeouts.timeout"},
    "who keeps the order of keys": {"collections.OrderedDict", "collections.OrderedDict.keys"},
    "find close matches for a misspelled word": {"difflib.get_close_matches"},
    "cache the results of a function": {"functools.cache", "functools.lru_cache"},
    "the n largest items of a list": {"heapq.nlargest"},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    directory = tmp_path_factory.mktemp("demo") / "store"
    with open_standard_library(directory, Console(file=io.StringIO())) as store:
        yield store


def test_the_questions_of_the_demo_are_the_checked_ones():
    assert set(STDLIB_QUESTIONS) == set(RIGHT_ANSWERS)


@pytest.mark.parametrize("question", STDLIB_QUESTIONS)
def test_a_right_answer_is_among_the_first_three(library, question):
    assert RIGHT_ANSWERS[question] & set(DualRetriever(library).search(question, limit=3).ids)


def test_the_standard_library_gives_thousands_of_distinct_chunks():
    chunks = standard_library()
    assert len(chunks) > 8_000
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    assert all(chunk.source == chunk.metadata["module"] for chunk in chunks)


def test_a_module_becomes_one_chunk_per_public_definition_in_order():
    code = b'''
class Clock(Base):
    """Tells time."""
    def now(self): "The present."
    def _hidden(self): ...
# Stops the world.
def stop(seconds=1): ...
'''
    chunks = module_chunks("clocks", code)
    assert [(c.id, c.position) for c in chunks] == [("clocks.Clock", 0), ("clocks.Clock.now", 1), ("clocks.stop", 2)]
    assert chunks[0].text == "clocks.Clock(Base)\nTells time."
    assert chunks[2].text == "clocks.stop(seconds=1)\nStops the world."


def test_the_comment_above_a_definition_is_found_below_a_form_feed():
    code = b"import os\n\x0c\n# Stops the world.\ndef stop(seconds=1): ...\r\n# Goes on.\rdef go(): ...\n"
    chunks = module_chunks("clocks", code)
    assert [chunk.text for chunk in chunks] == ["clocks.stop(seconds=1)\nStops the world.", "clocks.go()\nGoes on."]


def test_the_demo_shows_hits_reasons_context_and_times_and_reopens(library, tmp_path):
    library.close()
    screen = io.StringIO()
    run(library.path, console=Console(file=screen, width=120))
    shown = screen.getvalue()
    assert "reopened" in shown
    assert "DIFFERENT" not in shown
    for part in ("asyncio.tasks.wait_for", "BM25", "cosine", "of 800 tokens", " ms", "also searched: works at Acme"):
        assert part in shown


def test_a_question_in_square_brackets_is_shown_as_typed(library, tmp_path):
    library.close()
    screen = io.StringIO()
    run(library.path, "what does list[/int] mean", Console(file=screen, width=120))
    assert "tokens for: what does list[/int] mean" in screen.getvalue()


def test_over_a_live_chroma_collection_umi_finds_what_chroma_wrote_meanwhile_and_rank_bm25_does_not(library):
    library.close()
    screen = io.StringIO()
    with HybridStore.open(library.path) as store:
        show_live_chroma(Console(file=screen, width=300), store)
    shown = screen.getvalue()
    assert shown.count("Chroma  ") == shown.count("rank_bm25  ") == shown.count("umi over Chroma ") == 3
    after = shown.partition("written to the collection by Chroma")[2]
    assert "umi over Chroma news," in after
    assert not re.search(r"rank_bm25 .*news", after)


@pytest.mark.parametrize("module", ["rank_bm25", "llama_index.core"])
def test_the_demo_without_one_of_its_packages_names_the_pip_line(monkeypatch, tmp_path, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'umi-retrieval\[demo\]'"):
        run(tmp_path)


def test_a_later_run_takes_the_texts_that_changed_and_times_the_store_alone(monkeypatch, tmp_path):
    def read(text):
        time.sleep(1.0)  # as reading the sources of the library takes seconds
        return [Chunk("json.dumps", text), Chunk("json.loads", "json.loads(s)")]

    for text, said in (("json.dumps(obj)", "2 func"), ("json.dumps(obj, indent)", "1 func"), ("again", "1 func")):
        screen = io.StringIO()
        monkeypatch.setattr(demo, "standard_library", lambda text=text: read(text))
        with open_standard_library(tmp_path, Console(file=screen)) as store:
            assert store.get(["json.dumps"])[0].text == text
        assert said in screen.getvalue()
        assert float(re.search(r"indexed in ([\d.]+) s", screen.getvalue())[1]) < 1.0


@pytest.fixture()
def talks():
    with HybridStore.open() as store:
        store.add(conversation())
        yield store


def test_last_week_finds_the_talk_of_last_week(talks):
    hits = DualRetriever(talks, clock=lambda: NOW).search("What did Mira tell me last week?", limit=3).hits
    assert hits[0].chunk.source == "talk-3"


def test_the_answer_beside_the_question_comes_along(talks):
    ids = DualRetriever(talks).search("what did the boiler inspector find", limit=2).ids
    assert set(ids) == {"talk-2:0", "talk-2:1"}


def test_deep_search_finds_both_people_at_acme(talks):
    question = "Who do I know at Acme?"
    umi = DualRetriever(talks, rewriter=ScriptedLLM([str(REWRITES[question]).replace("'", '"')]))
    umi.reconfigure(routing={"mode": "heuristic"})
    result = umi.search(question, limit=3)
    assert result.deep_search_used
    assert {"talk-1:4", "talk-3:3"} <= set(result.ids)

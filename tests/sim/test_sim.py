"""The simulated models and clocks do what their docstrings say."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from umi_common import sim
from umi_common.errors import ConfigError, EmbedderError
from umi_common.protocols import Embedder, Rewriter
from umi_common.sim import (
    FAULTS,
    CassetteLLM,
    CassetteMiss,
    CountingEmbedder,
    FaultyEmbedder,
    FaultyLLM,
    HashEmbedder,
    ScriptedLLM,
    SimLLM,
    SimulatedFault,
    VirtualClock,
)


def test_the_faulty_model_of_the_first_page_is_one_that_there_is():
    assert set(re.findall(r'FaultyLLM\("(.+?)"\)', sim.__doc__)) <= set(FAULTS)


@pytest.mark.parametrize("llm", [ScriptedLLM([]), CassetteLLM(None), FaultyLLM("empty"), SimLLM()])
def test_every_llm_of_the_kit_is_a_rewriter(llm: object):
    assert isinstance(llm, Rewriter)


@pytest.mark.parametrize("embedder", [HashEmbedder(), CountingEmbedder(HashEmbedder()), FaultyEmbedder(HashEmbedder())])
def test_every_embedder_of_the_kit_is_an_embedder(embedder: object):
    assert isinstance(embedder, Embedder)


# Scripted


def test_a_script_by_word_takes_the_longest_that_fits():
    llm = ScriptedLLM({"who": "short", "who knows": "long"})
    assert llm.complete("who knows Acme") == "long"
    assert llm.complete("who is it") == "short"
    assert llm.prompts == ["who knows Acme", "who is it"]


def test_a_script_of_one_text_replies_with_it_to_each_call():
    llm = ScriptedLLM('["Acme"]')
    assert [llm.complete("who"), llm.complete("where")] == ['["Acme"]', '["Acme"]']


def test_a_script_with_no_reply_left_raises():
    llm = ScriptedLLM([["a", "b"], ValueError("third")])
    assert llm.complete("x") == '["a", "b"]'
    with pytest.raises(ValueError, match="third"):
        llm.complete("x")
    with pytest.raises(LookupError, match="2 replies; this is call 3"):
        llm.complete("x")


def test_a_delay_passes_on_the_virtual_clock():
    clock = VirtualClock()
    llm = ScriptedLLM(lambda prompt: prompt, delay=2.5, sleep=clock.sleep)
    assert llm.complete("x") == "x"
    assert clock.monotonic() == 2.5
    assert clock.run(llm.acomplete("y")) == "y"
    assert clock.monotonic() == 5.0


# Cassette


def test_a_cassette_records_once_and_replays_without_the_llm(tmp_path: Path):
    path = tmp_path / "deep" / "replies.jsonl"
    llm = ScriptedLLM(["first ‹é›", "second"])
    recording = CassetteLLM(path, llm)
    assert recording.complete("a") == "first ‹é›"
    assert asyncio.run(recording.acomplete("b")) == "second"
    assert recording.complete("a") == "first ‹é›"
    assert len(llm.prompts) == 2

    replay = CassetteLLM(path)
    assert (replay.complete("a"), asyncio.run(replay.acomplete("b")), len(replay)) == ("first ‹é›", "second", 2)
    with pytest.raises(CassetteMiss):
        replay.complete("c")
    with pytest.raises(CassetteMiss):
        asyncio.run(replay.acomplete("c"))


def test_a_cassette_that_a_kill_cut_off_replays_its_whole_lines_and_records_the_rest_again(tmp_path: Path):
    path = tmp_path / "replies.jsonl"
    for prompt in "ab":
        CassetteLLM(path, ScriptedLLM([f"reply to {prompt}"])).complete(prompt)
    path.write_text(path.read_text()[:-7])
    assert (len(CassetteLLM(path)), CassetteLLM(path).complete("a")) == (1, "reply to a")
    assert CassetteLLM(path, ScriptedLLM(["anew"])).complete("b") == "anew"
    assert (CassetteLLM(path).complete("a"), CassetteLLM(path).complete("b")) == ("reply to a", "anew")


def test_a_cassette_whose_last_line_has_no_newline_keeps_this_line(tmp_path: Path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"prompt": "a", "reply": "by hand"}')
    CassetteLLM(path, ScriptedLLM(["recorded"])).complete("b")
    assert (CassetteLLM(path).complete("a"), CassetteLLM(path).complete("b")) == ("by hand", "recorded")


async def test_a_prompt_that_is_asked_twice_at_once_is_recorded_once(tmp_path: Path):
    path = tmp_path / "replies.jsonl"
    llm = CassetteLLM(path, ScriptedLLM(["first", "second"], delay=0.01))
    assert await asyncio.gather(llm.acomplete("a"), llm.acomplete("a")) == ["first", "first"]
    assert CassetteLLM(path).complete("a") == "first"


@pytest.mark.parametrize("line", ["no json", "12", '{"prompt": "a"}', '{"prompt": [], "reply": "b"}'])
def test_a_line_of_a_cassette_that_is_no_record_is_named(tmp_path: Path, line: str):
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"prompt": "a", "reply": "b"}}\n{line}\n')
    with pytest.raises(ConfigError, match=r"replies\.jsonl, line 2"):
        CassetteLLM(path)


# Faults


def test_an_unknown_fault_is_refused():
    with pytest.raises(ConfigError, match="expected one of raises"):
        FaultyLLM("melts")


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"raises", "hangs"}))
def test_a_fault_is_the_same_in_sync_and_async_calls(fault: str):
    llm = FaultyLLM(fault)
    assert llm.complete("prompt") == asyncio.run(llm.acomplete("prompt"))
    assert llm.calls == 2


def test_a_faulty_llm_heals():
    llm = FaultyLLM("raises", heals_after=2, good="fine")
    for _ in range(2):
        with pytest.raises(SimulatedFault):
            llm.complete("x")
    assert llm.complete("x") == "fine"


def test_the_sim_llm_follows_its_seed():
    prompt = "Rewrite.\n\nQuery: Who do I know at Acme?\n\nReturn JSON."
    replies = {SimLLM(seed).complete(prompt) for seed in range(20)}
    assert SimLLM(3).complete(prompt) == SimLLM(3).complete(prompt) == asyncio.run(SimLLM(3).acomplete(prompt))
    assert len(replies) > 1
    assert all(2 <= len(json.loads(reply)) <= 3 for reply in replies)


# Clock


def test_the_virtual_clock_advances_only_when_it_is_advanced():
    clock = VirtualClock(datetime(2024, 5, 1, tzinfo=timezone.utc))
    assert clock() == clock.now() == datetime(2024, 5, 1, tzinfo=timezone.utc)
    clock.advance(90)
    assert clock.now() - datetime(2024, 5, 1, tzinfo=timezone.utc) == timedelta(seconds=90)
    with pytest.raises(ValueError, match="at least 0"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="time zone"):
        VirtualClock(datetime(2024, 5, 1))


def test_tasks_that_sleep_at_the_same_time_take_the_longest_of_their_times():
    clock = VirtualClock()

    async def both() -> None:
        await asyncio.gather(asyncio.sleep(3_600.0), asyncio.sleep(10.0))

    begun = time.perf_counter()
    clock.run(both())
    assert clock.monotonic() == pytest.approx(3_600.0)
    assert time.perf_counter() - begun < 60.0


def test_data_of_a_socket_arrive_before_the_clock_moves():
    clock = VirtualClock()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def received() -> bytes:
        loop = asyncio.get_running_loop()
        loop.call_later(5.0, theirs.send, b"x")
        return await asyncio.wait_for(loop.sock_recv(ours, 1), timeout=60.0)

    with ours, theirs:
        assert clock.run(received()) == b"x"
    assert clock.monotonic() == pytest.approx(5.0)


def test_timeouts_pass_in_virtual_time_too():
    clock = VirtualClock()

    async def late() -> None:
        await asyncio.wait_for(asyncio.sleep(100.0), timeout=7.0)

    with pytest.raises(asyncio.TimeoutError):
        clock.run(late())
    assert clock.monotonic() == pytest.approx(7.0)


def test_work_in_a_thread_takes_no_virtual_time():
    clock = VirtualClock()

    async def both() -> tuple[float, None]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor:

            async def work() -> float:
                await loop.run_in_executor(executor, time.sleep, 0.05)
                return clock.monotonic()

            return await asyncio.gather(work(), asyncio.sleep(5.0))

    ended, _ = clock.run(both())
    assert ended == 0.0
    assert clock.monotonic() == pytest.approx(5.0)


# Embedders


def test_hashed_words_are_unit_vectors_and_shared_words_bring_texts_together():
    vectors = HashEmbedder(256).embed_documents(["the red car", "a red car", "quantum chromodynamics", "?!"])
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors[:3], axis=1) == pytest.approx(1.0)
    assert not vectors[3].any()
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert HashEmbedder(1).embed_documents([f"red {number}" for number in range(9)]).all(), "no words cancel out"


def test_hashing_is_the_same_on_every_machine():
    vector = HashEmbedder(8).embed_queries(["umi"])[0]
    assert vector.tolist() == GOLDEN_UMI


GOLDEN_UMI = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0]


def test_the_counting_embedder_counts_calls_and_texts():
    embedder = CountingEmbedder(HashEmbedder())
    embedder.embed_documents(["a", "b"])
    embedder.embed_queries(["c"])
    assert (embedder.document_calls, embedder.query_calls, embedder.texts) == (1, 1, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("fail_on", "fails"), [("poison", [False, True, False]), (3, [False, False, True]), (None, [True] * 3)]
)
def test_a_faulty_embedder_fails_on_the_chosen_calls(fail_on: str | int | None, fails: list[bool]):
    embedder = FaultyEmbedder(HashEmbedder(), fail_on)
    for text, expected in zip(("a", "some poison", "b"), fails, strict=True):
        if expected:
            with pytest.raises(EmbedderError):
                embedder.embed_queries([text])
        else:
            assert embedder.embed_queries([text]).shape == (1, 64)


def test_other_faults_are_bad_arrays():
    texts = ["a", "b"]
    assert np.isnan(FaultyEmbedder(HashEmbedder(), fault="nan").embed_queries(texts)).any()
    assert FaultyEmbedder(HashEmbedder(), fault="shape").embed_queries(texts).shape == (2, 63)
    assert FaultyEmbedder(HashEmbedder(), fault="short").embed_queries(texts).shape == (1, 64)
    assert FaultyEmbedder(HashEmbedder(), lambda batch: len(batch) > 5).embed_queries(texts).shape == (2, 64)


def test_a_call_that_was_given_up_no_longer_counts_as_running():
    async def given_up_then_asked():
        model = sim.RemoteModel(seconds=1.0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(model.aembed_query("roof"), 0.5)
        await model.aembed_query("boiler")
        return model

    assert sim.VirtualClock().run(given_up_then_asked()).at_once_max == 1


def test_an_unknown_fault_of_an_embedder_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"fault 'raise': expected one of raises, nan, shape, short"):
        FaultyEmbedder(HashEmbedder(), fault="raise")  # type: ignore[arg-type]

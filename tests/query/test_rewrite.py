"""Rewriting under every failure of the LLM, in both worlds: blocking and on an event loop, in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from umi_common.config import REWRITE_TEMPLATE, RewriteConfig
from umi_common.errors import ConfigError
from umi_common.query.rewriting.models import as_rewriter
from umi_common.query.rewriting.rewrite import HISTORY_CHARS_MAX, Rewrites, Rewriting, build_prompt
from umi_common.sim import FAULTS, FaultyLLM, ScriptedLLM, SimLLM, VirtualClock

QUERY = "Who do I know at Acme?"
GOOD = ["Acme", "works at Acme"]

Ask = Callable[..., Rewrites]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """One question, blocking or on an event loop."""

    def sync(rewriting: Rewriting, query: str = QUERY, **options: Any) -> Rewrites:
        return rewriting.variations(query, **options)

    def on_loop(rewriting: Rewriting, query: str = QUERY, **options: Any) -> Rewrites:
        return asyncio.run(rewriting.avariations(query, **options))

    return sync if request.param == "sync" else on_loop


def test_the_llm_gets_the_prompt_of_adr_015_word_for_word(ask: Ask):
    llm = ScriptedLLM([GOOD])
    assert ask(Rewriting(llm)).variations == tuple(GOOD)
    # ADR-015, "Query Rewrite Prompt"
    assert llm.prompts == [
        "Rewrite this search query into 2-3 variations that would help find relevant memories.\n"
        "\n"
        "Query: Who do I know at Acme?\n"
        "\n"
        'Return as JSON array of strings. Example: ["variation 1", "variation 2", "variation 3"]\n'
        "Only return the JSON array, nothing else."
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_costs_the_variations_only_and_is_named(ask: Ask, fault: str):
    # ADR-015, "Graceful Degradation": "Return original query only (no variations)"
    llm = FaultyLLM(fault)
    begun = time.perf_counter()
    rewrites = ask(Rewriting(llm, RewriteConfig(timeout_seconds=0.2)))
    assert time.perf_counter() - begun < 20.0
    llm.release()
    assert rewrites.variations == ()
    assert rewrites.degraded is not None
    assert rewrites.degraded.part == "rewriter"
    assert rewrites.degraded.reason
    assert "Acme" not in repr(rewrites.degraded)


def test_a_hanging_llm_is_left_after_exactly_the_timeout():
    clock = VirtualClock()
    rewriting = Rewriting(FaultyLLM("hangs"), RewriteConfig(timeout_seconds=4.0), clock=clock.monotonic)
    rewrites = clock.run(rewriting.avariations(QUERY))
    assert clock.monotonic() == 4.0
    assert rewrites.degraded is not None
    assert rewrites.degraded.reason == "no reply in time"


def test_an_llm_that_refuses_to_be_cancelled_does_not_hold_the_search():
    clock = VirtualClock()

    async def stubborn(_prompt: str) -> str:
        while True:
            try:
                await asyncio.sleep(100.0)
            except asyncio.CancelledError:
                await asyncio.sleep(100.0)
                return "[]"

    rewriting = Rewriting(stubborn, RewriteConfig(timeout_seconds=4.0), clock=clock.monotonic)

    async def timed() -> float:
        await rewriting.avariations(QUERY)
        return clock.monotonic()

    assert clock.run(timed()) == 4.0


def test_an_llm_that_cancels_itself_is_a_failure_and_not_our_cancellation():
    async def selfish(_prompt: str) -> str:
        raise asyncio.CancelledError

    rewrites = asyncio.run(Rewriting(selfish).avariations(QUERY))
    assert rewrites.degraded is not None


def test_cancelling_the_search_cancels_the_llm_call_and_goes_up():
    seen: list[str] = []

    async def slow(_prompt: str) -> str:
        try:
            await asyncio.sleep(100.0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return "[]"

    rewriting = Rewriting(slow, RewriteConfig(breaker_failures=1))

    async def cancel() -> None:
        task = asyncio.create_task(rewriting.avariations(QUERY))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    asyncio.run(cancel())
    assert seen == ["cancelled"]
    assert rewriting.breaker.state == "closed"  # a caller who leaves says nothing about the LLM


def test_cancelling_while_a_blocking_llm_hangs_returns_at_once():
    llm = FaultyLLM("hangs")
    rewriting = Rewriting(llm.complete)

    async def cancel() -> None:
        task = asyncio.create_task(rewriting.avariations(QUERY))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begun = time.perf_counter()
    asyncio.run(cancel())
    assert time.perf_counter() - begun < 20.0
    llm.release()


def test_a_blocking_llm_leaves_the_event_loop_free():
    llm = FaultyLLM("hangs")
    rewriting = Rewriting(llm.complete, RewriteConfig(timeout_seconds=60.0))
    backstop = threading.Timer(30.0, llm.release)  # for a loop that is not free
    backstop.start()
    ticks = 0

    async def both() -> None:
        nonlocal ticks
        task = asyncio.create_task(rewriting.avariations(QUERY))
        while not task.done():
            await asyncio.sleep(0.001)
            ticks += 1
            if ticks == 5:
                llm.release()

    asyncio.run(both())
    backstop.cancel()
    assert ticks >= 5


def test_hanging_calls_take_a_bounded_number_of_threads():
    llm = FaultyLLM("hangs")
    rewriting = Rewriting(llm.complete, RewriteConfig(timeout_seconds=0.005, breaker_failures=1_000))
    before = threading.active_count()
    reasons = []
    for number in range(30):
        degraded = rewriting.variations(f"{QUERY} {number}").degraded
        reasons.append(None if degraded is None else degraded.reason)
    assert threading.active_count() - before <= 16
    assert reasons[0] == "no reply in time"
    assert reasons[-1] == "too many calls to the LLM have not returned"
    llm.release()


def test_the_breaker_opens_after_failures_in_a_row_and_half_opens_after_the_pause(ask: Ask):
    clock = VirtualClock()
    llm = FaultyLLM("raises", heals_after=4, good='["healed"]')
    config = RewriteConfig(breaker_failures=3, breaker_seconds=30.0)
    rewriting = Rewriting(llm, config, clock=clock.monotonic)
    for _ in range(3):
        ask(rewriting)
    assert (rewriting.breaker.state, llm.calls) == ("open", 3)

    degraded = ask(rewriting).degraded
    assert degraded is not None
    assert degraded.reason == "left alone after repeated failures"
    assert llm.calls == 3

    clock.advance(29.9)
    ask(rewriting)
    assert llm.calls == 3

    clock.advance(0.2)
    assert rewriting.breaker.state == "half-open"
    ask(rewriting)  # fails a fourth time: the pause starts anew
    assert (rewriting.breaker.state, llm.calls) == ("open", 4)

    clock.advance(30.1)
    assert ask(rewriting).variations == ("healed",)
    assert rewriting.breaker.state == "closed"


def test_a_success_between_failures_keeps_the_breaker_closed(ask: Ask):
    llm = ScriptedLLM([RuntimeError(), GOOD, RuntimeError(), GOOD])
    rewriting = Rewriting(llm, RewriteConfig(breaker_failures=2, cache_size=0))
    for _ in range(4):
        ask(rewriting)
    assert rewriting.breaker.state == "closed"


def test_retries_stay_within_the_one_deadline():
    clock = VirtualClock()
    llm = ScriptedLLM([RuntimeError(), "no list", GOOD], delay=1.5)
    rewriting = Rewriting(llm, RewriteConfig(retries=3, timeout_seconds=4.0), clock=clock.monotonic)
    rewrites = clock.run(rewriting.avariations(QUERY))
    assert clock.monotonic() == 4.0  # 1.5 + 1.5, and the third attempt has 1.0 left
    assert rewrites.degraded is not None
    assert rewrites.facts["attempts"] == 3


def test_a_retry_may_save_the_call(ask: Ask):
    rewriting = Rewriting(ScriptedLLM([RuntimeError(), GOOD]), RewriteConfig(retries=1))
    rewrites = ask(rewriting)
    assert rewrites.variations == tuple(GOOD)
    assert rewrites.degraded is None


def test_the_second_time_costs_nothing(ask: Ask):
    llm = ScriptedLLM([GOOD])
    rewriting = Rewriting(llm)
    first, second = ask(rewriting), ask(rewriting)
    assert second.variations == first.variations
    assert (first.facts["cached"], second.facts["cached"]) == (False, True)
    assert len(llm.prompts) == 1


def test_failures_are_not_kept(ask: Ask):
    rewriting = Rewriting(ScriptedLLM(["", GOOD]))
    ask(rewriting)
    assert ask(rewriting).variations == tuple(GOOD)


def test_another_history_is_another_question(ask: Ask):
    llm = ScriptedLLM([GOOD, ["other"]])
    rewriting = Rewriting(llm)
    ask(rewriting, history=["user: about Acme"])
    assert ask(rewriting, history=["user: about Umbrella"]).variations == ("other",)


def test_a_changed_setting_keeps_cache_and_breaker():
    llm = ScriptedLLM([GOOD])
    old = Rewriting(llm)
    old.variations(QUERY)
    new = Rewriting(llm, RewriteConfig(timeout_seconds=1.0, variations_max=1), previous=old)
    assert new.breaker is old.breaker
    rewrites = new.variations(QUERY)
    assert (rewrites.facts["cached"], rewrites.variations) == (True, ("Acme",))


def test_the_same_seed_gives_the_same_variations(ask: Ask):
    # ADR-009, "Requirements": "Sim-first: Deterministic behavior with `seed`"
    one, two = (ask(Rewriting(SimLLM(seed=7))).variations for _ in range(2))
    assert one == two != ()


def test_a_context_variable_reaches_a_blocking_llm(ask: Ask):
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")
    span.set("the caller's")
    assert ask(Rewriting(lambda _prompt: f'["{span.get()}"]')).variations == ("the caller's",)


def test_no_query_text_is_logged(ask: Ask, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        ask(Rewriting(ScriptedLLM([RuntimeError(f"bad prompt: {QUERY}")])))
    assert "Acme" not in caplog.text


@pytest.mark.parametrize(
    "reply, named", [(None, "NoneType"), (b'["a"]', "bytes"), (["Acme"], "list"), ({"a": 1}, "dict")]
)
def test_a_function_that_returns_no_text_is_told_what_it_returned(ask: Ask, reply: object, named: str):
    degraded = ask(Rewriting(lambda prompt: reply)).degraded
    assert degraded is not None
    assert degraded.reason == f"the LLM returned {named}, which has no text; expected str"


def test_the_status_of_an_http_client_is_named_and_its_message_is_not(ask: Ask):
    class RateLimitError(Exception):
        status_code = 429

    degraded = ask(Rewriting(ScriptedLLM([RateLimitError(QUERY)]))).degraded
    assert degraded is not None
    assert degraded.reason == "RateLimitError (status 429)"


# The prompt


def test_braces_are_literal_in_template_and_query():
    template = 'Return {"a": [1, {x}, {}]} for {query}, again {query}'
    assert build_prompt(template, "{history} {0} {query}") == (
        'Return {"a": [1, {x}, {}]} for {history} {0} {query}, again {history} {0} {query}'
    )


def test_history_goes_to_its_place_or_in_front():
    assert build_prompt("{history}|{query}", "q", ["a", "b"]) == "a\nb|q"
    assert build_prompt("{query}", "q", ["a", "b"]) == "Conversation so far:\na\nb\n\nq"
    assert build_prompt("{history}|{query}", "q") == "|q"


def test_a_long_history_keeps_its_latest_turns():
    turns = [f"{number} " + "x" * 998 for number in range(20)]
    prompt = build_prompt("{history}|{query}", "q", turns)
    assert len(prompt) <= HISTORY_CHARS_MAX + 2
    assert turns[-1] in prompt
    assert turns[0] not in prompt
    assert build_prompt("{history}", "q", ["a" + "b" * 9_000]).startswith("b")


@pytest.mark.parametrize("template", ["", "Rewrite this", "{Query}", "{ query }"])
def test_a_template_without_a_place_for_the_query_is_refused(template: str):
    with pytest.raises(ConfigError, match=r"\{query\}"):
        RewriteConfig(template=template)


def test_the_default_template_holds_the_query_once():
    assert REWRITE_TEMPLATE.count("{query}") == 1


# Any LLM


class Reply:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class LangChainLike:
    model_name = "chat-1"

    def invoke(self, prompt: str) -> Any:
        return Reply(content='["content"]')

    async def ainvoke(self, prompt: str) -> Any:
        return Reply(content=[{"type": "text", "text": '["con'}, {"type": "text", "text": 'tent"]'}, {"type": "image"}])


class LlamaIndexLike:
    model = "llm-1"

    def complete(self, prompt: str, formatted: bool = False) -> Any:
        return Reply(text='["content"]')

    async def acomplete(self, prompt: str, formatted: bool = False) -> Any:
        return Reply(text='["content"]')


class SyncOnlySubclass(LlamaIndexLike):
    async def acomplete(self, prompt: str, formatted: bool = False) -> Any:
        raise NotImplementedError


class AsyncOnlySubclass(LlamaIndexLike):
    def complete(self, prompt: str, formatted: bool = False) -> Any:
        raise NotImplementedError


class OnlyBlocking:
    def complete(self, prompt: str) -> str:
        return '["content"]'


async def coroutine_function(prompt: str) -> str:
    return '["content"]'


class AsyncCallable:
    async def __call__(self, prompt: str) -> str:
        return '["content"]'


@pytest.mark.parametrize(
    "llm",
    [
        LangChainLike(),
        LlamaIndexLike(),
        SyncOnlySubclass(),
        AsyncOnlySubclass(),
        OnlyBlocking(),
        coroutine_function,
        AsyncCallable(),
        lambda prompt: '["content"]',
        lambda prompt: coroutine_function(prompt),
        LangChainLike().invoke,
        ScriptedLLM(lambda prompt: '["content"]'),
    ],
    ids=lambda llm: getattr(llm, "__name__", type(llm).__name__),
)
def test_any_llm_is_a_rewriter(ask: Ask, llm: Any):
    assert ask(Rewriting(llm)).variations == ("content",)


class EmbedModelLikeLlamaIndex:
    """LlamaIndex's embed models are callable, because they are steps of a pipeline, too."""

    def __call__(self, nodes: Any) -> Any: ...

    def get_text_embedding(self, text: str) -> Any: ...


@pytest.mark.parametrize("thing", [None, 7, "gpt", object(), OnlyBlocking, ["a"], EmbedModelLikeLlamaIndex()])
def test_what_is_no_llm_is_refused(thing: Any):
    with pytest.raises(ConfigError, match="expected an object with complete"):
        as_rewriter(thing)


def test_wrapping_twice_changes_nothing():
    once = as_rewriter(OnlyBlocking())
    assert as_rewriter(once) is once


def test_two_models_have_two_names():
    assert getattr(as_rewriter(LangChainLike()), "name", "") != getattr(as_rewriter(LlamaIndexLike()), "name", "")


def test_an_llm_with_async_code_only_is_called_on_one_event_loop():
    """A client's connections belong to the event loop that opened them."""
    loops = []

    async def llm(prompt: str) -> str:
        loops.append(asyncio.get_running_loop())
        return '["Acme"]'

    rewriting = Rewriting(llm)
    for query in (QUERY, "Who else?"):
        assert rewriting.variations(query).variations == ("Acme",)
    assert len(loops) == 2 and len(set(loops)) == 1


def test_an_async_llm_that_cancels_itself_is_no_fault_of_an_embedder(ask: Ask):
    async def llm(prompt: str) -> str:
        raise asyncio.CancelledError

    degraded = ask(Rewriting(llm)).degraded
    assert degraded is not None and degraded.reason == "RuntimeError"


def test_a_time_limit_that_passes_before_the_first_call_is_named():
    rewrites = Rewriting(FaultyLLM("hangs"), RewriteConfig(timeout_seconds=1e-9)).variations(QUERY)
    assert rewrites.degraded is not None and rewrites.degraded.reason == "no reply in time"

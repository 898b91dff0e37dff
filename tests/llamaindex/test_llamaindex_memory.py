"""UmiMemoryBlock: two users, two sessions, one store; nothing crosses over."""

from __future__ import annotations

import asyncio
import copy
import random
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta, timezone

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.utils import get_tokenizer
from sqlalchemy.ext.asyncio import create_async_engine

from umi_common.errors import FilterError, StoreUnavailable
from umi_common.retriever import DualRetriever
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_llamaindex import UmiMemoryBlock

MAY = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
SECRETS = {
    ("ann", "monday"): "the password of my safe is walrus",
    ("ann", "friday"): "the password of my safe is pelican",
    ("bob", "monday"): "the password of my safe is ostrich",
    ("bob", "friday"): "the password of my safe is gecko",
}
ANIMALS = {who: said.split()[-1] for who, said in SECRETS.items()}
QUESTION = ChatMessage(role="user", content="what is the password of my safe?")


def said(text: str, **more) -> ChatMessage:
    return ChatMessage(role="user", content=text, additional_kwargs=more)


@pytest.fixture
def umi():
    with HybridStore.open() as store, DualRetriever(store, clock=lambda: MAY) as retriever:
        yield retriever


@pytest.fixture
async def blocks(umi):
    made = {user: UmiMemoryBlock(umi=umi, user=user, clock=lambda: MAY) for user in ("ann", "bob")}
    for (user, session), secret in SECRETS.items():
        await made[user].aput([said(secret)], session_id=session)
    return made


def animals_in(text: str) -> set[str]:
    return {animal for animal in ANIMALS.values() if animal in text}


async def test_two_users_and_two_sessions_keep_their_secrets(blocks):
    assert issubclass(UmiMemoryBlock, BaseMemoryBlock)
    for (user, session), animal in ANIMALS.items():
        assert animals_in(await blocks[user].aget([QUESTION], session_id=session)) == {animal}


async def test_half_an_emoji_in_a_message_does_not_refuse_the_others(blocks):
    await blocks["ann"].aput([said("thank you \ud83d"), said("the cellar's code is 99")], session_id="monday")
    heard = await blocks["ann"].aget([said("what is the code of the cellar \ud83d?")], session_id="monday")
    assert "the cellar's code is 99" in heard and "thank you ?" in heard


async def test_no_order_of_calls_pins_a_session(blocks):
    """LlamaIndex's own block answers every later call from the session of the first."""
    calls = list(ANIMALS) * 5
    random.Random(3).shuffle(calls)
    answers = await asyncio.gather(*(blocks[user].aget([QUESTION], session_id=session) for user, session in calls))
    for who, answer in zip(calls, answers, strict=True):
        assert animals_in(answer) == {ANIMALS[who]}


async def test_a_user_may_remember_all_sessions_but_never_anothers(blocks, umi):
    wide = UmiMemoryBlock(umi=umi, user="ann", across_sessions=True)
    assert animals_in(await wide.aget([QUESTION], session_id="friday")) == {"walrus", "pelican"}
    await wide.aput([said("my other safe says heron")])
    assert "heron" in await wide.aget([QUESTION])
    assert "heron" not in await blocks["bob"].aget([QUESTION], session_id="monday")


@pytest.mark.parametrize(
    "call", [{}, {"session_id": None}, {"session_id": ""}, {"session_id": "monday", "user": "bob"}]
)
async def test_a_call_without_a_session_or_for_another_user_is_refused(blocks, call):
    with pytest.raises(FilterError):
        await blocks["ann"].aget([QUESTION], **call)


async def test_what_is_kept_must_have_a_session_and_all_or_nothing_is_kept(blocks, umi):
    before = len(umi.store)
    for messages in ([said("lost")], [said("fine", session_id="monday"), said("lost")]):
        for session in (None, ""):
            with pytest.raises(FilterError):
                await blocks["ann"].aput(messages, session_id=session)
    assert len(umi.store) == before


def test_a_user_without_a_name_is_refused(umi):
    with pytest.raises(FilterError):
        UmiMemoryBlock(umi=umi, user="")


async def test_messages_given_are_not_changed_and_those_without_text_not_kept(blocks, umi):
    messages = [said("a cat"), ChatMessage(role="assistant", blocks=[]), said("a dog", timestamp="2024-01-02")]
    before, size = copy.deepcopy(messages), len(umi.store)
    await blocks["ann"].aput(messages, session_id="monday")
    assert messages == before and len(umi.store) == size + 2
    remembered = await blocks["ann"].aget([said("dog?")], session_id="monday")
    assert {"(2024-01-02) user: a dog", "(2024-05-01) user: a cat"} <= set(remembered.splitlines())


async def test_a_block_may_refuse_what_leaves_the_short_term_memory(umi):
    block = UmiMemoryBlock(umi=umi, user="ann", accept_short_term_memory=False)
    await block.aput([said("x")], from_short_term_memory=True, session_id="s")
    assert len(umi.store) == 0
    await block.aput([said("x")], session_id="s")
    assert len(umi.store) == 1


async def test_no_question_no_memory(blocks):
    for messages in (None, [], [ChatMessage(role="user", blocks=[])]):
        assert await blocks["ann"].aget(messages, session_id="monday") == ""


async def test_a_turn_brings_the_one_beside_it_of_its_own_session(umi):
    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY)
    for session in ("a", "b"):
        await block.aput(
            [said(f"did the zebra arrive? ({session})"), said(f"yes, on Tuesday ({session})")], session_id=session
        )
    answer = await block.aget([said("zebra")], session_id="a")
    assert "Tuesday (a)" in answer and "(b)" not in answer


async def test_truncation_gives_back_what_it_was_asked_for_the_weakest_first(umi):
    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY)
    await block.aput([said(f"fact {i} about walking the dog in the park.") for i in range(12)], session_id="s")
    content = await block.aget([said("walking the dog")], session_id="s")
    tokens = len(get_tokenizer()(content))
    for asked in (1, 10, tokens // 2, tokens - 5):
        kept = await block.atruncate(content, asked)
        assert kept is not None and content.startswith(kept)
        assert len(get_tokenizer()(kept)) <= tokens - asked
    assert await block.atruncate(content, tokens) is None
    assert await block.atruncate("", 5) is None and await block.atruncate([], 5) is None


async def chat(memory: Memory, turns: int, about: str) -> None:
    for i in range(turns):
        await memory.aput(said(f"{about} number {i} " + "and so on " * 10))
        await memory.aput(ChatMessage(role="assistant", content="I see."))


@pytest.fixture
async def memory_of():
    """Makes chat memories around a block, and closes their databases, which LlamaIndex leaves open."""
    engines = []

    def make(block: UmiMemoryBlock, session: str, **options) -> Memory:
        engines.append(create_async_engine("sqlite+aiosqlite:///:memory:"))
        settings = {"token_limit": 300, "token_flush_size": 50, "chat_history_token_ratio": 0.5, **options}
        return Memory.from_defaults(session_id=session, memory_blocks=[block], async_engine=engines[-1], **settings)

    yield make
    for engine in engines:
        await engine.dispose()


async def test_what_leaves_the_chat_history_is_remembered_and_by_its_own_session_alone(umi, memory_of):
    blocks = {user: UmiMemoryBlock(umi=umi, user=user) for user in ("ann", "bob")}
    memories = {(user, s): memory_of(blocks[user], s) for user in blocks for s in ("monday", "friday")}
    for (user, session), memory in memories.items():
        await chat(memory, 12, f"{user} {session} {ANIMALS[user, session]}")
    for who, memory in memories.items():
        prompt = "\n".join(str(message.content) for message in await memory.aget(input="number 0"))
        assert animals_in(prompt) == {ANIMALS[who]}
        assert "number 0" in prompt, "it had left the history long ago"


@pytest.mark.parametrize("limit", [200, 260, 320])
async def test_a_full_memory_shortens_the_block_and_does_not_drop_it(umi, memory_of, limit):
    block = UmiMemoryBlock(umi=umi, user="ann")
    memory = memory_of(block, "s", token_limit=limit)
    await chat(memory, 15, "walking the dog")
    messages = await memory.aget(input="walking the dog")
    assert messages[0].role == "system" and "walking the dog" in messages[0].content


async def test_time_passes_between_messages_of_one_instant(umi):
    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY)
    await block.aput([said("ok"), said("ok")], session_id="s")
    await block.aput([said("ok")], session_id="s")
    chunks = umi.store.get(umi.store.ids())
    assert sorted(chunk.position for chunk in chunks) == [int(MAY.timestamp() * 1e6) + i for i in range(3)]


def test_synchronous_memory_works_too(umi, memory_of):
    memory = memory_of(UmiMemoryBlock(umi=umi, user="ann"), "s")
    for i in range(15):
        memory.put(said(f"the walrus number {i} " + "and so on " * 10))
    assert any("walrus number 0" in str(message.content) for message in memory.get(input="walrus number 0"))


async def test_fifty_sessions_at_once(umi):
    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY + timedelta(seconds=1))
    await asyncio.gather(*(block.aput([said(f"the code is c{i}c")], session_id=f"s{i}") for i in range(50)))
    answers = await asyncio.gather(*(block.aget([said("code?")], session_id=f"s{i}") for i in range(50)))
    assert all(f"c{i}c" in answer and answer.count("code") == 1 for i, answer in enumerate(answers))


CODE = said("the code of my safe is 4711")
ASKED = said("what is the code of my safe?")


def embedded(store):
    """How many of the store's chunks have a vector."""
    return int(store.vectors(store.ids()).any(axis=1).sum())


async def test_what_left_the_chat_history_while_the_embedder_was_down_is_found_at_once_and_embedded_later(caplog):
    """LlamaIndex's `Memory` has forgotten these messages, so the application cannot give them again."""
    refused = {"4711"}
    embedder = FaultyEmbedder(HashEmbedder(), lambda texts: any(word in text for word in refused for text in texts))
    with HybridStore.open(embedder=embedder) as store, DualRetriever(store) as umi:
        block = UmiMemoryBlock(umi=umi, user="ann")
        await block.aput([CODE], session_id="s")
        assert "stored without vectors" in caplog.text and "4711" not in caplog.text
        assert "4711" in await block.aget([ASKED], session_id="s")
        await block.aput([said("a text that is refused holds back no other one")], session_id="s")
        assert (len(store), embedded(store)) == (2, 1)
        refused.clear()
        await block.aput([said("hello")], session_id="s")
        assert (len(store), embedded(store)) == (3, 3)
        assert all(set(chunk.metadata) == {"user", "session", "role"} for chunk in store.get(store.ids()))


async def test_what_came_while_the_embedder_was_down_outlives_the_process(tmp_path):
    down = FaultyEmbedder(HashEmbedder())
    with HybridStore.open(tmp_path, embedder=down) as store, DualRetriever(store) as umi:
        for user in ("ann", "bob"):
            await UmiMemoryBlock(umi=umi, user=user).aput([CODE], session_id="s")
    with HybridStore.open(tmp_path, embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        block = UmiMemoryBlock(umi=umi, user="ann")
        assert "4711" in await block.aget([ASKED], session_id="s")
        await block.aput([said("hello")], session_id="t")
        assert (len(store), embedded(store)) == (3, 2), "Ann's two; Bob's waits for his next"
        assert (await block.aget([ASKED], session_id="s")).count("4711") == 1


async def test_messages_that_the_store_did_not_take_are_stored_by_a_later_call(umi, monkeypatch):
    def fails(*_, **__):
        raise StoreUnavailable("the disk is full")

    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY)
    with monkeypatch.context() as while_it_fails:
        while_it_fails.setattr(umi.store, "add", fails)
        with pytest.raises(StoreUnavailable):
            await block.aput([said("the cellar's code is 99")], session_id="monday")
    await block.aput([said("thank you")], session_id="monday")
    assert {chunk.text for chunk in umi.store.scan()} == {"user: the cellar's code is 99", "user: thank you"}


def test_messages_that_no_store_took_are_told_when_the_process_ends():
    code = """
        import asyncio, logging
        from llama_index.core.base.llms.types import ChatMessage
        from umi_common import DualRetriever, HybridStore
        from umi_common.sim import HashEmbedder
        from umi_llamaindex import UmiMemoryBlock

        logging.basicConfig(format="%(name)s: %(message)s")
        store = HybridStore.open(embedder=HashEmbedder())
        block = UmiMemoryBlock(umi=DualRetriever(store), user="ann")
        store.close()
        try:
            asyncio.run(block.aput([ChatMessage("the code is 4711")], session_id="s"))
        except Exception as error:
            print(type(error).__name__)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout == "StoreClosed\n"
    assert "umi: 1 message of a chat could not be stored" in done.stderr and "4711" not in done.stderr


DAY = timedelta(days=1)


async def lunches(block: UmiMemoryBlock) -> None:
    """Store, in one call, what was said on the three days before the 1st of May."""
    days = zip((3, 2, 1), ("Leeds", "Porto", "Turin"), strict=True)
    messages = [said(f"We had lunch in {place}.", timestamp=(MAY - ago * DAY).isoformat()) for ago, place in days]
    await block.aput(messages, session_id="trip")


async def test_messages_of_several_days_that_are_stored_at_once_keep_their_dates_in_the_prompt(umi):
    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY)
    await lunches(block)
    remembered = await block.aget([said("where did we have lunch?")], session_id="trip")
    assert sorted(remembered.splitlines()) == [
        "(2024-04-28) user: We had lunch in Leeds.",
        "(2024-04-29) user: We had lunch in Porto.",
        "(2024-04-30) user: We had lunch in Turin.",
    ]


async def test_yesterday_in_a_question_is_the_day_before_that_of_the_blocks_clock():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: MAY)
        await lunches(block)
        remembered = await block.aget([said("where did we have lunch yesterday?")], session_id="trip")
    assert remembered.splitlines()[0] == "(2024-04-30) user: We had lunch in Turin."


async def exchanged(umi: DualRetriever, *turns: tuple[str, str]) -> UmiMemoryBlock:
    """The block of a user who was answered once a day, from the 1st of May on."""
    now = [MAY]
    block = UmiMemoryBlock(umi=umi, user="ann", clock=lambda: now[0])
    for asked, answered in turns:
        await block.aput([said(asked), ChatMessage(role="assistant", content=answered)], session_id="s")
        now[0] += DAY
    return block


async def test_questions_that_had_the_same_short_answer_are_each_remembered_with_it(umi):
    block = await exchanged(
        umi,
        ("Did the roofer answer our letter?", "No."),
        ("Did the roofer repair the gutter?", "No."),
        ("Is the roofer's invoice paid?", "Yes."),
        ("Is the roofer's work insured?", "Yes."),
    )
    remembered = await block.aget([said("what about the roofer?")], session_id="s")
    assert sorted(f"({part.removeprefix('(')}" for part in remembered.split("\n(")) == [
        "(2024-05-01) user: Did the roofer answer our letter?\nassistant: No.",
        "(2024-05-02) user: Did the roofer repair the gutter?\nassistant: No.",
        "(2024-05-03) user: Is the roofer's invoice paid?\nassistant: Yes.",
        "(2024-05-04) user: Is the roofer's work insured?\nassistant: Yes.",
    ]


async def test_what_was_said_keeps_its_own_date_though_the_answer_to_it_was_given_on_other_days_too(umi):
    noted = "I have noted that down for you, so that I can remind you of it whenever you ask me about it in the future."
    block = await exchanged(umi, ("I live in Berlin.", noted), ("Soup for lunch.", noted), ("I moved to Paris.", noted))
    remembered = await block.aget([said("where do I live?")], session_id="s")
    assert "(2024-05-01) user: I live in Berlin." in remembered
    assert "(2024-05-03) user: I moved to Paris." in remembered
    assert remembered.count(noted) == 1


async def test_a_follow_up_question_is_remembered_by_what_was_said_before_it():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        block = UmiMemoryBlock(umi=umi, user="ann", budget=30)
        told = ["The insurance of my car ends on 3 March.", *(f"Does milk number {n} expire?" for n in range(8))]
        for text in told:
            await block.aput([said(text)], session_id="s")
        talk = [said("Is my car insured?"), ChatMessage(role="assistant", content="Yes."), said("when does it expire?")]
        assert "3 March" in await block.aget(talk, session_id="s")
        tools = [ChatMessage(role="tool", content=f"[{n}] milk expires early") for n in (1, 2)]
        assert "3 March" in await block.aget([talk[0], *tools, *talk[1:]], session_id="s")
        assert "3 March" in await block.aget([*talk[:2], *tools, talk[2]], session_id="s")
        assert "3 March" not in await block.aget(talk[-1:], session_id="s")


async def test_the_first_question_over_a_store_of_documents_warns_of_no_key(caplog):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk("c", "the password of the safe is in the handbook", metadata={"team": "ops"})])
        block = UmiMemoryBlock(umi=umi, user="first")
        assert await block.aget([QUESTION], session_id="s") == ""
        assert caplog.records == []
        await block.aput([said("the password of my safe is walrus")], session_id="s")
        assert "walrus" in await block.aget([QUESTION], session_id="s")

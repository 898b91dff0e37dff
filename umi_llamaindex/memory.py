"""A user's long-term memory as a LlamaIndex memory block: messages that leave the chat history are stored and
searched."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timezone
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.utils import get_tokenizer

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.context.trim import cut_to_fit
from umi_common.errors import EmbedderError, FilterError, StoreError
from umi_common.filters import scope
from umi_common.frameworks.options import CheckedFields
from umi_common.frameworks.records import content_id, time_in
from umi_common.frameworks.unembedded import add_unembedded, embed_unembedded
from umi_common.retriever import DualRetriever
from umi_common.runtime.losses import with_losses
from umi_common.search.request import end_of
from umi_common.types import Chunk
from umi_llamaindex.query import chat_text

log = logging.getLogger("umi")

SESSION_KEY = "session_id"
"""Name of the session's id in calls of LlamaIndex's `Memory` and in the additional_kwargs of messages."""
TIME_KEY = "timestamp"
"""Key of a message's time in its additional_kwargs."""


class UmiMemoryBlock(CheckedFields, BaseMemoryBlock[str]):
    """The memory of one user, in a store that many users may share.

    Every call reads and writes only messages of this user and, unless `across_sessions`, of the session that the call
    names. A call that names another user raises, and so does one without a session, unless `across_sessions`. The
    messages passed in are not changed; messages without text are not stored.

    `Memory` never truncates a block with `priority` 0; the others in the order of rising `priority`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    umi: DualRetriever
    """The retriever, whose store holds the messages of all users."""
    user: str
    """The user; not empty."""
    name: str = "memories"
    priority: int = 1
    across_sessions: bool = False
    """Whether the user's other sessions are searched, too."""
    budget: TokenBudget = TokenBudget(max_total=1_000, per_chunk_max=500)
    """Limits in tokens of the memories in a prompt: in total, per source and per chunk. A number limits the total."""
    policy: AssemblyPolicy = AssemblyPolicy(format="({date}) {text}", citation="", separator="\n", neighbours=1)
    """How memories are chosen and written: best first, so that truncation removes the worst."""
    tokenizer_fn: Callable[[str], Sequence[Any]] | None = Field(default=None, exclude=True)
    """From a text to its tokens; None: LlamaIndex's global tokenizer, which `Memory` uses, too."""
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    """Returns the present: the time of messages without a "timestamp" in their additional_kwargs, and the one that
    "yesterday" in a question refers to. None: the computer's clock, and for questions that of `umi`."""

    _last_position: int = PrivateAttr(default=0)
    """Position of the message stored last: the time of storing in microseconds since 1970, and at least 1 above the
    position before it. At least 2 after a message of another day: then they are not joined, and each has its date."""
    _last_day: date | None = PrivateAttr(default=None)
    """Day of the message stored last."""
    _unstored: deque[Chunk] = PrivateAttr(default_factory=deque)
    """Messages that could not be stored when they came; they are tried again after each later call that stores its own
    messages."""
    _unembedded: bool = PrivateAttr(default=True)
    """Whether the store may hold messages of this user without vectors, perhaps of an earlier process."""

    def __init__(self, **fields: Any) -> None:
        if isinstance(fields.get("budget"), int):
            fields["budget"] = TokenBudget(max_total=fields["budget"])
        super().__init__(**fields)
        scope(user=self.user)  # raises FilterError for an empty name, which would match every user
        weakref.finalize(self, _tell_lost, self._unstored)

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        user: str | None = None,
        **block_kwargs: Any,
    ) -> str:
        """The memories for the last message with text, with a line about failed parts; "" if no memory is found.

        Raises:
            FilterError: If the call names another user, or no session although `across_sessions` is False.
        """
        metadata = self._shared_metadata(session_id, user)
        within = scope(user=self.user) if self.across_sessions else scope(user=self.user, session=metadata["session"])
        texts = [text for text in map(chat_text, messages or []) if text]
        if not texts:
            return ""
        context = await self.umi.aget_context(
            end_of(texts[-1]),
            where=within.where,
            now=None if self.clock is None else self.clock(),
            history=tuple(texts[:-1]),
            budget=self.budget,
            policy=self.policy,
            counter=self._tokenizer(),
        )
        return with_losses(context.text, context.degraded) if context else ""

    async def aput(
        self, messages: list[ChatMessage], from_short_term_memory: bool = False, session_id: str | None = None
    ) -> None:
        """Store messages of a session; they are on the disk when it returns.

        Messages from the short-term memory are ignored if `accept_short_term_memory` is False. If the embedder fails, a
        `HybridStore` keeps them without vectors; a later call that stores its own messages embeds them.

        Raises:
            FilterError: If the call names no session, a message neither, and `across_sessions` is False. Nothing is
                stored.
            EmbedderError, StoreError: If the messages cannot be stored now. `Memory` does not give them again, so this
                block keeps them and stores them with later messages. If the block is gone before, a warning tells their
                number.
        """
        if self.accept_short_term_memory or not from_short_term_memory:
            await asyncio.to_thread(self._store_messages, messages, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._store_messages, messages, None)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The memories without their last `tokens_to_truncate` tokens or a few more, cut between sentences or words.

        None: nothing is left.
        """
        if not content:
            return None
        count = counter_for(self._tokenizer()).measure
        rest = content[: cut_to_fit(content, count(content) - tokens_to_truncate, count)].rstrip()
        return rest or None

    def _store_messages(self, messages: Sequence[ChatMessage], session_id: str | None) -> None:
        now = datetime.now(timezone.utc) if self.clock is None else self.clock()
        chunks = []
        for message in messages:
            session = message.additional_kwargs.get(SESSION_KEY) if session_id is None else session_id
            metadata = self._shared_metadata(session)
            text = chat_text(message)
            if text:
                chunks.append(self._chunk(message, text, metadata, now))
        if self._stored(chunks):
            self._store_unstored()

    def _stored(self, chunks: list[Chunk]) -> bool:
        """Whether the chunks could be embedded and stored; False: they are stored without vectors.

        Raises:
            EmbedderError, StoreError: If they could not be stored; `_unstored` holds them then.
        """
        store = self.umi.store
        try:
            try:
                store.add(chunks)
            except EmbedderError as error:
                add_unembedded(store, chunks, error)
                self._unembedded = True
                return False
        except (EmbedderError, StoreError):
            self._unstored.extend(chunks)
            raise
        return True

    def _store_unstored(self) -> None:
        """Store what `_unstored` holds, and embed the user's messages that were stored without vectors."""
        store, waiting = self.umi.store, list[Chunk]()
        with suppress(IndexError):  # another call may take messages at the same time
            while True:
                waiting.append(self._unstored.popleft())
        try:
            store.add(waiting)
            waiting = []
            if self._unembedded:
                self._unembedded = False  # before the search: another call may store some meanwhile
                embed_unembedded(store, scope(user=self.user).where)
        except (EmbedderError, StoreError):  # not raised again: `aput` raised or warned when they came
            self._unembedded = True
            self._unstored.extend(waiting)

    def _chunk(self, message: ChatMessage, text: str, shared: dict[str, str], now: datetime) -> Chunk:
        stated = time_in(message.additional_kwargs, TIME_KEY)
        time = now if stated is None else stated
        least = self._last_position + (1 if time.date() == self._last_day else 2)
        self._last_position, self._last_day = max(least, int(now.timestamp() * 1e6)), time.date()
        return Chunk(
            content_id(text, {**shared, "role": message.role.value, "position": self._last_position}),
            f"{message.role.value}: {text}",
            metadata={**shared, "role": message.role.value},
            source=content_id("conversation", shared),
            position=self._last_position,
            event_time=time,
        )

    def _shared_metadata(self, session: Any, user: str | None = None) -> dict[str, str]:
        """The metadata that all messages of a call share: the user and, if the call names one, the session.

        Raises:
            FilterError: If the call names another user, or no session although `across_sessions` is False.
        """
        if user is not None and user != self.user:
            raise FilterError("this memory block is another user's; make one for each user, over the same store")
        if session is None and not self.across_sessions:
            raise FilterError(
                "no session_id; pass one, or set across_sessions=True to search all of the user's sessions"
            )
        shared = {"user": self.user} if session is None else {"user": self.user, "session": str(session)}
        scope(**shared)  # raises FilterError for an empty name
        return shared

    def _tokenizer(self) -> Any:
        return get_tokenizer() if self.tokenizer_fn is None else self.tokenizer_fn


def _tell_lost(unstored: Sequence[Chunk]) -> None:
    """Warn of the messages that a block could not store, when the block is garbage-collected or the process ends."""
    if unstored:
        count = "1 message" if len(unstored) == 1 else f"{len(unstored)} messages"
        log.warning(
            "%s of a chat could not be stored; the memory block that held them is gone, and they are lost", count
        )

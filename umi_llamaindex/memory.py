"""A user's long-term memory as a LlamaIndex memory block: stores and searches messages that leave the chat history."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime
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
from umi_common.frameworks.classes import TakesBudget
from umi_common.frameworks.records import content_id, time_in
from umi_common.frameworks.writing import add_messages, embed_unembedded
from umi_common.retriever import DualRetriever
from umi_common.runtime.losses import with_losses
from umi_common.search.request import end_of
from umi_common.types import Chunk, utc_now
from umi_llamaindex.query import chat_text, history_texts

log = logging.getLogger("umi")

SESSION_KEY = "session_id"
"""Key of the session's id in a message's additional_kwargs; LlamaIndex's `Memory` passes an argument of this name."""
TIME_KEY = "timestamp"
"""Key of a message's time in its additional_kwargs."""


class UmiMemoryBlock(TakesBudget, BaseMemoryBlock[str]):
    """The memory of one user, in a store that many users may share.

    A call reads and writes only messages of this user; a call that names another user raises FilterError. Without
    `across_sessions`, a call searches only the session that it names, and must name one. The messages that a caller
    passes are not changed. Messages without text are not stored.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    umi: DualRetriever
    """The retriever that searches. Its store holds the messages of all users."""
    user: str
    """Id of the user, not empty."""
    name: str = "memories"
    """Name of the block in the prompt that `Memory` writes."""
    priority: int = 1
    """0: `Memory` never truncates the block. Blocks with other priorities are truncated in rising order."""
    across_sessions: bool = False
    """Whether the user's other sessions are searched, too."""
    budget: TokenBudget = TokenBudget(max_total=1_000, per_chunk_max=500)
    """Limits in tokens of the memories in a prompt: in total, per source and per chunk. A number limits the total."""
    policy: AssemblyPolicy = AssemblyPolicy(format="({date}) {text}", citation="", separator="\n", neighbours=1)
    """How memories are chosen and written: by default best first, so that truncation removes the worst."""
    tokenizer_fn: Callable[[str], Sequence[Any]] | None = Field(default=None, exclude=True)
    """Function from a text to its tokens; None: LlamaIndex's global tokenizer, which `Memory` uses, too."""
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    """Returns the present as an aware datetime. It is the time of messages without a "timestamp" in their
    additional_kwargs, and the time from which "yesterday" in a question is counted. None: for messages the computer's
    clock, for questions the clock of `umi`."""

    _last_position: int = PrivateAttr(default=0)
    """Position of the last message: the time of storing in microseconds since 1970, but at least 1 above the position
    of the message before, and at least 2 above it if the days of the two messages differ. Messages whose positions
    differ by 2 are not joined in a context, so each is written with its own date."""
    _last_day: date | None = PrivateAttr(default=None)
    """Day of the last message; None: no message was stored yet."""
    _unstored: deque[Chunk] = PrivateAttr(default_factory=deque)
    """Messages that could not be stored. A later call of `aput` stores them after its own."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        scope(user=self.user)  # raises FilterError for an empty name, which would match every user
        weakref.finalize(self, _warn_of_lost, self._unstored)

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        user: str | None = None,
        **block_kwargs: Any,
    ) -> str:
        """The memories that are relevant to the last message with text; "" if none is found.

        If a part of the search failed, a line after the memories names it. FilterError is raised if the call names
        another user, or no session and `across_sessions` is False.
        """
        shared = self._shared_metadata(session_id, user)
        where = scope(**({"user": self.user} if self.across_sessions else shared)).where
        with_text = [message for message in messages or [] if chat_text(message)]
        unknown_keys = getattr(self.umi.store, "unknown_keys", None)
        # The filter has an unknown key if the store holds no messages yet.
        if not with_text or (unknown_keys is not None and await asyncio.to_thread(unknown_keys, where)):
            return ""
        context = await self.umi.aget_context(
            end_of(chat_text(with_text[-1])),
            where=where,
            now=None if self.clock is None else self.clock(),
            history=history_texts(with_text[:-1]),
            budget=self.budget,
            policy=self.policy,
            counter=self._tokenizer(),
        )
        return with_losses(context.text, context.degraded) if context else ""

    async def aput(
        self, messages: list[ChatMessage], from_short_term_memory: bool = False, session_id: str | None = None
    ) -> None:
        """Store messages of a session. If the store has a directory, they are on the disk when the call returns.

        Messages from the short-term memory are ignored if `accept_short_term_memory` is False. If the embedder fails, a
        `HybridStore` stores the messages without vectors. The next call for which the embedder works embeds them.

        Args:
            messages: Oldest first.
            from_short_term_memory: Whether the messages leave the short-term memory.
            session_id: Id of the session; None: the "session_id" in the additional_kwargs of each message.

        Raises:
            FilterError: If the call and one of the messages name no session, and `across_sessions` is False.
            InvalidChunk: If a message's time is a datetime without a zone. Nothing is stored after either error.
            EmbedderError, StoreError: If the messages cannot be stored now. The block keeps them, because `Memory` does
                not pass them again, and a later call stores them. If it is garbage-collected before, or the process
                ends, a warning gives their number.
        """
        if self.accept_short_term_memory or not from_short_term_memory:
            await asyncio.to_thread(self._store_messages, messages, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._store_messages, messages, None)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """`content` without at least its last `tokens_to_truncate` tokens, cut between sentences or words.

        None: no text is left.
        """
        if not content:
            return None
        count = counter_for(self._tokenizer()).measure
        rest = content[: cut_to_fit(content, count(content) - tokens_to_truncate, count)].rstrip()
        return rest or None

    def _store_messages(self, messages: Sequence[ChatMessage], session_id: str | None) -> None:
        now = utc_now() if self.clock is None else self.clock()
        chunks = []
        for message in messages:
            session = message.additional_kwargs.get(SESSION_KEY) if session_id is None else session_id
            metadata = self._shared_metadata(session)
            if text := chat_text(message):
                chunks.append(self._chunk(message, text, metadata, now))
        self._store(chunks)

    def _store(self, chunks: list[Chunk]) -> None:
        """Store chunks, then the messages in `_unstored`, and embed the user's messages that have no vectors.

        If the embedder fails, the chunks are stored without vectors, and nothing else is done. Chunks that could not be
        stored are added to `_unstored`, and the error is raised.
        """
        store, waiting = self.umi.store, list[Chunk]()
        try:
            if add_messages(store, chunks) is not None:
                return
        except (EmbedderError, StoreError):
            self._unstored.extend(chunks)
            raise
        with suppress(IndexError):  # another call may take messages at the same time
            while True:
                waiting.append(self._unstored.popleft())
        try:
            store.add(waiting)
            waiting = []
            embed_unembedded(store, scope(user=self.user).where)
        except (EmbedderError, StoreError):  # not raised: `aput` has raised or warned before
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
        """The metadata that all messages of a call have: the user and, if the call names one, the session."""
        if user is not None and user != self.user:
            raise FilterError("this memory block belongs to another user; make one block for each user, over one store")
        if session is None and not self.across_sessions:
            raise FilterError(
                "no session_id; pass one, or set across_sessions=True to search all of the user's sessions"
            )
        shared = {"user": self.user} if session is None else {"user": self.user, "session": str(session)}
        scope(**shared)  # raises FilterError for an empty name
        return shared

    def _tokenizer(self) -> Any:
        return get_tokenizer() if self.tokenizer_fn is None else self.tokenizer_fn


def _warn_of_lost(unstored: Sequence[Chunk]) -> None:
    """Warn of messages that were never stored. Called when the block is garbage-collected or the process ends."""
    if unstored:
        count = "1 message" if len(unstored) == 1 else f"{len(unstored)} messages"
        log.warning(
            "%s of a chat could not be stored; the memory block that held them is gone, and they are lost", count
        )

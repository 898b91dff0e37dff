"""A user's long-term memory as a LlamaIndex memory block: what leaves the chat history is kept, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.utils import get_tokenizer

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.context.trim import cut_to_fit
from umi_common.errors import FilterError
from umi_common.filters import scope
from umi_common.framework_records import content_id, read_time
from umi_common.retriever import DualRetriever
from umi_common.runtime.losses import with_losses
from umi_common.types import Chunk
from umi_llamaindex.query import end_of

SESSION_KEY = "session_id"
"""Where LlamaIndex's `Memory` names the session, in calls and in messages."""
TIME_KEY = "timestamp"


class UmiMemoryBlock(BaseMemoryBlock[str]):
    """Messages of one user, in a store that many users may share.

    Every call is held to this user and, unless `across_sessions`, to the session it names: what is asked, stored or
    told in one never reaches another. A call that names no session, or another user, is refused. Messages given are
    not changed; those without text are not kept.

    `Memory` truncates only blocks with a `priority` above 0, the lowest number first; 0 would never give way.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    umi: DualRetriever
    """Searches and keeps; shared by the blocks of all users."""
    user: str
    """Whose memory it is; not empty."""
    name: str = "memories"
    priority: int = 1
    across_sessions: bool = False
    """Whether the user's other sessions are remembered too."""
    budget: TokenBudget = TokenBudget(max_total=1_000, per_source_max=1_000, per_chunk_max=500)
    """Tokens that memories may take."""
    policy: AssemblyPolicy = AssemblyPolicy(format="({date}) {text}", citation="", separator="\n", neighbours=1)
    """How they are chosen and written; best first, so that truncation takes the weakest."""
    tokenizer_fn: Callable[[str], Sequence[Any]] | None = Field(default=None, exclude=True)
    """What counts tokens; None: LlamaIndex's global tokenizer, which `Memory` uses too."""
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    """When a message without a "timestamp" among its additional_kwargs was said; None: when it is kept."""

    _last: int = PrivateAttr(default=0)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        scope(user=self.user)  # raises FilterError: a lost user's name must not open everybody's memory

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        user: str | None = None,
        **block_kwargs: Any,
    ) -> str:
        """What is remembered about the last message with text, and a line if a part failed; "" for nothing.

        Raises:
            FilterError: If no session is named, or another user.
        """
        facts = self._facts(session_id, user)
        within = scope(user=self.user) if self.across_sessions else scope(user=self.user, session=facts["session"])
        said = [text for text in map(_text_of, messages or []) if text]
        if not said:
            return ""
        context = await self.umi.aget_context(
            end_of(said[-1]),
            where=within.where,
            history=tuple(said[:-1]),
            budget=self.budget,
            policy=self.policy,
            counter=self._tokenizer(),
        )
        return with_losses(context.text, context.degraded) if context else ""

    async def aput(
        self, messages: list[ChatMessage], from_short_term_memory: bool = False, session_id: str | None = None
    ) -> None:
        """Keep messages of a session, durably.

        Raises:
            FilterError: If neither the call nor a message names the session.
        """
        if self.accept_short_term_memory or not from_short_term_memory:
            await asyncio.to_thread(self._keep, messages, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._keep, messages, None)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The memories less at least so many tokens, weakest first, cut where a reader would; None: none is left."""
        if not content:
            return None
        count = counter_for(self._tokenizer()).measure
        kept = content[: cut_to_fit(content, count(content) - tokens_to_truncate, count)].rstrip()
        return kept if kept else None

    def _keep(self, messages: Sequence[ChatMessage], session_id: str | None) -> None:
        now = datetime.now(timezone.utc) if self.clock is None else self.clock()
        chunks = []
        for message in messages:
            session = message.additional_kwargs.get(SESSION_KEY) if session_id is None else session_id
            facts = self._facts(session)
            text = _text_of(message)
            if text:
                chunks.append(self._chunk(message, text, facts, now))
        self.umi.store.add(chunks)

    def _chunk(self, message: ChatMessage, text: str, facts: dict[str, str], now: datetime) -> Chunk:
        said = read_time(message.additional_kwargs.get(TIME_KEY), TIME_KEY)
        self._last = max(self._last + 1, int(now.timestamp() * 1e6))
        return Chunk(
            content_id(text, {**facts, "role": message.role.value, "position": self._last}),
            f"{message.role.value}: {text}",
            metadata={**facts, "role": message.role.value},
            source=content_id("conversation", facts),
            position=self._last,
            event_time=now if said is None else said,
        )

    def _facts(self, session: Any, user: str | None = None) -> dict[str, str]:
        """Whose and which conversation a call is about. Raises FilterError if it does not say."""
        if user is not None and user != self.user:
            raise FilterError("this memory block is another user's; make one for each user, over the same store")
        if session is None and not self.across_sessions:
            raise FilterError("no session_id; a memory block without one would open all of the user's sessions")
        facts = {"user": self.user} if session is None else {"user": self.user, "session": str(session)}
        scope(**facts)  # refuses empty names
        return facts

    def _tokenizer(self) -> Any:
        return get_tokenizer() if self.tokenizer_fn is None else self.tokenizer_fn


def _text_of(message: ChatMessage) -> str:
    return " ".join(block.text for block in message.blocks if isinstance(block, TextBlock)).strip()

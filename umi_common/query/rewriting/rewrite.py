"""Ask an LLM for variations of a query within a time limit.

    cache -> breaker -> LLM within its deadline -> parser

If a step fails, no error is raised, and the search uses the original query alone. `variations` and `avariations` run
the same generator. It yields the call of the LLM and is sent the call's outcome: the reply, or a `CallFailure`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from umi_common.config import RewriteConfig
from umi_common.embedders.cache import REPLIES, FileCache, LruCache
from umi_common.errors import InputError
from umi_common.protocols import Rewriter
from umi_common.query.rewriting.models import as_rewriter
from umi_common.query.rewriting.reply import read_reply
from umi_common.runtime.calls import Body, CallFailure, adrive, drive
from umi_common.runtime.guards import Breaker, DeadlineExceeded, ThreadLimiter, TooManyCalls
from umi_common.runtime.losses import PAUSED, log_bug
from umi_common.runtime.workers import Workers
from umi_common.types import Degradation

CONSEQUENCE = "searched with the original query alone"
HISTORY_CHARS_MAX = 8_000
"""Largest number of characters of the history in a prompt; older messages are left out."""
_PLACEHOLDER = re.compile(r"\{(query|history)\}")

Variations = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rewrites:
    """The LLM's variations of a query, or the reason why there are none."""

    variations: Variations = ()
    """At most `variations_max` variations, none equal to the query; () if the call failed."""
    degraded: Degradation | None = None
    """The failure; None: the call did not fail."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For the trace: "model" and "cached" (whether the cache had the variations); if not cached also "attempts",
    "milliseconds" and "breaker" (its state); after a failure also "fault". No query text."""


class Rewriting:
    """Calls a rewriter with a cache, a circuit breaker and a time limit.

    Args:
        rewriter: The LLM, in any form that `as_rewriter` takes.
        config: Template, limits, timeout, breaker.
        clock: Returns monotonic seconds, for the breaker and the time limit.
        directory: The directory of the cache file; None: the cache is in memory only.
        writable: False: the cache file is read and never written.
        previous: A `Rewriting` of the same rewriter, whose cache, breaker and thread limit are used again if the
            settings of cache and breaker are the same. A change of other settings then does not reset them.

    Thread-safe.
    """

    def __init__(
        self,
        rewriter: Rewriter | Callable[[str], Any] | Any,
        config: RewriteConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        directory: str | Path | None = None,
        writable: bool = True,
        previous: Rewriting | None = None,
    ) -> None:
        self.config = RewriteConfig() if config is None else config
        self._llm = as_rewriter(rewriter)
        self._clock = clock
        self._workers = Workers()
        self._cache = RewriteCache(self.config.cache_size, directory, writable=writable)
        self._limiter = ThreadLimiter()
        self.breaker = Breaker(self.config.breaker_failures, self.config.breaker_seconds, clock)
        if previous is not None and _reuse_key(previous.config) == _reuse_key(self.config):
            self._cache, self._limiter, self.breaker = previous._cache, previous._limiter, previous.breaker

    def variations(self, query: str, history: Sequence[str] = ()) -> Rewrites:
        """The LLM's variations of a query, or its failure, after at most `timeout_seconds`; no error is raised.

        Args:
            history: Earlier messages of the conversation, oldest first.
        """
        return drive(self._body(query, history), self._workers)

    async def avariations(self, query: str, history: Sequence[str] = ()) -> Rewrites:
        """`variations` without blocking the event loop. Cancelling it cancels the LLM call."""
        return await adrive(self._body(query, history), self._workers)

    def _body(self, query: str, history: Sequence[str]) -> Body[Rewrites]:
        prompt = build_prompt(self.config.template, query, history)
        cached = self._cache.get(self._llm.name, prompt)
        if cached is not None:  # perhaps with larger limits
            limit = self.config.variation_bytes_max
            fitting = [text for text in cached if len(text.encode("utf-8", "replace")) <= limit]
            variations = tuple(fitting[: self.config.variations_max])
            return Rewrites(variations, facts={"model": self._llm.name, "cached": True})
        if not self.breaker.enter():
            return self._failed(f"{PAUSED} after repeated failures", attempts=0, started=self._clock())
        started = self._clock()
        try:
            rewrites = yield from self._attempts(query, prompt, started)
        except BaseException:  # cancelled or closed early: neither a success nor a failure of the LLM
            self.breaker.abandoned()
            raise
        if rewrites.degraded is None:
            self.breaker.succeeded()
            self._cache.put(self._llm.name, prompt, rewrites.variations)
        else:
            self.breaker.failed()
        return rewrites

    def _attempts(self, query: str, prompt: str, started: float) -> Body[Rewrites]:
        fault, attempt = _failure(DeadlineExceeded()), 0
        complete, acomplete = partial(self._llm.complete, prompt), self._llm.acomplete
        acomplete = None if acomplete is None else partial(acomplete, prompt)
        deadline = started + self.config.timeout_seconds
        while attempt <= self.config.retries and self._clock() < deadline:
            attempt += 1
            (outcome,) = yield (self._limiter.limited(complete, deadline - self._clock(), acomplete),)
            if isinstance(outcome, CallFailure):
                log_bug("rewriter", outcome.error)
                fault = _failure(outcome.error)
                continue
            reply = read_reply(outcome, query=query, config=self.config)
            if reply.fault is None:
                return Rewrites(reply.variations, facts=self._facts(attempt, started))
            fault = reply.fault
        return self._failed(fault, attempts=attempt, started=started)

    def _failed(self, fault: str, *, attempts: int, started: float) -> Rewrites:
        return Rewrites(
            degraded=Degradation("rewriter", fault, CONSEQUENCE),
            facts={**self._facts(attempts, started), "fault": fault},
        )

    def _facts(self, attempts: int, started: float) -> dict[str, Any]:
        return {
            "model": self._llm.name,
            "cached": False,
            "attempts": attempts,
            "milliseconds": round(1_000 * (self._clock() - started), 3),
            "breaker": self.breaker.state,
        }


def _reuse_key(config: RewriteConfig) -> tuple[object, ...]:
    """The settings of cache and breaker. `keep_replies` decides whether the cache has a file."""
    return config.cache_size, config.keep_replies, config.breaker_failures, config.breaker_seconds


def _failure(error: Exception) -> str:
    """The failure in a few words. The message of an LLM's own error is left out, because it may contain the prompt."""
    if isinstance(error, DeadlineExceeded):
        return "no reply in time"
    if isinstance(error, TooManyCalls):
        return "too many calls to the LLM have not returned"
    if isinstance(error, InputError):  # by umi (`models.text_of`): the reply has no text; names only its type
        return str(error)
    status = getattr(error, "status_code", None)
    suffix = f" (status {status})" if isinstance(status, int) else ""
    return re.sub(r"\W", "", type(error).__name__) + suffix  # a class made at run time may have any string as its name


def build_prompt(template: str, query: str, history: Sequence[str] = ()) -> str:
    """The template with {query} and {history} filled in; all other braces stay.

    If the template has no {history}, the history precedes the template as a paragraph of its own. It is the last
    messages within HISTORY_CHARS_MAX, one per line, or the end of the last message if it alone is longer.
    """
    latest, room = list[str](), HISTORY_CHARS_MAX
    for message in reversed(history):
        room -= len(message) + 1
        if room < 0:
            latest = latest or [message[-HISTORY_CHARS_MAX:]]
            break
        latest.insert(0, message)
    values = {"query": query, "history": "\n".join(latest)}
    prompt = _PLACEHOLDER.sub(lambda found: values[found[1]], template)
    if values["history"] and "{history}" not in template:
        return f"Conversation so far:\n{values['history']}\n\n{prompt}"
    return prompt


class RewriteCache:
    """Caches the LLM's variations by model and prompt. Thread-safe.

    Args:
        size: Largest number of entries, in memory and in the file each; 0: nothing is cached.
        directory, writable: As for `Rewriting`.

    The file `rewrites.db` has hashes of the prompts, which `FileCache` computes, and, in plain text, the variations.
    Only its owner may read it.
    """

    def __init__(self, size: int, directory: str | Path | None = None, *, writable: bool = True) -> None:
        self._memory: LruCache[str, Variations] = LruCache(size)
        self._file: FileCache[Variations] | None = None
        if directory is not None:
            self._file = FileCache(
                Path(directory).absolute() / REPLIES,
                "",
                size,
                pack=lambda variations: json.dumps(variations).encode(),
                unpack=lambda stored: tuple(json.loads(stored)),
                writable=writable,
                private=True,
            )

    def get(self, model: str, prompt: str) -> Variations | None:
        """The cached variations of this prompt, or None; the entry counts as used."""
        key = f"{model}\0{prompt}"
        found = self._memory.get([key])
        if not found and self._file is not None:
            found = self._file.get([key])
            self._memory.put(found)
        return found.get(key)

    def put(self, model: str, prompt: str, variations: Variations) -> None:
        """Cache the variations of this prompt, in memory and in the file."""
        entry = {f"{model}\0{prompt}": variations}
        self._memory.put(entry)
        if self._file is not None:
            self._file.put(entry)

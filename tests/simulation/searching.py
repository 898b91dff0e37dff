"""Searches in every form that users have; and a store during whose calls other steps can run."""

from __future__ import annotations

import asyncio
import inspect
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from model import Content, LawBroken, check_hits, check_ids, check_texts, same_answers
from schedule import WORDS

from umi_common import DualRetriever, HybridStore, TokenBudget
from umi_common.context.budget import AssemblyPolicy
from umi_common.errors import IndexUnavailable, UmiError
from umi_common.protocols import OnStage
from umi_common.sim import VirtualClock
from umi_common.types import SearchResult, TimeRange

BUDGET = TokenBudget(max_total=60, per_source_max=40, per_chunk_max=20)
POLICY = AssemblyPolicy(neighbours=1)


@dataclass(frozen=True)
class Answer:
    """Everything that a search shows its caller."""

    scored: Sequence[tuple[Any, float]] = ()
    """Chunks, or ids, with their scores, best first."""
    hits: Sequence[Any] = ()
    names: Sequence[str] = ()
    """Further ids: of suppressed chunks, or of the chunks of a context."""
    text: str = ""
    """The text of a context."""
    page: str = ""
    """The result as text and as a page. It holds times, so it is not compared with other answers."""
    degraded: tuple[Any, ...] = ()
    error: str = ""
    """Name of the class of the error that was raised; "": none was."""
    facts: tuple[Any, ...] = field(default=())

    def check(self, moments: Sequence[Content], user: str | None, since: datetime | None) -> None:
        """Raise LawBroken unless everything that it shows existed at one of these moments and passed the filter."""
        check_hits(self.hits, moments, user, since)
        check_ids(self.names, moments, user, since)
        check_texts(self.text, moments, user, since, "the context")
        check_texts(self.page, moments, user, since, "the page")

    def differs(self, other: Answer) -> str:
        """The first difference from another answer; "" if there is none."""
        for name in ("error", "text", "names", "degraded", "facts"):
            if getattr(self, name) != getattr(other, name):
                return f"{name}: {getattr(self, name)!r}, expected {getattr(other, name)!r}"
        if not same_answers(self.scored, other.scored):
            return f"{_brief(self.scored)}, expected {_brief(other.scored)}"
        return ""


def _brief(scored: Sequence[tuple[Any, float]]) -> str:
    return str([(item if isinstance(item, str) else f"{item.id} {item.text}", score) for item, score in scored])


def rewrite(prompt: str) -> str:
    """An LLM's reply: two variations, which depend on the prompt alone."""
    number = zlib.crc32(prompt.encode())
    return json.dumps([f"{WORDS[number % 6]} {WORDS[number // 6 % 6]}", WORDS[number // 36 % 6]])


class Llm:
    """An LLM with an async method, so that it needs no thread on an event loop."""

    name = "llm"

    def __init__(self, thinking: Callable[[], None] = lambda: None) -> None:
        self._thinking = thinking

    def complete(self, prompt: str) -> str:
        """Two variations, after `thinking` was called."""
        self._thinking()
        return rewrite(prompt)

    async def acomplete(self, prompt: str) -> str:
        """Two variations."""
        return rewrite(prompt)


def since(what: dict[str, Any]) -> datetime | None:
    """The start of the search's time range; None: it has none."""
    now: datetime = what["now"]
    return now - timedelta(hours=what["hours"]) if "hours" in what else None


def ask(
    store: Any, umi: DualRetriever, what: dict[str, Any], clock: VirtualClock, on_stage: OnStage | None = None
) -> Answer:
    """The answer of the search that `what`, the content of a step, describes, at the time `what["now"]`."""
    try:
        return _asked(store, umi, what, clock, on_stage)
    except (IndexUnavailable, UmiError) as error:
        return Answer(error=type(error).__name__)


def _asked(
    store: Any, umi: DualRetriever, what: dict[str, Any], clock: VirtualClock, on_stage: OnStage | None
) -> Answer:
    where = None if what["user"] is None else {"user": what["user"]}
    how, query, begin = what["how"], what["query"], since(what)
    if how == "words":
        found = store.search_lexical(query, k=what["limit"], where=where)
        return Answer(found, names=[id for id, _ in found]) if begin is None else Answer()
    deep = what["deep"] != "never"
    umi = umi.with_config(routing={"mode": what["deep"] if deep else "never"})
    options: dict[str, Any] = {"where": where, "deep_search": deep, "now": what["now"]}
    if begin is not None:
        options["time_range"] = TimeRange(begin, None)
    if how in ("context", "acontext"):
        options |= {"budget": BUDGET, "policy": POLICY, "counter": _words}
        if how == "context":
            context = umi.get_context(query, limit=what["limit"], **options)
        else:
            context = clock.run(umi.aget_context(query, limit=what["limit"], **options))
        return Answer(names=sorted(context.ids), text=context.text)
    if how == "many":
        return _joined([_of(result) for result in umi.search_many([query, *WORDS[:2]], limit=what["limit"], **options)])
    options["limit"] = what["limit"]
    if how == "gather":
        return _joined([_of(result) for result in clock.run(_gathered(umi, [query, *WORDS[:3]], options))])
    if how == "asearch":
        return _of(clock.run(umi.asearch(query, on_stage=on_stage, **options)))
    return _of(umi.search(query, on_stage=on_stage, **options))


async def _gathered(umi: DualRetriever, queries: Sequence[str], options: dict[str, Any]) -> list[SearchResult]:
    return list(await asyncio.gather(*(umi.asearch(query, **options) for query in queries)))


def _of(result: Any) -> Answer:
    return Answer(
        [(hit.chunk, hit.score) for hit in result.hits],
        list(result.hits),
        [each.id for each in result.suppressed] + [each.by for each in result.suppressed if each.by is not None],
        page=f"{result}\n{result.explain()}" if len(result.hits) == 1 else str(result),
        degraded=result.degraded,
        facts=(result.mode, result.query_variations, result.deep_search_used),
    )


def _joined(answers: Sequence[Answer]) -> Answer:
    return Answer(
        [pair for answer in answers for pair in answer.scored],
        [hit for answer in answers for hit in answer.hits],
        [name for answer in answers for name in answer.names],
        page="\n".join(answer.page for answer in answers),
        degraded=tuple(loss for answer in answers for loss in answer.degraded),
        facts=tuple(answer.facts for answer in answers),
    )


def _words(text: str) -> int:
    return len(text.split())


class Points:
    """The points of a search at which other steps may run (`schedule.IN_A_SEARCH`).

    Args:
        before: Called with the point that is reached: 1, 2, ... for the store's calls, "stage 1", ..., "LLM".
    """

    def __init__(self, before: Callable[[int | str], None]) -> None:
        self._before = before
        self._calls = self._stages = 0
        self.failure: BaseException | None = None
        """The first error of `before`, kept because a search may take it for the failure of a part and continue."""

    def call(self) -> None:
        """Called before each call of the store."""
        self._calls += 1
        self._reach(self._calls)

    def on_stage(self, _name: str) -> Callable[[Any], None]:
        """Called when a stage begins; returns a function for its end."""
        self._stages += 1
        self._reach(f"stage {self._stages}")
        return lambda _stage: None

    def thinking(self) -> None:
        """Called during the LLM's call."""
        self._reach("LLM")

    def _reach(self, point: int | str) -> None:
        try:
            self._before(point)
        except BaseException as error:
            self.failure = self.failure or error
            raise


class Interrupted:
    """A wrapper of a store. Each call is a point at which other steps may run."""

    def __init__(self, store: HybridStore, points: Points) -> None:
        self._store, self._points = store, points

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name.startswith("_") or not inspect.ismethod(found) or found.__self__ is not self._store:
            return found

        def called(*args: Any, **options: Any) -> Any:
            self._points.call()
            return found(*args, **options)

        return called


def expected(answer: Answer, candidates: Sequence[Answer], what: dict[str, Any]) -> None:
    """Raise LawBroken unless the answer equals one of the candidates."""
    differences = [answer.differs(each) for each in candidates]
    if all(differences):
        raise LawBroken(f"another answer than that of a store written in one batch, to {what}: {differences[-1]}")

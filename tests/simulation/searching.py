"""A search as users make it, in every form; and a store whose calls can be interrupted by other steps."""

from __future__ import annotations

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
from umi_common.sim import VirtualClock
from umi_common.types import TimeRange

BUDGET = TokenBudget(max_total=60, per_source_max=40, per_chunk_max=20)
POLICY = AssemblyPolicy(neighbours=1)


@dataclass(frozen=True)
class Answer:
    """What a caller sees."""

    scored: Sequence[tuple[Any, float]] = ()
    """Chunks, or ids, with their scores, best first."""
    hits: Sequence[Any] = ()
    names: Sequence[str] = ()
    """Ids beside the hits: suppressed chunks, chunks of a context."""
    text: str = ""
    """Context."""
    page: str = ""
    """The explanation; compared with nothing, since it holds times."""
    degraded: tuple[Any, ...] = ()
    error: str = ""
    """Type of the error in place of an answer."""
    facts: tuple[Any, ...] = field(default=())

    def check(self, moments: Sequence[Content], user: str | None, since: datetime | None) -> None:
        """Whether all that it shows was there at one of these moments, and passed the filter."""
        check_hits(self.hits, moments, user, since)
        check_ids(self.names, moments, user, since)
        check_texts(self.text, moments, user, since, "the context")
        check_texts(self.page, moments, user, since, "the page")

    def differs(self, other: Answer) -> str:
        """What is not as in another answer; "" if nothing is."""
        for name in ("error", "text", "names", "degraded", "facts"):
            if getattr(self, name) != getattr(other, name):
                return f"{name}: {getattr(self, name)!r}, expected {getattr(other, name)!r}"
        if not same_answers(self.scored, other.scored):
            return f"{_brief(self.scored)}, expected {_brief(other.scored)}"
        return ""


def _brief(scored: Sequence[tuple[Any, float]]) -> str:
    return str([(item if isinstance(item, str) else f"{item.id} {item.text}", score) for item, score in scored])


def rewrite(prompt: str) -> str:
    """An LLM's reply: two variations that the prompt alone decides."""
    number = zlib.crc32(prompt.encode())
    return json.dumps([f"{WORDS[number % 6]} {WORDS[number // 6 % 6]}", WORDS[number // 36 % 6]])


def since(what: dict[str, Any], clock: VirtualClock) -> datetime | None:
    """The beginning of the search's time range."""
    return clock.now() - timedelta(hours=what["hours"]) if "hours" in what else None


def ask(store: Any, umi: DualRetriever, what: dict[str, Any], clock: VirtualClock) -> Answer:
    """Search in the way that a step says."""
    try:
        return _asked(store, umi, what, clock)
    except (IndexUnavailable, UmiError) as error:
        return Answer(error=type(error).__name__)


def _asked(store: Any, umi: DualRetriever, what: dict[str, Any], clock: VirtualClock) -> Answer:
    where = None if what["user"] is None else {"user": what["user"]}
    how, query, begin = what["how"], what["query"], since(what, clock)
    if how == "words":
        found = store.search_lexical(query, k=what["limit"], where=where)
        return Answer(found, names=[id for id, _ in found]) if begin is None else Answer()
    deep = what["deep"] != "never"
    umi = umi.with_config(routing={"mode": what["deep"] if deep else "never"})
    options: dict[str, Any] = {"where": where, "deep_search": deep}
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
    if how == "asearch":
        return _of(clock.run(umi.asearch(query, limit=what["limit"], **options)))
    return _of(umi.search(query, limit=what["limit"], **options))


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


class Interrupted:
    """A store of which every call may be preceded by other steps: what a user's own `Store` can do.

    Args:
        store: Answers.
        before: Told the number of each call, from 1, before it is passed on.
    """

    def __init__(self, store: HybridStore, before: Callable[[int], None]) -> None:
        self._store, self._before, self._calls = store, before, 0
        self.failure: BaseException | None = None
        """What `before` raised first: a search may take it for the store's and go on without."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name.startswith("_") or not inspect.ismethod(found) or found.__self__ is not self._store:
            return found

        def called(*args: Any, **options: Any) -> Any:
            self._calls += 1
            try:
                self._before(self._calls)
            except BaseException as error:
                self.failure = self.failure or error
                raise
            return found(*args, **options)

        return called


def expected(answer: Answer, candidates: Sequence[Answer], what: dict[str, Any]) -> None:
    """The answer is one of these.

    Raises:
        LawBroken: If it is none.
    """
    differences = [answer.differs(each) for each in candidates]
    if all(differences):
        raise LawBroken(f"another answer than a store made at one stroke to {what}: {differences[-1]}")

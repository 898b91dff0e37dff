"""One system over one dataset: ask every judged query, note the answer, and keep finished runs in a file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from umi_common.config import UmiConfig
from umi_common.errors import DatasetError, SystemFailed
from umi_common.evaluation._reading import FIRST_LINE, Place
from umi_common.evaluation.datasets import Dataset, Query
from umi_common.evaluation.metrics import diversity, duplication
from umi_common.evaluation.stores import Stores, settings_text
from umi_common.evaluation.systems import Answer, System, UmiSystem, open_system

MILLISECONDS = 1_000.0
FIRST_BYTES = '{"key": "'
"""How every line of a file of runs starts."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one system answered on one dataset; every mapping is by query id."""

    system: str
    set: str
    group: str
    ids: Mapping[str, Sequence[str]]
    """Best first."""
    milliseconds: Mapping[str, float]
    """Wall time of the call; the first one of a store includes whatever it loads lazily."""
    llm_calls: Mapping[str, int | None]
    arms: Mapping[str, Mapping[str, Mapping[str, int | None]]]
    """Rank by arm of the relevant documents that came back, by query and document."""
    diversity: Mapping[str, float]
    duplication: Mapping[str, float]
    degraded: Mapping[str, int]
    """How many answers did without a part, by part."""


def run_system(
    name: str, system: System, dataset: Dataset, stores: Stores, *, depth: int, top: int, asked: Callable[[], object]
) -> Run:
    """Ask every judged query once, in order.

    Args:
        name: The system's name.
        system: What to ask.
        dataset: Of what.
        stores: Where umi's stores and the vectors come from.
        depth: Ids asked for.
        top: Hits over which diversity and duplication are taken.
        asked: Called after each query.

    Raises:
        SystemFailed: If the system raises; names system, dataset and query.
    """
    search = open_system(name, system, dataset, stores)
    rows = {chunk.id: row for row, chunk in enumerate(dataset.chunks)}
    vectors = stores.vectors(dataset)
    answers: dict[str, Answer] = {}
    elapsed: dict[str, float] = {}
    for query in dataset.judged:
        start = perf_counter()
        answers[query.id] = _ask(name, search, dataset, query, depth)
        elapsed[query.id] = (perf_counter() - start) * MILLISECONDS
        asked()
    seen = {id: vectors[[rows[hit] for hit in answer.ids[:top] if hit in rows]] for id, answer in answers.items()}
    return Run(
        name,
        dataset.name,
        dataset.group,
        {id: answer.ids for id, answer in answers.items()},
        elapsed,
        {id: answer.llm_calls for id, answer in answers.items()},
        {id: _arms_of(dataset.relevant(id), answer) for id, answer in answers.items()},
        {id: diversity(hits) for id, hits in seen.items()},
        {id: duplication(hits) for id, hits in seen.items()},
        dict(Counter(part for answer in answers.values() for part in answer.degraded)),
    )


class RunFile:
    """Finished runs as JSON lines, so that a comparison that was stopped goes on where it was.

    A run is reused if the system's name and umi configuration, the dataset's content, the depth and the embedder's
    name are the same; what a function does cannot be seen, so rename a system whose code has changed.

    Raises:
        DatasetError: If the file holds something else; it is not touched then.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._runs: dict[str, Run] = {}
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def get(self, key: str) -> Run | None:
        """The finished run under this key."""
        return self._runs.get(key)

    def add(self, key: str, run: Run) -> None:
        """Keep a finished run; on disk when it returns."""
        self._runs[key] = run
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **asdict(run)}) + "\n")

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        whole, newline, torn = text.rpartition("\n")
        for number, line in enumerate(whole.split("\n") if whole else (), FIRST_LINE):
            key, run = _parsed(Place(path, number), line)
            self._runs[key] = run
        if torn and not torn.startswith(FIRST_BYTES[: len(torn)]):
            raise DatasetError(f"{path} is not a file of runs; give another resume= path")
        if torn:  # killed while writing its last line
            path.write_text(whole + newline, encoding="utf-8")


def run_key(name: str, system: System, dataset: Dataset, stores: Stores, *, depth: int, top: int) -> str:
    """Identity of a run, from everything about it that can be seen."""
    seen = hashlib.sha256()
    for chunk in dataset.chunks:
        seen.update(repr((chunk.id, chunk.text, chunk.source, chunk.position, chunk.event_time)).encode())
    for query in dataset.queries:
        seen.update(repr((query.id, query.text, query.now, query.history, dataset.relevant(query.id))).encode())
    facts = [name, _settings(system), dataset.name, dataset.group, depth, top, stores.embedder(dataset).name]
    return hashlib.sha256(json.dumps([*facts, seen.hexdigest()]).encode()).hexdigest()


def _parsed(place: Place, line: str) -> tuple[str, Run]:
    try:
        values = json.loads(line)
        return values.pop("key"), Run(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise place.error("not a run of this version; give another resume= path") from error


def _settings(system: System) -> Any:
    if isinstance(system, UmiConfig):
        return _settings(UmiSystem(system))
    if isinstance(system, UmiSystem):
        extras = [type(part).__qualname__ for part in (system.rewriter, system.reranker)]
        return [settings_text(system.config), system.strategy, *extras]
    return "a function"


def _ask(name: str, search: Any, dataset: Dataset, query: Query, depth: int) -> Answer:
    try:
        answer: Answer = search(query, depth)
    except Exception as error:
        raise SystemFailed(
            f"system {name!r} failed on query {query.id!r} of {dataset.name}/{dataset.group}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return answer


def _arms_of(relevant: Sequence[str], answer: Answer) -> dict[str, dict[str, int | None]]:
    return {id: dict(answer.arms[id]) for id in relevant if id in answer.arms}

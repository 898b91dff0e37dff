"""What a user would pick instead: umi beside embedded engines, hybrid search over the same chunks and vectors.

Each engine runs in a process of its own. p50 and p95 come from rounds in turn; then 16 threads ask at once; then the
process builds SciFact and LoCoMo with their MiniLM vectors and answers their questions. An engine that is not installed
is named and left out: `uv pip install -e .[bench,engines]`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.children import Child
from benchmarks.corpus import make_chunks, make_corpus
from benchmarks.engine_systems import ENGINES, UMI, Task
from benchmarks.harness import Asking, Build, Plan, Row, Skipped, Spec, timing
from benchmarks.part_hybrid import share_found
from benchmarks.quality_sets import MINILM, load_collection
from benchmarks.stores import material
from umi_common.evaluation import score_rankings

WHAT = "engines, hybrid search, top 10, 384-d"
SIZES = (10_000, 100_000)
CALLERS = 16
SETS = {"scifact": "nDCG@10 SciFact", "locomo": "nDCG@10 LoCoMo"}
METRIC = "ndcg@10"
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


@dataclass(frozen=True)
class Engine:
    """Prepares one engine over a synthetic corpus."""

    name: str

    def __call__(self, spec: Spec) -> Build:
        """See `harness.Prepare`."""
        made = material(spec)
        chunks, build = make_chunks(made.texts), ENGINES[self.name]

        def built() -> Callable[..., Any]:
            ask = build(Task(_folder(Path(spec.home)), chunks, made.vectors, made.questions, made.question_vectors))
            asking = Asking(ask)

            def work(numbers: list[int], seconds: float, callers: int = 1) -> Any:
                return asking(numbers, seconds) if callers == 1 else _together(ask, numbers, callers)

            return work

        return built


@dataclass(frozen=True)
class Quality:
    """Prepares one engine over the evaluation sets; its work returns nDCG@10 by set."""

    name: str

    def __call__(self, spec: Spec) -> Build:
        """See `harness.Prepare`."""
        return lambda: lambda: {title: _ndcg(self.name, name, Path(spec.home)) for name, title in SETS.items()}


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row an engine; "found" is the share of questions whose chunk is among the ten."""
    rows: dict[str, Row] = {name: {"what": WHAT, "size": size, "system": name} for name in ENGINES}
    children: dict[str, Child] = {}
    with tempfile.TemporaryDirectory() as home:
        spec = Spec(size, questions=plan.all_questions, home=home)
        try:
            for name in ENGINES:
                place = _folder(Path(home))
                with _skipping(rows[name]):
                    children[name] = Child(Engine(name), replace(spec, home=str(place)))
                    children[name].build(plan.build_seconds)
                    children[name].call(list(range(plan.warm_up)), 60.0)
                    rows[name] |= {"build_s": children[name].seconds, "memory_mb": children[name].megabytes}
                    rows[name]["disk_mb"] = sum(path.stat().st_blocks for path in place.rglob("*")) * 512 / 1e6
                say(f"{name}: {rows[name].get('skipped', 'built')}")
            _ask_in_turn(children, rows, plan)
        finally:
            for child in children.values():
                child.close()
        for name in ENGINES if size == min(SIZES) and DATA.is_dir() else ():
            if "skipped" in rows[name]:
                continue
            child = Child(Quality(name), replace(spec, home=home))
            with _skipping(rows[name]):
                child.build(plan.build_seconds)
                rows[name] |= child.call()
            child.close()
    return list(rows.values())


def _ask_in_turn(children: dict[str, Child], rows: dict[str, Row], plan: Plan) -> None:
    """Rounds of single questions, each round over all engines, then rounds of many callers."""
    asked = [row for _, row in make_corpus(children[UMI].spec.size).questions(plan.all_questions)]
    spent: dict[str, list[list[float]]] = {name: [] for name in children}
    together: dict[str, list[float]] = {name: [] for name in children}
    found: dict[str, dict[int, list[int]]] = {name: {} for name in children}
    for at in range(plan.rounds):
        for name, child in children.items():
            if "skipped" in rows[name]:
                continue
            with _skipping(rows[name]):
                numbers = list(plan.of_round(at))
                answers = child.call(numbers, plan.seconds)
                spent[name].append([wall for wall, _, _ in answers])
                found[name] |= dict(zip(numbers, (best for _, _, best in answers), strict=False))
                together[name].append(child.call(numbers[: len(answers)], plan.seconds, CALLERS))
    for name, rounds in spent.items():
        if rounds and "skipped" not in rows[name]:
            ratios = [median(one) / median(own) for one, own in zip(rounds, spent[UMI], strict=False)]
            rows[name] |= timing(rounds) | {"times": median(ratios) if ratios else None}
            rows[name] |= {"found": share_found(asked, found[name]), "per_second_16": median(together[name])}


def _together(ask: Callable[[int], list[int]], numbers: list[int], callers: int) -> float:
    """Answers a second of so many threads."""
    with ThreadPoolExecutor(callers) as pool:
        begun = time.perf_counter()
        list(pool.map(ask, numbers))
        return len(numbers) / (time.perf_counter() - begun)


def _ndcg(engine: str, name: str, home: Path) -> float | None:
    """Mean nDCG@10 of one set; None: its data is not there."""
    collection = load_collection(DATA, name, MINILM)
    if collection is None:
        return None
    values: list[float] = []
    for dataset in collection.datasets:
        embedder, queries = collection.embedder(dataset), dataset.judged
        questions = [query.text for query in queries]
        vectors = embedder.embed_documents([chunk.text for chunk in dataset.chunks])
        task = Task(_folder(home), dataset.chunks, vectors, questions, embedder.embed_queries(questions))
        ask = ENGINES[engine](task)
        rankings = {query.id: [dataset.chunks[row].id for row in ask(at)] for at, query in enumerate(queries)}
        values += score_rankings(dataset.qrels, rankings, [METRIC])[METRIC].values()
    return fmean(values)


def _folder(home: Path) -> Path:
    """A new empty directory."""
    return Path(tempfile.mkdtemp(dir=home))


@contextmanager
def _skipping(row: Row) -> Iterator[None]:
    """Write into the row why its engine is left out, and go on."""
    try:
        yield
    except Skipped as reason:
        row["skipped"] = str(reason)

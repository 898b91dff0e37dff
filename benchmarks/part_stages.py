"""The time of each stage of a hybrid search, from its trace, beside a lower bound."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable

from benchmarks.children import Child
from benchmarks.harness import Build, Plan, Row, Spec
from benchmarks.stores import material, open_store, shared_store
from umi_common.retriever import DualRetriever
from umi_common.types import SearchResult

WHAT = "stages of a hybrid search"
FLOOR = "floor of a hybrid search"
SIZES = (1_000, 10_000, 100_000)
REST = "between the stages"
Traced = list[dict[str, float]]


def umi(spec: Spec) -> Build:
    """Answers numbered questions with the milliseconds of every stage."""
    made = material(spec)

    def build() -> Callable[[list[int]], Traced]:
        retriever = DualRetriever(open_store(spec, made))

        def traced(numbers: list[int]) -> Traced:
            spent = []
            for number in numbers:
                begun = time.perf_counter()
                result = retriever.search(made.questions[number])
                spent.append(_stages(result, (time.perf_counter() - begun) * 1e3))
                if not result.ids:
                    raise RuntimeError("a question found nothing")
            return spent

        return traced

    return build


def _stages(result: SearchResult, milliseconds: float) -> dict[str, float]:
    spent: dict[str, float] = defaultdict(float)
    for stage in result.trace:
        spent[stage.name] += stage.milliseconds
        if stage.name == "recall":
            spent["recall: embed"] = stage.facts["embed_ms"]
            spent["recall: both arms"] = stage.facts["arms_ms"]
    spent["recall: the pool of both"] = spent["recall"] - spent["recall: embed"] - spent["recall: both arms"]
    outer = sum(value for name, value in spent.items() if not name.startswith("recall: "))
    return {**spent, REST: milliseconds - outer, "in all": milliseconds}


def floors(spec: Spec) -> Build:
    """Milliseconds of the work that every search of this design must do."""
    made = material(spec)

    def build() -> Callable[[list[int]], Traced]:
        def timed(numbers: list[int]) -> Traced:
            spent = []
            for number in numbers:
                begun = time.perf_counter()
                made.vectors @ made.question_vectors[number]
                spent.append({"one pass over all vectors, float32": (time.perf_counter() - begun) * 1e3})
            return spent

        return timed

    return build


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a stage: the median of all questions' milliseconds, and its share of the whole."""
    with shared_store(Spec(size, questions=plan.all_questions), say) as spec:
        spent: dict[str, dict[str, list[float]]] = {WHAT: defaultdict(list), FLOOR: defaultdict(list)}
        for what, prepare in ((WHAT, umi), (FLOOR, floors)):
            child = Child(prepare, spec)
            try:
                child.build(plan.build_seconds)
                child.call(list(range(plan.warm_up)))
                for at in range(plan.rounds):
                    for each in child.call(list(plan.of_round(at))):
                        for name, milliseconds in each.items():
                            spent[what][name].append(milliseconds)
            finally:
                child.close()
    whole = statistics.median(spent[WHAT]["in all"])
    return [
        {
            "what": what,
            "size": size,
            "system": name,
            "p50_ms": statistics.median(each),
            "share": statistics.median(each) / whole,
            "questions": len(each),
        }
        for what, stages in spent.items()
        for name, each in stages.items()
    ]

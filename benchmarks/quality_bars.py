"""What umi has to reach, and whether it did: each bar is a line with the figure, the bar and pass or FAIL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quality_peers import LANGCHAIN, LLAMAINDEX

from umi_common.evaluation import SystemComparison

UMI, NO_NEIGHBOURS, NO_ADAPTIVE = "umi", "umi, neighbours off", "umi, adaptive fusion off"
NO_WHEN, LEXICAL, DENSE = "umi, when off", "lexical arm", "dense arm"
NDCG, RECALL = "ndcg@10", "recall@10"
ARMS = (LEXICAL, DENSE)
PEERS = (LANGCHAIN, LLAMAINDEX)
GENERAL = ("qmsum", "scifact", "mtrag_pool", "cosqa", "cranfield", "hotpotqa", "musique")
TEMPORAL = "temporal-reasoning"

RECORDED = {
    LANGCHAIN: {
        "locomo": (0.415, 0.627),
        "longmemeval_s": (0.639, 0.829),
        "qmsum": (0.297, 0.139),
        "scifact": (0.700, 0.839),
        "cranfield": (0.384, 0.413),
        "mtrag_pool": (0.737, 0.829),
        "cosqa": (0.497, 0.756),
        "hotpotqa": (0.796, 0.880),
        "musique": (0.621, 0.677),
    },
    LLAMAINDEX: {
        "locomo": (0.448, 0.638),
        "longmemeval_s": (0.655, 0.855),
        "qmsum": (0.310, 0.143),
        "scifact": (0.723, 0.838),
        "cranfield": (0.405, 0.438),
        "mtrag_pool": (0.750, 0.838),
        "cosqa": (0.537, 0.776),
        "hotpotqa": (0.832, 0.905),
        "musique": (0.654, 0.698),
    },
}
"""nDCG@10 and R@10 of the peers with the MiniLM vectors, from a run of this benchmark; used where they are not run."""

Results = Mapping[str, SystemComparison]
"""By "set/encoder"."""


@dataclass(frozen=True)
class Bar:
    """One thing to reach."""

    what: str
    reached: float
    least: float
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.reached >= self.least - 1e-9

    def __str__(self) -> str:
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}  {self.what}: {self.reached:.4f}, bar {self.least:.4f}{self.note}"


def all_bars(results: Results) -> list[Bar]:
    """Every bar whose runs are there."""
    results = {title: found for title, found in results.items() if UMI in found.systems or title.endswith("/deep")}
    of_sets = (_locomo, _longmemeval, _general, _steps, _shuffled, _deep)
    return [bar for bars in of_sets for bar in bars(results)]


def _locomo(results: Results) -> Iterator[Bar]:
    for encoder, recall, mrr in (("default", 0.76, 0.50), ("minilm", 0.79, 0.51)):
        whole = results.get(f"locomo/{encoder}/first 100")
        if whole is not None:
            yield Bar(f"LoCoMo {encoder}, MRR over the first 100", whole.value(UMI, "mrr@100"), mrr)
        found = results.get(f"locomo/{encoder}")
        if found is not None:
            yield Bar(f"LoCoMo {encoder}, R@10", found.value(UMI, RECALL), recall)
            for metric in (NDCG, RECALL):
                yield from _against(found, "locomo", metric, ARMS + PEERS)


def _longmemeval(results: Results) -> Iterator[Bar]:
    found = results.get("longmemeval_s/minilm")
    if found is None:
        return
    name = "LongMemEval-S"
    yield from _against(found, "longmemeval_s", NDCG, PEERS, margin=0.04)
    yield from _against(found, "longmemeval_s", RECALL, PEERS)
    for metric in (NDCG, RECALL):
        yield Bar(f"{name}, neighbours on not below off, {metric}", *_pair(found, UMI, NO_NEIGHBOURS, metric))
    for metric in (NDCG, RECALL):
        on, off = (found.by_category(system, metric)[TEMPORAL].mean for system in (UMI, NO_WHEN))
        yield Bar(f"{name}, {TEMPORAL}: `when` on not below off, {metric}", on, off)


def _general(results: Results) -> Iterator[Bar]:
    gains = []
    for name in GENERAL:
        found = results.get(f"{name}/minilm")
        if found is None:
            continue
        for metric in (NDCG, RECALL):
            for bar in _against(found, name, metric, ARMS + PEERS):
                gains += [bar.reached - bar.least] if metric == NDCG else []
                yield bar
    if gains:
        note = "" if len(gains) == len(GENERAL) else f" ({len(gains)} of {len(GENERAL)} sets)"
        yield Bar("mean gain in nDCG@10 over the best other", sum(gains) / len(gains), 0.04, note)


def _steps(results: Results) -> Iterator[Bar]:
    """Questions that need two passages or more, the later ones named only by the earlier."""
    for name, metric, least in (
        ("hotpotqa", "recall@5", 0.9),
        ("musique", "recall@5", 0.62),
        ("musique", RECALL, 0.74),
    ):
        found = results.get(f"{name}/default")
        if found is not None:
            yield Bar(f"{name} default, {metric}", found.value(UMI, metric), least)


def _shuffled(results: Results) -> Iterator[Bar]:
    for title, found in results.items():
        if "/shuffled" in title:
            for metric in (NDCG, RECALL):
                ours, off = _pair(found, UMI, NO_NEIGHBOURS, metric)
                yield Bar(f"{title}, {metric} at most .005 below neighbours off", ours, off - 0.005)


def _deep(results: Results) -> Iterator[Bar]:
    found = results.get("locomo/default/deep")
    if found is not None:
        yield Bar("LoCoMo default, recorded rewrites (always), R@10", found.value("deep: always", RECALL), 0.82)
        never, kept, whole = (found.value(f"deep: {name}", RECALL) for name in ("never", "default gate", "always"))
        yield Bar("LoCoMo default gate, share of the gain that it keeps", (kept - never) / (whole - never), 0.9)
        calls = found.row("deep: default gate").llm_calls
        if calls is not None:
            yield Bar("LoCoMo default gate, share of the LLM calls that it saves", 1.0 - calls, 0.4)


def _against(
    found: SystemComparison, name: str, metric: str, others: tuple[str, ...], *, margin: float = 0.0
) -> Iterator[Bar]:
    """umi at least as good as the best of the others, by a margin; no bar where none was run or recorded."""
    values = {system: found.value(system, metric) for system in others if system in found.systems}
    if found.sets[0].endswith("/minilm"):
        for peer in PEERS:
            if peer not in found.systems and name in RECORDED[peer]:
                values[f"{peer}, recorded"] = RECORDED[peer][name][0 if metric == NDCG else 1]
    if values:
        who = max(values, key=lambda system: values[system])
        more = f" and {margin:g} more" if margin else ""
        what = f"{found.sets[0]}, {metric} at least the best other's ({who}){more}"
        yield Bar(what, found.value(UMI, metric), values[who] + margin)


def _pair(found: SystemComparison, ours: str, theirs: str, metric: str) -> tuple[float, float]:
    return found.value(ours, metric), found.value(theirs, metric)

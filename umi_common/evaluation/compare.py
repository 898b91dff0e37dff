"""Compare retrieval systems on collections with known answers: same questions, same documents, same judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from umi_common.errors import ConfigError
from umi_common.evaluation.comparison import Comparison
from umi_common.evaluation.datasets import Dataset
from umi_common.evaluation.runs import Run, RunFile, run_key, run_system
from umi_common.evaluation.stores import EmbedderChoice, Stores
from umi_common.evaluation.systems import System
from umi_common.progress import progress_bar
from umi_common.search.request import LIMIT_MAX


def compare(
    systems: Mapping[str, System],
    datasets: Dataset | Iterable[Dataset],
    *,
    ks: Sequence[int] = (5, 10),
    depth: int | None = None,
    embedder: EmbedderChoice = None,
    seed: int = 0,
    resume: str | Path | None = None,
    show_progress: bool = True,
) -> Comparison:
    """Ask every system every judged query of every dataset, and measure what comes back.

        compare({"umi": UmiConfig(), "mine": lambda dataset: mine_over(dataset.chunks)}, load_conversations("locomo"))

    Args:
        systems: By name: a `UmiConfig`, a `UmiSystem`, or a function of a dataset that returns a search function, a
            LangChain retriever or a LlamaIndex retriever (`evaluation.systems` has the details).
        datasets: Those of one `name` make one row a system; intervals resample their groups.
        ks: Cut-offs of the metrics, >= 1.
        depth: Ids asked for, so latency is at this depth; at least the largest k, at most 100; None: the largest k.
            A greater depth shows in `failures` at which rank a missed document came.
        embedder: For umi and for diversity: an Embedder, a function that gives each dataset its own, or None (the
            embedded default).
        seed: Of intervals and tests.
        resume: A JSON-lines file of finished runs; what it holds already is not run again. Interrupt at will.
        show_progress: A bar on stderr or in the notebook.

    Raises:
        ConfigError: If there is nothing to compare, or ks and depth are out of range.
        SystemFailed: If a system raises; finished runs stay in `resume`.
        MissingExtra: If ir-measures is not installed.
    """
    datasets = [datasets] if isinstance(datasets, Dataset) else [dataset for dataset in datasets if dataset.judged]
    depth = _checked(systems, datasets, ks, depth)
    finished, runs = RunFile(resume), list[Run]()
    with Stores(embedder, keep=1) as stores, _progress(systems, datasets, show_progress) as bar:
        for dataset in datasets:
            for name, system in systems.items():
                bar.set_postfix_str(f"{dataset.name}/{dataset.group} {name}", refresh=False)
                key = run_key(name, system, dataset, stores, depth=depth, top=max(ks))
                run = finished.get(key)
                if run is None:
                    run = run_system(name, system, dataset, stores, depth=depth, top=max(ks), asked=bar.update)
                    finished.add(key, run)
                else:
                    bar.update(len(dataset.judged))
                runs.append(run)
    return Comparison(runs, datasets, ks=ks, depth=depth, seed=seed)


def _checked(systems: Mapping[str, System], datasets: Sequence[Dataset], ks: Sequence[int], depth: int | None) -> int:
    if not systems:
        raise ConfigError("no system to compare; pass at least one, e.g. {'umi': UmiConfig()}")
    if not any(dataset.judged for dataset in datasets):
        raise ConfigError("no query of the datasets has a relevant document; check their qrels")
    places = [(dataset.name, dataset.group) for dataset in datasets]
    if len(set(places)) != len(places):
        raise ConfigError("two datasets have the same name and group; pass name= to tell them apart")
    if not ks or min(ks) < 1 or max(ks) > LIMIT_MAX:
        raise ConfigError(f"ks {tuple(ks)}; expected at least one cut-off, 1..{LIMIT_MAX}")
    depth = max(ks) if depth is None else depth
    if not max(ks) <= depth <= LIMIT_MAX:
        raise ConfigError(f"depth {depth}; expected {max(ks)} (the largest k) to {LIMIT_MAX}")
    return depth


def _progress(systems: Mapping[str, System], datasets: Sequence[Dataset], show: bool) -> Any:
    queries = len(systems) * sum(len(dataset.judged) for dataset in datasets)
    return progress_bar(total=queries, desc="comparing", unit="query", disable=not show)

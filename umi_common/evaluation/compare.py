"""Compare retrieval systems on collections with known answers. Queries, documents and metrics are the same for all."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

from pydantic import TypeAdapter

from umi_common import __version__
from umi_common.config import UmiConfig
from umi_common.errors import ConfigError, DatasetError, SystemFailed, optional_module
from umi_common.evaluation.comparison import Run, SystemComparison
from umi_common.evaluation.datasets import Dataset, judged_datasets
from umi_common.evaluation.metrics import diversity, duplication
from umi_common.evaluation.systems import Answer, EmbedderChoice, Stores, System, UmiSystem, open_system, settings_of
from umi_common.progress import progress_bar
from umi_common.search.request import LIMIT_MAX

LINE_START = b'{"key": "'
"""The beginning of every line in a file of runs."""

log = logging.getLogger("umi")


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
) -> SystemComparison:
    """Run every judged query of every dataset on every system, and measure the results.

        compare({"umi": UmiConfig(), "mine": lambda dataset: mine_over(dataset.chunks)}, load_conversations("locomo"))

    Args:
        systems: By name: a `UmiConfig`, a `UmiSystem`, a retriever (umi's, LangChain's or LlamaIndex's) over the
            documents of all datasets, or a function of a dataset that returns a retriever or a search function (details
            in `evaluation.systems`).
        datasets: Datasets of one `name` are a set, with one row per system. Confidence intervals resample the set's
            groups.
        ks: Cut-offs of the metrics, 1..100, each once.
        depth: Number of results per query, from the largest of `ks` to 100; None: the largest of `ks`. Latency is
            measured with this number of results, and `failures` shows ranks up to it.
        embedder: A model or its name, as for `HybridStore.open`, or a function from a dataset to its model; a function
            of texts is given as `as_embedder(function)`. It is used for umi's searches, and for diversity and
            duplication. None: umi uses the model in its settings, else the default; diversity and duplication use the
            default.
        seed: Seed of confidence intervals and tests.
        resume: A JSON-lines file to which finished runs are written. Runs that it has already are not repeated if
            umi's version and the facts of `run_key` are the same. Of a function or a retriever only the type and the
            name are known: give it another name if its code, settings or documents have changed.
        show_progress: Whether to show a progress bar, on stderr or in the notebook.

    Raises:
        ConfigError: If there is nothing to compare, or ks and depth are out of range.
        DatasetError: If `resume` cannot be read, is no file of runs, or its folder does not exist.
        SystemFailed: If a system raises, or returns ids that are all unknown; finished runs stay in `resume`.
        MissingExtra: If ir-measures is not installed.
    """
    datasets = judged_datasets(datasets)
    depth = _checked(systems, datasets, ks, depth)
    finished = {} if resume is None else _finished_runs(Path(resume))
    runs: list[Run] = []
    reused: set[str] = set()
    queries = len(systems) * sum(len(dataset.judged) for dataset in datasets)
    with progress_bar(total=queries, desc="comparing", unit="query", disable=not show_progress) as bar:
        for dataset in datasets:
            with Stores(embedder) as stores:
                for name, system in systems.items():
                    bar.set_postfix_str(f"{dataset.name}/{dataset.group} {name}", refresh=False)
                    key = run_key(name, system, dataset, stores, depth=depth, top=max(ks))
                    run = finished.get(key)
                    if run is None:
                        run = run_system(name, system, dataset, stores, depth=depth, top=max(ks), on_answer=bar.update)
                        if resume is not None:
                            with Path(resume).open("a", encoding="utf-8") as file:
                                file.write(json.dumps({"key": key, **asdict(run)}) + "\n")
                    else:
                        bar.update(len(dataset.judged))
                        reused.add(name)
                    runs.append(run)
    if unknown := [
        name for name in systems if name in reused and not isinstance(systems[name], (UmiConfig, UmiSystem))
    ]:
        log.warning(
            "the runs of %s are taken from %s; if the code, settings or documents of a system have changed, give it "
            "another name",
            unknown,
            resume,
        )
    return SystemComparison(runs, datasets, ks=ks, depth=depth, seed=seed)


def _checked(systems: Mapping[str, System], datasets: Sequence[Dataset], ks: Sequence[int], depth: int | None) -> int:
    if not isinstance(systems, Mapping):
        raise ConfigError(f"systems is {type(systems).__name__}; expected systems by name, e.g. {{'umi': UmiConfig()}}")
    if not systems:
        raise ConfigError("no system to compare; pass at least one, e.g. {'umi': UmiConfig()}")
    names = [(dataset.name, dataset.group) for dataset in datasets]
    if len(set(names)) != len(names):
        raise ConfigError("two datasets have the same name and group; pass name= to tell them apart")
    valid = isinstance(ks, Sequence) and all(type(k) is int and 1 <= k <= LIMIT_MAX for k in ks)
    if not valid or not ks or len(set(ks)) < len(ks):
        raise ConfigError(f"ks {ks!r:.40}; expected a list of at least one cut-off, 1..{LIMIT_MAX}, each once")
    depth = max(ks) if depth is None else depth
    if not isinstance(depth, int) or not max(ks) <= depth <= LIMIT_MAX:
        raise ConfigError(f"depth {depth}; expected {max(ks)} (the largest k) to {LIMIT_MAX}")
    optional_module("ir_measures", "ir-measures", "eval")  # the metrics need it after the last query
    return depth


def run_system(
    name: str,
    system: System,
    dataset: Dataset,
    stores: Stores,
    *,
    depth: int,
    top: int,
    on_answer: Callable[[], object],
) -> Run:
    """Run every judged query of a dataset once, in order.

    Args:
        depth: Number of results per query.
        top: Number of first results of which diversity and duplication are computed.
        on_answer: Called after each query.

    Raises:
        SystemFailed: If the system raises an error, or if it returns ids and none of them is in the dataset.
    """
    search = open_system(name, system, dataset, stores)
    where = f"{dataset.name}/{dataset.group}"
    rows = {chunk.id: row for row, chunk in enumerate(dataset.chunks)}
    vectors = stores.vectors(dataset)
    answers: dict[str, Answer] = {}
    elapsed: dict[str, float] = {}
    for query in dataset.judged:
        start = perf_counter()
        try:
            answers[query.id] = search(query, depth)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            raise SystemFailed(f"system {name!r} failed on query {query.id!r} of {where}: {fault}") from error
        elapsed[query.id] = (perf_counter() - start) * 1e3
        on_answer()
    returned = [id for answer in answers.values() for id in answer.ids]
    if returned and rows.keys().isdisjoint(returned):
        raise SystemFailed(
            f"system {name!r} returned ids such as {returned[0]!r}, none of which is in {where}: "
            f"{dataset.chunks[0].id!r}, ...; give its documents the ids of the dataset's chunks"
        )
    tops = {id: vectors[[rows[hit] for hit in answer.ids[:top] if hit in rows]] for id, answer in answers.items()}
    return Run(
        system=name,
        set=dataset.name,
        group=dataset.group,
        ids={id: answer.ids for id, answer in answers.items()},
        milliseconds=elapsed,
        llm_calls={id: answer.llm_calls for id, answer in answers.items()},
        arms={
            id: {found: dict(answer.arms[found]) for found in dataset.relevant(id) if found in answer.arms}
            for id, answer in answers.items()
        },
        diversity={id: diversity(hits) for id, hits in tops.items()},
        duplication={id: duplication(hits) for id, hits in tops.items()},
        degraded=dict(Counter(part for answer in answers.values() for part in answer.degraded)),
    )


def _finished_runs(path: Path) -> dict[str, Run]:
    """The runs in a JSON-lines file by their `run_key`.

    An incomplete last line, which a process was writing when it ended, is removed from the file. If the file cannot be
    read or has anything but runs, it is not changed, and DatasetError is raised.
    """
    if not path.parent.is_dir():
        raise DatasetError(f"{path.parent} is no folder; create it, or give another resume= path")
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror}); give another resume= path") from error
    *lines, last = content.split(b"\n")
    runs: dict[str, Run] = {}
    for number, line in enumerate(lines, 1):
        try:
            runs.update([_run_of(line)])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            wrong = f"{path}, line {number}: not a run of this version; give another resume= path"
            raise DatasetError(wrong) from error
    if not last.startswith(LINE_START[: len(last)]):
        raise DatasetError(f"{path} is not a file of runs; give another resume= path")
    if last:
        try:
            runs.update([_run_of(last)])
        except ValueError:  # incomplete JSON
            os.truncate(path, len(content) - len(last))
        else:
            with path.open("ab") as file:
                file.write(b"\n")
    return runs


def _run_of(line: bytes) -> tuple[str, Run]:
    """(key, run) of a line in a file of runs; some error of Python if the line is no run."""
    values = json.loads(line)
    key = values.pop("key")
    return key, TypeAdapter(Run).validate_python(asdict(Run(**values)))


def run_key(name: str, system: System, dataset: Dataset, stores: Stores, *, depth: int, top: int) -> str:
    """A hash that identifies a run: of umi's version, the system's name and settings (`settings_of`), the dataset's
    names and content, the depth, `top` and the embedder's name."""
    content = hashlib.sha256()
    for chunk in dataset.chunks:
        content.update(repr(chunk).encode())
    for query in dataset.queries:
        content.update(repr((query, dataset.relevant(query.id))).encode())
    facts = [__version__, name, settings_of(system), dataset.name, dataset.group, depth, top]
    facts += [stores.embedder(dataset).name, content.hexdigest()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

"""Compare retrieval systems on collections with known answers. Queries, documents and metrics are the same for all.

`compare` runs every system on every dataset. `SystemComparison` holds the results: a row of metrics for each system and
set, significance tests, and the relevant documents that were not found.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json

from umi_common import __version__
from umi_common.config import UmiConfig
from umi_common.errors import ConfigError, DatasetError, SystemFailed, optional_module, writing
from umi_common.evaluation.datasets import Dataset, Query, judged_datasets
from umi_common.evaluation.metrics import default_metrics, diversity, duplication, latency, score_rankings
from umi_common.evaluation.significance import Difference, Estimate, bootstrap_mean, holm, paired_randomisation
from umi_common.evaluation.systems import Answer, EmbedderChoice, Stores, System, UmiSystem, open_system, settings_of
from umi_common.explain import tables_to_html, with_count
from umi_common.progress import progress_bar
from umi_common.search.request import LIMIT_MAX

T = TypeVar("T")

log = logging.getLogger("umi")

LINE_START = b'{"key": "'
"""The beginning of every line in a file of runs."""


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
        embedder: For umi's searches, diversity and duplication: a model or its name, as for `HybridStore.open`, or a
            function from a dataset to its model; a function of texts is given as `as_embedder(function)`. None: the
            default, or for searches the model in umi's settings.
        seed: Seed of confidence intervals and tests.
        resume: A JSON-lines file to which finished runs are written. A run that it holds under the same `run_key` is
            not repeated. The key has only the type and the name of a function or retriever: give it another name if it
            has changed.
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
    may_differ = [name for name in systems if name in reused and not isinstance(systems[name], (UmiConfig, UmiSystem))]
    if may_differ:
        log.warning(
            "the runs of %s are taken from %s; if the code, settings or documents of a system have changed, give it "
            "another name",
            may_differ,
            resume,
        )
    return SystemComparison(runs, datasets, ks=ks, depth=depth, seed=seed)


def _checked(systems: Mapping[str, System], datasets: Sequence[Dataset], ks: Sequence[int], depth: int | None) -> int:
    """Check the arguments of `compare`; returns the depth."""
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

    An incomplete last line, which a process was writing when it ended, is removed from the file. A file that cannot be
    read, or holds anything but runs, is not changed, and DatasetError is raised.
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
    """(key, run) of a line in a file of runs. Another line raises ValueError, TypeError, KeyError or AttributeError."""
    values = json.loads(line)
    key = values.pop("key")
    return key, TypeAdapter(Run).validate_python(asdict(Run(**values)))


def run_key(name: str, system: System, dataset: Dataset, stores: Stores, *, depth: int, top: int) -> str:
    """A hash of what identifies a run: umi's version, the system's name and settings (`settings_of`), the dataset's
    names and content, the depth, `top` and the embedder's name."""
    content = hashlib.sha256()
    for chunk in dataset.chunks:
        content.update(repr(chunk).encode())
    for query in dataset.queries:
        content.update(repr((query, dataset.relevant(query.id))).encode())
    facts = [__version__, name, settings_of(system), dataset.name, dataset.group, depth, top]
    facts += [stores.embedder(dataset).name, content.hexdigest()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


VECTOR_METRICS = ("diversity", "duplication")
"""Metrics of the hits' vectors, which are fields of `Run`."""


@dataclass(frozen=True, slots=True)
class Run:
    """The answers of one system on one dataset. All mappings except `degraded` are by query id."""

    system: str
    set: str
    """Name of the dataset, which it shares with the other groups of its set."""
    group: str
    ids: Mapping[str, Sequence[str]]
    """Ids of the documents found, best first."""
    milliseconds: Mapping[str, float]
    """Wall time of the call; the first call of a store includes the time to load it."""
    llm_calls: Mapping[str, int | None]
    """Number of LLM calls; None: not known."""
    arms: Mapping[str, Mapping[str, Mapping[str, int | None]]]
    """By query, relevant document found and arm: the rank from 1; None: the document is not in the arm's list."""
    diversity: Mapping[str, float]
    """`metrics.diversity` of the first hits."""
    duplication: Mapping[str, float]
    """`metrics.duplication` of the first hits."""
    degraded: Mapping[str, int]
    """Number of answers in which a part failed, by part."""


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one system on one set: all datasets with the same name."""

    system: str
    set: str
    metrics: Mapping[str, Estimate]
    """Relevance metrics, then diversity and duplication; a metric that has no value for any query is left out."""
    latency: Mapping[str, float]
    """p50, p95, p99 in milliseconds."""
    llm_calls: float | None
    """Mean number of LLM calls for each query; None: not known for every query."""
    degraded: Mapping[str, int]
    """Number of answers in which a part failed, by part."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A relevant document that is not among a system's first k results."""

    set: str
    group: str
    query: Query
    id: str
    text: str
    """Text of the document; "" if the file has no text for it."""
    rank: int | None
    """Rank in the system's list, from 1; None: not in the list."""
    arms: Mapping[str, int | None]
    """Rank in the list of each arm of the system; None: not in this list. Empty if not known."""
    elsewhere: Mapping[str, int | None]
    """Rank in the list of each other system, by system; None: not in this list."""


class SystemComparison:
    """The results of `compare`. Two runs of one system on one dataset raise ConfigError."""

    def __init__(
        self, runs: Iterable[Run], datasets: Iterable[Dataset], *, ks: Sequence[int], depth: int, seed: int = 0
    ) -> None:
        self.runs = tuple(runs)
        self.datasets = {(dataset.name, dataset.group): dataset for dataset in datasets}
        self.ks = tuple(ks)
        self.depth = depth
        self.seed = seed
        self.metrics = tuple(default_metrics(ks))
        self.systems = tuple(dict.fromkeys(run.system for run in self.runs))
        self.sets = tuple(dict.fromkeys(run.set for run in self.runs))
        counts = Counter((run.system, run.set, run.group) for run in self.runs)
        for (system, name, group), count in counts.items():
            if count > 1:
                raise ConfigError(f"{system!r} has {count} runs on {name}/{group}; expected one: rename a system")
        self._scores = {(run.system, run.set, run.group): self._score(run) for run in self.runs}
        self.rows = tuple(self._row(system, name) for name in self.sets for system in self.systems)

    def row(self, system: str, set: str | None = None) -> Row:
        """The row of one system and set; the set may be left out if there is only one."""
        if set is None and len(self.sets) != 1:
            raise ConfigError(f"name one of the sets {self.sets}")
        name = self._runs(system, set)[0].set
        return next(row for row in self.rows if (row.system, row.set) == (system, name))

    def value(self, system: str, metric: str, set: str | None = None) -> float:
        """The mean of one metric over the queries of one set, for one system."""
        return _measured(self.row(system, set).metrics, metric).mean

    def values(self, system: str, metric: str, set: str | None = None) -> dict[str, float]:
        """The value of one metric for each query, by "set/group/query id"; set None: for the queries of all sets."""
        return {
            f"{run.set}/{run.group}/{query}": value
            for run in self._runs(system, set)
            for query, value in self._scored(run, metric).items()
        }

    def versus(self, baseline: str, metric: str, set: str | None = None) -> dict[str, Difference]:
        """By system: its difference from the system `baseline` over the same queries.

        P values are corrected for the number of systems by Holm's method.
        """
        theirs = self.values(baseline, metric, set)
        others = {
            system: paired_randomisation(self.values(system, metric, set), theirs, seed=self.seed)
            for system in self.systems
            if system != baseline
        }
        corrected = holm({system: difference.p_value for system, difference in others.items()})
        return {system: replace(difference, p_value=corrected[system]) for system, difference in others.items()}

    def by_category(self, system: str, metric: str, set: str | None = None) -> dict[str, Estimate]:
        """The mean of one metric by category of query; "" is the category of queries without one."""
        pairs: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for run in self._runs(system, set):
            scores = self._scored(run, metric)
            for query in self.datasets[run.set, run.group].judged:
                pairs[query.category or ""].append((scores[query.id], run.group))
        return {kind: self._mean(pairs[kind]) for kind in sorted(pairs)}

    def failures(self, system: str, k: int | None = None, set: str | None = None) -> list[Failure]:
        """The relevant documents not among a system's first k results, by query. k None: the smallest of `ks`."""
        cut = min(self.ks) if k is None else k
        if isinstance(cut, bool) or not isinstance(cut, int) or cut < 1:
            raise ConfigError(f"k is {k!r:.40}; expected a whole number above 0, or None")
        missed: list[Failure] = []
        for run in self._runs(system, set):
            where = run.set, run.group
            dataset = self.datasets[where]
            texts = {chunk.id: chunk.text for chunk in dataset.chunks}
            others = [other for other in self.runs if (other.set, other.group) == where and other is not run]
            for query in dataset.judged:
                for document in dataset.relevant(query.id):
                    rank = _rank(run, query.id, document)
                    if rank is None or rank > cut:
                        arms = run.arms.get(query.id, {}).get(document, {})
                        elsewhere = {other.system: _rank(other, query.id, document) for other in others}
                        text = texts.get(document, "")
                        missed.append(Failure(*where, query, document, text, rank, arms, elsewhere))
        return missed

    def table(self, format: Literal["text", "markdown"] = "text", metrics: Sequence[str] = ()) -> str:
        """One table for each set, with a row for each system: means of the metrics (by default those of relevance), p50
        of the latency, LLM calls. Raises ConfigError for an unknown format or metric."""
        if format not in _RENDERERS:
            raise ConfigError(f"format {format!r}; expected one of {', '.join(_RENDERERS)}")
        return _RENDERERS[format](self._tables(metrics or self.metrics))

    def _tables(self, columns: Sequence[str]) -> list[Table]:
        header = ["system", *columns, "p50 ms", "LLM calls"]
        tables = []
        for name in self.sets:
            rows = [row for row in self.rows if row.set == name]
            queries = next(iter(rows[0].metrics.values())).queries
            groups = sum(set == name for set, _ in self.datasets)
            body = []
            for row in rows:
                values = [f"{_measured(row.metrics, metric).mean:.3f}" for metric in columns]
                calls = "-" if row.llm_calls is None else f"{row.llm_calls:.2f}"
                body.append([row.system, *values, f"{row.latency['p50']:.1f}", calls])
            tables.append((f"{name}: {queries} queries, {with_count(groups, 'group')}", header, body))
        return tables

    def _repr_html_(self) -> str:
        return tables_to_html(self._tables(self.metrics))

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each system and set: mean of each metric with the bounds of its 95 %
        interval, latency in milliseconds, LLM calls. Raises MissingExtra without pandas."""
        records = []
        for row in self.rows:
            record: dict[str, Any] = {"set": row.set, "system": row.system}
            for metric, estimate in row.metrics.items():
                record |= {metric: estimate.mean, f"{metric} low": estimate.low, f"{metric} high": estimate.high}
            record |= {f"{name} ms": spent for name, spent in row.latency.items()}
            records.append(record | {"LLM calls": row.llm_calls})
        return optional_module("pandas", "pandas", "eval").DataFrame.from_records(records)

    def to_json(self, path: str | Path | None = None) -> str:
        """All rows as JSON, with null for NaN; also written to `path`, if given. InputError: it cannot be written."""
        body = {"ks": self.ks, "depth": self.depth, "seed": self.seed, "rows": self.rows}
        text = to_json(body, indent=1, inf_nan_mode="null").decode()
        if path is not None:
            with writing(path):
                Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def plot(self, path: str | Path | None = None, metric: str | None = None) -> Any:
        """A matplotlib figure with bars of one metric (None: nDCG at the largest of `ks`) and its intervals, by set and
        system; it is also written to `path`, if given."""
        from umi_common.evaluation.plots import plot_metric

        return plot_metric(self, f"ndcg@{max(self.ks)}" if metric is None else metric, path)

    def __repr__(self) -> str:
        return self.table()

    def _runs(self, system: str, set: str | None) -> list[Run]:
        """The runs of a system on one set; set None: on all sets. Raises ConfigError if there are none."""
        found = [run for run in self.runs if run.system == system and set in (None, run.set)]
        if not found:
            on = "any set" if set is None else repr(set)
            raise ConfigError(f"no result of {system!r} on {on}; systems: {self.systems}, sets: {self.sets}")
        return found

    def _score(self, run: Run) -> dict[str, Mapping[str, float]]:
        dataset = self.datasets[run.set, run.group]
        asked = {query: dataset.qrels[query] for query in run.ids}
        return {**score_rankings(asked, run.ids, self.metrics), **{name: getattr(run, name) for name in VECTOR_METRICS}}

    def _scored(self, run: Run, metric: str) -> Mapping[str, float]:
        return _measured(self._scores[run.system, run.set, run.group], metric)

    def _mean(self, pairs: Sequence[tuple[float, str]]) -> Estimate:
        return bootstrap_mean([value for value, _ in pairs], [group for _, group in pairs], seed=self.seed)

    def _row(self, system: str, name: str) -> Row:
        runs = self._runs(system, name)
        metrics: dict[str, Estimate] = {}
        for metric in (*self.metrics, *VECTOR_METRICS):
            pairs = [(value, run.group) for run in runs for value in self._scored(run, metric).values()]
            if any(not math.isnan(value) for value, _ in pairs):
                metrics[metric] = self._mean(pairs)
        times = [spent for run in runs for spent in run.milliseconds.values()]
        all_calls = [calls for run in runs for calls in run.llm_calls.values()]
        known = [calls for calls in all_calls if calls is not None]
        mean_calls = sum(known) / len(known) if known and known == all_calls else None
        degraded = sum((Counter(run.degraded) for run in runs), Counter[str]())
        return Row(system, name, metrics, latency(times), mean_calls, dict(degraded))


def _measured(results: Mapping[str, T], metric: str) -> T:
    if metric not in results:
        raise ConfigError(f"{metric!r} was not measured; there is {', '.join(results)}")
    return results[metric]


def _rank(run: Run, query: str, document: str) -> int | None:
    ids = list(run.ids.get(query, ()))
    return ids.index(document) + 1 if document in ids else None


Table = tuple[str, list[str], list[list[str]]]
"""(title, header, rows of cells)."""


def _as_text(tables: Sequence[Table]) -> str:
    blocks = []
    for title, header, body in tables:
        rows = [header, *body]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
        blocks.append("\n".join([title, *map("  ".join, lines)]))
    return "\n\n".join(blocks)


def _as_markdown(tables: Sequence[Table]) -> str:
    blocks = []
    for title, header, rows in tables:
        escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
        lines = ["| " + " | ".join(row) + " |" for row in (header, ["---"] + ["---:"] * (len(header) - 1), *escaped)]
        blocks.append(f"**{title}**\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


_RENDERERS = {"text": _as_text, "markdown": _as_markdown}

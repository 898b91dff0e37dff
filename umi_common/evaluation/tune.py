"""Search for the best configuration for some datasets, and measure it on data that is held out.

The datasets of one name are a set, and each of them is called a group of the set: ten conversations of one benchmark
are one set of ten groups. Of each set, some groups are held out, the others are for training; a set of one group is
divided by its queries.

Stores are built once for each analyzer, and texts are embedded once for each model. Every setting can be tuned, such as
BM25's k1 and b, the weights of `fusion` and `neighbours`, decay, routing and the analyzer. Of the settings of
`embedder`, only `model` changes results, and only if the argument `embedder` of `tune` is None.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, Literal

from umi_common.config import UmiConfig, check_settings
from umi_common.errors import ConfigError, optional_module, writing
from umi_common.evaluation.datasets import Dataset, by_set, judged_datasets
from umi_common.evaluation.metrics import parse_metric, score_rankings
from umi_common.evaluation.systems import EmbedderChoice, Stores, UmiSystem, open_system
from umi_common.explain import tables_to_html
from umi_common.progress import progress_bar
from umi_common.search.request import LIMIT_MAX

TRIALS = 30
"""Number of draws of random search if the caller gives no number."""


@dataclass(frozen=True, slots=True)
class Between:
    """A range from which random search draws uniformly: whole numbers if both ends and the setting's default are."""

    low: float
    high: float

    def __post_init__(self) -> None:
        numbers = all(isinstance(end, (int, float)) for end in (self.low, self.high))
        if not numbers or not self.low < self.high:
            raise ConfigError(f"Between({self.low!r}, {self.high!r}): expected two numbers, the low one first")


Space = Mapping[str, Sequence[Any] | Between]
"""Values to try, by "stage.field": {"lexical.k1": [0.9, 1.2, 1.5], "fusion.dense_weight": Between(0.2, 0.8)}."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration that was tried."""

    settings: Mapping[str, Any]
    """The settings that the trial changed, by "stage.field"."""
    score: float
    """Mean of the values of `by_set`."""
    by_set: Mapping[str, float]
    """By set: mean of the metric over the set's training queries."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of `tune`."""

    best: UmiConfig = field(repr=False)
    """The configuration with the highest score on the training groups."""
    settings: Mapping[str, Any]
    """Its settings from the search space, by "stage.field"; empty if it is the base configuration."""
    metric: str
    history: tuple[Trial, ...] = field(repr=False)
    """All trials in order; the first is the base configuration."""
    test_score: float
    """Score of `best` on the held-out groups."""
    baseline_test_score: float
    """Score of the base configuration on the held-out groups. If it is higher than `test_score`, keep the base."""
    space: Space = field(default_factory=dict, repr=False)
    """The search space, for `plot`."""

    def save(self, path: str | Path) -> None:
        """Write `best` to a TOML file that `UmiConfig.load` reads; see `write_toml`."""
        note = f"{self.metric} on held-out data: {self.test_score:.4f} (before tuning: {self.baseline_test_score:.4f})"
        write_toml(self.best, Path(path), note)

    def _repr_html_(self) -> str:
        title = f"{self.metric}, held out: {self.test_score:.4f} (before tuning: {self.baseline_test_score:.4f})"
        names = sorted({name for trial in self.history for name in trial.settings})
        ranked = sorted(self.history, key=lambda trial: -trial.score)
        rows = [[f"{trial.score:.4f}", *(str(trial.settings.get(name, "–")) for name in names)] for trial in ranked]
        return tables_to_html([(title, ["training", *names], rows)])

    def plot(self, path: str | Path | None = None) -> Any:
        """The scores as a matplotlib figure; see `plots.plot_tuning`."""
        from umi_common.evaluation.plots import plot_tuning

        return plot_tuning(self, path)


def tune(
    datasets: Dataset | Iterable[Dataset],
    space: Space,
    *,
    metric: str = "ndcg@10",
    method: Literal["grid", "random"] = "grid",
    trials: int | None = None,
    test_share: float = 0.3,
    patience: int | None = None,
    base: UmiConfig | None = None,
    rewriter: Any = None,
    embedder: EmbedderChoice = None,
    seed: int = 0,
    show_progress: bool = True,
) -> Tuning:
    """Try configurations on the training groups, and score the best one on the held-out groups.

    Args:
        datasets: One dataset or several, of one set or several.
        space: Values to try, by "stage.field".
        metric: The metric to maximise; see `metrics`.
        method: "grid": try every combination in order, at most `trials`; "random": try `trials` random draws.
        trials: Largest number of trials; None: the whole grid, or 30 draws. The base configuration is tried first and
            not counted.
        test_share: Share of each set's groups that is held out; for a set of one group, the share of its queries.
        patience: The search stops after this number of consecutive trials without a better score; None: it does not.
        base: The configuration that the trials change, and the baseline; None: the default configuration.
        rewriter: The LLM that rewrites queries; None: queries are not rewritten.
        embedder: As for `compare`. None: the model in the configuration, else the default.
        seed: Seed of the split and of the draws.
        show_progress: Whether to show a progress bar, on stderr or in the notebook.

    Raises:
        ConfigError: If an argument is wrong, or no query has a relevant document. Raised before the first search.
        MissingExtra: If ir-measures is not installed.
    """
    datasets = judged_datasets(datasets)
    check_settings(base)
    base = UmiConfig() if base is None else base
    _, cut = parse_metric(metric)
    if cut is not None and cut > LIMIT_MAX:
        raise ConfigError(f"{metric} needs {cut} hits; a search returns at most {LIMIT_MAX}")
    optional_module("ir_measures", "ir-measures", "eval")  # the metrics need it after the first search
    for name, number in (("trials", trials), ("patience", patience)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ConfigError(f"{name} is {number!r:.40}; expected a whole number above 0, or None")
    candidates = [(settings, with_settings(base, settings)) for settings in _candidates(space, method, trials, seed)]
    train, held_out = split_by_group(datasets, test_share=test_share, seed=seed)
    with Stores(embedder) as stores:
        trial = partial(_trial, rewriter=rewriter, stores=stores, metric=metric)
        best = trial({}, base, train)
        history, chosen = [best], base
        with progress_bar(iterable=candidates, desc="tuning", unit="trial", disable=not show_progress) as bar:
            for settings, config in bar:
                history.append(trial(settings, config, train))
                if history[-1].score > best.score:
                    best, chosen = history[-1], config
                bar.set_postfix(best=f"{best.score:.4f}", refresh=False)
                if patience is not None and len(history) - 1 - history.index(best) >= patience:
                    break
        test, before = (trial({}, config, held_out).score for config in (chosen, base))
    return Tuning(chosen, best.settings, metric, tuple(history), test, before, space)


def _trial(
    settings: Mapping[str, Any], config: UmiConfig, parts: Sequence[Dataset], rewriter: Any, stores: Stores, metric: str
) -> Trial:
    """Run the judged queries of the groups `parts` with a configuration; `settings` are only noted."""
    _, cut = parse_metric(metric)
    system = UmiSystem(config, rewriter=rewriter)
    means: dict[str, float] = {}
    for name, datasets in by_set(parts).items():
        values: list[float] = []
        for dataset in datasets:
            search = open_system("tuning", system, dataset, stores)
            ids = {query.id: search(query, LIMIT_MAX if cut is None else cut).ids for query in dataset.judged}
            values += score_rankings({id: dataset.qrels[id] for id in ids}, ids, [metric])[metric].values()
        means[name] = sum(values) / len(values)
    return Trial(dict(settings), sum(means.values()) / len(means), means)


def _candidates(space: Space, method: str, trials: int | None, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the settings of each trial in order; raises ConfigError if the space or the method is wrong."""
    if not isinstance(space, Mapping):
        raise ConfigError(f"space is {type(space).__name__}; expected choices by setting: {{'lexical.k1': [0.9, 1.2]}}")
    for name, choices in space.items():
        if not isinstance(name, str):
            raise ConfigError(f"{name!r} is no setting; expected stage.field, as in {{'lexical.k1': [0.9, 1.2]}}")
        if isinstance(choices, str) or not isinstance(choices, (Iterable, Between)):
            raise ConfigError(f"{name} is {choices!r:.40}; expected a list of choices, or Between(low, high)")
    lists = {name: list(choices) for name, choices in space.items() if not isinstance(choices, Between)}
    empty = [name for name, choices in lists.items() if not choices]
    if not space or empty:
        what = ", ".join(empty) or "the space is empty"
        raise ConfigError(f"nothing to choose from: {what}; give choices by setting: {{'lexical.k1': [0.9, 1.2]}}")
    if method == "grid":
        ranges = [name for name in space if name not in lists]
        if ranges:
            raise ConfigError(
                f"grid search needs lists, not Between, for {', '.join(ranges)}; replace each Between by a list of "
                "values, or use method='random'"
            )
        yield from (dict(zip(lists, values, strict=True)) for values in islice(product(*lists.values()), trials))
    elif method == "random":
        rng = random.Random(seed)
        for _ in range(TRIALS if trials is None else trials):
            yield {
                name: _drawn(name, choices, rng) if isinstance(choices, Between) else rng.choice(lists[name])
                for name, choices in space.items()
            }
    else:
        raise ConfigError(f"method {method!r}; expected 'grid' or 'random'")


def _drawn(name: str, between: Between, rng: random.Random) -> float:
    """A value for the setting `name`."""
    stage, _, field = name.partition(".")
    usual = getattr(getattr(UmiConfig(), stage, None), field, None)
    if type(usual) is type(between.low) is type(between.high) is int:
        return rng.randint(between.low, between.high)
    return rng.uniform(between.low, between.high)


def with_settings(config: UmiConfig, settings: Mapping[str, Any]) -> UmiConfig:
    """The configuration with some settings, by "stage.field", replaced; raises ConfigError if one is wrong."""
    stages: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        stage, dot, field = name.partition(".")
        if not dot or stage not in UmiConfig.model_fields:
            raise ConfigError(
                f"{name!r} is no setting; expected stage.field, with a stage of {', '.join(UmiConfig.model_fields)}"
            )
        stages.setdefault(stage, {})[field] = value
    return config.replaced(**stages)


def write_toml(config: UmiConfig, path: Path, note: str) -> None:
    """Write every setting that differs from its default to a TOML file, one table per stage, after the comment `note`.

    A setting that was changed to None raises ConfigError, because TOML has no null.
    """
    blocks = [f"# {note}"]
    defaults = UmiConfig()
    for stage in UmiConfig.model_fields:
        values, usual = getattr(config, stage).model_dump(), getattr(defaults, stage).model_dump()
        lines = [f"{field} = {_toml(stage, field, value)}" for field, value in values.items() if value != usual[field]]
        if lines:
            blocks.append("\n".join([f"[{stage}]", *lines]))
    with writing(path):
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def _toml(stage: str, field: str, value: Any) -> str:
    if value is None:
        raise ConfigError(f"{stage}.{field} is None, which TOML cannot express; set it in code")
    if isinstance(value, (frozenset, set)):
        value = sorted(value)
    # JSON of a string, boolean, finite number or list is also TOML, except that TOML requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def split_by_group(
    datasets: Iterable[Dataset], *, test_share: float = 0.3, seed: int = 0
) -> tuple[list[Dataset], list[Dataset]]:
    """(training datasets, held-out datasets), divided as the top of this file describes.

    `test_share` is the share of a set's groups (or queries) that is held out, above 0 and below 1; each part gets at
    least one. A set of one group with fewer than two judged queries raises ConfigError.
    """
    if not isinstance(test_share, (int, float)) or not 0.0 < test_share < 1.0:
        raise ConfigError(f"test_share {test_share!r:.40}; expected a share between 0 and 1")
    train, test = list[Dataset](), list[Dataset]()
    for name, parts in by_set(datasets).items():
        rng = random.Random(f"{seed}/{name}")  # so that a set's split does not depend on the other sets
        if len(parts) > 1:
            tuned, held = _divided(parts, test_share, rng)
        else:
            (group,) = parts
            if len(group.judged) < 2:
                raise ConfigError(
                    f"{name} has one group with {len(group.judged)} judged queries; to split it, expected at least two "
                    "queries or two groups"
                )
            sides = _divided(group.judged, test_share, rng)
            tuned, held = ([group.with_queries([query.id for query in side])] for side in sides)
        train += tuned
        test += held
    return train, test


def _divided(items: Sequence[Any], share: float, rng: random.Random) -> tuple[list[Any], list[Any]]:
    """Draw `share` of the items at random; returns (items not drawn, items drawn), both in order and not empty."""
    count = min(max(1, round(share * len(items))), len(items) - 1)
    drawn = set(rng.sample(range(len(items)), count))
    return [item for at, item in enumerate(items) if at not in drawn], [items[at] for at in sorted(drawn)]

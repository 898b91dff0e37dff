"""The commands `umi demo`, `eval` and `tune`."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umi_common.cli.options import ConfigOption, JsonOption, print_json
from umi_common.cli.search import as_data
from umi_common.config import UmiConfig
from umi_common.errors import ConfigError
from umi_common.explain import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umi_common.evaluation.compare import Failure
    from umi_common.evaluation.significance import Difference

QuestionOption = Annotated[str | None, typer.Option("--question", "-q", help="Asked instead of the demo's questions.")]
DirectoryOption = Annotated[Path, typer.Option("--directory", "-d", help="Folder for the demo's index.")]
FolderArgument = Annotated[
    Path, typer.Argument(help="A BEIR folder, a folder of conversations, or LongMemEval haystacks.")
]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="File for a picture of the result (PNG, SVG or PDF).")]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume", help="File for finished runs; runs that it holds are not repeated.")
]
ConfigsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="File with settings (TOML); variables UMI_* override it. If given several times, the files are compared.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="File for the best settings (TOML).")]
TrialsOption = Annotated[int, typer.Option("--trials", min=1, help="Number of combinations of settings to try.")]

TUNED = {
    "lexical.k1": (0.9, 1.2, 1.5, 1.8),
    "lexical.b": (0.5, 0.75, 0.9),
    "fusion.lexical_weight": (0.3, 0.45, 0.6, 0.75),
    "neighbours.previous": (0.0, 0.3, 0.6, 0.9),
    "neighbours.source": (0.0, 0.25, 0.5, 0.75),
}
"""Setting -> the values that `umi tune` tries. For other settings and values there is `umi_common.evaluation.tune`."""
MISSES_SHOWN = 10
"""Largest number of misses that `umi eval` lists. A miss is a relevant document outside the first ten hits."""

DECISIVE = "ndcg@10"
"""Metric of the difference between configurations that `umi eval` prints."""


def demo(
    question: QuestionOption = None, directory: DirectoryOption = Path(".umi-demo"), json: JsonOption = False
) -> None:
    """Index the Python standard library's docs, ask through LangChain and LlamaIndex, and explain the hits."""
    from rich.console import Console

    from umi_common.demo.run import run

    results = run(directory, question, Console(quiet=json))
    if json:
        print_json({"store": str(directory), "answers": [as_data(result) for result in results]})


def evaluate(
    folder: FolderArgument,
    config: ConfigsOption = None,
    json: JsonOption = False,
    plot: PlotOption = None,
    resume: ResumeOption = None,
) -> None:
    """Measure umi, and each of its arms alone, on a collection of questions with known answers. Or measure several
    configurations, and print how each differs from the first."""
    from umi_common.evaluation import arm, compare, load_folder

    _check_outputs(plot, resume)
    files: list[Path | None] = [*dict.fromkeys(config or [])] or [None]
    configs = {"umi" if len(files) == 1 else str(file): UmiConfig.load(file) for file in files}
    arms = {"lexical arm": arm("lexical"), "dense arm": arm("dense")} if len(configs) == 1 else {}
    models = {settings.embedder.model for settings in configs.values()}
    comparison = compare(
        {**configs, **arms},
        load_folder(folder),
        embedder=models.pop() if len(models) == 1 else None,  # None: each system's own
        resume=resume,
        show_progress=not json and sys.stderr.isatty(),
    )
    first, *others = configs
    differences = comparison.versus(first, DECISIVE) if others else {}  # the arms are not compared
    misses = comparison.failures(first, k=10)
    if json:
        print_json(json_format.loads(comparison.to_json()) | _further_data(differences, misses))
    else:
        typer.echo(str(comparison))
        _print_differences(first, differences)
        _print_misses(misses)
    if plot is not None:
        comparison.plot(plot)


def _further_data(differences: Mapping[str, Difference], misses: Sequence[Failure]) -> dict[str, Any]:
    """What --json prints beside the rows: the differences from the first configuration, and all that it misses."""
    return {
        "differences": {name: {"metric": DECISIVE, **asdict(each)} for name, each in differences.items()},
        "misses": [
            {"id": each.id, "query": each.query.text, "rank": each.rank, "elsewhere": dict(each.elsewhere)}
            for each in misses
        ],
    }


def _print_differences(first: str, differences: Mapping[str, Difference]) -> None:
    for name, each in differences.items():
        typer.echo(
            f"{name} against {first}: {DECISIVE} {each.mean:+.3f}, {each.better} queries better and {each.worse} worse "
            f"of {each.queries}, p = {each.p_value:.3f}"
        )


def _print_misses(misses: Sequence[Failure]) -> None:
    for miss in misses[:MISSES_SHOWN]:
        others = ", ".join(f"{name}: {rank or '-'}" for name, rank in miss.elsewhere.items())
        line = f"not in the first 10: {miss.id} for {miss.query.text!r} (rank {miss.rank or '-'}; {others})"
        typer.echo(one_line(line))
    if len(misses) > MISSES_SHOWN:
        typer.echo(f"and {len(misses) - MISSES_SHOWN} more; --json has every rank")


def tune(
    folder: FolderArgument,
    out: OutOption = Path("umi.toml"),
    config: ConfigOption = None,
    trials: TrialsOption = 40,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Try settings on one part of a collection, measure the best on the rest, and write them to a file for --config."""
    from umi_common import evaluation

    _check_outputs(out, plot)
    data, base = evaluation.load_folder(folder), UmiConfig.load(config)
    shown = not json and sys.stderr.isatty()
    tuning = evaluation.tune(data, TUNED, method="random", trials=trials, base=base, show_progress=shown)
    tuning.save(out)
    best, before, after = dict(tuning.settings), tuning.baseline_test_score, tuning.test_score
    if json:
        print_json({"metric": tuning.metric, "settings": best, "before": before, "after": after, "written": str(out)})
    else:
        typer.echo(f"best: {best or 'the settings you had'}")
        typer.echo(f"{tuning.metric} on the held-out part: {before:.4f} -> {after:.4f}")
        typer.echo(f"written to {out}; use it with --config {out} or UmiConfig.load({str(out)!r})")
    if plot is not None:
        tuning.plot(plot)


def _check_outputs(*files: Path | None) -> None:
    """Raise ConfigError if a file to be written is a folder, or is in no folder. Called before a long run begins."""
    for file in filter(None, files):
        if file.is_dir():
            raise ConfigError(f"{file} is a folder; name a file in it")
        if not file.parent.is_dir():
            raise ConfigError(f"{file.parent} is no folder; create it, or name another file than {file.name}")

"""Does umi find it? Every dev set, umi beside its own arms and both frameworks' hybrids; offline, no LLM.

    python benchmarks/quality.py [--data DIR] [--sets locomo,scifact] [--embedder bars|default|minilm|both]
                                 [--systems umi,arms,frameworks] [--no-rewrites] [--no-relevance]
                                 [--json FILE] [--keep FILE]

Prints a table a set and then every bar with pass or FAIL. The exit status is 1 if a bar fails and --strict is given.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from quality_answering import plot_reliability
from quality_bars import DENSE, LEXICAL, NO_ADAPTIVE, NO_NEIGHBOURS, NO_WHEN, UMI, all_bars
from quality_peers import PACKAGES, importable_peers
from quality_relevance import measure
from quality_sets import (
    DEFAULT,
    LOADERS,
    MINILM,
    POSITIONED,
    STANDARD,
    Collection,
    load_collection,
    recorded_rewriter,
    shuffled,
)

from umi_common import UmiConfig
from umi_common.evaluation import SystemComparison, UmiSystem, arm, compare, holm, paired_randomisation
from umi_common.evaluation.plots import plot_llm_calls
from umi_common.evaluation.systems import System

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
COLUMNS = ("ndcg@10", "recall@10", "recall@5", "mrr@10", "mrr@100")
"""Those that were measured are shown."""
LIST_LENGTH = 100
"""Hits over which published MRRs of these sets are taken."""
KINDS = ("umi", "arms", "frameworks")
OFF = {"enabled": False}
REWRITES_CAVEAT = (
    "Recorded rewrites: made once by a large model that may have seen this public benchmark; hints at answers were "
    "reworded, faint traces may remain."
)


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; 1 if a bar failed under --strict, else 0."""
    options = _options(arguments)
    started = time.perf_counter()
    if not options.data.is_dir():
        print(f"quality: the evaluation data is not there ({options.data}); nothing measured")
        return 0
    results: dict[str, SystemComparison] = {}
    for title, comparison in _runs(options):
        results[title] = comparison
        columns = [metric for metric in COLUMNS if metric in comparison.metrics]
        print(f"\n{comparison.table(metrics=columns)}", flush=True)
        if UMI in comparison.systems and len(comparison.systems) > 1:
            print(_differences(comparison))
        if title.startswith("longmemeval_s/"):
            print(_by_type(comparison))
    passed = _relevance(options) if options.relevance else True
    bars = all_bars(results)
    print("\n" + "\n".join(str(bar) for bar in bars))
    failed = sum(not bar.passed for bar in bars)
    print(f"\n{len(bars) - failed} of {len(bars)} bars reached in {time.perf_counter() - started:.0f} s")
    if options.json is not None:
        body = {title: json.loads(comparison.to_json()) for title, comparison in results.items()}
        verdicts = [{"bar": str(bar), "passed": bar.passed} for bar in bars]
        options.json.write_text(json.dumps({"results": body, "bars": verdicts}, indent=1) + "\n", encoding="utf-8")
    return 1 if (failed or not passed) and options.strict else 0


def umi_systems() -> dict[str, System]:
    """The default, and the default without one of its ideas."""
    config = UmiConfig()
    return {
        UMI: config,
        NO_NEIGHBOURS: config.replaced(neighbours=OFF),
        NO_ADAPTIVE: config.replaced(fusion={"adaptive": False}),
    }


def deep_systems(rewriter: Any) -> dict[str, System]:
    """Every mode, and the evidence gate from shut to open: the curve of LLM calls against what they bring."""

    def asked(**routing: Any) -> UmiSystem:
        return UmiSystem(UmiConfig().replaced(routing=routing), rewriter)

    modes = {f"deep: {mode}": asked(mode=mode) for mode in ("never", "always", "heuristic")}
    curve = {
        f"deep: weakness {at}": asked(mode="evidence", weakness=at) for at in (0.8, 0.75, 0.7, 0.64, 0.6, 0.5, 0.4)
    }
    return {**modes, "deep: default gate": UmiSystem(UmiConfig(), rewriter), **curve}


def _runs(options: argparse.Namespace) -> Iterator[tuple[str, SystemComparison]]:
    peers = importable_peers() if "frameworks" in options.systems else {}
    for name in () if "frameworks" not in options.systems else PACKAGES.keys() - peers.keys():
        print(f"quality: {name} is left out; it needs {', '.join(PACKAGES[name])}")
    for name in options.sets:
        for encoder in _encoders(name, options.embedder):
            collection = load_collection(options.data, name, encoder)
            if collection is None:
                print(f"quality: no data for {name} with {encoder}; left out")
                continue
            yield collection.title, _compare(collection, _systems(name, options.systems, peers), options)
            if "umi" in options.systems:
                yield from _umi_alone(collection, options)


def _relevance(options: argparse.Namespace) -> bool:
    """Print what relevance knows, by encoder; whether its bars are reached."""
    hits: list[tuple[float, float]] = []
    texts: list[str] = []
    for encoder in (DEFAULT, MINILM) if options.embedder in ("bars", "both") else (options.embedder,):
        loaded = [load_collection(options.data, name, encoder) for name in options.sets]
        text, of_encoder = measure([collection for collection in loaded if collection is not None])
        print(f"\n{text}", flush=True)
        texts.append(text)
        hits += of_encoder
    if options.reliability is not None and hits:
        plot_reliability(*zip(*hits, strict=True), options.reliability)
    return not any(line.startswith("FAIL") for text in texts for line in text.splitlines())


def _umi_alone(collection: Collection, options: argparse.Namespace) -> Iterator[tuple[str, SystemComparison]]:
    systems = umi_systems()
    if collection.name == "locomo":
        whole = collection.called("first 100")
        yield whole.title, _compare(whole, {UMI: systems[UMI]}, options, ks=(10, LIST_LENGTH))
    if collection.name in POSITIONED:
        pair = {name: systems[name] for name in (UMI, NO_NEIGHBOURS)}
        for across_sources in (False, True):
            mixed = shuffled(collection, across_sources=across_sources)
            yield mixed.title, _compare(mixed, pair, options)
    rewriter = recorded_rewriter(options.data, collection.name) if collection.encoder == DEFAULT else None
    if rewriter is not None and options.rewrites:
        deep = collection.called("deep")
        print(f"\n{REWRITES_CAVEAT}")
        comparison = _compare(deep, deep_systems(rewriter), options)
        if options.curve is not None:
            plot_llm_calls(comparison, "recall@10", options.curve)
        yield deep.title, comparison


def _compare(
    collection: Collection, systems: dict[str, System], options: argparse.Namespace, ks: tuple[int, ...] = (5, 10)
) -> SystemComparison:
    def run(chosen: dict[str, System], keep: Path | None) -> SystemComparison:
        return compare(
            chosen,
            collection.datasets,
            ks=ks,
            embedder=collection.embedder,
            resume=keep,
            show_progress=sys.stderr.isatty(),
        )

    peers = {name: system for name, system in systems.items() if name in PACKAGES}
    own = {name: system for name, system in systems.items() if name not in PACKAGES}
    parts = [run(chosen, keep) for chosen, keep in ((own, None), (peers, options.keep)) if chosen]
    runs = [found for part in parts for found in part.runs]
    return SystemComparison(runs, collection.datasets, ks=ks, depth=max(ks))


def _systems(name: str, kinds: list[str], peers: dict[str, Callable[..., Any]]) -> dict[str, System]:
    systems: dict[str, System] = umi_systems() if "umi" in kinds else {}
    if "umi" in kinds and name == "longmemeval_s":
        systems[NO_WHEN] = UmiConfig().replaced(when=OFF)
    if "arms" in kinds:
        systems |= {LEXICAL: arm("lexical"), DENSE: arm("dense")}
    return {**systems, **peers}


def _encoders(name: str, choice: str) -> tuple[str, ...]:
    if choice == "both" or (choice == "bars" and name == "locomo"):
        return (DEFAULT, MINILM)
    return (MINILM,) if choice == "bars" else (choice,)


def _differences(comparison: SystemComparison) -> str:
    """umi minus each other system, with the p value of the paired test, corrected for their number."""
    ours = comparison.values(UMI, "ndcg@10")
    others = [other for other in comparison.systems if other != UMI]
    found = {other: paired_randomisation(ours, comparison.values(other, "ndcg@10")) for other in others}
    corrected = holm({other: difference.p_value for other, difference in found.items()})
    parts = [f"{other} {difference.mean:+.3f} (p {corrected[other]:.4f})" for other, difference in found.items()]
    return "umi minus, nDCG@10: " + "  ".join(parts)


def _by_type(comparison: SystemComparison) -> str:
    lines = ["nDCG@10 / R@10 by question type"]
    for system in (name for name in (UMI, NO_WHEN, NO_NEIGHBOURS) if name in comparison.systems):
        ndcg, recall = (comparison.by_category(system, metric) for metric in ("ndcg@10", "recall@10"))
        kinds = "  ".join(
            f"{kind} {ndcg[kind].mean:.3f}/{recall[kind].mean:.3f} ({ndcg[kind].queries})" for kind in ndcg
        )
        lines.append(f"{system}: {kinds}")
    return "\n".join(lines)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the collections")
    parser.add_argument("--sets", type=_names(LOADERS), default=list(STANDARD), help="comma-separated")
    parser.add_argument(
        "--embedder", choices=("bars", DEFAULT, MINILM, "both"), default="bars", help="bars: what they need"
    )
    parser.add_argument("--systems", type=_names(KINDS), default=list(KINDS), help="comma-separated")
    parser.add_argument("--rewrites", action=argparse.BooleanOptionalAction, default=True, help="deep search on LoCoMo")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--curve", type=Path, help="draw LLM calls against R@10 there (PNG, SVG or PDF)")
    parser.add_argument("--keep", type=Path, help="keep the frameworks' runs there; umi and its arms always run anew")
    parser.add_argument("--relevance", action=argparse.BooleanOptionalAction, default=True, help="is an answer there")
    parser.add_argument("--reliability", type=Path, help="draw stated against found relevance there (PNG, SVG or PDF)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar fails")
    return parser.parse_args(arguments)


def _names(known: Any) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{unknown or text!r}; expected some of {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())

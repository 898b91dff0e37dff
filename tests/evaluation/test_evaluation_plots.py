from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from evaluation_toys import by_words, toy

from umi_common import UmiConfig
from umi_common.errors import ConfigError, InputError, MissingExtra
from umi_common.evaluation import Answer, Between, Trial, Tuning, compare
from umi_common.evaluation.plots import plot_decay, plot_latency, plot_llm_calls, plot_precision_recall, plot_score_flow
from umi_common.types import Chunk, Hit, SearchResult, Signal

PNG = b"\x89PNG"


@pytest.fixture
def comparison(letters):
    datasets = [toy("one"), toy("two"), toy("x", name="other")]
    systems = {"words": by_words, "asks": lambda dataset: lambda query, k: Answer(("b", "d"), llm_calls=1)}
    return compare(systems, datasets, embedder=letters, show_progress=False)


def tuning(**space):
    trials = [
        Trial({"lexical.k1": k1, "lexical.b": b}, k1 * b / 4, {"toy": 0.5}) for k1 in (1.0, 2.0) for b in (0.5, 0.75)
    ]
    return Tuning(
        UmiConfig(),
        trials[-1].settings,
        "ndcg@10",
        (Trial({}, 0.3, {"toy": 0.3}), *trials),
        0.4,
        0.3,
        space={"lexical.k1": [1.0, 2.0], "lexical.b": [0.5, 0.75], **space},
    )


def test_bars_stand_at_the_means_with_their_intervals(comparison, tmp_path):
    figure = comparison.plot(tmp_path / "out.png", "mrr@10")
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)
    heights = [[patch.get_height() for patch in bars] for bars in figure.axes[0].containers if hasattr(bars, "patches")]
    assert heights == [
        [comparison.value(system, "mrr@10", name) for name in comparison.sets] for system in comparison.systems
    ]
    assert figure.axes[0].get_ylabel() == "mrr@10 (0..1)"


def test_a_metric_that_only_some_sets_have_is_refused(letters):
    def answers(dataset):
        ids = ("b", "d") if dataset.name == "toy" else ("b",)  # one hit has no diversity
        return lambda query, k: Answer(ids)

    datasets = [toy("one"), toy("x", name="other")]
    comparison = compare({"fixed": answers}, datasets, embedder=letters, show_progress=False)
    assert comparison.value("fixed", "diversity", "toy") > 0
    with pytest.raises(ConfigError, match="'diversity' was not measured"):
        comparison.plot(metric="diversity")


def test_the_curve_has_a_point_a_cut_off(comparison):
    figure = plot_precision_recall(comparison, "toy")
    recall, precision = figure.axes[0].lines[0].get_data()
    assert len(recall) == comparison.depth
    # words: q1 finds a (of 2) first, q2 finds c first
    assert (recall[0], precision[0]) == (pytest.approx(0.25), pytest.approx(0.5))
    assert list(recall) == sorted(recall)


def test_latency_is_in_milliseconds(comparison):
    assert "milliseconds" in plot_latency(comparison).axes[0].get_xlabel()


def test_the_plot_of_llm_calls_shows_only_systems_that_state_them(comparison):
    figure = plot_llm_calls(comparison)
    assert figure.axes[0].get_legend_handles_labels()[1] == ["asks"]
    assert figure.axes[0].get_xlabel() == "LLM calls a query"


def test_two_settings_make_a_map_and_more_make_a_plot_each():
    assert tuning().plot().axes[0].images[0].get_array().tolist() == [[0.125, 0.25], [0.1875, 0.375]]
    spans = replace(tuning(), space={"lexical.k1": Between(0.5, 2.5), "lexical.b": [0.5, 0.75]})
    assert [axes.get_xlabel() for axes in spans.plot().axes] == ["lexical.k1", "lexical.b"]
    with pytest.raises(ConfigError, match="space"):
        replace(tuning(), space={}).plot()


def flowing(*ways):
    """Hits with (BM25, fused, after neighbours)."""
    hits = [
        Hit(
            Chunk(f"c{n}", "t"),
            last,
            n,
            signals=(Signal("lexical", 0, n, words),),
            stages={"fused": fused, "after": last},
        )
        for n, (words, fused, last) in enumerate(ways, 1)
    ]
    return SearchResult(tuple(hits), "q")


def test_the_flow_of_scores_is_a_line_a_hit_through_arms_and_stages():
    axes = plot_score_flow(flowing((4.0, 0.2, 0.9), (8.0, 0.8, 0.45))).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["lexical", "fused", "after"]
    # of the best at each station: 4/8, 0.2/0.8, 0.9/0.9; and 8/8, 0.8/0.8, 0.45/0.9
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.5, 0.25, 1.0], [1.0, 1.0, 0.5]]
    assert [name.get_text() for name in axes.texts] == ["1  c1", "2  c2"]


def test_names_of_hits_with_equal_scores_stand_apart():
    axes = plot_score_flow(flowing(*[(1.0, 1.0, 0.0)] * 9)).axes[0]
    heights = [name.xyann[1] for name in axes.texts]
    assert len(heights) == 6  # more are a tangle
    assert all(above - below > 0.06 for above, below in pairwise(heights))
    assert min(heights) == 0.0


@pytest.mark.parametrize("hours", [[24 * 7, 24 * 30], np.array([24 * 7, 24 * 30])])
def test_a_decay_curve_is_halfway_to_the_floor_at_its_half_life(hours):
    (week, month, floor) = plot_decay(hours, floor=0.4).axes[0].lines
    days, factors = week.get_data()
    assert np.interp(7.0, days, factors) == pytest.approx(0.7, abs=1e-3)
    assert np.interp(30.0, *month.get_data()) == pytest.approx(0.7, abs=1e-3)
    assert set(floor.get_ydata()) == {0.4}
    assert week.axes.get_xlabel() == "age (days)"


def test_a_plot_of_nothing_is_an_input_error():
    with pytest.raises(InputError, match="no hits"):
        plot_score_flow(SearchResult((), "q"))
    with pytest.raises(InputError, match="half-life"):
        plot_decay([])
    for half_lives in (24, "24", ["day"]):
        with pytest.raises(InputError, match=r"expected hours, for example \[24 \* 7, 24 \* 30\]"):
            plot_decay(half_lives)


def test_a_figure_shows_itself_in_a_notebook_and_leaves_pyplot_alone(comparison):
    figure = comparison.plot()
    assert figure._repr_png_().startswith(PNG)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_an_unknown_metric_or_set_is_named(comparison):
    with pytest.raises(ConfigError, match="there is recall@5"):
        comparison.plot(metric="ndcg@3")
    with pytest.raises(ConfigError, match="sets:"):
        plot_precision_recall(comparison, "absent")


def test_without_matplotlib_the_pip_line_is_named(comparison, monkeypatch):
    monkeypatch.delitem(sys.modules, "umi_common.evaluation._figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'umi-retrieval\[eval\]'"):
        comparison.plot()


def test_without_ir_measures_the_pip_line_is_named(monkeypatch, letters):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match=r"pip install 'umi-retrieval\[eval\]'"):
        compare({"words": by_words}, toy(), embedder=letters, show_progress=False)


def test_a_notebook_shows_a_tuning_best_first_beside_the_score_before_it():
    shown = tuning()._repr_html_()
    assert "ndcg@10, held out: 0.4000 (before tuning: 0.3000)" in shown
    assert shown.index("<td>0.3750</td>") < shown.index("<td>0.3000</td><td>–</td><td>–</td>")


def test_a_file_in_a_folder_that_does_not_exist_is_refused_by_all_that_write_one(comparison, tmp_path):
    results = SearchResult((), "q").explain, comparison.to_json, comparison.plot, tuning().save, tuning().plot
    for write in results:
        with pytest.raises(InputError, match=r"cannot write .*x\.svg: there is no folder .*missing; create it"):
            write(tmp_path / "missing" / "x.svg")
    with pytest.raises(InputError, match=r"cannot write .*: Is a directory; name another file"):
        comparison.to_json(tmp_path)

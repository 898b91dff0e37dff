from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from evaluation_toys import toy

from umi_common import Chunk, UmiConfig
from umi_common.errors import ConfigError, MissingExtra
from umi_common.evaluation import Between, Dataset, Query, compare, tune
from umi_common.evaluation.tune import _candidates, split_by_group, with_settings, write_toml
from umi_common.sim import HashEmbedder

GROUPS = [toy(f"g{i}") for i in range(10)]


def groups(datasets):
    return [dataset.group for dataset in datasets]


def test_no_group_is_on_both_sides_and_none_is_lost():
    train, test = split_by_group(GROUPS, test_share=0.3)
    assert (len(train), len(test)) == (7, 3)
    assert sorted(groups(train) + groups(test)) == groups(GROUPS)


def test_a_small_share_holds_out_one_group():
    assert len(split_by_group(GROUPS, test_share=0.01)[1]) == 1


def test_the_seed_decides_the_split():
    assert groups(split_by_group(GROUPS, seed=1)[1]) == groups(split_by_group(GROUPS, seed=1)[1])
    assert len({tuple(groups(split_by_group(GROUPS, seed=seed)[1])) for seed in range(5)}) > 1


def test_a_set_of_one_group_is_split_by_query():
    train, test = split_by_group([toy()], test_share=0.5)
    assert [len(part.queries) for part in (*train, *test)] == [1, 1]
    assert train[0].chunks is test[0].chunks  # so one store serves both


def test_each_set_is_split_by_itself():
    _, alone = split_by_group(GROUPS, seed=4)
    _, beside = split_by_group([toy("x", name="other"), *GROUPS], seed=4)
    assert groups(alone) == [dataset.group for dataset in beside if dataset.name == "toy"]


@pytest.mark.parametrize("share", [0.0, 1.0, -1, "0.3", None])
def test_both_sides_of_a_split_need_a_share(share):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split_by_group(GROUPS, test_share=share)


def test_a_grid_is_every_combination_in_order():
    space = {"lexical.k1": [1.0, 2.0], "lexical.b": [0.5, 0.75]}
    assert [tuple(settings.values()) for settings in _candidates(space, "grid", None, 0)] == [
        (1.0, 0.5),
        (1.0, 0.75),
        (2.0, 0.5),
        (2.0, 0.75),
    ]
    assert len(list(_candidates(space, "grid", 3, 0))) == 3


def test_random_draws_are_seeded_and_stay_inside():
    space = {"lexical.k1": Between(1.0, 2.0), "fusion.method": ["rrf", "convex"]}
    draws = list(_candidates(space, "random", 20, 7))
    assert draws == list(_candidates(space, "random", 20, 7)) != list(_candidates(space, "random", 20, 8))
    assert all(1.0 <= settings["lexical.k1"] <= 2.0 for settings in draws)
    assert len(list(_candidates(space, "random", None, 7))) == 30


def test_random_draws_of_a_setting_that_is_a_whole_number_are_whole_and_reach_both_ends():
    draws = list(_candidates({"rerank.pool": Between(20, 22), "lexical.k1": Between(1, 2)}, "random", 60, 7))
    assert {settings["rerank.pool"] for settings in draws} == {20, 21, 22}
    assert len({settings["lexical.k1"] for settings in draws}) == 60
    tuning = tune(GROUPS, {"rerank.pool": Between(20, 80)}, method="random", trials=2, show_progress=False)
    assert len(tuning.history) == 3


def test_a_metric_that_needs_more_hits_than_a_search_returns_is_refused_before_anything_is_searched():
    with pytest.raises(ConfigError, match="recall@200 needs 200 hits; a search returns at most 100"):
        tune(GROUPS, {"lexical.k1": [1.0]}, metric="recall@200", embedder=pytest.fail, show_progress=False)


def test_a_metric_of_the_whole_list_can_be_tuned():
    tuning = tune(GROUPS, {"lexical.k1": [1.0]}, metric="map", show_progress=False)
    assert tuning.history[0].score == compare({"umi": UmiConfig()}, GROUPS, show_progress=False).value("umi", "map@10")


def test_a_base_that_is_no_configuration_is_refused():
    with pytest.raises(ConfigError, match="config is dict; expected UmiConfig"):
        tune(GROUPS, {"lexical.k1": [1.0]}, base={"lexical": {"k1": 1.0}}, show_progress=False)


def test_without_ir_measures_nothing_is_searched(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match="ir-measures"):
        tune(GROUPS, {"lexical.k1": [1.0]}, embedder=pytest.fail, show_progress=False)


@pytest.mark.parametrize(
    ("space", "method", "complaint"),
    [
        ({}, "grid", "the space is empty"),
        (["lexical.k1"], "grid", "space is list; expected choices by setting"),
        ({"lexical.k1": 1.0}, "grid", "lexical.k1 is 1.0; expected a list of choices, or Between"),
        ({"fusion.method": "rrf"}, "random", "fusion.method is 'rrf'; expected a list of choices"),
        ({"lexical.k1": []}, "grid", "nothing to choose from: lexical.k1"),
        ({"lexical.k1": Between(0, 1)}, "grid", "grid search needs lists"),
        ({"lexical.k1": [1.0]}, "bayes", "expected 'grid' or 'random'"),
        ({"k1": [1.0]}, "grid", "expected stage.field"),
        ({"bm25.k1": [1.0]}, "grid", "expected stage.field"),
        ({"lexical.k9": [1.0]}, "grid", "k9"),
        ({"lexical.b": [1.5]}, "grid", "lexical.b"),
        ({5: [1.0]}, "grid", "5 is no setting; expected stage.field"),
        ({5: Between(0, 1)}, "random", "5 is no setting; expected stage.field"),
    ],
)
def test_a_wrong_space_is_refused_before_anything_is_searched(space, method, complaint):
    with pytest.raises(ConfigError, match=complaint):
        tune(GROUPS, space, method=method, show_progress=False)


@pytest.mark.parametrize("method", ["grid", "random"])
@pytest.mark.parametrize("limit", [{"trials": -1}, {"trials": 0}, {"trials": 1.5}, {"patience": 0}, {"patience": "3"}])
def test_a_search_without_a_trial_is_refused(method, limit):
    ((name, number),) = limit.items()
    with pytest.raises(ConfigError, match=f"{name} is {number!r}; expected a whole number above 0"):
        tune(GROUPS, {"lexical.k1": [1.0]}, method=method, show_progress=False, **limit)


def test_questions_without_known_answers_are_refused_as_compare_refuses_them():
    unjudged = [replace(each, qrels={}) for each in GROUPS[:2]]
    for measure in (lambda: tune(unjudged, {"decay.floor": [0.1]}), lambda: compare({"umi": UmiConfig()}, unjudged)):
        with pytest.raises(ConfigError, match="no query of the datasets has a relevant document"):
            measure()


def test_a_between_is_two_numbers_the_low_one_first():
    with pytest.raises(ConfigError, match="the low one first"):
        Between(2.0, 1.0)
    with pytest.raises(ConfigError, match=r"Between\('a', 1\): expected two numbers"):
        Between("a", 1)


def test_changed_settings_keep_the_rest():
    config = with_settings(UmiConfig(), {"lexical.k1": 2.0, "fusion.method": "rrf"})
    assert (config.lexical.k1, config.fusion.method) == (2.0, "rrf")
    assert config.replaced(lexical={"k1": UmiConfig().lexical.k1}, fusion={"method": "convex"}) == UmiConfig()


def test_a_written_file_loads_as_the_same_configuration(tmp_path):
    config = UmiConfig().replaced(
        lexical={"k1": 0.9, "variant": "plus"},
        neighbours={"enabled": False},
        decay={"half_life_hours": 12.5},
        analyzer={"stop_words": frozenset({"the", 'quo"te', "tab\t"})},
        rewrite={"template": 'Say "{query}"\nagain \\ and \x7f ünïcode'},
        recall={"depth": 50},
    )
    write_toml(config, tmp_path / "umi.toml", "a note")
    assert UmiConfig.load(tmp_path / "umi.toml") == config


def test_a_default_configuration_writes_no_table(tmp_path):
    write_toml(UmiConfig(), tmp_path / "umi.toml", "a note")
    assert (tmp_path / "umi.toml").read_text() == "# a note\n"


def test_the_language_of_a_collection_can_be_tuned():
    plurals = {
        "haus": "Häuser",
        "baum": "Bäume",
        "wort": "Wörter",
        "buch": "Bücher",
        "land": "Länder",
        "bild": "Bilder",
    }
    chunks = tuple(Chunk(stem, f"Zeile: die {plural} sind hier und dort") for stem, plural in plurals.items())
    judged = {stem: {stem: 1} for stem in plurals}
    german = Dataset("german", "german", chunks, tuple(Query(id=stem, text=stem) for stem in plurals), judged)
    tuning = tune(
        german,
        {"analyzer.language": ["german"]},
        metric="ndcg@1",
        base=UmiConfig(analyzer={"language": "english"}),
        embedder=HashEmbedder(),
        show_progress=False,
    )
    assert tuning.settings == {"analyzer.language": "german"}
    assert tuning.test_score == 1.0 > tuning.baseline_test_score


def test_a_tuning_prints_on_a_line_what_it_chose_and_whether_that_is_better():
    space = {"lexical.b": [0.1, 0.9]}
    tuning = tune(
        [toy("one"), toy("two")], space, metric="mrr@5", embedder=lambda dataset: HashEmbedder(16), show_progress=False
    )
    said = repr(tuning)
    assert said.startswith(f"Tuning(settings={tuning.settings!r}, metric='mrr@5', test_score={tuning.test_score!r}")
    assert f"baseline_test_score={tuning.baseline_test_score!r}" in said and len(said) < 200

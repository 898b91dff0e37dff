"""Settings: from code, file and environment; live changes; errors that name the field."""

from __future__ import annotations

import pytest

from umi_common.config import AnalyzerConfig, FusionConfig, RewriteConfig, UmiConfig
from umi_common.errors import ConfigError, ReindexRequired


def test_code_beats_nothing_file_beats_code_and_environment_beats_the_file(tmp_path, monkeypatch):
    file = tmp_path / "umi.toml"
    file.write_text('[fusion]\nmethod = "rrf"\nrrf_k = 30\n[mmr]\nenabled = true\n')
    assert UmiConfig.load(file).fusion == FusionConfig(method="rrf", rrf_k=30)
    monkeypatch.setenv("UMI_FUSION__RRF_K", "17.5")
    monkeypatch.setenv("UMI_LEXICAL__K1", "0.9")
    loaded = UmiConfig.load(file)
    assert (loaded.fusion.rrf_k, loaded.fusion.method, loaded.lexical.k1, loaded.mmr.enabled) == (
        17.5,
        "rrf",
        0.9,
        True,
    )


def test_without_file_and_environment_the_defaults_hold():
    assert UmiConfig.load() == UmiConfig()


@pytest.mark.parametrize(
    "text, named",
    [
        ("[fusion]\nmethod = 'magic'", "fusion.method"),
        ("[fushion]\nmethod = 'rrf'", "fushion"),
        ("[lexical]\nb = 1.5", "lexical.b"),
        ("[lexical]\nk1 = nan", "lexical.k1"),
        ("[lexical", "TOML"),
    ],
)
def test_a_wrong_file_is_refused_naming_the_file_and_the_field(tmp_path, text, named):
    file = tmp_path / "umi.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"umi\.toml.*{named}"):
        UmiConfig.load(file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        UmiConfig.load(tmp_path / "nowhere.toml")


def test_a_number_in_place_of_a_path_is_refused():
    with pytest.raises(ConfigError, match="path is int; expected the path of a TOML file"):
        UmiConfig.load(5)


@pytest.mark.parametrize("variable", ["UMI_LEXICAL__B", "umi_lexical__b"])
def test_a_wrong_variable_is_refused_naming_the_variable_and_its_field(variable, monkeypatch, tmp_path):
    file = tmp_path / "umi.toml"
    file.write_text("[lexical]\nk1 = 1.2")
    monkeypatch.setenv(variable, "much")
    with pytest.raises(ConfigError, match=rf"^{variable}: .*lexical\.b"):
        UmiConfig.load(file)


def test_a_variable_of_an_unknown_field_and_one_that_sets_a_whole_stage_are_named(monkeypatch):
    monkeypatch.setenv("UMI_FUSION__METHD", "rrf")
    with pytest.raises(ConfigError, match=r"^UMI_FUSION__METHD: .* did you mean method\?"):
        UmiConfig.load()
    monkeypatch.delenv("UMI_FUSION__METHD")
    monkeypatch.setenv("UMI_FUSION", '{"method": "magic"}')
    with pytest.raises(ConfigError, match=r"^UMI_FUSION: .*fusion\.method"):
        UmiConfig.load()


@pytest.mark.parametrize("stage, field", [("FUSION", "METHOD"), ("LATE_INTERACTION", "ENABLED"), ("RECALL", "DEPTH")])
def test_a_variable_with_one_underscore_after_the_stage_is_refused_with_the_right_name(stage, field, monkeypatch):
    monkeypatch.setenv(f"UMI_{stage}_{field}", "rrf")
    with pytest.raises(ConfigError, match=f"UMI_{stage}__{field}"):
        UmiConfig.load()


@pytest.mark.parametrize("variable", ["UMI_FUSSION__METHOD", "umi_fusions__rrf_k"])
def test_a_variable_of_an_unknown_stage_is_refused_with_the_nearest_stage(variable, monkeypatch):
    monkeypatch.setenv(variable, "5")
    with pytest.raises(ConfigError, match=rf"{variable} .* did you mean fusion\?"):
        UmiConfig.load()


def test_replaced_changes_one_field_and_keeps_its_neighbours():
    config = UmiConfig(fusion=FusionConfig(rrf_k=10)).replaced(fusion={"method": "rrf"}, mmr={"enabled": True})
    assert (config.fusion.rrf_k, config.fusion.method, config.mmr.enabled) == (10, "rrf", True)
    with pytest.raises(ConfigError, match="fusion"):
        config.replaced(fusion={"methd": "rrf"})
    with pytest.raises(ConfigError, match=r"fusoin: .* did you mean fusion\?"):
        config.replaced(fusoin={"method": "rrf"})
    with pytest.raises(ConfigError, match=r"UmiConfig\.mmr: expected a dict of settings: enabled, trade_off, pool"):
        config.replaced(mmr=FusionConfig())


def test_a_variable_that_is_no_table_does_not_extend_the_table_of_the_file(monkeypatch, tmp_path):
    (tmp_path / "umi.toml").write_text('[fusion]\nmethod = "rrf"\n')
    monkeypatch.setenv("UMI_FUSION", "3")
    with pytest.raises(ConfigError, match=r"^UMI_FUSION: UmiConfig\.fusion: expected a dict of settings"):
        UmiConfig.load(tmp_path / "umi.toml")


def test_of_several_wrong_settings_the_first_is_named_and_the_others_are_counted():
    with pytest.raises(ConfigError, match=r"FusionConfig\.dense_weight: .*\(and 1 more\)$"):
        FusionConfig(dense_weight=-1.0, rrf_k=-1.0)


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        UmiConfig().fusion.rrf_k = 3


def test_an_analyzer_change_needs_a_reindex_and_says_so():
    with pytest.raises(ReindexRequired, match="reindex"):
        UmiConfig().checked_live_change(UmiConfig(analyzer=AnalyzerConfig(language="german")))
    UmiConfig().checked_live_change(UmiConfig(fusion=FusionConfig(method="rrf")))


def test_a_template_without_the_query_is_refused():
    with pytest.raises(ConfigError, match="query"):
        RewriteConfig(template="Say something")


def test_a_file_with_the_mark_that_windows_editors_write_is_read(tmp_path):
    path = tmp_path / "umi.toml"
    path.write_bytes(b'\xef\xbb\xbf[fusion]\nmethod = "rrf"\n')
    assert UmiConfig.load(path).fusion.method == "rrf"

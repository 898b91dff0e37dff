"""The command line: what it prints, how it ends, and that an error is one line with its fix."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cli_reference import PAGE, written
from typer.testing import CliRunner

from umi_common import __version__
from umi_common.cli.program import app
from umi_common.config import UmiConfig
from umi_common.errors import ConfigError

TURNS = ["Ann: I adopted a grey cat.", "Ben: What is it called?", "Ann: Luna.", "Ben: Bees are quiet today."]
QUESTIONS = {
    "q1": ("name of the grey cat", 2),
    "q2": ("bees", 3),
    "q3": ("who adopted a cat", 0),
    "q4": ("quiet bees", 3),
}


@pytest.fixture()
def collection(tmp_path):
    folder = tmp_path / "talks" / "monday"
    folder.mkdir(parents=True)
    turns = [{"_id": f"t{at}", "text": text, "metadata": {"session": 1}} for at, text in enumerate(TURNS)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, turns)))
    asked = [{"_id": id, "text": text} for id, (text, _) in QUESTIONS.items()]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    judged = [f"{id}\tt{right}\t1" for id, (_, right) in QUESTIONS.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder.parent


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_eval_prints_umi_beside_its_arms_or_every_figure_as_json(collection):
    result = run("eval", collection)
    assert result.exit_code == 0
    for line in ("umi", "lexical arm", "dense arm", "ndcg@10"):
        assert line in result.output
    figures = CliRunner().invoke(app, ["eval", str(collection), "--json"])
    assert {row["system"] for row in json.loads(figures.stdout)["rows"]} == {"umi", "lexical arm", "dense arm"}


def test_eval_compares_several_configurations_under_the_names_of_their_files(collection, tmp_path):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text("")
    second.write_text("[fusion]\nlexical_weight = 1.0\ndense_weight = 0.0\nadaptive = false\n")
    result = run("eval", collection, "--config", first, "--config", second, "--config", first)
    assert result.exit_code == 0
    assert f"{second} against {first}: ndcg@10 " in result.output and " worse of 4, p = " in result.output
    assert "lexical arm" not in result.output
    figures = CliRunner().invoke(app, ["eval", str(collection), "-c", str(first), "-c", str(second), "--json"])
    told = json.loads(figures.stdout)
    assert {row["system"] for row in told["rows"]} == {str(first), str(second)}
    assert told["differences"][str(second)]["metric"] == "ndcg@10" and told["differences"][str(second)]["queries"] == 4


def test_eval_lists_all_misses_with_their_ranks_as_json(collection):
    (folder,) = collection.iterdir()
    filler = [{"_id": f"f{at}", "text": f"Ann: I adopted grey cat number {at}."} for at in range(30)]
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write("\n" + "\n".join(map(json.dumps, filler)))
    with (folder / "qrels.tsv").open("a") as judged:
        judged.write("".join(f"\nq1\tf{at}\t1" for at in range(30)))
    assert "more; --json has every rank" in run("eval", collection).output
    misses = json.loads(CliRunner().invoke(app, ["eval", str(collection), "--json"]).stdout)["misses"]
    assert len(misses) >= 20 and {"id", "query", "rank", "elsewhere"} == set(misses[0])


def test_tune_writes_settings_that_umi_loads(collection, tmp_path):
    result = run("tune", collection, "--trials", 2, "--out", tmp_path / "umi.toml")
    assert result.exit_code == 0
    assert "held-out" in result.output
    assert isinstance(UmiConfig.load(tmp_path / "umi.toml"), UmiConfig)


@pytest.mark.parametrize("command", ["eval", "tune"])
def test_the_model_of_the_settings_is_the_one_that_is_measured(collection, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.toml").write_text('[embedder]\nmodel = "no-such-model"\n')
    with pytest.raises(ConfigError, match="no-such-model"):
        run(command, collection, "--config", tmp_path / "other.toml")


@pytest.mark.parametrize("command", ["eval", "tune"])
def test_a_picture_of_an_unknown_kind_does_not_cost_the_figures(collection, tmp_path, command):
    command = [sys.executable, "-m", "umi_common.cli", command, str(collection), "--plot", "figures.foo"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 1
    assert "ndcg@10" in ended.stdout
    assert ended.stderr.splitlines()[-1].startswith("umi: figures.foo: expected a name that ends in .png, .svg or .pdf")


@pytest.mark.parametrize(("command", "option"), [("eval", "--plot"), ("eval", "--resume"), ("tune", "--out")])
def test_a_file_in_no_folder_is_named_before_a_long_run(tmp_path, command, option):
    with pytest.raises(ConfigError, match=r"nowhere.* is no folder"):
        run(command, tmp_path / "not read yet", option, tmp_path / "nowhere" / "file.png")
    with pytest.raises(ConfigError, match="is a folder; name a file in it"):
        run(command, tmp_path / "not read yet", option, tmp_path)


@pytest.mark.parametrize("command", ["eval", "tune"])
def test_a_log_file_gets_no_progress_bar(collection, tmp_path, command):
    command = [sys.executable, "-m", "umi_common.cli", command, str(collection)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_error_is_one_line_with_its_fix_and_exit_code_1(tmp_path):
    command = [sys.executable, "-m", "umi_common.cli", "eval", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("umi: ")
    assert len(done.stderr.strip().splitlines()) == 1


def test_wrong_usage_ends_with_2():
    assert run("eval").exit_code == 2
    assert run("no-such-command").exit_code == 2


def test_the_version_is_printed():
    assert run("--version").output == f"umi {__version__}\n"


def test_help_names_every_command():
    shown = run("--help").output
    for command in ("index", "search", "ask", "status", "verify", "repair", "rebuild", "demo", "eval", "tune"):
        assert command in shown


def test_the_reference_in_the_docs_is_that_of_the_program():
    page = PAGE.read_text()
    assert written(page) == page, "run: python tests/cli_reference.py"

"""benchmarks/quality.py as a user runs it, on a toy folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from evaluation_toys import write_lines

from benchmarks.quality_sets import by_query

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def quality(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import quality

    yield quality
    for name in [name for name in sys.modules if name.split("_")[0] == "quality"]:
        del sys.modules[name]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "cranfield"
    folder.mkdir()
    texts = ["wings in a slipstream", "heat in a shell", "shock wave", "boundary layer", "flat plate"]
    write_lines(folder / "corpus.jsonl", *({"_id": str(i), "text": text} for i, text in enumerate(texts)))
    write_lines(folder / "queries.jsonl", {"_id": "a", "text": "slipstream"}, {"_id": "b", "text": "shock"})
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\na\t0\t1\nb\t2\t3\n")
    return tmp_path


def test_recorded_rewrites_are_found_by_the_whole_query_and_by_the_last_that_the_prompt_holds():
    reply = by_query({"Acme": ["short"], "Acme in May": ["long"]})
    assert reply("Rewrite.\n\nQuery: Acme\n\nAcme in May is an example") == ["short"]
    assert reply("Conversation so far:\nAcme\n\nQuery: Acme in May\n") == ["long"]
    with pytest.raises(LookupError, match="no line of the prompt"):
        reply("find Acme!")


def test_absent_data_is_reported_and_is_no_failure(quality, tmp_path, capsys):
    assert quality.main(["--data", str(tmp_path / "nowhere")]) == 0
    assert "the evaluation data is not there" in capsys.readouterr().out


def test_an_absent_set_is_left_out_and_reported(quality, data, capsys):
    assert quality.main(["--data", str(data), "--sets", "cosqa", "--systems", "umi"]) == 0
    assert "no data for cosqa with minilm; left out" in capsys.readouterr().out


def test_a_run_prints_a_table_and_writes_a_json_file(quality, data, tmp_path, capsys):
    arguments = ["--data", str(data), "--sets", "cranfield", "--embedder", "default", "--systems", "umi,arms"]
    assert quality.main([*arguments, "--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert "cranfield/default: 2 queries, 1 group" in out
    assert "umi, neighbours off" in out
    assert "lexical arm" in out
    rows = json.loads((tmp_path / "out.json").read_text())["results"]["cranfield/default"]["rows"]
    assert rows[0]["metrics"]["recall@10"]["mean"] == 1.0


def test_an_unknown_set_is_refused_with_the_known_ones(quality, capsys):
    with pytest.raises(SystemExit):
        quality.main(["--sets", "trec"])
    assert "expected some of locomo, longmemeval_s" in capsys.readouterr().err


def test_a_bar_passes_at_equality_and_fails_below(quality):
    from quality_bars import Bar

    assert Bar("x", 0.1 + 0.2, 0.3).passed
    assert not Bar("x", 0.299, 0.3).passed
    assert str(Bar("x", 0.25, 0.3)) == "FAIL  x: 0.2500, bar 0.3000"

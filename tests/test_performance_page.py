"""The performance page and the README say what the kept figures say. Nothing is measured here."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def test_every_table_is_what_the_kept_figures_say(benchmarks):
    stale = benchmarks("pages").stale_pages()
    assert not stale, f"{[path.name for path in stale]} differ; run `python -m benchmarks --pages`"


def test_a_table_tells_who_was_left_out_and_why(benchmarks, monkeypatch):
    rows = [
        {"what": "w", "size": 1_000, "system": "umi", "p50_ms": 0.0123},
        {"what": "w", "size": 1_000, "system": "peer", "skipped": "peer is not installed"},
    ]
    tables = benchmarks("tables")
    monkeypatch.setattr(tables.results, "rows", lambda part: rows)
    made = tables.by_size("bm25", "w", "p50_ms")
    assert "| umi | 0.012 |" in made
    assert made.endswith("Left out: peer at 1k: peer is not installed.")


def test_the_page_names_each_machine_with_its_days_and_the_parts_that_were_measured_elsewhere(benchmarks, monkeypatch):
    def entry(day, processor, version):
        hardware = {"processor": processor, "cores": 2, "memory_gb": 25, "system": "Linux 6"}
        return {"measured": f"{day}T10:00+00:00", "machine": hardware, "versions": {"python": version}}

    tables, sizes = (
        benchmarks("tables"),
        {"1000": entry("2026-11-21", "Xeon", "3.11"), "10000": entry("2026-11-24", "Xeon", "3.12")},
    )
    documents = {"bm25": {"sizes": sizes}, "tail": {"sizes": {"10000": entry("2026-11-23", "EPYC", "3.11")}}}
    monkeypatch.setattr(tables.results, "parts", lambda: list(documents))
    monkeypatch.setattr(tables.results, "load", documents.get)
    assert tables.machine() == (
        "Xeon, 2 cores, 25 GB, Linux 6, 2026-11-21 to 2026-11-24; EPYC, 2 cores, 25 GB, Linux 6, 2026-11-23: tail. "
        "Newest versions: python 3.12."
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "–"), (0.0123, "0.012"), (0.25, "0.25"), (3.14159, "3.1"), (314.2, "314"), (5000, "5,000")],
)
def test_figures_are_written_with_the_digits_that_count(benchmarks, value, written):
    assert benchmarks("tables").written(value) == written


def test_the_synthetic_text_is_the_same_in_every_process(benchmarks):
    corpus = benchmarks("corpus").make_corpus(1_000)
    questions = corpus.questions(3)
    assert questions == benchmarks("corpus").make_corpus(1_000).questions(3)
    for question, row in questions:
        assert set(question.split()) <= set(corpus.words(row))
        assert 1 <= len(question.split()) <= 8


def test_the_oracle_gives_the_scores_of_the_definition(benchmarks):
    """Three chunks, "ca" in two: idf = ln(1 + 1.5 / 2.5) = 0.4700; |d| = 2, 1, 3 and avg 2: norms 1.2, 0.75, 1.65."""
    numpy = importlib.import_module("numpy")
    corpus = benchmarks("corpus").Corpus(numpy.array([0, 1, 0, 1, 1, 1]), numpy.array([0, 2, 3, 6]))
    (scores,) = benchmarks("oracle").Bm25Oracle(corpus).scores(["ca"])
    assert scores.tolist() == pytest.approx([0.47000 / 2.2, 0.47000 / 1.75, 0.0], abs=1e-4)


def test_a_part_that_fails_leaves_the_others_their_figures(benchmarks, tmp_path, monkeypatch, capsys):
    main, results = benchmarks("__main__"), benchmarks("results")
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(benchmarks("pages"), "write_pages", lambda: [])
    monkeypatch.setattr(
        benchmarks("part_ranking"), "measure", lambda *_: [{"what": "w", "size": None, "system": "umi"}]
    )

    def broken(*_):
        raise SystemExit("the answer is wrong")

    monkeypatch.setattr(benchmarks("part_imports"), "measure", broken)
    assert main.main(["imports", "ranking"]) == 1
    assert "imports: FAILED" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["ranking.json"]
    assert main.main(["ranking", "--resume"]) == 0
    assert "[1/1]" not in capsys.readouterr().out

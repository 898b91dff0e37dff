"""Bulk ingestion stores each chunk exactly once, after any change, failure or interruption."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from ingest_toys import PART, Died, Dying, content, opened, write_records

from umi_common import ingest as bulk
from umi_common.errors import EmbedderError, FileUnreadable, StoreFull
from umi_common.files import session as sessions
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

ingest = partial(bulk.ingest, part_bytes=PART)


@pytest.fixture()
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    write_records(folder / "a.jsonl", range(200))
    (folder / "b.md").write_text("# Boiler\n\nThe boiler leaks.\n\n# Roof\n\nThe roof is dry. " + "Dry. " * 400)
    (folder / "c.png").write_bytes(b"\x89PNG")
    return folder


@pytest.fixture()
def embedder():
    return CountingEmbedder(HashEmbedder(16))


@pytest.fixture()
def store(tmp_path, embedder):
    with HybridStore.open(tmp_path / "store", embedder=embedder) as there:
        yield there


class TestWhatIsThere:
    def test_files_arrive_whole_and_are_told(self, store, docs):
        report = ingest(store, [docs])
        assert (report.files, report.finished, report.unchanged) == (2, 2, 0)
        assert report.left_out == {".png": 1} and not report.problems
        assert report.chunks == len(store)
        assert {f"r{number}" for number in range(200)} < set(content(store))
        assert store.get(["docs/b.md#0"])[0].metadata["file"] == "docs/b.md"

    def test_a_second_run_reads_nothing(self, store, docs, embedder, monkeypatch):
        ingest(store, [docs])
        monkeypatch.setattr(sessions, "parts_of", None)  # would fail if a file were read
        before = len(embedder.texts)
        report = ingest(store, [docs])
        assert (report.unchanged, report.finished, report.chunks) == (2, 0, 0)
        assert len(embedder.texts) == before

    def test_a_log_that_grew_costs_its_end_only(self, store, docs, embedder):
        ingest(store, [docs])
        before = len(embedder.texts)
        write_records(docs / "a.jsonl", range(210))
        report = ingest(store, [docs])
        assert report.parts_skipped >= 4
        assert len(embedder.texts) - before == 10
        assert len([id for id in content(store) if id.startswith("r")]) == 210

    def test_what_vanished_from_a_changed_file_goes_and_nothing_else(self, store, docs):
        write_records(docs / "other.jsonl", range(500, 510))
        ingest(store, [docs])
        write_records(docs / "a.jsonl", range(50, 120))
        report = ingest(store, [docs])
        assert report.stale == 130
        kept = {id for id in content(store) if id.startswith("r")}
        assert kept == {f"r{number}" for number in [*range(50, 120), *range(500, 510)]}

    def test_a_vanished_file_goes_and_one_outside_of_the_paths_stays(self, store, docs, tmp_path):
        outside = tmp_path / "outside.jsonl"
        write_records(outside, range(900, 903))
        ingest(store, [docs, outside])
        (docs / "a.jsonl").unlink()
        outside.unlink()
        assert ingest(store, [docs]).removed == 1
        assert {id for id in content(store) if id.startswith("r")} == {"r900", "r901", "r902"}

    def test_it_is_what_index_makes_of_the_same_files(self, store, docs, tmp_path):
        from umi_common.files import index

        ingest(store, [docs])
        with opened(tmp_path / "indexed") as other:
            index(other, [docs])
            assert other.scan(limit=10_000) == store.scan(limit=10_000)


class TestWhatIsWrong:
    def test_a_bad_record_is_reported_the_others_are_there_and_it_is_tried_again(self, store, docs):
        lines = (docs / "a.jsonl").read_text().splitlines()
        bad = [*lines[:100], "nonsense", *lines[101:]]
        (docs / "a.jsonl").write_text("\n".join(bad))
        (problem,) = ingest(store, [docs]).problems
        assert problem.error == "FileUnreadable" and problem.source == "docs/a.jsonl"
        assert "a.jsonl line 101" in str(problem)
        assert "r100" not in content(store) and len([id for id in content(store) if id.startswith("r")]) == 199
        assert len(ingest(store, [docs]).problems) == 1
        (docs / "a.jsonl").write_text("\n".join(lines))
        assert not ingest(store, [docs]).problems
        assert len([id for id in content(store) if id.startswith("r")]) == 200

    def test_two_records_with_one_id_do_not_overwrite_each_other(self, store, docs):
        write_records(docs / "x.jsonl", [7])
        (docs / "y.jsonl").write_text('{"id": "y1", "text": "one"}\n{"id": "y1", "text": "two"}\n')
        for _ in range(2):
            problems = [str(problem) for problem in ingest(store, [docs]).problems]
            assert len(problems) == 2
            assert "x.jsonl holds id 'r7', which the store has from docs/a.jsonl" in problems[0]
            assert "y.jsonl holds id 'y1' twice" in problems[1]
        assert store.get(["r7"])[0].metadata["file"] == "docs/a.jsonl"

    def test_of_two_new_files_with_one_id_in_one_batch_the_second_is_refused(self, store, docs):
        write_records(docs / "x.jsonl", [900])
        write_records(docs / "y.jsonl", [900])
        (problem,) = ingest(store, [docs], part_bytes=1_000_000).problems
        assert "y.jsonl holds id 'r900', which the store has from docs/x.jsonl" in str(problem)

    def test_an_id_that_comes_again_far_below_in_its_file_is_found_too(self, store, docs):
        write_records(docs / "a.jsonl", [*range(199), 0])
        (problem,) = ingest(store, [docs]).problems
        assert "holds id 'r0' twice" in str(problem)
        assert store.get(["r0"])[0].position == 1

    def test_an_id_twice_in_a_changed_file_is_reported_once_although_the_file_also_waits_for_a_taken_id(
        self, store, docs
    ):
        write_records(docs / "x.jsonl", [900, 901])
        ingest(store, [docs])
        write_records(docs / "x.jsonl", [901, *range(1000, 1200), 901, 7])  # 900 is stale, and a.jsonl has 7
        problems = [str(problem) for problem in ingest(store, [docs]).problems]
        assert sorted(problem.split("holds id ")[1][:12] for problem in problems) == ["'r7', which ", "'r901' twice"]

    def test_a_text_that_the_embedder_fails_on_costs_its_part_only(self, store, docs):
        (docs / "d.md").write_text("poison")
        model = FaultyEmbedder(HashEmbedder(16), fail_on="poison")
        report = ingest(store, [docs], embedder=model)
        assert [(problem.source, problem.error) for problem in report.problems] == [("docs/d.md", "EmbedderError")]
        assert report.finished == 2 and "docs/d.md#0" not in content(store)

    def test_an_embedder_that_is_down_ends_the_run_and_says_how_to_go_on(self, store, docs):
        with pytest.raises(EmbedderError, match="the same call goes on from there"):
            ingest(store, [docs], embedder=FaultyEmbedder(HashEmbedder(16)))
        assert not ingest(store, [docs]).problems

    def test_what_the_store_refuses_is_raised_as_it_is(self, store, docs, monkeypatch):
        def full(*args, **named):
            raise StoreFull("the disk refused")

        with monkeypatch.context() as patch:
            patch.setattr(store, "add", full)
            with pytest.raises(StoreFull):
                ingest(store, [docs])
        assert ingest(store, [docs]).finished == 2

    def test_a_path_that_is_not_there_is_named(self, store, tmp_path):
        with pytest.raises(FileUnreadable, match="nothing does not exist"):
            ingest(store, [tmp_path / "nothing"])


class TestInterruptions:
    def test_asked_to_stop_it_ends_between_two_parts(self, store, docs, embedder):
        asked = count()
        report = ingest(store, [docs], stop=lambda: next(asked) >= 3)
        assert report.stopped and 0 < len(store) < 200
        before = len(embedder.texts)
        there = len(store)
        report = ingest(store, [docs])
        assert report.parts_skipped > 0 and report.finished == 2
        assert len(embedder.texts) - before == len(store) - there

    def test_ctrl_c_leaves_a_store_that_can_be_searched_and_says_how_to_go_on(self, store, docs):
        calls = count()

        def interrupted(texts):
            if next(calls) == 2:
                raise KeyboardInterrupt
            return False

        with pytest.raises(KeyboardInterrupt, match="the same call goes on from here"):
            ingest(store, [docs], embedder=FaultyEmbedder(HashEmbedder(16), fail_on=interrupted))
        assert len(store) and store.verify()
        assert ingest(store, [docs]).finished == 2

    @pytest.mark.parametrize("changed", [False, True], ids=["first", "changed"])
    def test_dead_at_any_step_and_repeated_it_leaves_what_an_undisturbed_run_leaves(self, docs, tmp_path, changed):
        def steps_until_done(path: Path, at: int) -> bool:
            with opened(path) as store:
                try:
                    ingest(Dying(store, at), [docs])
                except Died:
                    return False
            return True

        (docs / "b.md").unlink()
        write_records(docs / "a.jsonl", range(90))
        path = tmp_path / "s0"
        if changed:
            with opened(path) as store:
                ingest(store, [docs])
            write_records(docs / "a.jsonl", range(20, 110), words="about roofs")
        want = {f"r{n}": f"record {n} about roofs" for n in range(20, 110)} if changed else None
        deaths = 0
        while not steps_until_done(path, deaths % 9):
            deaths += 1
            assert deaths < 60
        with opened(path) as store:
            found = content(store)
            assert want is None or found == want
            assert set(found) == set(want or {f"r{n}" for n in range(90)})
            assert ingest(store, [docs]).unchanged == 1
        assert deaths > 3

    def test_changed_between_two_kills_nothing_of_the_version_in_between_stays(self, store, docs):
        ingest(store, [docs])
        write_records(docs / "a.jsonl", range(300, 500))
        with pytest.raises(Died):
            ingest(Dying(store, 8), [docs])
        assert "r300" in content(store)
        write_records(docs / "a.jsonl", range(600, 640))
        ingest(store, [docs])
        assert {id for id in content(store) if id.startswith("r")} == {f"r{n}" for n in range(600, 640)}

    def test_a_process_that_is_killed_again_and_again_ends_with_each_chunk_once(self, docs, tmp_path):
        dice = random.Random(5)
        deaths = 0
        for _ in range(12):
            command = [sys.executable, str(Path(__file__).parent / "ingest_toys.py"), str(tmp_path / "s"), str(docs)]
            ended = subprocess.run([*command, str(dice.randint(1, 3))], capture_output=True, text=True, timeout=60)
            if ended.returncode == 0:
                break
            assert ended.returncode == -signal.SIGKILL, ended.stderr
            deaths += 1
        assert deaths >= 2
        with opened(tmp_path / "s") as store:
            found = content(store)
            assert {id for id in found if id.startswith("r")} == {f"r{number}" for number in range(200)}
            assert store.verify()
            assert ingest(store, [docs]).unchanged == 2


def test_the_bar_runs_over_the_bytes_of_the_files(store, docs, capsys):
    ingest(store, [docs], show_progress=True)
    total = sum(path.stat().st_size for path in docs.iterdir() if path.suffix != ".png")
    shown = capsys.readouterr().err
    assert "100%" in shown and f"{total / 1000:.1f}" in shown.replace("k", "")


def test_sources_are_named_from_the_folder_that_is_asked_for(tmp_path, docs):
    with HybridStore.open(embedder=HashEmbedder(16)) as store:
        (docs / "a.jsonl").write_text(json.dumps({"text": "no id of its own"}))
        ingest(store, [docs], relative_to=docs)
        assert "a.jsonl#1" in content(store)

"""`umi index`, `search`, `ask`, `status`, `verify`, `repair`, `rebuild`: a stranger's path from a folder to a hit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest
import typer
from typer.testing import CliRunner

from umi_common.cli import main
from umi_common.cli.indexing import _interruptible
from umi_common.cli.program import app
from umi_common.embedders import default_embedder
from umi_common.errors import StoreError
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

sys.path.insert(0, str(Path(__file__).parent / "files"))
from pdf_toys import SLOW


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def umi(*arguments, **options):
    command = [sys.executable, "-m", "umi_common.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    (folder / "house.md").write_text("# House\n\nThe boiler was inspected in May and leaks at the valve.")
    (folder / "garden.html").write_text("<h1>Garden</h1><p>The pear tree needs a stake.")
    (folder / "chat.txt").write_text(
        "[2024-06-11 19:15] Mira: The roofers want nine thousand.\n[2024-06-11 19:16] Jonas: That is fair.\n"
    )
    return folder


@pytest.fixture(scope="module")
def store(notes):
    where = notes.parent / f"{notes.name}-store"
    assert run("index", notes, "--store", where).exit_code == 0
    return where


def test_index_beside_a_program_that_writes_says_first_to_close_it_there(notes, store):
    with HybridStore.open(store):
        ended = umi("index", notes, "--store", store)
    assert ended.returncode == 1
    assert "in another process or in this one; close it there first. The commands umi search, ask" in ended.stderr


def test_index_says_what_it_did_and_what_to_do_next(notes, tmp_path):
    first = run("index", notes, "--store", tmp_path / "store")
    assert "3 files: 3 indexed as 4 chunks, 0 unchanged" in first.output
    assert 'next: umi search "your question"' in first.output
    assert "0 indexed as 0 chunks, 3 unchanged; " in run("index", notes, "--store", tmp_path / "store").output
    (tmp_path / "damaged.pdf").write_bytes(b"%PDF-1.4 nonsense")
    again = umi("index", notes, tmp_path / "damaged.pdf", "--store", tmp_path / "store")
    assert "4 files: 0 indexed as 0 chunks, 3 unchanged, 1 skipped; " in again.stdout


def test_index_names_the_new_changed_removed_and_empty_files(tmp_path):
    folder, target = tmp_path / "notes", ("--store", tmp_path / "store")
    folder.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (folder / name).write_text(f"The boiler of {name} leaks.")
    (folder / "blank.txt").write_text("\n\n")
    first = run("index", folder, *target).output.splitlines()
    assert first[1] == "empty, nothing to index: notes/blank.txt"
    assert not any(line.startswith("new: ") for line in first)  # all are
    (folder / "a.md").write_text("The boiler is mended.")
    (folder / "b.md").unlink()
    (folder / "d.md").write_text("The roof is dry.")
    second = run("index", folder, *target).output.splitlines()
    assert second[1:4] == ["new: notes/d.md", "changed: notes/a.md", "removed: notes/b.md"]
    assert not any(line.startswith("empty") for line in second)
    report = json.loads(run("index", folder, *target, "--json").output)
    assert (report["new"], report["changed"], report["gone"], report["empty"]) == ([], [], [], [])
    for number in range(6):
        (folder / f"{number}.txt").write_text("")
    third = run("index", folder, *target).output.splitlines()
    assert third[1:3] == ["new: 6 files", "empty, nothing to index: 6 files"]


def test_a_condition_on_a_list_holds_if_an_item_equals_the_value(tmp_path):
    (tmp_path / "bread.md").write_text("---\ntags: [baking, vegan]\nyears: [2023, 2024]\n---\nThe bread rests.")
    (tmp_path / "soup.md").write_text("---\ntags: [winter]\n---\nThe soup rests.")
    run("index", tmp_path, "--store", tmp_path / "store")
    for condition in ("tags=vegan", "years=2023"):
        found = run("search", "rests", "--where", condition, "--store", tmp_path / "store", "--json")
        assert [hit["id"] for hit in json.loads(found.output)["hits"]] == ["bread.md#0"]


@pytest.fixture
def mixed(tmp_path):
    """A folder with two notes and files of ten other kinds."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "Makefile", "2.csv", *(f"{place}.kind{place}" for place in range(8)), "1.csv"):
        (folder / name).write_text("The boiler leaks.")
    return folder


def test_index_as_json_counts_the_files_of_other_kinds(mixed, tmp_path):
    done = run("index", mixed, "--store", tmp_path / "store", "--json")
    report = json.loads(done.output)
    others = {"Makefile": 1, ".csv": 2, **{f".kind{place}": 1 for place in range(8)}}
    assert (done.exit_code, report["files"], report["left_out"]) == (0, 2, others)


def test_index_names_eight_kinds_of_files_left_out_and_counts_the_other_kinds(mixed, tmp_path):
    lines = run("index", mixed, "--store", tmp_path / "store").output.splitlines()
    kinds = ", ".join(f".kind{place} 1" for place in range(7))
    tip = "; to read such a file, name the file itself"
    assert f"left out, of other kinds: .csv 2, {kinds}, and 2 more kinds{tip}" in lines
    (mixed / "Makefile").unlink()
    (mixed / "7.kind7").unlink()
    lines = run("index", mixed, "--store", tmp_path / "store").output.splitlines()
    assert f"left out, of other kinds: .csv 2, {kinds}{tip}" in lines


def test_index_does_not_advise_to_name_a_file_that_it_refuses_then(tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in ("a.txt", "b.py", "c.docx", "d.XLSX", "e.png"):
        (folder / name).write_bytes(b"text" if name < "c" else b"PK\x03\x04\x00\x00")
    lines = run("index", folder, "--store", tmp_path / "store").output.splitlines()
    assert "left out, of other kinds: .py 1; to read such a file, name the file itself" in lines
    assert "left out, because umi cannot read them: .docx 1, .png 1, .xlsx 1; export documents as PDF or HTML" in lines
    (folder / "b.py").unlink()
    assert "name the file itself" not in run("index", folder, "--store", tmp_path / "store").output


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
def test_index_does_not_advise_to_name_a_pipe_or_a_link_to_nothing(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The boiler leaks.")
    os.mkfifo(folder / "pipe")
    (folder / "broken").symlink_to(folder / "nothing")
    assert "left out" not in run("index", folder, "--store", tmp_path / "store").output


def test_the_name_of_a_file_cannot_steer_the_terminal(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.\x1b[2Jb").write_text("x")
    assert "kinds: .⟨U+001B⟩[2jb 1" in run("index", tmp_path / "docs", "--store", tmp_path / "store").output


def test_an_empty_path_as_of_an_unset_variable_does_not_index_the_current_folder(tmp_path):
    done = umi("index", "", "--store", tmp_path / "store")
    assert done.returncode != 0 and "'' is no path" in done.stderr and not (tmp_path / "store").exists()


def test_search_shows_the_hit_its_file_and_why(store):
    shown = run("search", "who looked at the boiler?", "--store", store, "--limit", 1)
    assert shown.exit_code == 0
    assert "house.md#0" in shown.output
    assert "BM25" in shown.output


def test_letters_that_the_terminals_encoding_lacks_do_not_end_the_output(tmp_path):
    (tmp_path / "notes.md").write_text("Grüße, 漢字 and 🎉 to the harbour", encoding="utf-8")
    store = str(tmp_path / "store")
    assert umi("index", str(tmp_path / "notes.md"), "--store", store).returncode == 0
    windows = {"env": {**os.environ, "PYTHONIOENCODING": "cp1252"}, "encoding": "cp1252"}
    found = json.loads(umi("search", "harbour", "--store", store, "--json", **windows).stdout)
    assert found["hits"][0]["text"] == "Grüße, 漢字 and 🎉 to the harbour"
    for command in ("search", "ask"):
        done = umi(command, "harbour", "--store", store, **windows)
        assert (done.returncode, done.stderr) == (0, "")
        assert r"Grüße, \u6f22\u5b57 and \U0001f389 to the harbour" in done.stdout


def test_search_as_json_has_everything_of_a_hit(store):
    found = json.loads(run("search", "roofers", "--store", store, "--json").output)
    hit = found["hits"][0]
    assert hit["metadata"]["speaker"] == "Mira"
    assert hit["event_time"] == "2024-06-11T19:15:00+00:00"
    assert hit["signals"][0]["arm"] == "lexical"
    assert found["answerable"] is True and 0.1 < hit["relevance"] <= 1


def test_nested_metadata_is_shown_as_the_record_has_it(tmp_path):
    record = {"text": "the boiler leaks", "metadata": {"house": {"floor": 2}, "tags": ["a", "b"]}}
    (tmp_path / "notes.jsonl").write_text(json.dumps(record))
    run("index", tmp_path / "notes.jsonl", "--store", tmp_path / "store")
    shown = ("explain", "boiler", "--store", tmp_path / "store", "--json", "--html", tmp_path / "why.html")
    (hit,) = json.loads(run(*shown).output)["hits"]
    assert hit["metadata"] == {**record["metadata"], "file": "notes.jsonl"}
    page = (tmp_path / "why.html").read_text()
    assert "{&#x27;floor&#x27;: 2}" in page and "umi_" not in page


def test_today_is_the_day_of_the_computers_time_zone(tmp_path):
    now = datetime.now(timezone.utc)
    ahead = now.hour >= 10  # the date in the zone differs from that in UTC at any hour
    zone = timezone(timedelta(hours=14 if ahead else -12))
    for date in (now.date(), now.astimezone(zone).date()):
        (tmp_path / f"{date} walk.md").write_text("We took a walk with the dog.")
    umi("index", tmp_path, "--store", tmp_path / "store")
    command = ("search", "where did we walk today?", "--store", tmp_path / "store", "--json")
    found = json.loads(umi(*command, env={**os.environ, "TZ": "ABC-14" if ahead else "ABC+12"}).stdout)
    assert f"{now.astimezone(zone).date()} walk.md" in found["hits"][0]["source"]


def test_search_as_json_says_that_nothing_is_likely_to_answer(store):
    found = json.loads(run("search", "quantum chromodynamics", "--store", store, "--json").output)
    assert found["answerable"] is False and all(hit["relevance"] < 0.1 for hit in found["hits"])


@pytest.mark.parametrize("condition", ["speaker=Jonas", '{"speaker": {"$in": ["Jonas"]}}'])
def test_where_narrows(store, condition):
    found = json.loads(run("search", "roofers", "--store", store, "--where", condition, "--json").output)
    assert [hit["metadata"]["speaker"] for hit in found["hits"]] == ["Jonas"]


@pytest.mark.parametrize("command", ["search", "explain", "ask"])
def test_start_and_end_leave_out_passages_of_other_times_and_without_a_time(tmp_path, command):
    notes = tmp_path / "notes"
    notes.mkdir()
    for day in ("2026-09-30", "2026-10-01", "2026-10-31", "2026-11-01"):
        (notes / f"{day} walk.md").write_text(f"The walk of {day} with the dog.")
    (notes / "undated.md").write_text("The walk without a date with the dog.")
    run("index", notes, "--store", tmp_path / "store")
    october = ("--start", "2026-10-01", "--end", "2026-11-01")
    found = json.loads(run(command, "walk with the dog", "--store", tmp_path / "store", *october, "--json").output)
    texts = found["context"] if command == "ask" else " ".join(hit["text"] for hit in found["hits"])
    assert "2026-10-01" in texts and "2026-10-31" in texts
    assert not any(other in texts for other in ("2026-09-30", "2026-11-01", "without a date"))


def test_a_start_that_is_no_date_says_what_one_is(store):
    done = umi("search", "x", "--start", "yesterday", "--store", store)
    assert (done.returncode, done.stderr) == (
        1,
        "umi: start 'yesterday' is no ISO date or time; expected for example 2024-05-01\n",
    )


@pytest.mark.parametrize("value", [2023, "2023", True, "true", 1.5, "1.5"])
def test_where_finds_a_number_and_the_same_as_a_string_because_a_shell_has_no_types(tmp_path, value):
    with HybridStore.open(tmp_path / "store") as made:
        made.add([{"id": "a", "text": "the boiler", "metadata": {"key": value}}])
    shown = run("search", "boiler", "--store", tmp_path / "store", "--where", f"key={str(value).lower()}")
    assert "1 hit," in shown.output
    assert "nothing found" in run("search", "boiler", "--store", tmp_path / "store", "--where", "key=7").output


@pytest.mark.parametrize("user", ["123456789012345678901234567890", "NaN", "-Infinity", "1e999"])
def test_a_value_that_only_looks_like_a_number_is_found_as_text(tmp_path, user):
    with HybridStore.open(tmp_path / "store") as store:
        store.add([Chunk("mine", "the boiler", metadata={"user": user}), Chunk("other", "the boiler")])
    found = json.loads(
        run("search", "boiler", "--store", tmp_path / "store", "--where", f"user={user}", "--json").output
    )
    assert [hit["id"] for hit in found["hits"]] == ["mine"]


def test_search_says_when_no_hit_is_likely_to_answer(store):
    assert "none is likely to answer the query" in run("search", "quantum chromodynamics", "--store", store).output
    assert "none is likely" not in run("search", "who looked at the boiler?", "--store", store).output


def test_explain_writes_a_page_with_the_packed_context(store, tmp_path):
    shown = run("explain", "--html", tmp_path / "why.html", "boiler", "--store", store)
    assert shown.output == f"4 hits; open {tmp_path / 'why.html'} in a browser\n"
    one = run("explain", "--html", tmp_path / "why.html", "boiler", "--store", store, "--limit", "1")
    assert one.output.startswith("1 hit; open ")
    page = (tmp_path / "why.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "of 2000 tokens" in page


def test_explain_without_a_page_shows_ranks_times_and_what_each_stage_decided(store):
    shown = run("explain", "boiler", "--store", store, "--limit", 1).output
    for part in ("lexical #1 → dense #1 → fused #1", "recall ", "dense engine: exact", "of 2000 tokens in 4 parts"):
        assert part in shown


def test_explain_as_json_has_hits_stages_and_context(store, tmp_path):
    said = run("explain", "boiler", "--store", store, "--json", "--html", tmp_path / "why.html").output
    found = json.loads(said)
    assert found["hits"][0]["ranks"]["fused"] == 1
    assert found["parts"] and found["stats"]["tokens"] > 0
    assert (tmp_path / "why.html").exists() and found["html"] == str(tmp_path / "why.html")


def test_explain_shows_the_context_that_ask_prints(tmp_path):
    (tmp_path / "notes").mkdir()
    for number in range(30):
        text = f"The boiler of house {number} leaks at the valve. Its next inspection is on the {number}th of May."
        (tmp_path / "notes" / f"{number}.md").write_text(text)
    settings = tmp_path / "umi.toml"
    settings.write_text('[assembly]\nseparator = " ~ "\ncitation = ""\nper_chunk_max = 15\n')
    run("index", tmp_path / "notes", "--store", tmp_path / "store")
    asked = ("which boiler leaks?", "--store", tmp_path / "store", "--config", settings)
    printed = run("ask", *asked, "--context").output.rstrip("\n")
    assert (printed.count(" ~ "), printed.count("leaks"), printed.count("May")) == (29, 30, 0)
    assert json.loads(run("explain", *asked, "--json").output)["context"] == printed
    assert "tokens in 30 parts" in run("explain", *asked).output


def test_nothing_found_says_where_to_look(store):
    shown = run("search", "boiler", "--store", store, "--where", "speaker=nobody")
    assert (shown.exit_code, shown.output) == (0, "nothing found; umi status shows what the store holds\n")


@pytest.mark.parametrize(
    ("conditions", "line"),
    [
        (["tags=payments"], "umi: no chunk of the store has tags='payments'; did you mean 'Payments'?\n"),
        (["tags=fronted"], "umi: no chunk of the store has tags='fronted'; did you mean 'frontend'?\n"),
        (["tags=Payments", "project=house"], ""),
    ],
)
def test_items_of_lists_are_values_of_where(tmp_path, conditions, line):
    (tmp_path / "a.md").write_text("---\ntags: [Payments, frontend]\nproject: shop\n---\nThe coupon moves.")
    (tmp_path / "b.md").write_text("---\ntags: Payment\nproject: house\n---\nThe coupon stays.")
    run("index", tmp_path / "a.md", tmp_path / "b.md", "--store", tmp_path / "store")
    where = [part for condition in conditions for part in ("--where", condition)]
    shown = run("search", "coupon", "--store", tmp_path / "store", *where)
    assert (shown.stdout, shown.stderr) == ("nothing found; umi status shows what the store holds\n", line)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("speaker=mira", "no chunk of the store has speaker='mira'; did you mean 'Mira'?"),
        ("speaker=Jonsa", "no chunk of the store has speaker='Jonsa'; did you mean 'Jonas'?"),
        ("file=house.md", "no chunk of the store has file='house.md'; did you mean '{notes}/house.md'?"),
    ],
)
@pytest.mark.parametrize("command", ["search", "explain", "ask"])
def test_a_value_of_where_that_no_chunk_has_names_the_stored_values_that_resemble_it(
    store, notes, command, where, line
):
    done = CliRunner().invoke(app, [command, "roof", "--store", str(store), "--where", where])
    assert done.stderr.splitlines()[0] == "umi: " + line.format(notes=notes.name)


def test_a_start_where_no_passage_has_a_time_says_so(tmp_path, store):
    (tmp_path / "note.txt").write_text("The roof leaks.")
    run("index", tmp_path / "note.txt", "--store", tmp_path / "store")
    line = "umi: no chunk of the store has a time, so --start and --end leave out all; search without them"
    for command in ("search", "explain", "ask"):
        done = CliRunner().invoke(app, [command, "roof", "--store", str(tmp_path / "store"), "--start", "2024-01-01"])
        assert done.stderr.splitlines()[0] == line
        late = CliRunner().invoke(app, [command, "roof", "--store", str(store), "--start", "2030-01-01"])
        assert "has a time" not in late.stderr


def test_ask_prints_a_prompt_and_with_context_the_evidence_alone(store):
    prompt = run("ask", "what leaks?", "--store", store, "--tokens", 200).output
    assert "Question: what leaks?" in prompt
    evidence = run("ask", "what leaks?", "--store", store, "--context").output
    assert "valve" in evidence and "Question:" not in evidence
    packed = json.loads(run("ask", "what leaks?", "--store", store, "--tokens", 60, "--json").output)
    assert 0 < packed["stats"]["tokens"] <= packed["stats"]["budget"] == 60


def test_ask_says_beside_the_prompt_that_nothing_was_found_or_that_a_part_failed(store, monkeypatch):
    nothing = CliRunner().invoke(app, ["ask", "what leaks?", "--store", str(store), "--where", "file=none"])
    assert "umi: nothing found; umi status shows what the store holds" in nothing.stderr
    assert "nothing found" not in nothing.stdout
    monkeypatch.setattr(type(default_embedder()), "embed_queries", FaultyEmbedder(HashEmbedder(8), "").embed_queries)
    failed = CliRunner().invoke(app, ["ask", "which valve leaks by now?", "--store", str(store)])
    assert "umi: without embedder" in failed.stderr
    assert "valve" in failed.stdout
    packed = json.loads(run("ask", "which valve leaks by now?", "--store", store, "--json").output)
    assert [loss["part"] for loss in packed["degraded"]] == ["embedder"]
    found = CliRunner().invoke(app, ["search", "zeppelin", "--store", str(store)])
    assert found.stdout.startswith("nothing found")
    assert "umi: without embedder" in found.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes end otherwise there")
def test_a_reader_that_has_enough_ends_a_command_without_an_error(store):
    command = [sys.executable, "-m", "umi_common.cli", "search", "what leaks?", "--store", str(store)]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_status_verify_repair_and_rebuild(store):
    assert json.loads(run("status", "--store", store, "--json").output)["chunks"] == 4
    for command in ("verify", "repair", "rebuild"):
        done = run(command, "--store", store)
        assert (done.exit_code, done.output) == (0, "4 chunks, all sound\n")
        assert json.loads(run(command, "--store", store, "--json").output)["sound"] is True


def test_a_store_whose_model_is_not_the_default_is_looked_after_all_the_same(tmp_path):
    """None of these commands embeds anything."""
    with HybridStore.open(tmp_path, embedder=HashEmbedder(8)) as store:
        store.add([Chunk("x", "One.")])
    assert json.loads(run("status", "--store", tmp_path, "--json").output)["embedder"] == "hash/8"
    for command in ("verify", "repair", "rebuild"):
        assert run(command, "--store", tmp_path).output == "1 chunks, all sound\n"


def test_status_is_read_by_people(store):
    shown = run("status", "--store", store)
    assert shown.exit_code == 0
    lines = dict(line.split(None, 1) for line in shown.output.replace("on disk", "disk").splitlines())
    assert lines["chunks"] == "4 from 3 sources"
    assert lines["lexical"] == "ready, 4 chunks"
    assert lines["dense"] == "exact; 256 dimensions, wordllama/l2_supercat_256"
    assert re.fullmatch(r"\d+\.\d [kM]B", lines["disk"])


@pytest.mark.parametrize("milliseconds, shown", [(42.0, "p95 at most 50 ms"), (20_000.0, "p95 above 10000 ms")])
def test_status_says_how_long_searches_took_as_far_as_its_counts_tell(tmp_path, milliseconds, shown):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(8)) as store:
        store.add([Chunk("x", "One.")])
        store.search_counter.add({"searches": 1, "milliseconds": milliseconds})
    assert f"mean {milliseconds:.1f} ms, {shown}\n" in run("status", "--store", tmp_path).output


def test_status_says_what_is_out_of_action_and_what_to_do(store, monkeypatch):
    failing = "umi_common.stores.lexical.index.LexicalIndex.update"
    with HybridStore.open(store) as opened, monkeypatch.context() as patch:
        patch.setattr(failing, lambda *_, **__: 1 / 0)
        opened.add([Chunk("x", "One more.")])
        patch.setattr(
            "umi_common.cli.maintenance.opened_without_model", lambda *_, **__: contextlib.nullcontext(opened)
        )
        shown = run("status", "--store", store)
        said = run("status", "--store", store, "--json")
        opened.delete(["x"])
    assert shown.exit_code == said.exit_code == 1
    assert (
        "umi: lexical index: ZeroDivisionError while indexing; searches work without it until you run: umi repair"
        in shown.output
    )
    assert json.loads(said.stdout)["problems"] == ["lexical index: ZeroDivisionError while indexing"]


def test_a_damaged_ledger_ends_verify_with_1(notes, tmp_path):
    run("index", notes, "--store", tmp_path / "store")
    ledger = tmp_path / "store" / "umi.db"
    content = bytearray(ledger.read_bytes())
    at = content.find(b"leaks at the valve")
    content[at : at + 5] = b"drips"
    ledger.write_bytes(content)
    done = umi("verify", "--store", tmp_path / "store")
    assert done.returncode == 1
    assert "umi.db" in done.stderr


def test_verify_names_the_chunks_of_stored_vectors_that_are_numbers(notes, tmp_path):
    run("index", notes, "--store", tmp_path / "store")
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "umi.db")) as ledger, ledger:
        ledger.execute("UPDATE vectors SET vector = 5")
    done = umi("verify", "--store", tmp_path / "store")
    assert done.returncode == 1
    assert "garden.html" in done.stderr
    assert "HybridStore.reindex(path" in done.stderr


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (
            ("search", "x", "--store", "nowhere"),
            1,
            "umi: nowhere holds no store; make one: umi index FOLDER --store nowhere",
        ),
        (("index", "nothing"), 1, "umi: nothing does not exist; give files or folders that do"),
        (("search", "x", "--where", "speaker"), 1, "umi: .umi holds no store"),
        (("search",), 2, "umi: Missing argument"),
        (("serch", "x"), 2, "umi: No such command 'serch'. Did you mean 'search'? See: "),
        (("search", "x", "--limit", "0"), 2, "umi: Invalid value for '--limit'"),
        (("explain", "x", "--html", "nowhere/why.html"), 1, "umi: .umi holds no store"),
    ],
)
def test_an_error_is_one_line_with_its_fix(tmp_path, arguments, code, said):
    done = umi(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_path_where_no_store_can_be_made_is_not_advised_for_one(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("The roofers want nine thousand.")
    file = umi("search", "x", "--store", "notes/a.txt", cwd=tmp_path)
    assert file.stderr.strip() == f"umi: {tmp_path / 'notes' / 'a.txt'} is a file; a store is a directory"
    folder = umi("search", "x", "--store", "notes", cwd=tmp_path)
    assert folder.stderr.strip().endswith("notes holds 'a.txt' and no umi.db; give umi a directory of its own")


def test_a_question_without_quotation_marks_is_told_to_have_them(tmp_path):
    done = umi("search", "what", "do", "they", "want?", cwd=tmp_path)
    assert done.returncode == 2
    assert "(do they want?); put a question of several words in quotation marks. See: " in done.stderr


@pytest.mark.parametrize("command", ["status", "verify", "repair", "rebuild"])
def test_a_store_without_its_option_is_told_to_have_it(store, command):
    done = umi(command, store)
    assert done.returncode == 2
    assert "; name the store with --store. See: " in done.stderr
    assert "quotation marks" not in done.stderr


@pytest.mark.parametrize("condition", ["speaker", "year>=2023", "year > 2023", "year!=2023", "year==2023"])
def test_a_condition_that_is_none_says_what_one_is(store, condition):
    done = umi("search", "x", "--where", condition, "--store", store)
    assert done.stderr == (
        f"umi: --where '{condition}': expected KEY=VALUE, for example --where speaker=Mira, or a JSON object, for "
        """example --where '{"year": {"$gte": 2023}}'\n"""
    )


@pytest.mark.parametrize("command", ["search", "ask", "explain"])
def test_a_misspelt_key_of_a_filter_is_named(store, command):
    done = umi(command, "roofers", "--where", "speeker=Mira", "--store", store)
    assert done.returncode == 0
    assert "umi: no chunk of the store has the key 'speeker' of --where; check its spelling\n" in done.stderr
    either = '{"$or": [{"speeker": "Mira"}, {"speaker": "Mira"}]}'
    found = umi(command, "roofers", "--where", either, "--store", store)
    assert "speeker" not in found.stderr


@pytest.mark.parametrize("arguments", [("search", "x"), ("status",), ("verify",)])
def test_a_name_too_long_for_a_store_is_said(tmp_path, arguments):
    done = umi(*arguments, "--store", "s" * 300, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "cannot be read (File name too long); check its name and permissions" in done.stderr


def test_damage_that_repair_cannot_mend_is_not_sent_to_repair(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(8)) as store:
        store.add([Chunk("x", "One."), Chunk("y", "Two.")])
    with contextlib.closing(sqlite3.connect(tmp_path / "umi.db")) as ledger, ledger:
        ledger.execute("UPDATE chunks SET text = 'Three.' WHERE seq = 2")
    done = umi("verify", "--store", tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "umi: umi.db: chunk 'y' is not what was stored; restore umi.db from a copy\n",
    )
    done = umi("repair", "--store", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("restore umi.db from a copy") == 1


def test_ctrl_c_while_the_commands_are_imported_is_one_line(tmp_path):
    """The import of the commands is interrupted where they import typer."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    done = umi("status", env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"})
    assert (done.returncode, done.stderr) == (130, "umi: stopped before it began\n")


def test_a_bad_file_is_told_the_rest_is_found_and_only_strict_ends_with_1(notes, tmp_path):
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    command = ("index", notes, tmp_path / "bad.jsonl", "--store", tmp_path / "store")
    for options, code in [((), 0), (("--strict",), 1), (("--strict", "--json"), 1), ((), 0)]:
        done = umi(*command, *options)
        assert done.returncode == code
        assert "bad.jsonl line 1" in (done.stdout if "--json" in options else done.stderr)
    assert "umi: skipped: " in done.stderr and len(done.stderr.splitlines()) == 1
    assert umi("index", notes, "--store", tmp_path / "store", "--strict").returncode == 0
    assert len(json.loads(umi("search", "boiler", "--store", tmp_path / "store", "--json").stdout)["hits"]) > 0


def test_a_file_that_can_no_longer_be_read_is_counted_as_outdated(notes, tmp_path):
    lines, command = tmp_path / "lines.jsonl", ("index", tmp_path / "lines.jsonl", notes, "--store", tmp_path / "store")
    lines.write_text('{"text": "The boiler leaks."}')
    assert "outdated" not in umi(*command).stdout
    lines.write_text("nonsense")
    done = umi(*command)
    assert "unchanged, 1 skipped, 1 outdated; " in done.stdout
    assert done.stderr.endswith("; what an earlier run stored of it can still be found\n")
    assert json.loads(umi(*command, "--json").stdout)["outdated"] == 1


def chunks_in(where):
    """Chunks that a store holds by now; 0 while it is being created."""
    try:
        with HybridStore.open(where, read_only=True) as store:
            return len(store)
    except StoreError:
        return 0


def test_ctrl_c_leaves_a_store_that_answers_and_goes_on_later(tmp_path):
    folder, where = tmp_path / "many", tmp_path / "store"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number:04}.txt").write_text(f"Note {number}. " + f"The valve of boiler {number} leaks. " * 400)
    command = [sys.executable, "-m", "umi_common.cli", "index", str(folder), "--store", str(where)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while chunks_in(where) == 0:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.index("Ctrl-C again stops at once") < said.index("umi: stopped; what was written is kept: run the same")
    with HybridStore.open(where) as store:
        there = len(store)
        assert there and store.verify()
    done = umi("index", folder, "--store", where, "--json")
    report = json.loads(done.stdout)
    assert report["unchanged"] > 0 and report["unchanged"] + report["indexed"] == 600
    assert report["chunks_in_store"] > there


def test_index_has_options_for_links_sizes_and_pdfs(tmp_path):
    (tmp_path / "outside.txt").write_text("The roof is dry.")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The boiler leaks. " * 100)
    (folder / "b.txt").symlink_to(tmp_path / "outside.txt")
    command = ("index", folder, "--store", tmp_path / "store")
    shown = run(*command, "--max-file-mb", "0.001")
    assert "a.txt has 0.0 MB, more than the limit of 0.001 MB" in shown.output
    assert "b.txt is a link to" in shown.output
    assert "2 files: 2 indexed" in run(*command, "--follow-symlinks", "--pdf-seconds", "5").output
    assert run(*command, "--pdf-seconds", "0").exit_code == 2


def test_ctrl_c_twice_ends_a_run_that_reads_a_slow_pdf(tmp_path):
    pytest.importorskip("pypdf")
    folder, where = tmp_path / "slow", tmp_path / "store"
    folder.mkdir()
    for name in ("a.txt", "c.txt"):
        (folder / name).write_text("Note. " * 300_000)  # more than one batch, so it is written before b.pdf is read
    (folder / "b.pdf").write_bytes(SLOW)
    command = [sys.executable, "-m", "umi_common.cli", "index", str(folder), "--store", str(where)]
    with subprocess.Popen(
        [*command, "--pdf-seconds", "600"], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while chunks_in(where) == 0:
            assert process.poll() is None
            time.sleep(0.01)
        while not any(os.getsid(child.pid) == child.pid for child in psutil.Process(process.pid).children()):
            assert process.poll() is None
            time.sleep(0.01)  # until another process, in a session of its own, reads b.pdf
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        assert any("Ctrl-C again stops at once" in line for line in process.stderr)
        assert process.poll() is None  # it finishes the file
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 130
    done = umi("index", folder, "--store", where, "--pdf-seconds", "1")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "b.pdf takes longer than 1 s" in done.stderr


def test_a_second_ctrl_c_at_the_very_moment_of_the_first_ones_answer_stops_at_once(monkeypatch):
    pressed = []

    def answer(descriptor, said):
        pressed.append(said)
        if len(pressed) == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("umi_common.cli.indexing.os.write", answer)
    with pytest.raises(KeyboardInterrupt), _interruptible():
        signal.raise_signal(signal.SIGINT)


def test_a_command_to_copy_quotes_a_store_with_a_space(notes, tmp_path):
    assert "umi index FOLDER --store 'my notes'" in umi("search", "x", "--store", "my notes", cwd=tmp_path).stderr
    assert "--store 'my notes'\n" in umi("index", notes, "--store", "my notes", cwd=tmp_path).stdout


def test_a_tilde_is_the_home_in_every_command(notes, tmp_path):
    """A shell leaves it in `--store=~/memory`, and a program that starts `umi mcp` in all arguments."""
    home = {**os.environ, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    shutil.copytree(notes, tmp_path / "notes")
    (tmp_path / "umi.toml").write_text("[lexical]\nk1 = 1.1\n")
    for arguments in (
        ("index", "~/notes", "--store=~/memory"),
        ("search", "boiler", "--store=~/memory", "--config=~/umi.toml"),
        ("verify", "--store=~/memory"),
        ("migrate", "~/memory", "~/copy"),
    ):
        done = umi(*arguments, cwd=notes, env=home)
        assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "copy" / "umi.db").exists()


def test_a_command_works_where_stderr_is_closed(notes, tmp_path):
    closed = [sys.executable, "-c", "import sys; sys.stderr = None; from umi_common.cli import main; main()"]
    done = subprocess.run([*closed, "index", notes, "--store", tmp_path / "a"], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"3 files: 3 indexed" in done.stdout
    assert subprocess.run([*closed, "no-such-command"], check=False).returncode == 2


def test_a_model_that_is_not_there_leaves_no_empty_store(notes, tmp_path):
    (tmp_path / "umi.toml").write_text('[embedder]\nmodel = "no-such-model"\n')
    for option in (("--embedder", "no-such-model"), ("--config", tmp_path / "umi.toml")):
        done = umi("index", notes, "--store", tmp_path / "store", *option)
        assert done.returncode == 1
        assert "no-such-model" in done.stderr
        assert not (tmp_path / "store").exists()


def test_index_reads_the_settings_of_the_environment_without_a_file_of_settings(notes, tmp_path):
    model = umi("index", notes, "--store", tmp_path / "a", env={**os.environ, "UMI_EMBEDDER__MODEL": "no-such-model"})
    assert model.returncode == 1
    assert "no-such-model" in model.stderr
    umi("index", notes, "--store", tmp_path / "b", env={**os.environ, "UMI_ANALYZER__LANGUAGE": "german"})
    with HybridStore.open(tmp_path / "b", read_only=True) as store:
        assert store.config.analyzer.language == "german"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, typer.Abort])
def test_ctrl_c_in_any_command_ends_with_130_and_one_line(kind, monkeypatch, capsys):
    def interrupted(**options):
        raise kind

    monkeypatch.setattr("umi_common.cli.program.app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("umi: stopped; ")


def test_ctrl_c_in_a_command_says_that_it_stopped(store, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("umi_common.cli.search.opened_retriever", interrupted)
    monkeypatch.setattr(sys, "argv", ["umi", "search", "boiler", "--store", str(store)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("umi: stopped; ")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "umi: No space left on device; see where it writes"),
        (PermissionError(13, "Permission denied", "a.md"), "umi: Permission denied: a.md; check the path and its perm"),
    ],
)
def test_an_error_of_the_disk_names_the_file_if_it_has_one(error, said, monkeypatch, capsys):
    def failing(**options):
        raise error

    monkeypatch.setattr("umi_common.cli.program.app", failing)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith(said)


def test_index_says_how_many_records_have_a_time_that_is_none(tmp_path):
    times = ["2024-06-11T19:15:00Z", "11.06.2024", "05/06/2024", "soon", 83.5, ""]
    records = [json.dumps({"id": str(i), "text": f"note {i}", "timestamp": time}) for i, time in enumerate(times)]
    (tmp_path / "notes.jsonl").write_text("\n".join(records))
    shown = run("index", tmp_path / "notes.jsonl", "--store", tmp_path / "store")
    assert "6 chunks" in shown.output
    assert "notes.jsonl: the time of 2 records, which does not read as one moment" in shown.output
    assert "; the text is indexed without it; first line 3" in shown.output


def test_index_says_which_notes_and_chats_have_a_time_that_is_none(tmp_path):
    (tmp_path / "plan.md").write_text("---\ndate: next Tuesday\n---\nThe board meets.")
    (tmp_path / "no date.md").write_text("---\ndate: \ntitle: Plan\n---\nThe board meets.")
    (tmp_path / "chat.txt").write_text("03/04/24, 19:15 - Mira: Hi\n05/06/24, 19:15 - Jonas: Hi\n")
    shown = run("index", tmp_path, "--store", tmp_path / "store")
    for name, count in (("plan.md", "1 passage"), ("chat.txt", "2 passages")):
        said = f"{name}: the time of {count}, which does not read as one moment; the text is indexed without it; write"
        assert said in shown.output
    assert "no date.md" not in shown.output

"""One file cannot stop a run: size, time and kind are limited, what is good is stored, what is skipped is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pdf_toys import SLOW, pdf, shown

from umi_common.cli import indexing
from umi_common.errors import ConfigError, FileUnreadable
from umi_common.files import chunks_of, index
from umi_common.files.readers.reading import MAX_FILE_BYTES, PDF_SECONDS
from umi_common.ingest import ingest
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

GOOD = "The boiler leaks."
both = pytest.mark.parametrize("run", [index, ingest], ids=["index", "ingest"])
SECONDS_MAX = 20.0
"""Generous, for a busy machine; the files here took minutes, or had no end."""


@pytest.fixture()
def store(tmp_path):
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(16)) as opened:
        yield opened


@pytest.fixture()
def folder(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text(GOOD)
    (docs / "z.txt").write_text("The roof is dry.")
    return docs


@both
@pytest.mark.parametrize("name", ["huge.txt", "huge.jsonl", "huge.pdf"])
def test_a_sparse_file_of_6_gib_is_skipped_by_its_size_and_the_others_are_stored(store, folder, run, name):
    with (folder / name).open("wb") as file:
        file.truncate(6 << 30)
    begun = time.perf_counter()
    report = run(store, [folder])
    assert time.perf_counter() - begun < SECONDS_MAX
    assert store.ids() == ["docs/a.txt#0", "docs/z.txt#0"]
    (line,) = map(str, report.problems)
    assert name in line and "than the limit of 100 MB" in line and "--max-file-mb" in line


@both
def test_the_largest_size_can_be_chosen(store, folder, run):
    (folder / "b.txt").write_text("x" * 100)
    assert "b.txt has 0.0 MB, more than" in str(run(store, [folder], max_file_bytes=99).problems[0])
    assert not run(store, [folder], max_file_bytes=100).problems
    assert len(store) == 3


def test_a_large_file_of_records_is_ingested_in_ranges_whatever_its_size(store, folder):
    (folder / "b.jsonl").write_text("".join(f'{{"text": "Note {number}."}}\n' for number in range(100)))
    assert not ingest(store, [folder], max_file_bytes=100, part_bytes=100).problems
    assert len(store) == 102


@both
@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="Linux")
def test_a_file_that_tells_no_size_and_has_no_end_is_read_to_the_limit_only(store, run):
    (line,) = map(str, run(store, ["/proc/self/pagemap"], max_file_bytes=100_000).problems)
    assert "has more than the limit of 0.1 MB" in line


@both
def test_pipes_and_devices_are_skipped_without_waiting(store, folder, run):
    os.mkfifo(folder / "pipe.txt")
    (folder / "zero.txt").symlink_to("/dev/zero")
    problems = sorted(map(str, run(store, [folder], follow_symlinks=True).problems))
    assert [line.split("; ")[0] for line in problems] == [
        f"{folder / name} is no regular file" for name in ("pipe.txt", "zero.txt")
    ]
    assert len(store) == 2


SWAPS = """
import os, sys
from pathlib import Path

folder = Path(sys.argv[1])
while True:
    os.mkfifo(folder / "pipe")
    os.replace(folder / "pipe", folder / "a.txt")
    (folder / "text").write_text("a")
    os.replace(folder / "text", folder / "a.txt")
"""
READS = """
import sys
from pathlib import Path
from umi_common.errors import FileUnreadable
from umi_common.files import chunks_of

for _ in range(5_000):
    try:
        chunks_of(Path(sys.argv[1], "a.txt"))
    except FileUnreadable as error:
        assert "no regular file" in str(error)
"""


def test_a_pipe_that_takes_the_place_of_a_file_meanwhile_is_not_waited_for(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPS, str(tmp_path)])
    try:
        subprocess.run([sys.executable, "-c", READS, str(tmp_path)], check=True, timeout=60)
    finally:
        swapper.kill()
        swapper.wait()


@both
def test_a_pdf_that_takes_too_long_is_skipped_and_the_others_are_stored(store, folder, run):
    pytest.importorskip("pypdf")
    (folder / "b.pdf").write_bytes(SLOW)
    (folder / "c.pdf").write_bytes(pdf(shown("The valve drips."), pages=[0]))
    begun = time.perf_counter()
    report = run(store, [folder], pdf_seconds=2.0)
    assert time.perf_counter() - begun < SECONDS_MAX
    assert store.ids() == ["docs/a.txt#0", "docs/c.pdf#0", "docs/z.txt#0"]
    (line,) = map(str, report.problems)
    assert "b.pdf takes longer than 2 s to read" in line and "--pdf-seconds" in line


@both
def test_a_broken_page_costs_that_page_and_not_its_pdf(store, folder, run):
    pytest.importorskip("pypdf")
    content = pdf(shown("First page."), shown("Second page."), shown("Third page."), pages=[0, 1, 2])
    first, second, third, fourth = content.split(b"/FlateDecode")
    (folder / "b.pdf").write_bytes(b"/FlateDecode".join([first, second + b"/OtherDecode" + third, fourth]))
    (line,) = map(str, run(store, [folder]).problems)
    assert f"{folder / 'b.pdf'} page 2 cannot be read" in line
    text = store.get(["docs/b.pdf#0"])[0].text
    assert "First page." in text and "Third page." in text
    assert len(run(store, [folder]).problems) == 1  # told again


@both
def test_a_pdf_with_half_a_surrogate_pair_is_read(store, folder, run):
    pytest.importorskip("pypdf")
    cmap = b"/CIDInit/ProcSet findresource begin begincmap 1 beginbfchar <61> <D800> endbfchar endcmap"
    (folder / "b.pdf").write_bytes(pdf(shown("abc"), cmap, pages=[0], extra="/ToUnicode 6 0 R"))
    assert not run(store, [folder]).problems
    assert "bc" in store.get(["docs/b.pdf#0"])[0].text


@both
def test_bad_lines_of_records_are_listed_and_the_good_ones_stored(store, folder, run):
    lines = ['{"id": "r1", "text": "one"}', "nonsense", '{"id": "r3", "text": "three"}', "[4]", '{"id": "r5"}']
    (folder / "b.jsonl").write_text("\n".join(lines))
    for _ in range(2):  # what is skipped is told by every run
        problems = [str(problem) for problem in run(store, [folder]).problems]
        assert [line.split(":")[0] for line in problems] == [f"{folder / 'b.jsonl'} line {n}" for n in (2, 4, 5)]
        assert "expected an object like" in problems[0] and "no text" in problems[2]
        assert store.ids() == ["docs/a.txt#0", "docs/z.txt#0", "r1", "r3"]
    lines[1] = '{"id": "r2", "text": "two"}'
    (folder / "b.jsonl").write_text("\n".join(lines))
    assert len(run(store, [folder]).problems) == 2
    assert {"r1", "r2", "r3"} < set(store.ids())


@both
def test_a_record_that_turns_bad_leaves_the_store_and_one_that_is_gone_too(store, folder, run):
    records = [f'{{"id": "r{number}", "text": "Note {number}."}}' for number in range(5)]
    (folder / "b.jsonl").write_text("\n".join(records))
    run(store, [folder])
    (folder / "b.jsonl").write_text("\n".join(["{", *records[2:]]))
    run(store, [folder])
    assert store.ids() == ["docs/a.txt#0", "docs/z.txt#0", "r2", "r3", "r4"]


@both
def test_a_record_with_an_id_that_is_taken_is_listed_and_the_others_are_stored(store, folder, run):
    (folder / "b.jsonl").write_text('{"id": "r1", "text": "one"}\n{"id": "r1", "text": "two"}\n{"text": "three"}')
    (folder / "c.jsonl").write_text('{"id": "r1", "text": "four"}\n{"id": "r2", "text": "five"}')
    for _ in range(2):
        problems = [str(problem) for problem in run(store, [folder]).problems]
        assert len(problems) == 2
        assert "b.jsonl holds id 'r1' twice" in problems[0]
        assert "c.jsonl holds id 'r1', which the store has from docs/b.jsonl" in problems[1]
        assert store.ids() == ["docs/a.txt#0", "docs/b.jsonl#3", "docs/z.txt#0", "r1", "r2"]
        assert store.get(["r1"])[0].text == "one"


def test_a_record_whose_id_is_taken_far_below_in_a_changed_file_is_told(store, folder):
    def write(*texts):
        records = [f'{{"id": "r{at}", "text": "{text}"}}' for at, text in enumerate(texts)]
        (folder / "b.jsonl").write_text("\n".join(records))

    write("one")
    index(store, [folder], part_bytes=300)
    write("first", *(f"filler {number}" for number in range(30)))
    with (folder / "b.jsonl").open("a") as file:
        file.write('\n{"id": "r0", "text": "again"}')
    for _ in range(2):
        problems = [str(problem) for problem in index(store, [folder], part_bytes=300).problems]
        assert len(problems) == 1 and "b.jsonl holds id 'r0' twice" in problems[0]


def test_an_id_that_is_taken_far_below_is_told_also_beside_a_part_that_cannot_be_read(store, folder):
    (folder / "b.jsonl").write_text('{"id": "r0", "text": "one"}')
    index(store, [folder], part_bytes=300)
    records = [f'{{"id": "r{number}", "text": "filler {number}"}}' for number in range(30)]
    records[12:12] = ["no record at all " * 40]
    (folder / "b.jsonl").write_text("\n".join([*records, '{"id": "r0", "text": "again"}']))
    for _ in range(2):
        problems = " ".join(str(problem) for problem in index(store, [folder], part_bytes=300).problems)
        assert "line 13" in problems and "b.jsonl holds id 'r0' twice" in problems


@both
def test_of_very_many_bad_lines_the_first_are_listed_and_the_others_counted(store, folder, run):
    (folder / "b.jsonl").write_text('{"id": "r", "text": "a"}\n' + "x\n" * 1_000)
    problems = [str(problem) for problem in run(store, [folder]).problems]
    assert len(problems) == 101
    assert problems[-1] == f"{folder / 'b.jsonl'}: further lines or pages that were skipped: 900; 100 are listed"


@both
def test_a_file_of_the_same_size_and_time_in_the_place_of_another_is_noticed(store, folder, run):
    path = folder / "a.txt"
    run(store, [folder])
    before = path.stat()
    time.sleep(0.05)  # more than a tick of the file system's clock
    path.write_text("The boiler works.")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    run(store, [folder])
    assert store.get(["docs/a.txt#0"])[0].text == "The boiler works."
    (folder / "new").write_text("The boiler  sings")
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "new").replace(path)
    run(store, [folder])
    assert store.get(["docs/a.txt#0"])[0].text == "The boiler  sings"
    assert path.stat().st_mtime_ns == before.st_mtime_ns and path.stat().st_size == before.st_size


@both
def test_of_a_file_that_can_no_longer_be_read_it_is_said_that_its_old_text_is_still_found(store, folder, run):
    (folder / "a.jsonl").write_text('{"id": "r1", "text": "The boiler leaks."}')
    run(store, [folder])
    (folder / "a.jsonl").write_text("nonsense")
    (folder / "new.jsonl").write_text("nonsense")
    report = run(store, [folder])
    old, new = report.problems
    assert store.get(["r1"])[0].text == "The boiler leaks."
    assert old.endswith("; what an earlier run stored of it can still be found") and old.source == "docs/a.jsonl"
    assert new.startswith(f"{folder / 'new.jsonl'} line 1") and "still be found" not in new
    assert report.outdated == 1


@both
def test_a_file_that_grew_too_large_is_outdated_until_it_can_be_read_again(store, folder, run):
    run(store, [folder])
    (folder / "a.txt").write_text("The boiler is new. " * 9)
    report = run(store, [folder], max_file_bytes=50)
    assert report.outdated == 1 and "can still be found" in report.problems[0]
    report = run(store, [folder])
    assert (report.outdated, report.problems) == (0, [])
    assert store.get(["docs/a.txt#0"])[0].text.startswith("The boiler is new.")


def test_a_file_of_which_this_run_stored_a_part_is_not_outdated(tmp_path, folder):
    embedder = FaultyEmbedder(HashEmbedder(16), "Note 9.")
    (folder / "b.jsonl").write_text("".join(f'{{"text": "Note {number}."}}\n' for number in range(10)))
    with HybridStore.open(tmp_path / "store", embedder=embedder) as store:
        for text in ("The boiler leaks.", "The boiler is new."):
            (folder / "z.txt").write_text(text)
            report = index(store, [folder], part_bytes=60)
            assert len(report.problems) == 1 and "still be found" not in report.problems[0]
            assert report.outdated == 0 and len(store) > 4


@both
def test_a_very_deep_folder_is_walked(store, folder, run):
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d", dir_fd=deep)
        deeper = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    with os.fdopen(os.open("deep.txt", os.O_WRONLY | os.O_CREAT, dir_fd=deep), "w") as file:
        file.write("Deep down.")
    os.close(deep)
    try:
        assert run(store, [folder]).files == 3
        assert len(store) == 3
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)  # shutil.rmtree, which pytest calls, fails over it


def test_what_cannot_be_looked_at_is_named(store):
    with pytest.raises(FileUnreadable, match="File name too long"):
        index(store, ["x" * 1_000])


@pytest.mark.parametrize(
    "limits",
    [
        {"max_file_bytes": 0},
        {"max_file_bytes": 1e6},
        {"pdf_seconds": 0},
        {"pdf_seconds": float("nan")},
        {"pdf_seconds": "10"},
        {"part_bytes": 0},
        {"part_bytes": 1e6},
    ],
)
def test_a_limit_that_is_none_is_refused(store, folder, limits):
    for run in (index, ingest):
        with pytest.raises(ConfigError, match=next(iter(limits))):
            run(store, [folder], **limits)


def test_one_file_read_alone_has_the_same_limits(folder):
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(FileUnreadable, match="limit of 100 MB"):
        chunks_of(folder / "huge.txt")


def test_the_command_has_the_same_limits():
    assert (indexing.MAX_FILE_MB * 1e6, indexing.PDF_SECONDS) == (MAX_FILE_BYTES, PDF_SECONDS)


def test_records_that_are_skipped_are_in_the_json_of_the_command(folder, tmp_path):
    (folder / "b.jsonl").write_text('{"id": "r1", "text": "one"}\nnonsense\n')
    command = [sys.executable, "-m", "umi_common.cli", "index", str(folder), "--store", str(tmp_path / "s"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = json.loads(done.stdout)["problems"]
    assert "b.jsonl line 2" in line


def test_no_module_in_the_working_directory_is_executed(folder, tmp_path):
    """Neither by the command nor by the process that reads PDFs, whatever a file there is called."""
    pytest.importorskip("pypdf")
    (folder / "c.pdf").write_bytes(pdf(shown("The valve drips."), pages=[0]))
    here = tmp_path / "here"
    here.mkdir()
    for name in ("chromadb", "pypdf", "numpy", "json", "umi_common"):
        (here / f"{name}.py").write_text("from pathlib import Path\nPath(__file__).with_suffix('.executed').touch()\n")
    command = [Path(sys.executable).with_name("umi"), "index", folder, "--store", tmp_path / "store"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 files: 3 indexed" in done.stdout
    assert not list(here.glob("*.executed"))


@both
def test_a_scanned_page_among_others_is_said_once_and_its_pdf_is_not_read_again(store, folder, run):
    pytest.importorskip("pypdf")
    (folder / "b.pdf").write_bytes(pdf(shown(GOOD), b"", shown("The roof."), b"", pages=[0, 1, 2, 3]))
    first, second = (run(store, [folder]) for _ in range(2))
    (said,) = first.problems
    assert "b.pdf: pages without text, such as scanned ones, are not indexed: 2, first page 2; run it" in said
    assert (first.finished, second.problems, second.unchanged) == (3, [], 3)


@pytest.mark.parametrize(
    ("refresh", "texts"),
    [
        ('<meta http-equiv="refresh" content="0; URL=roof.html">', 1),
        ("<META HTTP-EQUIV=Refresh CONTENT=\"0;url='roof.html'\">", 1),
        ("<meta http-equiv=refresh content='0, roof.html'>", 1),
        ("<meta http-equiv=refresh content='30; url=roof.html'>", 2),
        ("<meta http-equiv=refresh content=0>", 2),
        ("<noscript><meta http-equiv=refresh content='0; url=roof.html'></noscript>", 2),
    ],
)
def test_a_page_that_only_leads_to_another_page_is_not_read_and_nothing_is_said(tmp_path, refresh, texts):
    (tmp_path / "roof.html").write_text("<title>Roof</title><p>The roof leaks above the stairs.", encoding="utf-8")
    (tmp_path / "old.html").write_text(f"<title>Roof leaks</title>{refresh}<p>Redirecting ...", encoding="utf-8")
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        report = index(store, tmp_path)
        assert (len(store), report.problems) == (texts, [])


def test_a_saved_page_with_text_is_read_though_it_leads_to_a_login(tmp_path):
    refresh, text = "<meta http-equiv=refresh content='0; url=/login'>", "<p>The roof leaks above the stairs." * 20
    (tmp_path / "saved.html").write_text(f"<title>Roof</title>{refresh}{text}", encoding="utf-8")
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        index(store, tmp_path)
        assert len(store) > 0


def test_only_a_page_without_text_is_said_to_be_filled_by_a_script(tmp_path):
    files = {"empty.ipynb": '{"cells": []}', "app.html": "<div id='app'></div>", "mark.txt": "\ufeff"}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        told = [str(problem).removeprefix(f"{tmp_path}/") for problem in index(store, tmp_path).problems]
    assert told == [
        "app.html has no text, perhaps because a script fills the page; nothing of it is indexed",
        "empty.ipynb has no text; nothing of it is indexed",
        "mark.txt has no text; nothing of it is indexed",
    ]

"""Parts of a file: together they are the whole file, whatever it holds and wherever it is cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.errors import FileUnreadable
from umi_common.files import chunks_of
from umi_common.files.parts import chunks_of_part, parts_of, version_of
from umi_common.files.readers.pdf import PdfProcess

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=30)
NEWLINES = st.sampled_from(["\n", "\r\n", "\n\n", "\r"])


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("parts")


def chunks_of_parts(path: Path, size: int) -> list:
    return [chunk for part in parts_of(path, "s", size=size) for chunk in read(part).chunks]


def read(part):
    with PdfProcess() as pdf:
        return chunks_of_part(part, pdf)


def test_a_file_of_records_is_cut_behind_the_line_that_reaches_the_size(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text":"aaaaa"}\n' * 5)  # 17 bytes each
    parts = parts_of(path, "a.jsonl", size=20)
    assert [(part.start, part.stop, part.first_line) for part in parts] == [(0, 34, 1), (34, 68, 3), (68, 85, 5)]


def test_any_other_file_is_one_part(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# A\n\n" + "word. " * 1000)
    (part,) = parts_of(path, "a.md", size=100)
    assert (part.start, part.stop) == (0, path.stat().st_size)
    assert read(part).chunks == chunks_of(path, "a.md")


def test_an_empty_file_is_one_empty_part(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("")
    (part,) = parts_of(path, "a.jsonl")
    assert part.size == 0 and read(part).chunks == []


@given(texts=TEXTS, newline=NEWLINES, size=st.integers(1, 200), last=st.booleans(), mark=st.booleans())
def test_the_chunks_of_the_parts_are_the_chunks_of_the_file(place, texts, newline, size, last, mark):
    path = place / "law.jsonl"
    lines = newline.join(json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    path.write_bytes(b"\xef\xbb\xbf" * mark + (lines + newline * last).encode())
    assert chunks_of_parts(path, size) == chunks_of(path, "s")


def test_records_in_utf16_are_one_part(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Ċ one"}\n{"text": "two"}\n', encoding="utf-16")  # U+010A holds the byte of a newline
    assert chunks_of_parts(path, 5) == chunks_of(path, "s") and len(parts_of(path, "s", size=5)) == 1


def test_a_key_changes_with_the_bytes_the_name_and_the_line_and_with_nothing_else(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text":"a"}\n' * 4)
    first, second = parts_of(path, "a", size=20)
    again = parts_of(path, "a", size=20)
    assert [first, second] == again and version_of(again) == version_of([first, second])
    assert first.key != second.key  # the same bytes, further down
    assert parts_of(path, "b", size=20)[0].key != first.key
    path.write_bytes(b'{"text":"a"}\n' * 5)  # appended to: what was there keeps its key
    assert parts_of(path, "a", size=20)[:2] == [first, second]


def test_a_file_that_changes_between_cutting_and_reading_is_refused(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("one")
    (part,) = parts_of(path, "a.md")
    path.write_text("two")
    with pytest.raises(FileUnreadable, match="changed while it was read"):
        read(part)


def test_a_bad_record_is_named_by_its_line_in_the_whole_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text":"a"}\n' * 9 + "nonsense\n")
    parts = parts_of(path, "a", size=20)
    (line,) = read(parts[-1]).skipped
    assert "line 10:" in line

"""Fixtures for the evaluation tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation_toys import letter_counts, write_lines

from umi_common.embedders import CallableEmbedder


@pytest.fixture
def letters() -> CallableEmbedder:
    return CallableEmbedder(letter_counts, name="letters", dim=26)


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A well-formed BEIR folder; tests damage it."""
    folder = tmp_path / "talk"
    folder.mkdir()
    write_lines(
        folder / "corpus.jsonl",
        {
            "_id": "d1",
            "title": "Boats",
            "text": "They sail.",
            "metadata": {"session": 1, "timestamp": "2023-05-08T13:56:00"},
        },
        {"_id": "d2", "title": "", "text": "Hello\u2028there", "metadata": {"session": 1}},
        {"_id": "d3", "text": "New session", "metadata": {"session": 2, "timestamp": "2023-05-09T10:00:00+02:00"}},
    )
    write_lines(
        folder / "queries.jsonl",
        {
            "_id": "q1",
            "text": "what sails?",
            "metadata": {"conversation_end": "2023-06-01", "category_name": "temporal"},
        },
        {"_id": "q2", "text": "and then?", "metadata": {"history": [{"role": "user", "content": "hi"}, "plain"]}},
    )
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td3\t0\nq2\td2\t1\n")
    return folder

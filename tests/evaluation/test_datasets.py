from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from evaluation_toys import DATA, toy, write_lines

from benchmarks.quality_sets import PrecomputedEmbedder, load_vectors, with_shuffled_positions
from umi_common import Chunk
from umi_common.errors import ConfigError, DatasetError, EmbedderError, InputError, InvalidVector
from umi_common.evaluation import (
    Dataset,
    Keys,
    Query,
    load_beir,
    load_conversations,
    load_folder,
    load_haystacks,
)

UTC = timezone.utc


def test_a_document_with_a_title_reads_title_full_stop_text(beir):
    dataset = load_beir(beir)
    assert [chunk.text for chunk in dataset.chunks] == ["Boats. They sail.", "Hello\u2028there", "New session"]
    assert (dataset.name, dataset.group) == ("talk", "talk")


def test_a_dataset_in_a_cell_of_a_notebook_shows_its_size_and_not_its_texts(beir):
    assert repr(load_beir(beir)) == "Dataset('talk', 'talk', 3 chunks, 2 queries)"


def test_documents_have_no_source_unless_keys_name_one(beir):
    assert {(chunk.source, chunk.position, chunk.event_time) for chunk in load_beir(beir).chunks} == {
        (None, None, None)
    }


def test_conversations_get_session_order_and_utc_time(beir):
    (dataset,) = load_conversations(beir.parent, name="talks")
    assert [(c.source, c.position) for c in dataset.chunks] == [("1", 0), ("1", 1), ("2", 0)]
    assert [c.event_time for c in dataset.chunks] == [
        datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
        None,
        datetime(2023, 5, 9, 8, 0, tzinfo=UTC),
    ]
    assert (dataset.name, dataset.group) == ("talks", "talk")


def test_a_conversation_without_sessions_is_one_source(beir):
    (dataset,) = load_conversations(beir.parent, keys=Keys(source="meeting"))
    assert [(c.source, c.position) for c in dataset.chunks] == [("talk", 0), ("talk", 1), ("talk", 2)]


def test_a_position_may_come_from_metadata(beir):
    write_lines(
        beir / "corpus.jsonl", *({"_id": f"d{i}", "text": "x", "metadata": {"page": i * 10}} for i in (1, 2, 3))
    )
    dataset = load_beir(beir, keys=Keys(position="page"), default_source="book")
    assert [c.position for c in dataset.chunks] == [10, 20, 30]


def test_queries_carry_now_history_and_category(beir):
    first, second = load_beir(beir).queries
    assert first.now == datetime(2023, 6, 1, tzinfo=UTC)
    assert first.category == "temporal"
    assert second.history == ("user: hi", "plain") and second.metadata == {}
    assert (second.now, second.category) == (None, None)


def test_only_queries_with_a_relevant_document_are_judged():
    assert [query.id for query in toy().judged] == ["q1", "q2"]
    assert toy().relevant("q1") == ("a", "b")
    assert toy().relevant("q3") == ()


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0c"])
def test_an_id_may_hold_a_sign_at_which_python_splits_lines(beir, sign):
    (beir / "corpus.jsonl").write_text(json.dumps({"_id": f"page{sign}1", "text": "roof"}) + "\n")
    (beir / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\nq1\tpage{sign}1\t1\n", encoding="utf-8")
    assert load_beir(beir).qrels["q1"] == {f"page{sign}1": 1}


def test_beirs_own_qrels_folder_is_found(beir):
    (beir / "qrels").mkdir()
    (beir / "qrels.tsv").rename(beir / "qrels" / "test.tsv")
    assert load_beir(beir).relevant("q1") == ("d1",)


def test_ids_that_are_numbers_are_read_as_the_judgements_write_them(beir):
    write_lines(beir / "corpus.jsonl", {"_id": 7, "text": "seven"}, {"_id": 8, "text": "eight"})
    write_lines(beir / "queries.jsonl", {"_id": 1, "text": "what is seven?"})
    (beir / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\t7\t1\n")
    dataset = load_beir(beir)
    assert [chunk.id for chunk in dataset.chunks] == ["7", "8"]
    assert dataset.relevant("1") == ("7",)


def test_a_blank_document_is_left_out_but_counts_as_missed_where_it_is_relevant(beir):
    write_lines(
        beir / "corpus.jsonl",
        {"_id": "d1", "title": "", "text": " "},
        {"_id": "d2", "text": "two"},
        {"_id": "d3", "text": "three"},
    )
    dataset = load_beir(beir)
    assert [c.id for c in dataset.chunks] == ["d2", "d3"]
    assert dataset.blank == (0,)
    assert dataset.relevant("q1") == ("d1",)


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}\n{"_id": ', r"corpus.jsonl, line 2: not JSON"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x", "n": ' + "9" * 5_000 + "}", r"corpus.jsonl, line 1: not JSON"),
        ("corpus.jsonl", "[" * 200_000, r"corpus.jsonl, line 1: not JSON"),
        ("corpus.jsonl", "[]\n", r"corpus.jsonl, line 1: list; expected a JSON object"),
        ("corpus.jsonl", '\n{"text": "x"}\n', r"corpus.jsonl, line 2: field '_id' is absent"),
        ("corpus.jsonl", '{"_id": 7.5, "text": "x"}\n', r"line 1: field '_id' is 7.5; expected a string"),
        ("corpus.jsonl", '{"_id": 7, "text": "x"}\n{"_id": "7", "text": "x"}\n', r"line 2: '7' is in line 1 already"),
        ("corpus.jsonl", '{"_id": "d1", "text": null}\n', r"line 1: field 'text' is None"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x", "metadata": 3}\n', r"line 1: metadata is int"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x", "metadata": {"a": {}}}\n', r"line 1: chunk 'd1': metadata\['a'\]"),
        ("corpus.jsonl", "", r"holds no document"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}\n' * 2, r"line 2: 'd1' is in line 1 already"),
        ("queries.jsonl", '{"_id": "q1", "text": "x"}\n' * 2, r"line 2: 'q1' is in line 1 already"),
        ("queries.jsonl", '{"_id": "q1", "text": "x", "metadata": {"question_date": "soon"}}', r"1: the time .*'soon'"),
        ("queries.jsonl", '{"_id": "q1", "text": "x", "metadata": {"history": "hi"}}', r"line 1: metadata.* is str"),
        ("queries.jsonl", '{"_id": "q1", "text": "x", "metadata": {"history": [{"a": null}]}}', r"1: turn .*None"),
        ("queries.jsonl", '{"_id": "q1", "text": "x", "metadata": {"history": ["hi", null]}}', r"1: turn None"),
        ("queries.jsonl", '{"_id": "q1", "text": " "}', r"queries.jsonl, line 1: the question is blank"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td1\t0\n", r"line 3: 'q1' and 'd1' .* with 1 before"),
        ("qrels.tsv", "", r"qrels.tsv, line 1: an empty file"),
        ("qrels.tsv", "q1\td1\t1\n", r"line 1: .* expected the header"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1 d1 1\n", r"line 2: 1 fields"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tyes\n", r"line 2: score 'yes'"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\n\nq9\td1\t1\n", r"line 3: query 'q9'"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td9\t1\n", r"line 2: document 'd9'"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_named_with_its_line(beir, file, content, complaint):
    (beir / file).write_text(content)
    with pytest.raises(DatasetError, match=complaint):
        load_beir(beir, keys=Keys())


def test_a_history_of_null_is_no_history_and_a_blank_title_no_title(beir):
    write_lines(beir / "corpus.jsonl", {"_id": "d1", "title": " ", "text": "one"})
    write_lines(beir / "queries.jsonl", {"_id": "q1", "text": "one?", "metadata": {"history": None}})
    (beir / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    dataset = load_beir(beir)
    assert (dataset.chunks[0].text, dataset.queries[0].history) == ("one", ())


def test_an_id_twice_is_refused_in_code_as_well():
    chunk = toy().chunks[0]
    with pytest.raises(DatasetError, match="document 'a' occurs twice"):
        Dataset("set", "group", (chunk, chunk), (), {})
    with pytest.raises(DatasetError, match="query 'q1' occurs twice"):
        Dataset("set", "group", (chunk,), (Query("q1", "cat"), Query("q1", "dog")), {})


@pytest.mark.parametrize(
    ("queries", "qrels", "said"),
    [
        (["grey cat"], {}, "query 'grey cat'; expected a Query"),
        ([Query(1, "grey cat")], {}, r"query Query\(id=1"),
        ([Query("q1", " ")], {}, "not blank"),
        ([Query("q1", "cat")], {"q1": ["a"]}, r"query 'q1' is judged by \['a'\]; expected a whole number by"),
        ([Query("q1", "cat")], {"q1": {"a": 0.5}}, r"judged by \{'a': 0.5\}"),
        ([Query("q1", "cat")], {"q1": {"a": float("nan")}}, r"judged by \{'a': nan\}"),
        ([Query("q1", "cat")], {"q1": {"a": 1, "zz": 1}}, "document 'zz' is judged but not among the chunks"),
        ([Query("q1", "cat")], {"q1": {"zz": 1, 7: 1}}, "document 7 is judged but not among the chunks"),
        ([Query("q1", "cat")], [("q1", "a", 1)], "qrels is list; expected {query id: {document id: grade}}"),
    ],
)
def test_a_dataset_that_cannot_be_measured_is_refused_before_the_systems_run(queries, qrels, said):
    with pytest.raises(DatasetError, match=said):
        Dataset("set", "group", (Chunk("a", "grey cat"),), tuple(queries), qrels)


def test_grades_of_a_data_frame_are_whole_numbers_too():
    chunks = (Chunk("a", "cat"), Chunk("b", "bees"))
    dataset = Dataset("set", "group", chunks, (Query("q1", "cat"),), {"q1": {"a": np.int64(2), "b": 1.0}})
    assert [(grade, type(grade)) for grade in dataset.qrels["q1"].values()] == [(2, int), (1, int)]


def test_a_missing_file_or_folder_is_named(beir):
    (beir / "queries.jsonl").unlink()
    with pytest.raises(DatasetError, match=r"cannot read .*queries\.jsonl"):
        load_beir(beir)
    with pytest.raises(DatasetError, match="expected one BEIR folder per conversation"):
        load_conversations(beir)
    with pytest.raises(InputError):
        load_beir(beir / "nowhere")


def test_bytes_that_are_not_utf8_are_refused(beir):
    (beir / "corpus.jsonl").write_bytes(b'{"_id": "d1", "text": "caf\xe9"}')
    with pytest.raises(DatasetError, match="not UTF-8 at byte 26"):
        load_beir(beir)


def test_a_byte_order_mark_is_no_part_of_the_data(beir):
    path = beir / "qrels.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_beir(beir).relevant("q1") == ("d1",)


def test_shuffled_positions_keep_every_source_its_own_positions():
    dataset = toy()
    shuffled = with_shuffled_positions(dataset, seed=3)
    assert sorted(c.position for c in shuffled.chunks) == [0, 1, 2, 3, 4]
    assert [c.position for c in shuffled.chunks] != [0, 1, 2, 3, 4]
    assert [c.text for c in shuffled.chunks] == [c.text for c in dataset.chunks]
    assert shuffled.chunks == with_shuffled_positions(dataset, seed=3).chunks


def test_positions_shuffled_inside_sources_leave_every_document_in_its_own():
    dataset = with_shuffled_positions(two_sources(), seed=1)
    assert [c.source for c in dataset.chunks] == [c.source for c in two_sources().chunks]
    for source in ("left", "right"):
        assert sorted(c.position for c in dataset.chunks if c.source == source) == list(range(6))


def test_positions_shuffled_across_sources_mix_them_and_keep_their_sizes():
    dataset = with_shuffled_positions(two_sources(), seed=1, across_sources=True)
    assert [c.source for c in dataset.chunks] != [c.source for c in two_sources().chunks]
    assert sorted((c.source, c.position) for c in dataset.chunks) == [
        (s, p) for s in ("left", "right") for p in range(6)
    ]


def test_shuffling_leaves_documents_without_a_position_alone():
    dataset = Dataset("s", "g", (Chunk("a", "x"), Chunk("b", "y", source="z")), (), {})
    assert with_shuffled_positions(dataset).chunks == dataset.chunks


def two_sources() -> Dataset:
    chunks = tuple(Chunk(f"{s}{p}", "x", source=s, position=p) for s in ("left", "right") for p in range(6))
    return Dataset("set", "group", chunks, (), {})


def test_a_dataset_cannot_be_changed():
    with pytest.raises(TypeError):
        toy().qrels["q1"] = {}  # type: ignore[index]


HAYSTACK = {
    "session_ids": ["s1", "s2"],
    "dates": ["2023-01-01T10:00:00", "2023-01-02T10:00:00"],
    "sessions": [
        [{"role": "user", "content": "Hi "}, {"role": "assistant", "content": " Hello", "has_answer": True}],
        [
            {"role": "assistant", "content": "First"},
            {"role": "user", "content": " "},
            {"role": "user", "content": "Last"},
        ],
    ],
}


@pytest.fixture
def haystacks(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    (folder / "haystacks").mkdir(parents=True)
    facts = {"question_type": "kind", "question_date": "2023-01-03T00:00:00", "answer_session_ids": ["s1"]}
    write_lines(
        folder / "queries.jsonl",
        {"_id": "x1", "text": "who?", "metadata": facts},
        {"_id": "x2", "text": "none", "metadata": {**facts, "abstention": True}},
    )
    for id in ("x1", "x2"):
        write_haystack(folder, id, HAYSTACK)
    return folder


def write_haystack(folder: Path, id: str, haystack: object) -> None:
    with gzip.open(folder / "haystacks" / f"{id}.json.gz", "wt") as file:
        json.dump(haystack, file)


@pytest.mark.parametrize(
    ("granularity", "texts", "relevant"),
    [
        ("turn", ["User: Hi", "Assistant: Hello", "Assistant: First", "User: Last"], "s1_t1"),
        ("session", ["User: Hi\nAssistant: Hello", "Assistant: First\nUser: \nUser: Last"], "s1"),
    ],
)
def test_a_haystack_is_cut_into_turns_or_sessions(haystacks, granularity, texts, relevant):
    (dataset,) = load_haystacks(haystacks, granularity=granularity)
    assert [chunk.text for chunk in dataset.chunks] == texts
    assert dataset.relevant("x1") == (relevant,)


@pytest.mark.parametrize("granularity", ["turn", "session"])
def test_a_session_in_which_nothing_is_said_is_no_document(haystacks, granularity):
    said, silent = [{"role": "user", "content": "Hi", "has_answer": True}], [{"role": "user", "content": " "}]
    dates = ["2023-01-01"] * 3
    write_haystack(haystacks, "x1", {"session_ids": ["s1", "s2", "s3"], "dates": dates, "sessions": [said, [], silent]})
    (dataset,) = load_haystacks(haystacks, granularity=granularity)
    assert [chunk.text for chunk in dataset.chunks] == ["User: Hi"]


def test_another_granularity_is_refused(haystacks):
    with pytest.raises(ConfigError, match="granularity 'sessions': expected one of turn, session"):
        load_haystacks(haystacks, granularity="sessions")


@pytest.mark.parametrize(("ids", "said"), [("s1", "is str; expected a list of ids"), (3, "is int")])
def test_evidence_that_is_no_list_is_named_with_its_line(haystacks, ids, said):
    write_lines(haystacks / "queries.jsonl", {"_id": "x1", "text": "?", "metadata": {"answer_session_ids": ids}})
    with pytest.raises(DatasetError, match=rf"queries\.jsonl, line 1: .*answer_session_ids.* {said}"):
        load_haystacks(haystacks, granularity="session")


def test_a_question_whose_evidence_is_null_has_none_among_the_sessions(haystacks):
    write_lines(haystacks / "queries.jsonl", {"_id": "x1", "text": "?", "metadata": {"answer_session_ids": None}})
    assert load_haystacks(haystacks, granularity="session") == []


def test_each_question_is_its_own_dataset_asked_at_its_own_time(haystacks):
    (dataset,) = load_haystacks(haystacks)
    (query,) = dataset.queries
    assert (dataset.name, dataset.group, query.category) == ("memory", "x1", "kind")
    assert query.now == datetime(2023, 1, 3, tzinfo=UTC)
    assert [(c.source, c.position) for c in dataset.chunks] == [("s1", 0), ("s1", 1), ("s2", 0), ("s2", 1)]
    assert dataset.chunks[2].event_time == datetime(2023, 1, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {**HAYSTACK, "dates": []},
        {**HAYSTACK, "sessions": [[{"role": "user"}], []]},
        [],
        {**HAYSTACK, "sessions": 3},
    ],
)
def test_a_malformed_haystack_is_named(haystacks, broken):
    write_haystack(haystacks, "x1", broken)
    with pytest.raises(DatasetError, match=r"x1\.json\.gz is malformed"):
        load_haystacks(haystacks)


def test_a_missing_or_torn_haystack_is_named(haystacks):
    path = haystacks / "haystacks" / "x1.json.gz"
    whole = path.read_bytes()
    for torn in (whole[:-10], gzip.compress(b"[" * 200_000)):
        path.write_bytes(torn)
        with pytest.raises(DatasetError, match=r"x1\.json\.gz"):
            load_haystacks(haystacks)
    path.unlink()
    with pytest.raises(DatasetError, match=r"cannot read .*x1\.json\.gz"):
        load_haystacks(haystacks)


def test_the_layout_of_a_folder_is_recognised(beir, haystacks, tmp_path):
    assert [dataset.name for dataset in load_folder(beir)] == ["talk"]
    assert [dataset.group for dataset in load_folder(haystacks)] == ["x1"]
    assert [dataset.group for dataset in load_folder(beir.parent)] == ["talk"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="is no collection; expected"):
        load_folder(tmp_path / "empty")


def save_vectors(path: Path, dataset: Dataset, docs: int = 0) -> Path:
    n = len(dataset.chunks) + len(dataset.blank) + docs
    path.parent.mkdir(exist_ok=True)
    np.savez(path, docs=np.eye(n, 8, dtype=np.float16), queries=np.ones((len(dataset.queries), 8), dtype=np.float16))
    return path


def test_vectors_are_looked_up_by_text_and_normalised(tmp_path):
    embedder = load_vectors(save_vectors(tmp_path / "encoder" / "toy.npz", toy()), toy())
    assert (embedder.name, embedder.dim) == ("encoder", 8)
    assert embedder.embed_documents(["ships sink"]).tolist() == [[0, 1, 0, 0, 0, 0, 0, 0]]
    assert np.linalg.norm(embedder.embed_queries(["planes"])) == pytest.approx(1.0)
    assert embedder.embed_documents([]).shape == (0, 8)


def test_vectors_skip_the_rows_of_blank_documents(tmp_path, beir):
    write_lines(beir / "corpus.jsonl", *({"_id": f"d{i}", "text": "x" * (i - 1)} for i in (1, 2, 3)))
    dataset = load_beir(beir)
    embedder = load_vectors(save_vectors(tmp_path / "encoder" / "v.npz", dataset), dataset)
    assert embedder.embed_documents(["x", "xx"]).argmax(axis=1).tolist() == [1, 2]


def test_a_text_without_a_vector_is_an_embedder_error(tmp_path):
    embedder = load_vectors(save_vectors(tmp_path / "encoder" / "toy.npz", toy()), toy())
    with pytest.raises(EmbedderError, match="no vector for 1 of 2 query texts"):
        embedder.embed_queries(["planes", "rewritten"])


def test_vectors_of_another_dataset_are_refused(tmp_path):
    path = save_vectors(tmp_path / "encoder" / "toy.npz", toy(), docs=1)
    with pytest.raises(DatasetError, match="holds 6 document and 3 query vectors; the dataset has 5 and 3"):
        load_vectors(path, toy())
    (tmp_path / "junk.npz").write_text("junk")
    for bad in ("junk.npz", "absent.npz"):
        with pytest.raises(DatasetError, match="cannot read vectors"):
            load_vectors(tmp_path / bad, toy())


def test_vectors_of_two_dimensions_are_no_embedder():
    with pytest.raises(InvalidVector, match="expected one"):
        PrecomputedEmbedder("mixed", {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})


@pytest.mark.skipif(not (DATA / "longmemeval_s").exists(), reason="../shared/data is not there")
def test_longmemeval_reads_as_its_judgement_files_say():
    for granularity in ("turn", "session"):
        lines = (DATA / "longmemeval_s" / f"qrels_{granularity}.tsv").read_text().splitlines()[1:]
        stated = {tuple(line.split("\t")[:2]) for line in lines}
        datasets = load_haystacks(DATA / "longmemeval_s", granularity=granularity)
        found = {(dataset.group, id) for dataset in datasets for id in dataset.relevant(dataset.group)}
        assert found == {pair for pair in stated if pair[0] in {dataset.group for dataset in datasets}}


@pytest.mark.skipif(not (DATA / "locomo").exists(), reason="../shared/data is not there")
def test_locomo_has_five_conversations_of_dated_turns():
    datasets = load_conversations(DATA / "locomo")
    assert sum(len(dataset.chunks) for dataset in datasets) == 2_760
    assert sum(len(dataset.judged) for dataset in datasets) == 997
    assert all(chunk.event_time and chunk.source for dataset in datasets for chunk in dataset.chunks)
    assert all(query.now for dataset in datasets for query in dataset.queries)


def test_documents_made_by_hand_are_chunks_and_may_come_from_a_generator():
    with pytest.raises(DatasetError, match=r"document \{'id': 'a'.*; expected a Chunk"):
        Dataset("set", "group", [{"id": "a", "text": "grey cat"}], (), {})
    made = Dataset("set", "group", (Chunk(id, "grey cat") for id in "ab"), iter([Query("q", "cat")]), {"q": {"b": 1}})
    assert [chunk.id for chunk in made.chunks] == ["a", "b"] and made.judged == made.queries

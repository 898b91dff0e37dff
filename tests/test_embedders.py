"""The built-in model, and everything that can be given in its place."""

from __future__ import annotations

import importlib
import logging
import pickle
import threading
from unicodedata import normalize

import numpy as np
import pytest

from umi_common.config import UmiConfig
from umi_common.embedders import WordLlamaEmbedder, as_embedder, default_embedder, identity_of, unit_rows
from umi_common.embedders import default as embedders
from umi_common.errors import ConfigError, EmbedderError
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

TEXTS = ["a cat sat on the mat", "kittens rest on a rug", "the central bank raised its rates"]


def test_the_default_needs_no_network_and_gives_texts_of_like_meaning_a_higher_cosine(monkeypatch):
    monkeypatch.setattr("socket.socket", lambda *a, **k: pytest.fail("the network was asked"))
    cat, kitten, bank = WordLlamaEmbedder().embed_documents(TEXTS)
    assert cat @ kitten > cat @ bank
    assert cat.dtype == np.float32
    assert cat.shape == (256,)


def test_loading_leaves_the_root_logger_alone():
    before = (logging.root.level, list(logging.root.handlers))
    WordLlamaEmbedder().embed_queries(["x"])
    assert (logging.root.level, list(logging.root.handlers)) == before


def test_a_row_depends_on_its_text_alone_to_the_last_bit():
    together = default_embedder().embed_documents([*TEXTS, "word " * 5_000, ""])
    for row, text in zip(together, TEXTS, strict=False):
        assert (default_embedder().embed_queries([text])[0] == row).all()
    assert not together[-1].any()


@pytest.mark.parametrize("text", ["café", "Überstunden", "한국어 휴가", "ガス"])
def test_a_text_whose_accents_are_characters_of_their_own_has_the_vector_of_its_other_spelling(text):
    composed, decomposed = default_embedder().embed_queries([text, normalize("NFD", text)])
    assert composed.tolist() == decomposed.tolist()


def test_half_an_emoji_is_embedded_as_a_question_mark():
    cut, marked = default_embedder().embed_documents(["roofers \ud83d", "roofers ?"])
    assert (cut == marked).all()


def test_it_loads_once_whatever_the_number_of_threads(monkeypatch):
    loads = []
    load = WordLlamaEmbedder._load
    monkeypatch.setattr(WordLlamaEmbedder, "_load", lambda self: loads.append(1) or load(self))
    model = WordLlamaEmbedder()
    threads = [threading.Thread(target=model.embed_queries, args=(["x"],)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_a_missing_model_is_a_typed_error_with_the_fix(monkeypatch):
    monkeypatch.setattr(embedders.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbedderError, match="pip install wordllama"):
        WordLlamaEmbedder().embed_queries(["x"])


def test_a_function_becomes_an_embedder_named_after_itself():
    def by_length(texts):
        return [[len(text), 1.0] for text in texts]

    model = as_embedder(by_length)
    assert (model.embed_documents(["abc"]) == np.array([[3.0, 1.0]], dtype=np.float32)).all()
    assert model.dim == 2
    assert "by_length" in model.name


@pytest.mark.parametrize("framework", ["langchain_core", "llama_index.core"])
def test_a_model_of_a_framework_can_be_pickled_as_an_embedder(framework):
    """LlamaIndex wraps the methods of its models, so that these cannot be pickled alone."""
    module = importlib.import_module(f"{framework}.embeddings")
    if framework == "langchain_core":
        model = as_embedder(module.DeterministicFakeEmbedding(size=8))
    else:
        model = as_embedder(module.MockEmbedding(embed_dim=8))
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 our own bytes
    assert again.name == model.name
    assert (again.embed_queries(TEXTS) == model.embed_queries(TEXTS)).all()


def test_a_copy_of_a_loaded_model_has_spent_no_time_on_loading():
    model = WordLlamaEmbedder()
    model.embed_documents(["x"])
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 our own bytes
    assert model.load_ms > 0
    assert again.load_ms == 0


def test_a_langchain_embeddings_becomes_an_embedder():
    from langchain_core.embeddings import DeterministicFakeEmbedding

    model = as_embedder(DeterministicFakeEmbedding(size=5))
    assert model.dim == 5
    assert (model.embed_documents(["x"])[0] == model.embed_queries(["x"])[0]).all()


def test_a_llamaindex_model_becomes_an_embedder():
    from llama_index.core.embeddings import MockEmbedding

    model = as_embedder(MockEmbedding(embed_dim=4, model_name="mock-4"))
    assert model.dim == 4
    assert "mock-4" in model.name


@pytest.mark.parametrize("reply", ["words", [1.0, 2.0], [[1.0], [1.0, 2.0]], None])
def test_a_result_that_is_no_matrix_is_an_embedder_error(reply):
    with pytest.raises(EmbedderError, match="embedder"):
        as_embedder(lambda texts: reply).embed_documents(["x", "y"])


def test_an_object_that_is_no_embedder_is_refused_with_what_was_expected():
    with pytest.raises(ConfigError, match="embed_documents"):
        as_embedder(42)


def test_unit_rows_turn_nan_and_zero_rows_into_zeros():
    rows = unit_rows([[3.0, 4.0], [0.0, 0.0], [float("nan"), 1.0]])
    assert rows[0] == pytest.approx([0.6, 0.8])
    assert not rows[1].any()
    assert np.isfinite(rows).all()


def test_a_question_typed_in_capitals_is_embedded_as_in_small_letters():
    model = default_embedder()
    small, capitals, code = model.embed_queries(["where is the ferry", "WHERE IS THE FERRY", "HSCT-T"])
    assert capitals.tolist() == small.tolist()
    assert code.tolist() == model.embed_documents(["HSCT-T"])[0].tolist()


@pytest.mark.parametrize(
    "typed", ["where is the ferry?\n", "  where  is the ferry?", "where is\n\tthe ferry?", "where is\u00a0the ferry?"]
)
def test_the_white_space_in_a_question_does_not_change_its_vector(typed):
    plain, other = default_embedder().embed_queries(["where is the ferry?", typed])
    assert other.tolist() == plain.tolist()


class SentenceModel:
    """Has the methods of a `SentenceTransformer`, which can be called, too, but not with texts."""

    def encode(self, sentences, show_progress_bar=None):
        return HashEmbedder().embed_documents(sentences)

    def encode_query(self, sentences, show_progress_bar=None):
        return -self.encode(sentences)

    encode_document = encode

    def __call__(self, input):
        return input["token_ids"]


class FastModel:
    """Has the methods of fastembed's `TextEmbedding`."""

    model_name = "any/model"

    def embed(self, documents):
        yield from HashEmbedder().embed_documents(documents)

    def query_embed(self, query):
        yield from -HashEmbedder().embed_documents(query)


@pytest.mark.parametrize(
    ("model", "name", "identity"),
    [(SentenceModel(), "SentenceModel", None), (FastModel(), "FastModel/any/model", "FastModel/any/model")],
)
def test_a_model_object_of_sentence_transformers_or_fastembed_is_an_embedder(model, name, identity):
    embedder = as_embedder(model)
    assert (embedder.name, embedder.dim, identity_of(embedder)) == (name, 64, identity)
    assert (embedder.embed_queries(["boat"]) == -embedder.embed_documents(["boat"])).all()


def test_an_object_whose_encode_takes_texts_alone_is_an_embedder():
    class OwnModel:
        def encode(self, texts):
            return HashEmbedder().embed_documents(texts)

    texts = ["a boat", "a car"]
    assert (as_embedder(OwnModel()).embed_documents(texts) == HashEmbedder().embed_documents(texts)).all()


def test_an_object_whose_encode_is_written_in_c_is_an_embedder():
    class OwnModel:
        encode = staticmethod(max)  # a function without a signature

    assert as_embedder(OwnModel()).name.endswith("OwnModel")


def test_a_function_may_yield_the_vectors():
    def letters(texts):
        yield from ([float(text.count(letter)) for letter in "abc"] for text in texts)

    with HybridStore.open(embedder=letters) as store:
        assert store.add([{"id": "x", "text": "a b b"}, {"id": "y", "text": "c"}]).added == 2
        assert store.vectors(["y"]).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize(("error", "advice"), [(TypeError, "correct the embedder"), (OSError, "Repeat the call")])
def test_a_call_is_to_be_repeated_only_if_that_can_help(error, advice):
    def failing(texts):
        raise error("broken")

    config = UmiConfig(embedder={"retry_seconds": 0})
    with HybridStore.open(embedder=failing, config=config) as store, pytest.raises(EmbedderError, match=advice):
        store.add([{"id": "x", "text": "a b"}])

"""UmiEmbedding in pipelines with several processes: it is pickled as itself or refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from umi_common.errors import ConfigError
from umi_llamaindex import UmiEmbedding


class Ones:
    """A small model of its own."""

    name, dim = "ones", 3

    def embed_documents(self, texts):
        return np.ones((len(texts), 3), dtype=np.float32)

    embed_queries = embed_documents


@pytest.mark.parametrize("model", [None, Ones()], ids=["default", "own"])
def test_a_pickled_embedding_is_the_same_model(model):
    embedding = UmiEmbedding(model, embed_batch_size=7)
    for other in (pickle.loads(pickle.dumps(embedding)), copy.deepcopy(embedding)):  # noqa: S301 - our own bytes
        assert (other.model_name, other.embed_batch_size) == (embedding.model_name, 7)
        assert other.get_text_embedding("a text") == embedding.get_text_embedding("a text")
        assert other.get_query_embedding("a text") == embedding.get_query_embedding("a text")


def test_an_embedding_that_cannot_be_pickled_does_not_become_the_default_model():
    embedding = UmiEmbedding(lambda texts: [[1.0, 2.0] for _ in texts])
    with pytest.raises(ConfigError, match="cannot be pickled; define its class or function at the top level"):
        pickle.dumps(embedding)


def test_a_model_name_beside_an_embedder_is_only_the_name_that_is_shown():
    embedding = UmiEmbedding(Ones(), model_name="minilm")
    assert embedding.model_name == "minilm"
    assert embedding.get_query_embedding("a text") == [1.0, 1.0, 1.0]


def test_a_model_named_as_in_llamaindexs_own_classes_or_in_its_json_is_that_model():
    named = UmiEmbedding(model_name="minilm")
    assert named.get_query_embedding("a cat") == UmiEmbedding("minilm").get_query_embedding("a cat")
    assert UmiEmbedding.from_json(named.to_json()).get_query_embedding("a cat") == named.get_query_embedding("a cat")
    with pytest.raises(ConfigError, match="'ones'"):  # in silence it was the built-in model under this name
        UmiEmbedding.from_dict(UmiEmbedding(Ones()).to_dict())

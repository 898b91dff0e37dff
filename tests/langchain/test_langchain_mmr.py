"""`lambda_mult` of maximal marginal relevance means the same as in LangChain's own stores."""

from __future__ import annotations

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from umi_common.errors import ConfigError
from umi_langchain import UmiVectorStore

LEAKS = [Document(id=f"leak{day}", page_content=f"The boiler valve leaks, day {day}.") for day in range(8)]
OTHERS = [
    Document(id="plumber", page_content="A plumber replaced the boiler valve with a brass one from Oslo."),
    Document(id="warranty", page_content="The boiler warranty ends in June."),
]


class Points(Embeddings):
    """Texts are the coordinates of vectors."""

    def embed_query(self, text: str) -> list[float]:
        vector = np.array(text.split(), dtype=float)
        return (vector / np.linalg.norm(vector)).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.mark.parametrize("lambda_mult", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_by_a_vector_the_same_documents_are_chosen_as_in_langchains_own_store(lambda_mult):
    draw = np.random.default_rng(7)
    texts = [" ".join(map(str, row)) for row in draw.normal(size=(40, 5)).round(3)]
    stores = [kind.from_texts(texts, Points()) for kind in (InMemoryVectorStore, UmiVectorStore)]
    for query in draw.normal(size=(5, 5)).tolist():
        options = {"k": 6, "fetch_k": 15, "lambda_mult": lambda_mult}
        found = [store.max_marginal_relevance_search_by_vector(query, **options) for store in stores]
        assert [d.page_content for d in found[0]] == [d.page_content for d in found[1]]
    stores[1].close()


def test_by_default_texts_of_one_wording_do_not_fill_the_result():
    with UmiVectorStore() as store:
        store.add_documents([*LEAKS, *OTHERS])
        chosen = store.as_retriever(search_type="mmr", search_kwargs={"k": 3}).invoke("boiler valve leaks")
        assert chosen[0].id.startswith("leak")
        assert {document.id for document in chosen} & {"plumber", "warranty"}
        relevant = store.max_marginal_relevance_search("boiler valve leaks", k=3, lambda_mult=0.9)
        assert all(document.id.startswith("leak") for document in relevant)


@pytest.mark.parametrize("fetch_k", [0, 1])
def test_with_fewer_documents_to_choose_from_than_asked_for_the_best_k_come(fetch_k):
    with UmiVectorStore.from_documents(LEAKS, None) as store:
        assert len(store.max_marginal_relevance_search("boiler", k=3, fetch_k=fetch_k)) == 3


def test_a_lambda_mult_of_numpy_is_a_number():
    with UmiVectorStore.from_documents(LEAKS, None) as store:
        assert len(store.max_marginal_relevance_search("boiler", k=3, lambda_mult=np.int64(1))) == 3


@pytest.mark.parametrize("lambda_mult", [-0.1, 2, float("nan"), None, "0.5"])
def test_a_lambda_mult_out_of_range_is_refused_by_its_name(lambda_mult):
    with UmiVectorStore.from_documents(LEAKS, None) as store, pytest.raises(ConfigError, match="lambda_mult is"):
        store.max_marginal_relevance_search("boiler", lambda_mult=lambda_mult)

"""Any retriever or vector store as a further arm: fused with its own weight, failing alone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, InputError
from umi_common.filters import parse_filter
from umi_common.search.extra_arms import Arm
from umi_langchain import UmiRetriever, UmiVectorStore, as_arm
from umi_langchain.vectorstore import StoreEmbeddings

ALONE = {"neighbours": {"enabled": False}}
FRUIT = [
    Document(id="apple", page_content="red apples in the garden", metadata={"user": "bob"}),
    Document(id="pear", page_content="green pears in the kitchen", metadata={"user": "ann"}),
    Document(id="plum", page_content="blue plums in the cellar", metadata={"user": "ann"}),
]


class Fixed(BaseRetriever):
    """Always the same documents."""

    found: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        return self.found


class Failing(BaseRetriever):
    """Never answers."""

    def _get_relevant_documents(self, query, *, run_manager):
        raise RuntimeError(query)


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def made(*arms, **options) -> UmiRetriever:
    return UmiRetriever.from_documents(FRUIT, arms=arms, **{**ALONE, **options})


async def all_doors(retriever, query, **options):
    found = retriever.invoke(query, **options)
    assert found == await retriever.ainvoke(query, **options)
    assert [found] == retriever.batch([query], **options) == await retriever.abatch([query], **options)
    return found


async def test_one_document_that_umi_cannot_hold_does_not_take_the_arms_others(caplog):
    odd = Document(id="odd", page_content="red figs", metadata={"image": b"GIF"})
    retriever = made(as_arm(Fixed(found=[odd, FRUIT[2]]), weight=5.0))
    assert ids(await all_doors(retriever, "red apples"))[0] == "plum"
    assert retriever.search("red apples").degraded == () and "document 'odd' of an arm is left out" in caplog.text


async def test_a_retrievers_documents_rise_and_say_so():
    retriever = made(as_arm(Fixed(found=[FRUIT[2]]), weight=5.0)).model_copy(update={"reasons": True})
    found = await all_doors(retriever, "red apples")
    assert ids(found)[0] == "plum"
    assert "Fixed #1 (score 1.00)" in found[0].metadata["umi_reasons"]
    assert set(ids(found)) == {"apple", "pear", "plum"}


async def test_a_document_that_the_store_lacks_comes_along_with_its_metadata():
    stranger = Document(id="web", page_content="red apples on sale", metadata={"url": "x", "tags": ["a"]})
    found = await all_doors(made(as_arm(Fixed(found=[stranger]), weight=5.0)), "red apples")
    assert found[0].id == "web"
    assert found[0].metadata["url"] == "x" and found[0].metadata["tags"] == ["a"]
    assert stranger.metadata == {"url": "x", "tags": ["a"]}


async def test_documents_without_ids_are_the_same_documents_where_they_say_the_same():
    bare = [Document(page_content=f"text number {n}", metadata={"n": n}) for n in range(3)]
    retriever = UmiRetriever.from_documents(bare, arms=[as_arm(Fixed(found=[bare[2]]), weight=5.0)], **ALONE)
    found = await all_doors(retriever, "number")
    assert found[0].page_content == "text number 2" and len(found) == 3


async def test_a_filter_holds_for_arms_that_know_none():
    stranger = Document(id="bobs", page_content="red apples", metadata={"user": "bob"})
    retriever = made(as_arm(Fixed(found=[stranger, FRUIT[0], FRUIT[1]]), weight=9.0))
    assert set(ids(await all_doors(retriever, "red apples", filter={"user": "ann"}))) == {"pear", "plum"}


async def test_an_arms_documents_have_source_and_time_under_the_retrievers_own_keys():
    dated = Document(id="kiwi", page_content="red kiwis", metadata={"file": "new.md", "day": "2024-05-03"})
    with made(Fixed(found=[dated]), source_key="file", time_key="day") as retriever:
        window = (datetime(2024, 5, 1, tzinfo=timezone.utc), None)
        assert ids(await all_doors(retriever, "red kiwis", time_range=window)) == ["kiwi"]
        assert retriever.search("red kiwis", k=1).hits[0].chunk.source == "new.md"


MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
OFFICE = [
    Document(
        id=f"b{day}",
        page_content=f"The code of the office door is {day}.",
        metadata={"user": "bob", "timestamp": (MAY + timedelta(days=day)).isoformat()},
    )
    for day in range(150)
]
HOME = Document(
    id="a", page_content="Ann's door at home: 4711.", metadata={"user": "ann", "timestamp": MAY.isoformat()}
)


def chroma(path):
    model = StoreEmbeddings(default_embedder())
    store = Chroma(collection_name="door", embedding_function=model, persist_directory=str(path))
    store.add_documents([*OFFICE, HOME])
    return store


FINDERS = {
    "a store of LangChain's": lambda path: InMemoryVectorStore.from_documents(
        [*OFFICE, HOME], StoreEmbeddings(default_embedder())
    ),
    "a Chroma store": chroma,
    "its retriever": lambda path: chroma(path).as_retriever(search_kwargs={"k": 5, "filter": {"user": {"$ne": "eve"}}}),
    "a store of umi's": lambda path: UmiVectorStore.from_documents([*OFFICE, HOME]),
    "a retriever of umi's": lambda path: UmiRetriever.from_documents([*OFFICE, HOME], filter={"user": {"$ne": "eve"}}),
}


@pytest.mark.parametrize("finder", FINDERS)
async def test_a_filter_reaches_the_arms_so_that_anothers_documents_do_not_crowd_out_ones_own(finder, tmp_path):
    others = FINDERS[finder](tmp_path)
    retriever = made(as_arm(others, "others"))
    query, of_ann = "what is the code of the door?", {"$and": [{"user": "ann"}, {"note": {"$exists": False}}]}
    assert "a" in ids(await all_doors(retriever, query, filter=of_ann))
    if "umi" in finder:
        assert "a" in ids(await all_doors(retriever, query, time_range=(MAY, MAY + timedelta(hours=1))))
        others.close()
    retriever.close()


async def test_an_arms_own_filter_holds_beside_that_of_the_search(tmp_path):
    of_bob = chroma(tmp_path).as_retriever(search_kwargs={"filter": {"user": "bob"}})
    own = FINDERS["a retriever of umi's"](tmp_path)
    own.filter = {"user": "bob"}
    for arm in (of_bob, own):
        found = await all_doors(made(arm), "what is the code of the door?", filter={"user": "ann"})
        assert "a" not in ids(found)
    own.close()


async def test_whatever_an_ensemble_takes_for_a_retriever_is_an_arm():
    web = Fixed(found=[Document(id="web", page_content="red apples on sale", metadata={"user": "ann"})])
    for runnable in (Failing().with_fallbacks([web]), web.with_retry(), web | RunnableLambda(lambda found: found[:1])):
        retriever = made(as_arm(runnable, "web", 2.0))
        assert ids(await all_doors(retriever, "red apples on sale"))[0] == "web"
        assert "web" not in ids(await all_doors(retriever, "red apples on sale", filter={"user": "bob"}))


async def test_the_filter_that_is_bound_to_an_arm_holds_beside_that_of_the_search(tmp_path):
    own = FINDERS["a retriever of umi's"](tmp_path)
    found = await all_doors(
        made(own.bind(filter={"user": "bob"})), "what is the code of the door?", filter={"user": "ann"}
    )
    assert "a" not in ids(found)
    own.close()


async def test_a_store_over_another_kind_of_collection_is_asked_without_the_filter():
    """As MongoDB's vector search has a collection, and no option `filter`."""

    class OtherStore(VectorStore):
        _collection = object()

        def similarity_search(self, query, k=4):
            return [HOME]

        async def asimilarity_search(self, query, k=4):
            return [HOME]

        @classmethod
        def from_texts(cls, *_, **__):
            return cls()

    retriever = made(as_arm(OtherStore(), "others"))
    assert "a" in ids(await all_doors(retriever, "what is the code of the door?", filter={"user": "ann"}))
    retriever.close()


async def test_an_arm_that_fails_costs_its_hits_alone_and_is_named():
    retriever = made(Failing())
    plain = made()
    assert await all_doors(retriever, "red apples") == await all_doors(plain, "red apples")
    (loss,) = retriever.search("red apples").degraded
    assert (loss.part, loss.reason) == ("Failing", "failed with RuntimeError")


@pytest.mark.parametrize(
    ("reply", "given"), [("red apples\n\ngreen pears", "str"), (None, "NoneType"), ({"context": FRUIT}, "dict")]
)
async def test_a_chain_that_gives_no_documents_is_told_so_and_not_called_a_bug(reply, given, caplog):
    """As `retriever | format_docs`, which a user has at hand, gives one text."""
    retriever = made(as_arm(RunnableLambda(lambda query: reply), "web"))
    assert ids(await all_doors(retriever, "red apples"))[0] == "apple"
    (loss,) = retriever.search("red apples").degraded
    assert (loss.part, loss.reason) == ("web", f"gave {given}; expected a list of Document")
    assert "bug" not in caplog.text


class Extracting(BaseDocumentCompressor):
    """Makes new documents, without the metadata of those that it was given."""

    def compress_documents(self, documents, query, callbacks=None):
        return [Document(page_content=document.page_content[:3]) for document in documents]


def test_a_reranker_that_makes_new_documents_is_told_so_and_not_called_a_bug(caplog):
    with made(reranker=Extracting()) as retriever:
        result = retriever.search("red apples")
    assert result.ids[0] == "apple" and "bug" not in caplog.text
    (loss,) = result.degraded
    assert loss.part == "reranker" and loss.reason.startswith("gave a text that it was not given")


async def test_a_vector_store_is_a_further_arm_or_takes_the_place_of_the_dense_one():
    vectors = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    vectors.add_documents(FRUIT)
    nearest = ids(vectors.similarity_search("zzz", 3))
    retriever = made(as_arm(vectors, "meaning", 0.55), fusion={"dense_weight": 0.0})
    assert ids(await all_doors(retriever, "zzz")) == nearest  # no word matches: the arm alone decides
    assert ids(await all_doors(retriever, "plums in the cellar"))[0] == "plum"
    further = made(vectors).search("red apples")
    assert {s.arm for hit in further for s in hit.signals} == {"lexical", "dense", "InMemoryVectorStore"}


async def test_umi_itself_is_an_arm_of_umi():
    other = UmiRetriever.from_texts(["red apples on sale", "tax law"], ids=["sale", "law"], **ALONE)
    found = await all_doors(made(as_arm(other, "web", 2.0)), "red apples on sale")
    assert found[0].id == "sale"


def test_an_arm_stays_what_it_is_and_anything_else_is_refused():
    arm = Arm("web", lambda *asked: [])
    assert as_arm(arm) is arm
    with pytest.raises(ConfigError, match="expected a BaseRetriever"):
        made("web")
    with pytest.raises(ConfigError, match="name of its own"):
        made(arm, Arm("web", lambda *asked: []))


def test_arms_none_means_no_further_arms_and_one_retriever_is_no_list():
    assert ids(UmiRetriever.from_documents(FRUIT, arms=None).invoke("red apples"))[0] == "apple"
    for one in (Fixed(found=FRUIT), as_arm(Fixed(found=FRUIT))):
        with pytest.raises(ConfigError, match="expected a list of arms"):
            UmiRetriever.from_documents(FRUIT, arms=one)


async def test_a_batch_of_nothing_is_refused_by_name():
    retriever = made()
    for given in (None, 7):
        with pytest.raises(InputError, match="expected a list of queries"):
            retriever.batch(given)
        with pytest.raises(InputError, match="expected a list of queries"):
            await retriever.abatch(given)


def test_an_arm_over_other_documents_finds_them_with_the_weight_of_both_own_arms():
    embedding = UmiVectorStore().embeddings
    goods = ["lamp", "chair", "table", "sofa", "desk", "shelf", "bed", "rug", "mirror", "clock"]
    made = [Document(f"The {name} costs {n * 7} euros.", id=name) for n, name in enumerate(goods)]
    other = InMemoryVectorStore(embedding)
    other.add_documents(made[5:])
    both = UmiRetriever.from_documents(made[:5], k=2, arms=[as_arm(other, "other", weight=1.0)])
    for name in ("sofa", "mirror", "clock", "lamp"):
        assert name in [document.id for document in both.invoke(f"what does the {name} cost?")]


def test_langchains_retriever_over_umis_store_gets_the_filter_of_a_search_and_keeps_its_own():
    owners = [{"user": "ann", "year": 1}, {"user": "ann", "year": 2}, {"user": "bob", "year": 2}]
    with UmiVectorStore.from_texts(["plan a", "plan b", "plan c"], metadatas=owners) as store:
        arm = as_arm(store.as_retriever(search_kwargs={"filter": {"user": "ann"}, "k": 1}))
        assert [chunk.text for chunk, _ in arm.search("plan", 5, parse_filter({"year": 2}), None)] == ["plan b"]

"""Any LlamaIndex retriever as a further arm: fused with its own weight, failing alone."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from umi_common.errors import ConfigError
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk, TimeRange
from umi_llamaindex import UmiEmbedding, UmiQuery, UmiRetriever, UmiVectorStore, as_arm

FRUIT = {"apple": "red apples in the garden", "pear": "green pears in the kitchen", "plum": "blue plums in the cellar"}


class Fixed(BaseRetriever):
    """Always the same nodes."""

    def __init__(self, *ids: str) -> None:
        self.found = [NodeWithScore(node=TextNode(id_=id, text=FRUIT.get(id, "a stranger")), score=1.0) for id in ids]
        super().__init__()

    def _retrieve(self, query_bundle):
        return self.found


class Failing(BaseRetriever):
    """Never answers."""

    def _retrieve(self, query_bundle):
        raise RuntimeError("down")


@pytest.fixture()
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add([Chunk(id, text) for id, text in FRUIT.items()])
        yield store


async def ids(retriever):
    found = [item.node.node_id for item in retriever.retrieve("red apples")]
    assert found == [item.node.node_id for item in await retriever.aretrieve("red apples")]
    return found


async def test_one_node_that_umi_cannot_hold_does_not_take_the_arms_others(store, caplog):
    arm = Fixed("fig", "plum")
    arm.found[0].node.metadata["image"] = b"GIF"
    retriever = UmiRetriever.from_store(store, arms=[as_arm(arm, weight=5.0)])
    assert (await ids(retriever))[0] == "plum" and "node 'fig' of an arm is left out" in caplog.text


def test_a_node_that_comes_twice_has_its_first_text_and_its_first_rank():
    arm = Fixed("plum", "pear", "plum")
    arm.found[2].node.set_content("another text")
    found = as_arm(arm).search("fruit", 10, None, None)
    assert [(chunk.id, chunk.text) for chunk, _ in found] == [("plum", FRUIT["plum"]), ("pear", FRUIT["pear"])]


async def test_its_nodes_rise_by_its_weight(store):
    assert (await ids(UmiRetriever.from_store(store)))[0] == "apple"
    assert (await ids(UmiRetriever.from_store(store, arms=[as_arm(Fixed("plum"), weight=5.0)])))[0] == "plum"


async def test_a_node_that_the_store_lacks_is_carried_along(store):
    assert "kiwi" in await ids(UmiRetriever.from_store(store, arms=[Fixed("kiwi")]))


async def test_it_fails_alone_and_is_named(store):
    retriever = UmiRetriever.from_store(store, arms=[Failing()])
    assert await ids(retriever) == await ids(UmiRetriever.from_store(store))
    assert [loss.part for loss in retriever.search("red apples").degraded] == ["Failing"]


class Appending(BaseNodePostprocessor):
    """Appends a node that it was not given, as `PrevNextNodePostprocessor` does."""

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [*nodes, NodeWithScore(node=TextNode(text="kiwis"), score=1.0)]


def test_a_reranker_that_appends_a_node_is_told_so_and_not_called_a_bug(store, caplog):
    result = UmiRetriever.from_store(store, reranker=Appending()).search("red apples")
    (loss,) = result.degraded
    assert loss.part == "reranker" and loss.reason.startswith("gave a text that it was not given")
    assert "bug" not in caplog.text


def test_what_finds_nothing_is_refused(store):
    with pytest.raises(ConfigError, match="BaseRetriever"):
        UmiRetriever.from_store(store, arms=[42])


OFFICE = [
    TextNode(id_=f"b{n}", text=f"The code of the office door is {n}.", metadata={"user": "bob"}) for n in range(90)
]
HOME = TextNode(id_="a", text="Ann's door at home: 4711.", metadata={"user": "ann", "place": "home"})


def of_an_index(**options):
    nodes = [node.model_copy() for node in (*OFFICE, HOME)]
    return VectorStoreIndex(nodes, embed_model=UmiEmbedding()).as_retriever(similarity_top_k=5, **options)


def closed(*retrievers):
    for retriever in retrievers:
        if isinstance(retriever, UmiRetriever):
            retriever.close()


def user(name):
    return MetadataFilters(filters=[MetadataFilter(key="user", value=name)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that LlamaIndex imports
@pytest.mark.parametrize("kind", ["an index", "umi"])
async def test_a_filter_reaches_the_arms_so_that_anothers_nodes_do_not_crowd_out_ones_own(store, kind):
    arm = of_an_index() if kind == "an index" else UmiRetriever.from_nodes([*OFFICE, HOME])
    retriever = UmiRetriever.from_store(store, arms=[as_arm(arm, "others")])
    for where in ({"user": "ann"}, {"$and": [{"user": {"$in": ["ann", "eve"]}}, {"place": {"$ne": "work"}}]}):
        query = UmiQuery("what is the code of the door?", filters=where)
        assert [item.node_id for item in retriever.retrieve(query)] == ["a"]
        assert [item.node_id for item in await retriever.aretrieve(query)] == ["a"]
    closed(retriever, arm)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that LlamaIndex imports
async def test_an_arms_own_filters_hold_beside_those_of_the_search(store):
    for arm in (of_an_index(filters=user("bob")), UmiRetriever.from_nodes([*OFFICE, HOME], filters={"user": "bob"})):
        retriever = UmiRetriever.from_store(store, arms=[as_arm(arm, "others")])
        assert retriever.retrieve(UmiQuery("what is the code of the door?", filters={"user": "ann"})) == []
        assert len(await retriever.aretrieve(UmiQuery("what is the code of the door?", filters={"user": "bob"}))) >= 5
        closed(retriever, arm)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that LlamaIndex imports
@pytest.mark.parametrize("where", [{"tags": {"$eq": ["door", "code"]}}, {"size >": {"$eq": "L"}}])
@pytest.mark.parametrize("vector_store", [None, UmiVectorStore], ids=["LlamaIndex's store", "umi's store"])
async def test_a_filter_that_llamaindex_would_read_otherwise_takes_no_node_from_an_arm(store, where, vector_store):
    node = TextNode(id_="a", text="Ann's door at home: 4711.", metadata={"tags": ["door", "code"], "size >": "L"})
    context = None if vector_store is None else StorageContext.from_defaults(vector_store=vector_store())
    index = VectorStoreIndex([node], embed_model=UmiEmbedding(), storage_context=context)
    retriever = UmiRetriever.from_store(store, arms=[as_arm(index.as_retriever(), "others")])
    result = retriever.search(UmiQuery("the door", filters=where))
    assert (result.ids, result.degraded) == (["a"], ())
    closed(retriever)


async def test_arms_none_means_no_further_arms_and_one_retriever_is_no_list(store):
    assert (await ids(UmiRetriever.from_store(store, arms=None)))[0] == "apple"
    for one in (Fixed("apple"), as_arm(Fixed("apple"))):
        with pytest.raises(ConfigError, match="expected a list of arms"):
            UmiRetriever.from_store(store, arms=one)


def test_an_arms_nodes_have_source_and_time_under_the_keys_of_the_retriever():
    arm = Fixed("kiwi")
    arm.found[0].node.metadata.update(file="new.md", day="2024-05-03")
    window = TimeRange(datetime(2024, 5, 1, tzinfo=timezone.utc))
    nodes = [TextNode(text="red apples", id_="apple", metadata={"file": "old.md", "day": "2024-04-01"})]
    with UmiRetriever.from_nodes(nodes, source_key="file", time_key="day", arms=[arm], time_range=window) as retriever:
        assert [item.node.node_id for item in retriever.retrieve("red kiwis")] == ["kiwi"]
        assert retriever.search("red kiwis").hits[0].chunk.source == "new.md"

"""Any LlamaIndex retriever as a further arm: fused with its own weight, failing alone."""

from __future__ import annotations

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from umi_common.errors import ConfigError
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_llamaindex import UmiRetriever, as_arm

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


async def test_its_nodes_rise_by_its_weight(store):
    assert (await ids(UmiRetriever.from_store(store)))[0] == "apple"
    assert (await ids(UmiRetriever.from_store(store, arms=[as_arm(Fixed("plum"), weight=5.0)])))[0] == "plum"


async def test_a_node_that_the_store_lacks_is_carried_along(store):
    assert "kiwi" in await ids(UmiRetriever.from_store(store, arms=[Fixed("kiwi")]))


async def test_it_fails_alone_and_is_named(store):
    retriever = UmiRetriever.from_store(store, arms=[Failing()])
    assert await ids(retriever) == await ids(UmiRetriever.from_store(store))
    assert [loss.part for loss in retriever.search("red apples").degraded] == ["Failing"]


def test_what_finds_nothing_is_refused(store):
    with pytest.raises(ConfigError, match="BaseRetriever"):
        UmiRetriever.from_store(store, arms=[42])

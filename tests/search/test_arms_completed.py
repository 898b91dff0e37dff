"""What a further arm finds deep in the store is scored by both of the store's arms."""

import pytest

from umi_common.config import UmiConfig
from umi_common.retriever import DualRetriever
from umi_common.search.extra_arms import Arm
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk


@pytest.mark.parametrize("filtered", [False, True])
async def test_completed(filtered):
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(
            [
                Chunk(f"c{n:02}", f"apple number{n} " + "word " * n, metadata={"odd": n % 2}, source="s", position=n)
                for n in range(40)
            ]
        )
        deep = DualRetriever(
            store, config=UmiConfig(recall={"depth": 100, "around": 0}, duplicates={"enabled": False})
        ).search("apple", limit=40)
        expected = {hit.chunk.id: {s.arm: s.score for s in hit.signals} for hit in deep}
        umi = DualRetriever(
            store,
            arms=[Arm("web", lambda *a: [("c39", 2.0), ("c38", 1.0)], weight=3.0)],
            config=UmiConfig(recall={"depth": 10}, duplicates={"enabled": False}),
        )
        options = {"where": {"odd": 1}} if filtered else {}
        for result in (
            umi.search("apple", **options),
            await umi.asearch("apple", **options),
            *umi.search_many(["apple", "apple number3"], **options)[:1],
        ):
            hit = result[0]
            assert hit.chunk.id == "c39"
            got = {s.arm: s.score for s in hit.signals}
            assert got.pop("web") == 2.0
            assert got == expected["c39"], (got, expected["c39"])
            assert got["lexical"] > 0
            assert ("c38" in result.ids) == (not filtered)

from __future__ import annotations

from umi_common.embedders.cache import LruCache
from umi_common.types import Chunk

CHUNKS = {seq: Chunk(f"c{seq}", "a boat") for seq in range(1, 5)}


def test_cached_values_are_found_and_other_keys_are_left_out():
    cache = LruCache(3)
    cache.put({1: CHUNKS[1]})
    assert cache.get([2, 1, 3, 2]) == {1: CHUNKS[1]}


def test_the_least_recently_used_value_is_dropped_first():
    cache = LruCache(3)
    cache.put({seq: CHUNKS[seq] for seq in (1, 2, 3)})
    cache.get([1])
    cache.put({4: CHUNKS[4]})
    assert [*cache.get([1, 2, 3, 4])] == [1, 3, 4]

from __future__ import annotations

from umi_common.stores.embedded.kept import Kept
from umi_common.types import Chunk

CHUNKS = {seq: Chunk(f"c{seq}", "a boat") for seq in range(1, 5)}


def test_what_is_missing_is_named_once_and_what_is_kept_is_found():
    kept = Kept(3)
    kept.keep({1: CHUNKS[1]})
    assert kept.known([2, 1, 3, 2]) == ({1: CHUNKS[1]}, [2, 3])


def test_the_longest_unread_goes_first():
    kept = Kept(3)
    kept.keep({seq: CHUNKS[seq] for seq in (1, 2, 3)})
    kept.known([1])
    kept.keep({4: CHUNKS[4]})
    assert kept.known([1, 2, 3, 4])[1] == [2]

"""What is made in bulk is what the constructor makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from umi_common.making import Maker
from umi_common.types import Chunk, Hit, Signal

SIGNALS = [Signal("dense", 0, rank, rank / 4) for rank in (1, 2, 3)]


def test_many_are_made_of_a_column_for_each_field():
    assert Maker(Signal).many(["dense"] * 3, [0] * 3, (1, 2, 3), [0.25, 0.5, 0.75]) == SIGNALS


def test_one_made_is_in_nothing_unlike_one_constructed():
    chunk = Chunk("c1", "a boat", metadata={"user": "u1"}, source="s", position=3)
    made = Maker(Hit)(chunk, 1.5, 1, tuple(SIGNALS), {"fused": 1.5}, {"fused": 1}, ("c2",), 0.4)
    constructed = Hit(chunk, 1.5, 1, tuple(SIGNALS), {"fused": 1.5}, {"fused": 1}, ("c2",), 0.4)
    assert type(made) is Hit
    assert made == constructed
    assert repr(made) == repr(constructed)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made  # noqa: S301 our own bytes
    assert dataclasses.replace(made, rank=2) == dataclasses.replace(constructed, rank=2)


def test_what_is_made_is_frozen():
    (made,) = Maker(Signal).many(["dense"], [0], [None], [0.5])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.score = 1.0
    assert hash(made) == hash(Signal("dense", 0, None, 0.5))

"""umi's ranking stages as postprocessors: each equals its definition, written out by brute force."""

from __future__ import annotations

import copy
import json
import math
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from pytest import approx

from umi_common.errors import ConfigError, InvalidChunk
from umi_common.frameworks.ranking import edges_first
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_llamaindex import (
    UmiContextBudget,
    UmiDecay,
    UmiMMR,
    UmiNearDuplicates,
    UmiNeighbours,
    UmiPostprocessor,
    UmiQuery,
)

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
STAGES = [
    UmiDecay(half_life_hours=24, clock=lambda: NOW),
    UmiNeighbours(),
    UmiNearDuplicates(embed_model=HashEmbedder()),
    UmiMMR(embed_model=HashEmbedder()),
]
STAGE_NAMES = [type(stage).__name__ for stage in STAGES]


def item(id: str, score: float | None = None, text: str | None = None, vector=None, **metadata) -> NodeWithScore:
    node = TextNode(id_=id, text=f"text of {id}" if text is None else text, metadata=metadata, embedding=vector)
    return NodeWithScore(node=node, score=score)


def chain(*items: NodeWithScore) -> list[NodeWithScore]:
    for one, other in pairwise(items):
        one.node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=other.node.node_id)
    return list(items)


def with_vectors(scores: np.ndarray, vectors: np.ndarray) -> list[NodeWithScore]:
    rows = enumerate(zip(scores.tolist(), vectors.tolist(), strict=True))
    return [item(f"{row:02}", score, vector=vector) for row, (score, vector) in rows]


def ids(found: list[NodeWithScore]) -> list[str]:
    return [one.node.node_id for one in found]


def test_a_day_old_node_at_a_half_life_of_a_day_has_fallen_halfway_to_the_floor():
    old = item("old", 1.0, timestamp=(NOW - timedelta(days=1)).isoformat())
    found = UmiDecay(half_life_hours=24, floor=0.2, clock=lambda: NOW).postprocess_nodes([old])
    assert found[0].score == approx(0.2 + 0.8 * 0.5)


@given(
    ages=st.lists(st.one_of(st.none(), st.floats(-1e3, 1e5)), min_size=1, max_size=12),
    half_life=st.floats(0.1, 1e4),
    floor=st.floats(0, 1),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_decay_is_its_formula(ages, half_life, floor, data):
    scores = data.draw(st.lists(st.floats(0, 10), min_size=len(ages), max_size=len(ages)))
    nodes = [
        item(f"n{i:02}", score)
        if age is None
        else item(f"n{i:02}", score, timestamp=(NOW - timedelta(hours=age)).isoformat())
        for i, (age, score) in enumerate(zip(ages, scores, strict=True))
    ]
    found = UmiDecay(half_life_hours=half_life, floor=floor, clock=lambda: NOW).postprocess_nodes(nodes)
    expected = {
        f"n{i:02}": score
        * (1.0 if age is None else floor + (1 - floor) * math.exp(-math.log(2) / half_life * max(0.0, age)))
        for i, (age, score) in enumerate(zip(ages, scores, strict=True))
    }
    assert {one.node.node_id: one.score for one in found} == approx(expected, rel=1e-6, abs=1e-9)
    assert ids(found) == sorted(ids(found), key=lambda id: (-found[ids(found).index(id)].score, id))


def test_the_query_may_say_what_the_present_is():
    node = item("n", 1.0, timestamp=NOW.isoformat())
    later = UmiQuery("anything", now=NOW + timedelta(days=1))
    assert UmiDecay(half_life_hours=24, floor=0.0).postprocess_nodes([node], later)[0].score == approx(0.5)


def by_definition(relevance, vectors, limit, trade_off):
    """Carbonell and Goldstein, word for word."""
    chosen: list[int] = []
    while len(chosen) < min(limit, len(relevance)):
        rest = [row for row in range(len(relevance)) if row not in chosen]
        worth = {
            row: trade_off * relevance[row]
            - (1 - trade_off) * max((float(vectors[row] @ vectors[other]) for other in chosen), default=0.0)
            for row in rest
        }
        chosen.append(min(rest, key=lambda row: (-worth[row], row)))
    return chosen


def test_mmr_compares_with_all_that_was_chosen_in_two_hundred_random_cases():
    rng = np.random.default_rng(5)
    for _ in range(200):
        n = int(rng.integers(2, 25))
        scores = np.sort(rng.random(n))[::-1]
        vectors = rng.normal(size=(n, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        nodes = [
            item(f"{i:02}", float(s), vector=v.tolist()) for i, (s, v) in enumerate(zip(scores, vectors, strict=True))
        ]
        relevance = (scores - scores.min()) / (scores.max() - scores.min())
        expected = by_definition(relevance, vectors, 10, 0.5)
        assert ids(UmiMMR(top_n=10, trade_off=0.5).postprocess_nodes(nodes)) == [f"{row:02}" for row in expected]


def test_mmr_makes_the_vectors_that_nodes_do_not_bring():
    nodes = [
        item("a", 1.0, "cats sleep"),
        item("b", 0.9, "cats sleep too"),
        item("c", 0.5, "tax law"),
        item("d", 0.0, "x"),
    ]
    assert ids(UmiMMR(top_n=2, trade_off=0.5).postprocess_nodes(nodes)) == ["a", "c"]


def test_of_two_that_say_the_same_the_better_stays_and_the_order_is_kept():
    same = [1.0, 0.0]
    nodes = [
        item("worse", 0.2, "the door is open", same),
        item("other", 0.5, "the door is open again", [0.0, 1.0]),
        item("better", 0.9, "the door is open now", same),
    ]
    found = UmiNearDuplicates().postprocess_nodes(nodes)
    assert ids(found) == ["other", "better"] and [one.score for one in found] == [0.5, 0.9]


def test_nodes_that_differ_in_a_number_a_name_or_a_negation_all_stay_whatever_their_vectors():
    texts = ["Ann paid Bob 5", "Ann paid Bob 6", "Bob paid Ann 5", "Ann never paid Bob 5", "Ann paid Bob 5 again"]
    nodes = [item(str(place), 1 - place / 10, text, [1.0, 0.0]) for place, text in enumerate(texts)]
    assert ids(UmiNearDuplicates().postprocess_nodes(nodes)) == ["0", "1", "2", "3"]


def test_of_near_copies_one_stays_though_their_nested_metadata_have_another_order():
    better = item("a", 0.9, "the fee is 3 euros", [1.0, 0.0], page={"from": 1, "to": 2})
    other = item("b", 0.5, "the fee is 3 euros now", [1.0, 0.0], page={"to": 2, "from": 1})
    assert UmiNearDuplicates().postprocess_nodes([better, other]) == [better]


def test_images_without_text_are_no_duplicates_of_each_other():
    images = [NodeWithScore(node=ImageNode(id_=f"m{n}", image_path=f"{n}.png"), score=1 - n / 10) for n in range(3)]
    assert UmiNearDuplicates().postprocess_nodes(images) == images


def test_near_duplicates_equal_brute_force_over_random_vectors():
    rng = np.random.default_rng(9)
    for _ in range(100):
        n = int(rng.integers(1, 20))
        vectors = rng.normal(size=(n, 3)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        scores = rng.permutation(n) / n
        nodes = [
            item(f"{i:02}", float(s), "open" + " again" * i, v.tolist())
            for i, (s, v) in enumerate(zip(scores, vectors, strict=True))
        ]
        kept: list[int] = []
        for row in np.argsort(-scores):
            if all(vectors[row] @ vectors[other] < 0.8 for other in kept):
                kept.append(int(row))
        assert ids(UmiNearDuplicates(similarity=0.8).postprocess_nodes(nodes)) == [f"{row:02}" for row in sorted(kept)]


def test_equal_texts_are_one_without_any_vector():
    class Broken:
        name, dim = "broken", 4

        def embed_documents(self, texts):
            raise RuntimeError("no")

        embed_queries = embed_documents

    nodes = [item("a", 0.4, "the same  words"), item("b", 0.6, "the same words"), item("c", 0.1, "others")]
    assert ids(UmiNearDuplicates(embed_model=Broken()).postprocess_nodes(nodes)) == ["b", "c"]
    assert ids(UmiMMR(embed_model=Broken()).postprocess_nodes(nodes)) == ["b", "a", "c"]


def spread_by_hand(scores: dict[str, float], after: dict[str, str], words: int) -> dict[str, float]:
    """The formula of umi_common.ranking.neighbours for chunks of equal length and no whole-source evidence."""
    best = max(scores.values())
    own = {id: score / best for id, score in scores.items()}
    needs = 1 / (1 + (words / 150) ** 3)
    passed = {id: value**3 * needs for id, value in own.items()}
    before = {follower: id for id, follower in after.items()}
    gained = {}
    for id in own:
        total, step_back, step_on = 0.0, id, id
        for hop in range(2):
            step_back, step_on = before.get(step_back, ""), after.get(step_on, "")
            total += 0.5**hop * (0.6 * passed.get(step_back, 0.0) + 0.3 * passed.get(step_on, 0.0))
        gained[id] = own[id] ** 1.5 + needs * total
    best = max(gained.values())
    return {id: value / best for id, value in gained.items()}


def test_a_node_gains_from_the_nodes_beside_it_as_the_formula_says():
    scores = {"a": 0.2, "b": 1.0, "c": 0.1, "far": 0.3, "d": 0.05}
    nodes = {id: item(id, score, "w " * 20) for id, score in scores.items()}
    chain(nodes["a"], nodes["b"], nodes["c"], nodes["d"])
    found = UmiNeighbours().postprocess_nodes([nodes[id] for id in ("b", "far", "a", "c", "d")])
    expected = spread_by_hand(scores, {"a": "b", "b": "c", "c": "d"}, 20)
    assert {one.node.node_id: one.score for one in found} == approx(expected)
    assert ids(found)[:2] == ["b", "c"], "c follows the best hit"


def test_a_store_tells_who_stands_beside_whom():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(f"c{i}", f"word{i} and more", source="s", position=i * 10) for i in range(4)])
        nodes = [item("c1", 1.0), item("c3", 0.3), item("c2", 0.1), item("stranger", 0.2)]
        found = UmiNeighbours(store=store).postprocess_nodes(nodes)
    scores = {"c1": 1.0, "c2": 0.1, "c3": 0.3, "stranger": 0.2}
    assert {one.node.node_id: one.score for one in found} == approx(
        spread_by_hand(scores, {"c1": "c2", "c2": "c3"}, 3), rel=1e-3
    )


@pytest.mark.parametrize("made", [UmiMMR, UmiNearDuplicates])
def test_vectors_come_from_the_store_that_has_them_all(made):
    embedder = CountingEmbedder(HashEmbedder())
    texts = {"a": "red boat", "b": "red boat now", "c": "night train"}
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(id, text) for id, text in texts.items()])
        nodes = [item(id, 1 - place / 10, text) for place, (id, text) in enumerate(texts.items())]
        stage = made(store=store, embed_model=embedder)
        from_store = stage.postprocess_nodes(nodes)
        assert not embedder.texts
        assert from_store == made(embed_model=HashEmbedder()).postprocess_nodes(nodes)
        stage.postprocess_nodes([*nodes, item("stranger", 0.1)])
        assert len(embedder.texts) == 4, "vectors of two origins are never compared"


def test_nodes_that_follow_each_other_in_a_circle_do_no_harm():
    a, b = item("a", 1.0), item("b", 0.5)
    chain(a, b)
    chain(b, a)
    assert set(ids(UmiNeighbours().postprocess_nodes([a, b, a]))) == {"a", "b"}


@pytest.mark.parametrize("stage", STAGES, ids=STAGE_NAMES)
def test_settings_survive_json_and_helpers_stay_out_of_it(stage):
    written = json.loads(stage.to_json())
    assert written.pop("class_name") == stage.class_name()
    assert {"clock", "store", "embed_model"}.isdisjoint(written)
    assert type(stage)(**written).to_dict() == stage.to_dict()
    assert UmiPostprocessor(steps=[stage]).to_dict()["steps"] == [stage.to_dict()]


@pytest.mark.parametrize("stage", STAGES, ids=STAGE_NAMES)
async def test_missing_queries_scores_and_vectors_are_no_trouble(stage):
    nodes = [item("a", None), item("b", 0.4), item("c", float("nan"))]
    before = copy.deepcopy(nodes)
    for given_nodes in (nodes, [item("z", 0.0), item("y", 0.0)], [item("m", -3.0), item("n", 2.0)], []):
        found = stage.postprocess_nodes(given_nodes)
        assert set(ids(found)) == set(ids(given_nodes))
        if isinstance(stage, (UmiDecay, UmiNeighbours)):  # the others leave scores alone
            assert all(math.isfinite(one.score) and one.score >= 0 for one in found)
        assert await stage.apostprocess_nodes(given_nodes, query_str="q") == found
    assert ids(nodes) == ids(before) and nodes[1] == before[1] and nodes[0] == before[0]


def test_a_score_of_zero_stays_zero():
    assert UmiDecay(half_life_hours=1, clock=lambda: NOW).postprocess_nodes([item("a", 0.0)])[0].score == 0.0


def test_several_work_as_one():
    nodes = [item(f"n{i}", 1 - i / 10, timestamp=(NOW - timedelta(days=i)).isoformat()) for i in range(5)]
    decay, mmr = UmiDecay(half_life_hours=24, clock=lambda: NOW), UmiMMR(top_n=3)
    both = UmiPostprocessor(steps=[decay, mmr])
    assert both.postprocess_nodes(nodes) == mmr.postprocess_nodes(decay.postprocess_nodes(nodes))
    assert BaseNodePostprocessor in UmiPostprocessor.__mro__ and both.class_name() == "UmiPostprocessor"


@pytest.mark.parametrize(
    "make",
    [
        lambda: UmiDecay(half_life_hours=0),
        lambda: UmiDecay(half_life_hours=1, floor=2),
        lambda: UmiMMR(trade_off=1.5),
        lambda: UmiMMR(top_n=0),
        lambda: UmiNearDuplicates(similarity=2),
        lambda: UmiNeighbours(previous=-1),
    ],
)
def test_settings_out_of_range_are_refused_at_once(make):
    with pytest.raises(ConfigError):
        make()


def test_a_time_without_a_zone_is_refused_where_its_meaning_would_be_a_guess():
    with pytest.raises(InvalidChunk, match="time zone"):
        UmiDecay(half_life_hours=1).postprocess_nodes([item("a", 1.0, timestamp=datetime(2024, 5, 1))])


def test_a_clock_without_a_time_zone_is_refused_with_what_to_add():
    with pytest.raises(ConfigError, match=r"^now 2026-11-01T00:00:00 has no time zone"):
        UmiDecay(half_life_hours=24, clock=lambda: datetime(2026, 11, 1)).postprocess_nodes([item("a", 1.0)])


def test_steps_that_are_no_postprocessors_are_refused_by_name():
    made = UmiPostprocessor(steps=[UmiDecay(half_life_hours=24)])
    for wrong in (made.to_dict()["steps"], [UmiDecay]):
        with pytest.raises(ConfigError, match=r"steps\.0: Input should be an instance of BaseNodePostprocessor"):
            UmiPostprocessor(steps=wrong)
    with pytest.raises(ConfigError, match="instance of BaseNodePostprocessor"):
        UmiPostprocessor.from_json(made.to_json())


@pytest.mark.parametrize(
    "stage",
    [UmiDecay(half_life_hours=24), UmiMMR(top_n=1), UmiNearDuplicates(), UmiNeighbours(), UmiContextBudget(budget=99)],
)
def test_a_stage_takes_nodes_one_after_the_other_as_any_other_list(stage):
    given = [item("a", 0.9, text="Ann met Bob."), item("b", 0.5, text="Carl lives in Oslo.")]
    found = stage.postprocess_nodes((each for each in given), query_str="Ann")
    assert ids(found) == ids(stage.postprocess_nodes(given, query_str="Ann")) != []


def test_falling_scores_are_not_in_the_order_of_long_context_reorder():
    assert edges_first([0.9, 0.5, 0.7]) and not edges_first([0.9, 0.5, 0.5])

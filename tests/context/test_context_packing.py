"""How good greedy packing is: beside the exact knapsack, and by what it keeps of LoCoMo's evidence."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest
from context_toys import Words, hit

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
SPACE = 30


def small_case(seed):
    """Ten hits of 1..20 words with falling scores; the last is worth nothing, as in every assembly."""
    chance = random.Random(seed)
    scores = sorted((chance.random() for _ in range(10)), reverse=True)
    values = [(score - scores[-1]) / (scores[0] - scores[-1]) for score in scores]
    lengths = [chance.randint(1, 20) for _ in range(10)]
    found = [hit(f"h{i}", f"h{i} " * lengths[i], scores[i], i + 1) for i in range(10)]
    return found, values, lengths


def worth(found, values, pack):
    policy = AssemblyPolicy(pack=pack, format="{text}", citation="", separator="\n")
    context = assemble(found, budget=TokenBudget(max_total=SPACE), policy=policy, counter=Words())
    return sum(values[int(id[1:])] for id in context.ids)


def exact(values, lengths):
    """The knapsack by trying every subset."""
    best = 0.0
    for size in range(11):
        for chosen in combinations(range(10), size):
            if sum(lengths[i] for i in chosen) <= SPACE:
                best = max(best, sum(values[i] for i in chosen))
    return best


def test_greedy_is_near_the_exact_knapsack():
    shares = {"score": [], "density": []}
    for seed in range(60):
        found, values, lengths = small_case(seed)
        most = exact(values, lengths)
        for pack, reached in shares.items():
            reached.append(worth(found, values, pack) / most)
            assert reached[-1] <= 1 + 1e-9
    assert fmean(shares["density"]) > 0.97
    assert fmean(shares["score"]) > 0.90
    assert min(shares["density"]) > 0.70


@pytest.mark.slow
@pytest.mark.parametrize("total", [1_000, 2_000])
def test_the_evidence_survives_the_budget(total):
    folder = DATA / "locomo" / "conv-30"
    vectors = DATA / "vectors" / "minilm" / "locomo" / "conv-30.npz"
    if not (folder.is_dir() and vectors.exists()):
        pytest.skip("needs the shared evaluation data (locomo and its vectors)")
    from benchmarks.quality_sets import load_vectors
    from umi_common import DualRetriever, HybridStore
    from umi_common.evaluation import load_conversations

    (dataset,) = (part for part in load_conversations(folder.parent) if part.group == "conv-30")
    in_context, in_top = [], []
    with HybridStore.open(embedder=load_vectors(vectors, dataset)) as store:
        store.add(dataset.chunks)
        umi = DualRetriever(store)
        for query in dataset.judged:
            gold = set(dataset.relevant(query.id))
            found = umi.search(query.text, limit=100, now=query.now).hits
            context = assemble(found, budget=TokenBudget(max_total=total))
            assert context.stats.tokens <= total
            in_context.append(len(gold & set(context.ids)) / len(gold))
            in_top.append(len(gold & {h.chunk.id for h in found[: len(context.ids)]}) / len(gold))
    assert fmean(in_context) >= 0.97 * fmean(in_top)


class Tens(Words):
    """Ten tokens more for each full hundred words: a text has more tokens than its parts."""

    def count(self, text):
        return len(text.split()) + len(text.split()) // 100 * 10


def test_a_hit_taken_back_from_the_finished_text_is_cut_to_the_room_left_with_its_citation():
    lengths = {"a": 80, "b": 30, "c": 130}
    found = [
        hit(id, " ".join([id] * length), 1.0 - rank / 10, rank, source=f"source number {id == 'c'}", position=rank * 10)
        for rank, (id, length) in enumerate(lengths.items(), start=1)
    ]
    context = assemble(found, budget=TokenBudget(max_total=270), counter=Tens())
    assert [part.ids for part in context.parts] == [("a",), ("b",), ("c",)]
    assert context.parts[-1].trimmed


@pytest.mark.parametrize("blanks", ["\n" * 30, " " * 30])
@pytest.mark.parametrize("budget", [35, TokenBudget(max_total=60, per_chunk_max=12)], ids=["total", "per chunk"])
def test_a_cut_of_a_text_that_begins_with_many_blanks_shows_its_words(blanks, budget):
    context = assemble([hit("a", f"{blanks}alpha beta")], budget=budget, counter=len)
    (part,) = context.parts
    assert part.text == "alpha beta" and [(span.start, span.end) for span in part.spans] == [(30, 40)]


def test_a_cut_around_a_passage_of_blanks_shows_words():
    found = [hit("a", "\n" * 30 + "alpha beta")]
    budget = TokenBudget(max_total=60, per_chunk_max=8)
    context = assemble(found, budget=budget, counter=len, passage_of=lambda _: (0, 20))
    assert [part.text for part in context.parts] == ["alpha"]

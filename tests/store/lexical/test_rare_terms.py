"""Rows that share a rare term, whatever was added and removed before."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from umi_common.config import AnalyzerConfig
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex

MOST = 10
LETTERS = str.maketrans("0123456789", "abcdefghij")


def shared(texts: dict[int, str], rows: list[int]) -> list[Counter[int]]:
    """By definition: the rows that hold a rare term of each row, once for each such term."""
    words = {row: set(text.split()) for row, text in texts.items()}
    holders: dict[str, list[int]] = {}
    for row, own in words.items():
        for word in own:
            holders.setdefault(word, []).append(row)
    rare = {word: held for word, held in holders.items() if len(held) <= MOST}
    return [Counter(other for word in words[row] for other in rare.get(word, ())) for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_share_a_rare_term_are_found_as_if_removed_rows_had_never_been(seed):
    draw = random.Random(seed)
    index, texts, following = LexicalIndex(Analyzer(AnalyzerConfig(language="none"))), dict[int, str](), 0
    for _ in range(10):
        new = {}
        for row in range(following, following + draw.choice([1, 40, 1_500])):
            new[row] = " ".join(str(int(draw.paretovariate(0.5)) % 3_000) for _ in range(8)).translate(LETTERS)
        following += len(new)
        gone = sorted(draw.sample(sorted(texts), len(texts) * draw.choice([0, 1, 7]) // 10))
        index.update(list(new), list(new.values()), [-1] * len(new), removed=gone)
        texts = {row: text for row, text in (texts | new).items() if row not in gone}
        rows = np.array(sorted(draw.sample(sorted(texts), min(6, len(texts)))))
        of_row, found, holders = index.sharing_rare(rows, MOST)
        for at, expected in enumerate(shared(texts, rows.tolist())):
            assert Counter(found[of_row == at].tolist()) == expected
        assert (holders <= MOST).all()

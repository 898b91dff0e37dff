from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from umi_common.errors import ConfigError
from umi_common.pool import NO_POSITION, NO_SOURCE
from umi_common.ranking.neighbours import (
    Shares,
    neighbour_scores,
    shares_of,
    source_evidence,
    source_lead,
)

SHORT = 0
"""A length at which a chunk needs all the context it can get."""


def spread_line(scores, *, source=None, position=None, length=SHORT, whole=None, **settings):
    """Chunks of one source in their order."""
    n = len(scores)
    return neighbour_scores(
        np.array(scores, dtype=np.float64),
        np.zeros(n, dtype=np.int64) if source is None else np.array(source),
        np.arange(n) if position is None else np.array(position),
        np.full(n, length),
        np.zeros(n) if whole is None else np.array(whole, dtype=np.float64),
        **settings,
    )


def test_the_answer_gains_more_than_the_question_that_is_asked_before_it():
    # only the middle matches: e = 1; it passes 1 on: 0.3 back, 0.6 forward
    assert spread_line([0.0, 1.0, 0.0]).tolist() == approx([0.3, 1.0, 0.6])


def test_two_positions_away_the_gain_is_half():
    assert spread_line([1.0, 0.0, 0.0, 0.0]).tolist() == approx([1.0, 0.6, 0.3, 0.0])
    assert spread_line([0.0, 0.0, 0.0, 1.0]).tolist() == approx([0.0, 0.15, 0.3, 1.0])


def test_only_chunks_with_high_scores_give():
    # e = 0.5 keeps 0.5 ** 1.5 and passes on 0.5 ** 3 = 0.125
    alone = spread_line([1.0, 0.5, 0.0], source=[1, 0, 0])
    assert alone.tolist() == approx([1.0, 0.5**1.5, 0.6 * 0.125])


def test_a_long_chunk_neither_gains_nor_gives():
    # 150 terms: half of everything; given and taken: a quarter
    assert spread_line([1.0, 0.0], length=150)[1] == approx(0.6 * 0.5 * 0.5)
    assert spread_line([1.0, 0.0], length=1500)[1] < 0.001


def test_no_gain_crosses_the_end_of_a_source_or_a_gap():
    assert spread_line([1.0, 0.0], source=[0, 1]).tolist() == [1.0, 0.0]
    assert spread_line([1.0, 0.0], position=[0, 2]).tolist() == [1.0, 0.0]
    assert spread_line([1.0, 0.0], source=[NO_SOURCE] * 2).tolist() == [1.0, 0.0]
    assert spread_line([1.0, 0.0], position=[NO_POSITION, 0]).tolist() == [1.0, 0.0]


def test_the_gain_from_the_whole_source_is_half():
    assert spread_line([1.0, 0.0], source=[0, 1], whole=[0.0, 1.0]).tolist() == approx([1.0, 0.5])


def test_scores_below_0_count_as_0():
    assert spread_line([1.0, -5.0], source=[0, 1]).tolist() == [1.0, 0.0]


def test_a_negative_share_is_refused():
    with pytest.raises(ConfigError):
        spread_line([1.0], previous=-0.1)


def test_source_evidence_is_measured_against_the_worst_source():
    found = source_evidence(np.array([4.0, 4.0, 2.0, 3.0, 9.0]), np.array([0, 0, 1, 2, NO_SOURCE]))
    assert found.tolist() == [0.5, 0.5, 0.0, 0.25, 0.0]


def test_source_evidence_is_at_most_1_if_okapi_scores_a_source_below_0():
    assert source_evidence(np.array([-1.0, 2.0, 1.0]), np.array([0, 1, 2])).tolist() == [0.0, 1.0, 0.5]


def test_one_source_alone_is_no_evidence():
    assert source_evidence(np.array([4.0, 4.0]), np.array([0, 0])).tolist() == [0.0, 0.0]
    assert source_evidence(np.array([4.0]), np.array([NO_SOURCE])).tolist() == [0.0]


def test_a_source_stands_out_by_its_lead_over_the_second():
    sources = np.array([0, 0, 1, 2])
    assert source_lead(np.array([8.0, 8.0, 1.0, 2.0]), sources, 0.0) == approx(0.5)  # (0.75 - 0.6) / 0.3
    assert source_lead(np.array([8.0, 8.0, 0.5, 0.5]), sources, 0.0) == 1.0
    assert source_lead(np.array([8.0, 8.0, 2.0, 6.0]), sources, 0.0) == 0.0
    assert source_lead(np.array([8.0, 8.0, 9.0]), np.array([0, 0, NO_SOURCE]), 1.0) == 0.0
    assert source_lead(np.array([0.0, 0.0]), np.array([0, 1]), 1.0) == 0.0
    assert source_lead(np.array([-0.5, -0.2]), np.array([0, 1]), 1.0) == 0.0


def test_among_copies_a_small_lead_is_enough():
    scores, sources = np.array([8.0, 8.0, 2.0, 6.0]), np.array([0, 0, 1, 2])
    assert source_lead(scores, sources, 1.0) == 1.0  # (0.25 - 0.05) / 0.15
    assert source_lead(scores, sources, 0.7) == approx(0.5)  # (0.7 - 0.5) / 0.4
    assert source_lead(np.array([8.0, 8.0, 7.8, 6.0]), sources, 1.0) == 0.0


def test_without_calibration_the_shares_are_those_of_the_prior():
    assert shares_of({}) == Shares(position=1.0, source=1.0)


def test_positions_without_information_have_a_share_of_0():
    # (1000 * 0.0 + 40 * 0.1) / 1040 = 0.004 is below 0.03
    calibration = {
        "autocorrelation": 0.0,
        "autocorrelation_pairs": 1000.0,
        "icc": 0.0,
        "icc_chunks": 1000.0,
        "shared_source_share": 1.0,
    }
    assert shares_of(calibration) == Shares(0.0, 0.0)
    assert shares_of(calibration, least=0.4) == Shares(0.0, 0.4)


def measured(icc, *, shared_source_share=1.0):
    return {
        "autocorrelation": 0.4,
        "autocorrelation_pairs": 1e9,
        "icc": icc,
        "icc_chunks": 1e9,
        "shared_source_share": shared_source_share,
    }


def test_shares_fall_if_each_chunk_repeats_its_source():
    # position: 1 - (0.2 - 0.1) / (0.3 - 0.1) = 0.5; source: (1 - (0.2 - 0.1) / (1.0 - 0.1)) * 0.5 = 4 / 9
    shares = shares_of(measured(0.2, shared_source_share=0.5))
    assert (shares.position, shares.source) == (approx(0.5), approx(4 / 9))
    assert shares_of(measured(0.1)) == Shares(approx(1.0), approx(1.0))
    assert shares_of(measured(0.3)).position == approx(0.0, abs=1e-6)


@given(st.floats(0.03, 1), st.floats(0.03, 1))
def test_the_more_alike_a_source_the_smaller_the_shares(one, other):
    less, more = shares_of(measured(min(one, other))), shares_of(measured(max(one, other)))
    assert more.position <= less.position
    assert more.source <= less.source


LINES = st.lists(st.tuples(st.floats(0, 10), st.integers(-1, 2), st.integers(-1, 6)), max_size=25)


def columns(line):
    """Scores, sources, positions; no two chunks at one place."""
    places = {}
    for score, source, position in line:
        places.setdefault((source, position), score)
    keys = list(places)
    return list(places.values()), [source for source, _ in keys], [position for _, position in keys]


@given(LINES)
def test_shares_of_0_change_nothing(line):
    scores, source, position = columns(line)
    after = spread_line(scores, source=source, position=position, previous=0, following=0, source_share=0)
    assert after.tolist() == scores
    held_back = spread_line(scores, source=source, position=position, shares=Shares(0.0, 0.0))
    assert held_back.tolist() == scores


@given(LINES)
def test_it_equals_the_formula_chunk_by_chunk(line):
    scores, source, position = columns(line)
    best = max(scores, default=0.0)
    own = {(s, p): score / best if best > 1e-9 else 0.0 for score, s, p in zip(scores, source, position, strict=True)}

    def passed(s, p, steps):
        reached = [(s, p + hop * (1 if steps > 0 else -1)) for hop in range(1, abs(steps) + 1)]
        inside = s != NO_SOURCE and p != NO_POSITION and all(q != NO_POSITION and (s, q) in own for s, q in reached)
        return own[reached[-1]] ** 3 if inside else 0.0

    raw = [
        own[s, p] ** 1.5
        + 0.6 * (passed(s, p, -1) + 0.5 * passed(s, p, -2))
        + 0.3 * (passed(s, p, 1) + 0.5 * passed(s, p, 2))
        for s, p in zip(source, position, strict=True)
    ]
    top = max(raw, default=0.0)
    assert spread_line(scores, source=source, position=position).tolist() == approx(
        [x / top if top > 1e-9 else 0.0 for x in raw]
    )


@given(LINES, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(line, random):
    scores, source, position = columns(line)
    rows = list(range(len(scores)))
    random.shuffle(rows)
    straight = spread_line(scores, source=source, position=position)
    mixed = spread_line(
        *[[scores[row] for row in rows]], source=[source[r] for r in rows], position=[position[r] for r in rows]
    )
    assert mixed.tolist() == approx(straight[rows].tolist())


def test_a_near_copy_beside_a_chunk_gives_it_nothing():
    copies = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    # the second is a copy of the first and gets nothing; the third is two steps away and gets half of 0.6
    assert spread_line([1.0, 0.0, 0.0], vectors=copies).tolist() == approx([1.0, 0.0, 0.3])
    almost = np.array([[1, 0], [0.85, np.sqrt(1 - 0.85**2)], [0, 1]], dtype=np.float32)
    assert spread_line([1.0, 0.0, 0.0], vectors=almost).tolist() == approx([1.0, 0.3, 0.3], rel=1e-5)
    assert spread_line([1.0, 0.0], vectors=np.zeros((2, 0), np.float32)).tolist() == approx([1.0, 0.6])

"""Confidence intervals of means, and tests of whether two systems differ, by random resampling with a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from umi_common.errors import ConfigError

RESAMPLES = 2_000
"""Default number of resamples of a bootstrap."""
FLIPS = 10_000
"""Number of random sign vectors of a randomisation test; the smallest p value is 1 / (1 + FLIPS)."""
FLIP_BATCH = 1_000
"""Number of sign vectors drawn at once; it limits memory."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries and its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    queries: int
    groups: int
    """Number of groups that were resampled. If all queries are in one group, number of queries, which are resampled."""

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap_mean(
    values: Sequence[float], groups: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Mean of all values, with a 95 % percentile bootstrap interval over whole groups.

    Queries of one conversation are not independent, so whole groups are drawn with replacement. The mean of a
    resample is the sum of the values of the drawn groups / the number of these values. With a single group, queries
    are drawn instead.

    Args:
        values: One value for each query; NaN is left out.
        groups: The group of each query, aligned with `values`.

    Raises:
        ConfigError: If the lengths differ or no value is left.

    Source: Efron, 1979; Field and Welsh, 2007, for clusters.
    """
    if len(values) != len(groups):
        raise ConfigError(f"{len(values)} values and {len(groups)} groups; expected one group for each value")
    kept = [(float(value), group) for value, group in zip(values, groups, strict=True) if not np.isnan(value)]
    if not kept:
        raise ConfigError("no value to take a mean of; does any query have a relevant document?")
    numbers = np.array([value for value, _ in kept])
    names, codes = np.unique([group for _, group in kept], return_inverse=True)
    if len(names) == 1:
        codes = np.arange(len(numbers))
    sums, counts = np.bincount(codes, weights=numbers), np.bincount(codes)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(numbers.mean()), float(low), float(high), len(numbers), len(sums))


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of one system ("ours") from another ("theirs") on the same queries."""

    mean: float
    """Mean over the queries of our value minus their value."""
    p_value: float
    """Two-sided: probability that chance alone gives a mean difference at least as large; in (0, 1]."""
    better: int
    """Number of queries on which our value is higher."""
    worse: int
    """Number of queries on which our value is lower."""
    queries: int
    """Number of queries compared."""


def paired_randomisation(ours: Mapping[str, float], theirs: Mapping[str, float], *, seed: int = 0) -> Difference:
    """Fisher's paired randomisation test: if the systems are equal, each query's difference has a random sign.

    p = (1 + number of random sign vectors with |mean difference| >= the observed |mean difference|) / (1 + FLIPS)

    Args:
        ours: Value by query.
        theirs: Value by query, over the same queries. A query for which either system has NaN is left out.
        seed: Seed of the sign vectors; equal seeds and values give equal p values.

    Raises:
        ConfigError: If the queries differ or none is left.

    Source: Smucker, Allan, Carterette, CIKM 2007.
    """
    if not ours or ours.keys() != theirs.keys():
        raise ConfigError(
            f"the systems have values for {len(ours)} and {len(theirs)} queries; a paired test needs the same queries, "
            "at least one"
        )
    differences = np.array([ours[query] - theirs[query] for query in sorted(ours)])
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        raise ConfigError("no query has a value of both systems; was the metric measured for both?")
    observed = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()  # less the rounding errors of the sums
    changed = differences[differences != 0.0]
    rng, as_large = np.random.default_rng(seed), 0
    for _ in range(FLIPS // FLIP_BATCH):
        signs = rng.integers(0, 2, size=(FLIP_BATCH, len(changed))) * 2 - 1
        as_large += int((np.abs(signs @ changed) >= observed).sum())
    return Difference(
        float(differences.mean()),
        (1 + as_large) / (1 + FLIPS),
        int((differences > 0).sum()),
        int((differences < 0).sum()),
        len(differences),
    )


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P values corrected for multiple comparisons by Holm's method, under the keys of `p_values`.

    With p_0 <= p_1 <= ... the m p values in rising order, p_i becomes max over j <= i of min(1, (m - j) * p_j).

    Source: Holm, Scandinavian Journal of Statistics, 1979.
    """
    rising = sorted(p_values, key=lambda name: (p_values[name], name))
    weighted = (min(1.0, (len(rising) - rank) * p_values[name]) for rank, name in enumerate(rising))
    corrected = dict(zip(rising, accumulate(weighted, max), strict=True))
    return {name: corrected[name] for name in p_values}

"""Training and test parts that share no conversation."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from umi_common.errors import ConfigError
from umi_common.evaluation.datasets import Dataset, by_set


@dataclass(frozen=True, slots=True)
class Split:
    """Datasets to learn from, and others to be judged on."""

    train: tuple[Dataset, ...]
    test: tuple[Dataset, ...]


def split_by_group(datasets: Iterable[Dataset], *, test_share: float = 0.3, seed: int = 0) -> Split:
    """Each set's groups dealt to train and test; a set of one group has its queries dealt instead.

    Args:
        datasets: Any number of sets.
        test_share: Share of each set's groups (or queries) that go to test, between 0 and 1; at least one to each side.
        seed: Same seed, same split.

    Raises:
        ConfigError: If the share is out of range or a set has only one group with only one query.
    """
    if not 0.0 < test_share < 1.0:
        raise ConfigError(f"test_share {test_share}; expected a share between 0 and 1")
    train, test = list[Dataset](), list[Dataset]()
    for name, parts in by_set(datasets).items():
        rng = random.Random(f"{seed}/{name}")  # a set's split does not depend on the sets beside it
        if len(parts) > 1:
            held = _drawn(range(len(parts)), test_share, rng)
            train += [part for place, part in enumerate(parts) if place not in held]
            test += [part for place, part in enumerate(parts) if place in held]
            continue
        (whole,) = parts
        asked = whole.judged
        if len(asked) < 2:
            raise ConfigError(f"{name} has {len(asked)} judged queries in one group; splitting needs at least two")
        held = _drawn(range(len(asked)), test_share, rng)
        train.append(whole.with_queries([query.id for place, query in enumerate(asked) if place not in held]))
        test.append(whole.with_queries([query.id for place, query in enumerate(asked) if place in held]))
    return Split(tuple(train), tuple(test))


def _drawn(places: Sequence[int], share: float, rng: random.Random) -> set[int]:
    count = min(max(1, round(share * len(places))), len(places) - 1)
    return set(rng.sample(places, count))

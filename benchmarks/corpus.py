"""Texts, questions and vectors for the benchmarks, all from a seed: every process makes the same.

Words follow Zipf and Mandelbrot with an open vocabulary: a share of the tokens are names and numbers that few other
chunks hold. Lengths are log-normal and a chunk repeats words of its own. Chunks of equal length that repeat nothing
would give thousands of exactly equal scores, which real text does not; `ties` counts them, in a real set too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from umi_common.embedders import CallableEmbedder, unit_rows
from umi_common.pool import Vectors
from umi_common.types import Chunk

SEED = 9
NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)
WORDS_MEAN = 43
"""Words in a chunk: a turn of LoCoMo has 24, a passage of MTRAG 120."""
COMMON_WORDS = 60_000
ZIPF_EXPONENT = 1.05
ZIPF_SHIFT = 2.7
NAMES_SHARE = 0.04
"""Tokens that are a name or a number of their own; half of them occur once more in the same chunk."""
REPEATS_SHARE = 0.12
"""Share of tokens that repeat the token before last of the same chunk, as real texts repeat words."""
SOURCE_CHUNKS = 50
CLUSTERS_EVERY = 200
LATENT = 24
"""Dimensions in which vectors of one subject differ: sentence encoders use few of theirs."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Corpus:
    """n chunks as numbers of words: chunk i is tokens[starts[i]:starts[i + 1]]."""

    tokens: Numbers
    starts: Numbers

    def __len__(self) -> int:
        return len(self.starts) - 1

    def words(self, row: int) -> list[str]:
        """Of one chunk."""
        return [word(number) for number in self.tokens[self.starts[row] : self.starts[row + 1]].tolist()]

    def texts(self) -> list[str]:
        """Of all chunks."""
        numbers, place = np.unique(self.tokens, return_inverse=True)
        written = np.array([word(number) for number in numbers.tolist()], dtype=object)
        flat = written[place].tolist()
        bounds = self.starts.tolist()
        return [" ".join(flat[start:stop]) for start, stop in pairwise(bounds)]

    def questions(self, count: int) -> list[tuple[str, int]]:
        """(text, the chunk it was made from): 3 to 8 different words of one chunk, drawn at random.

        One of the chunk's three rarest is always among them: nobody asks with stop words alone.
        """
        random = np.random.default_rng((SEED, 1, len(self)))
        asked = []
        for row in random.integers(len(self), size=count).tolist():
            known = np.unique(self.tokens[self.starts[row] : self.starts[row + 1]])  # a larger number is a rarer word
            chosen = {int(random.choice(known[-3:]))}
            chosen.update(
                random.choice(known, size=min(len(known), int(random.integers(2, 8))), replace=False).tolist()
            )
            numbers = np.array(sorted(chosen))
            random.shuffle(numbers)
            asked.append((" ".join(word(number) for number in numbers.tolist()), row))
        return asked


def make_corpus(size: int) -> Corpus:
    """`size` chunks; the first chunks of a larger corpus are not those of a smaller one."""
    random = np.random.default_rng((SEED, 0, size))
    lengths = np.maximum(5, random.lognormal(np.log(WORDS_MEAN) - 0.18, 0.6, size=size)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tokens = _zipf(random, int(starts[-1]))
    names = np.flatnonzero(random.random(len(tokens)) < NAMES_SHARE)
    tokens[names] = COMMON_WORDS + random.integers(max(1000, len(names) // 2), size=len(names))
    repeats = np.flatnonzero(random.random(len(tokens)) < REPEATS_SHARE)
    inside = repeats[repeats - starts[np.searchsorted(starts, repeats, side="right") - 1] >= 2]
    tokens[inside] = tokens[inside - 2]
    return Corpus(tokens, starts)


def _zipf(random: np.random.Generator, count: int) -> Numbers:
    """Word numbers from 0 with density proportional to 1 / (number + shift) ** exponent, by inversion."""
    power = 1.0 - ZIPF_EXPONENT
    low, high = ZIPF_SHIFT**power, (ZIPF_SHIFT + COMMON_WORDS) ** power
    drawn = (low + (high - low) * random.random(count)) ** (1.0 / power) - ZIPF_SHIFT
    return np.minimum(drawn.astype(np.int64), COMMON_WORDS - 1)


def word(number: int) -> str:
    """A different word for each number, which stemmers do not change: "ca", "da", ..., "baca", ..."""
    syllables = []
    number += 1
    while number:
        number, rest = divmod(number, 60)
        syllables.append("bcdfghjkmnprtvz"[rest % 15] + "aiou"[rest // 15])
    return "".join(syllables)


def make_vectors(size: int, dim: int) -> Vectors:
    """(size, dim) unit rows in clusters, one for each subject, so that vectors have near neighbours."""
    random = np.random.default_rng((SEED, 2, size, dim))
    subjects = random.normal(size=(max(8, size // CLUSTERS_EVERY), dim)).astype(np.float32)
    spread = random.normal(size=(LATENT, dim)).astype(np.float32)
    rows = subjects[random.integers(len(subjects), size=size)]
    step = 100_000
    for start in range(0, size, step):
        block = rows[start : start + step]
        block += 0.25 * random.normal(size=(len(block), LATENT)).astype(np.float32) @ spread
        block += 0.2 * random.normal(size=block.shape).astype(np.float32)
    return unit_rows(rows)


def question_vectors(vectors: Vectors, asked: Sequence[int]) -> Vectors:
    """(Q, dim) unit rows near the vectors of the chunks that the questions were made from."""
    random = np.random.default_rng((SEED, 3, len(vectors)))
    near = vectors[list(asked)]
    return unit_rows(near + 0.5 / np.sqrt(near.shape[1]) * random.normal(size=near.shape).astype(np.float32))


def make_chunks(texts: Sequence[str]) -> list[Chunk]:
    """Chunks in sources of 50, one a minute back from `NOW`, of seven users."""
    return [
        Chunk(
            chunk_id(row),
            text,
            metadata={"user": f"u{row % 7}", "turn": row},
            source=f"chat-{row // SOURCE_CHUNKS}",
            position=row % SOURCE_CHUNKS,
            event_time=NOW - timedelta(minutes=row),
        )
        for row, text in enumerate(texts)
    ]


def chunk_id(row: int) -> str:
    """Ids in the order of the rows."""
    return f"c{row:07}"


def row_of(id: str) -> int:
    """The row of an id."""
    return int(id[1:])


def looked_up(texts: Sequence[str], vectors: Vectors, dim: int) -> CallableEmbedder:
    """An embedder that looks up the vectors of these texts, so that no figure includes embedding."""
    known = dict(zip(texts, range(len(texts)), strict=True))

    def embed(wanted: Sequence[str]) -> Vectors:
        return vectors[[known[text] for text in wanted]]

    return CallableEmbedder(embed, name="looked up", dim=dim)

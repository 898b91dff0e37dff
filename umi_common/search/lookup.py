"""Lookup: in a query of few words that names a number or code, raise the scores of candidates that hold it.

For "error 502" or "UMB-2231" only a text with that number answers, but vectors place 502 near 501, and the stage
`neighbours` raises chunks beside that text. In a longer query a number is one detail of several, and the raise would
cost more than it gains.

    w(c) = the share of candidates that do not hold code c of the query; 0 if no candidate holds it
    final(i) = score(i) * (1 + weight * sum_c w(c) * [i holds c] / max(1, sum_c w(c)))

Then all scores are multiplied by one factor, so that the largest is as large as before. Measured in docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from umi_common.config import FusionConfig
from umi_common.pool import Pool
from umi_common.query.time.find import When
from umi_common.search.number_pairs import CANDIDATES, raised
from umi_common.search.rank import RankedPool, reorder
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.stores.lexical.languages import all_function_words
from umi_common.types import Chunk

STAGE = "lookup"
OTHER_WORDS_MAX = 2
"""Largest number of a lookup's words that are neither codes nor function words."""
CODES_MAX = 16
"""Largest number of codes of a lookup that are searched for, first ones first; the time grows with it."""
PART = re.compile(r"[^\W\d_]+|\d+")
"""A run of letters, or one of digits."""


def codes_in_query(config: FusionConfig, request: SearchRequest, when: When | None) -> list[re.Pattern[str]]:
    """Patterns of the codes that the query looks up; empty if there are none, if the stage is off, if only one arm is
    searched, or in fusion by ranks: its scores differ so little that this stage alone would decide the order.

    Args:
        when: The period that the query names: its words are no codes; None: it names none.
    """
    if not config.lookup_weight or config.method == "rrf" or request.strategy != "hybrid":
        return []
    start, end = (0, 0) if when is None else when.span
    return codes_of(f"{request.query[:start]} {request.query[end:]}")


def codes_of(query: str) -> list[re.Pattern[str]]:
    """Patterns of the codes of a lookup, in their order; empty if the query is no lookup.

    A code is a word of at least two characters with a digit: one digit mostly counts something.
    """
    words = dict.fromkeys(re.sub(r"^\W+|\W+$", "", word).lower() for word in query.split())
    codes = [word for word in words if len(word) > 1 and any(map(str.isdigit, word))]
    others = words.keys() - {"", *codes} - all_function_words()
    return [_pattern(code) for code in codes[:CODES_MAX]] if len(others) <= OTHER_WORDS_MAX else []


def reorder_by_lookup(
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    codes: Sequence[re.Pattern[str]],
    weight: float,
    trace: TraceBuilder,
) -> RankedPool:
    """The ranking with its first `CANDIDATES` rows sorted by the formula at the top of this file.

    Args:
        pool: The candidates.
        ranked: Their order so far.
        chunks: Chunk of each ranked row, by id.
        codes: From `codes_in_query`, not empty.
        weight: > 0, `FusionConfig.lookup_weight`.
        trace: Gets the stage.
    """
    rows = np.sort(ranked.order[:CANDIDATES])
    with trace.stage(STAGE) as facts:
        texts = [chunks[id].indexed_text for id in pool.ids_at(rows)]
        held = np.array([[float(code.search(text) is not None) for code in codes] for text in texts])
        facts.update(candidates=len(rows), codes=len(codes), held=int(held.any(axis=1).sum()))
        return reorder(ranked, rows, raised(ranked.scores[rows], held, weight), STAGE)


def _pattern(code: str) -> re.Pattern[str]:
    """A pattern of a code, also with other signs or none between its parts, or as a part of a longer code.

    "E-1042" finds "e1042", and "1444" finds "INV-2024-1444"; but "10.1" finds neither "101" nor "10.1.2".
    """
    parts = PART.findall(code)
    pattern = re.escape(parts[0])
    for before, after in pairwise(parts):
        between_digits = before[-1].isdigit() and after[0].isdigit()
        pattern += (r"[\W_]" if between_digits else r"[\W_]?") + re.escape(after)
    return re.compile(rf"(?<![^\W_])(?<!\d[.,:]){pattern}(?![^\W_]|[.,:]\d)", re.IGNORECASE)

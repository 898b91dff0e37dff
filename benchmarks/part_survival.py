"""The share of LoCoMo's gold evidence that is left after hits are packed into 1,000 and 2,000 tokens, and of XQuAD's
answers amid long texts into 300 and 1,200."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.context_survival import answers_in_long_texts, survival
from benchmarks.harness import Plan, Row

SIZES = (0,)
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
WHAT = "gold evidence kept in a context"


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a way of packing and budget; skipped if the data is missing."""
    figures = survival(DATA, totals=(1_000, 2_000))
    if not figures:
        return [{"what": WHAT, "size": None, "system": "umi", "skipped": "the evaluation data is not there"}]
    for language in ("en", "de", "zh"):
        figures |= answers_in_long_texts(DATA, language, totals=(300, 1_200))
    return [{"what": WHAT, "size": None, "system": name, **shares} for name, shares in figures.items()]

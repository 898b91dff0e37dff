"""Compounds: words such as German "Wasserleitung", for which another text has two words, "Leitung für das Wasser"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.languages import all_function_words
from umi_common.stores.lexical.spellings import with_umlauts

COMPOUNDING = frozenset({"danish", "dutch", "finnish", "german", "hungarian", "norwegian", "swedish"})
"""Languages that write compounds as one word."""
LINKS = ("", "s", "n", "en", "e", "es")
"""Letters between the parts of a compound. Before them, the first part may lack its last letter: "skol|avgift"."""
PART_LETTERS = 4
"""Smallest number of letters of each part into which a compound is split; an s that links the parts counts, too."""
Held = Callable[[Iterable[str]], Mapping[str, int]]
"""Returns those of some terms that living rows hold, each with the number of rows."""


def parts(word: str, analyzer: Analyzer, held: Held) -> list[str]:
    """The terms of the two parts of a compound: "mietvertrag" and "kundig" of "mietvertragskündigung".

    Of several splits, the one whose rarer part is in the most rows; empty if rows hold the parts of no split.
    """
    spellings = dict.fromkeys([word, with_umlauts(word)])
    splits = [(each[:at], each[at:]) for each in spellings for at in range(PART_LETTERS, len(each) - PART_LETTERS + 1)]
    splits += [(head[:-1], tail) for head, tail in splits if head.endswith("s")]
    stems = analyzer.stems_of_words([part for split in splits for part in split])
    rows = held(stems)
    found = [two for two in zip(stems[::2], stems[1::2], strict=True) if two[0] != two[1] and rows.keys() >= set(two)]
    return list(max(found, key=lambda two: min(map(rows.__getitem__, two)), default=()))


def joined(words: Sequence[str], analyzer: Analyzer, held: Held) -> dict[str, list[str]]:
    """By word, the terms of its compounds with the next or previous word, in either order, that rows hold.

    Function words between the two are left out: for "Leitung für das Wasser", "wasserleit" is found by both words.
    """
    content = [word for word in words if word not in all_function_words()]
    found: dict[str, list[str]] = {}
    for one, other in pairwise(content):
        orders = (one, other), (other, one)
        typed = [head + link + tail for first, tail in orders for head in (first, first[:-1]) for link in LINKS]
        for whole in held(analyzer.stems_of_words(typed)):
            found.setdefault(one, []).append(whole)
            found.setdefault(other, []).append(whole)
    return found

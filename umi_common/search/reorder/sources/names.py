"""Raise the candidates of a file that the query names, such as "handbook_2023.pdf" or "the Brandl lease".

Few chunks of a file hold its name, so the words of the name count as words of all its chunks. The name of a file is
the last `COMPONENTS` components of its path without the ending. The path mostly is the source of its chunks.

    final(i) = `words.raised` of score(i) with g and key, + e(i) * the best score
    g(p, i) = 1 if the name or the text of candidate i holds the word p of the query, else 0; function words, and words
        that no file or all files have in their names, are left out
    key(p) = 1 / (1 + the number of candidates whose text holds p, but not the name of their file); a word that other
        files use in their texts, such as "update", mostly names no file
    e(i) = 1 if the query spells the name of the file of i, or if the text of i holds what the query spells; else 0

A query spells a name if it holds the file's name with its ending ("lease.pdf"), or without it if that has a digit or
"_" ("ITT-2024-934"). The texts count, too, because a name may hold a word of the query by chance: "where do I enter the
VAT number of my account" is then answered by the text that holds "account" as before, and not by account.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.words import FIRST_LETTERS, TermsOf, raised, words_in
from umi_common.stores.lexical.languages import all_function_words
from umi_common.types import Chunk

WEIGHT = 2.0
"""See `words.raised`. The text of a file that is asked for in other words has half the score of one that has them."""
COMPONENTS = 2
"""A file and its folder. The folders above are mostly the same for all files."""
PATHS = ("file_path", "file_name")
"""Metadata keys of LlamaIndex for the path of a file. The source of its nodes is mostly a random id."""
NEW_WORD = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")
"""Where a word of camel case begins."""
RUN = re.compile(r"\d+(?:\.\d+)+|[^\W\d_]+(?=\d+\.\d)|[^\W_]+")
"""A version ("2.3"), or letters and digits without a sign between them."""
LETTERS_AND_NUMBER = re.compile(r"([^\W\d_]*)(\d*)|(\d+)([^\W\d_]+)")
"""A run that is separated between letters and digits. Others, such as parts of random ids, stay one word."""
ENDING = re.compile(r"\.[a-z]\w{0,4}$", re.IGNORECASE)
"""The ending of a file's name."""
CODE = re.compile(r"(?=.*[\d_])(?=.*[^\W\d_]).{4,}", re.DOTALL)
"""A name that is spelled without its ending."""
NAMES_KEPT = 4096
"""Number of names whose words are cached."""


class Name(NamedTuple):
    """The name of a file or of another source."""

    words: frozenset[str]
    """`name_words` of the file and its folders."""
    bare: str
    """The file without its ending, in lower case."""
    spellings: tuple[str, ...]
    """What a query must hold to spell the name, in lower case."""


def reorder_by_names(best: Best, *, query: str, terms_of: TermsOf) -> RankedPool:
    """The ranking by the formula at the top of this file."""
    words, lowered = name_words(query) - all_function_words(), query.lower()
    key_of = cache(lambda word: (word.isalpha() and tuple(terms_of(word))) or word)  # equal for "lease" and "leases"
    paths = [source_path(chunk) for chunk in best.chunks]
    names = {path: named_source(path) for path in {*paths}}
    held = dict(zip(names, _keys((name.words for name in names.values()), words, key_of), strict=True))
    spelled = {spelling for name in names.values() if name.bare in lowered and (spelling := spelling_in(lowered, name))}
    holding = Counter(key for keys in held.values() for key in keys)
    parts = {word: key for word in sorted(words) if 0 < holding[key := key_of(word)] < len(held)} if holding else {}
    if not parts and not spelled:
        return best.ranked
    in_texts = _keys((words_in(text) for text in best.texts), parts, key_of)
    in_name = np.array([[key in held[path] for key in parts.values()] for path in paths], dtype=bool)
    g = in_name | np.array([[key in keys for key in parts.values()] for keys in in_texts], dtype=bool)
    e = np.zeros(len(paths))
    for at, (path, text) in enumerate(zip(paths, best.texts, strict=True) if spelled else ()):
        e[at] = any(each in names[path].spellings or each in text.lower() for each in spelled)
    best.facts["named"] = int(g.any(axis=1).sum())
    keys = 1.0 / (1.0 + (g > in_name).sum(axis=0))
    return best.sorted_by(raised(best.scores, g.astype(np.float64), WEIGHT, keys) + best.scores.max(initial=0.0) * e)


def _keys(
    several: Iterable[Iterable[str]], asked: Collection[str], key_of: Callable[[str], Hashable]
) -> list[set[Hashable]]:
    """For each of several collections of words, the keys of those that may equal a word of `asked`."""
    beginnings = {word[:FIRST_LETTERS] for word in asked}
    return [{key_of(word) for word in words if word[:FIRST_LETTERS] in beginnings} for words in several]


def source_path(chunk: Chunk) -> str:
    """The path of the chunk's file, or another source; "" if there is none."""
    source = chunk.source or ""
    if "." in source:
        return source
    paths = (chunk.metadata.get(key) for key in PATHS)
    return next((path for path in paths if isinstance(path, str)), source)


@lru_cache(NAMES_KEPT)
def named_source(path: str) -> Name:
    """The name of a file or of another source."""
    components = path.replace("\\", "/").rstrip("/").split("/")[-COMPONENTS:]
    file = components[-1].lower()
    bare = ENDING.sub("", file)
    spellings = (*[file] * (bare not in ("", file)), *[bare] * bool(CODE.fullmatch(bare)))
    components[-1] = ENDING.sub("", components[-1])  # a question about "pdf" is not one about the files of this type
    return Name(name_words("/".join(components)), bare, spellings)


def name_words(text: str) -> frozenset[str]:
    """The words and numbers of a name or query, in lower case.

    A number of one or two digits is one word with the word before it: "chapter_07" and "chapter 7" hold "chapter7".
    Alone it is left out, because sources may be numbered.
    """
    words, before = set[str](), ""
    for run in RUN.findall(NEW_WORD.sub(" ", text)):
        match = LETTERS_AND_NUMBER.fullmatch(run)
        for word in filter(None, match.groups()) if match else (run,):
            label, before = before, word if word.isalpha() else ""
            if not word.isdecimal() or len(word) > 2:
                words.add(word.lower())
            elif label:
                words.add(f"{label}{int(word)}".lower())
    return frozenset(word for word in words if len(word) > 1)


def spelling_in(query: str, name: Name) -> str | None:
    """The first spelling of a name that a query in lower case holds; None if it holds none."""
    found = (each for each in name.spellings if re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", query))
    return next(found, None)

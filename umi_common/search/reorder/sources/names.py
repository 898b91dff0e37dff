"""Raise the candidates of a file whose name the query spells, as in "what does handbook_2023.pdf say about parking?".

Few chunks of a file hold its name, so BM25 and vectors often rank the chunks of other files first.

    final(i) = score(i) + e(i) * the best score
    e(i) = 1 if the query spells the name of the file of candidate i, or if the text of i holds the name; else 0

A query spells a name if it holds all of it, with a point in it ("lease.pdf", ".env"). A name may also stand without its
ending, if the rest has at least four characters, among them a letter and a digit or "_" ("ITT-2024-934"). A word of a
name does not count: "will the bill be paid" does not ask for the files bill.md and will.md.
"""

from __future__ import annotations

import re

import numpy as np

from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.types import Chunk

MAY_SPELL = re.compile(r"[._\d]")
"""A character without which a query spells no name: most queries have none, and the stage does not run."""
PATHS = ("file_path", "file_name")
"""Metadata keys of LlamaIndex for the path of a file. The source of its nodes is mostly a random id."""
FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
"""The folders of a path."""
ENDING = re.compile(r"\.[a-z]\w{0,4}$")
"""The ending of a file's name in lower case."""
CODE = re.compile(r"(?=.*[\d_])(?=.*[^\W\d_]).{4,}", re.DOTALL)
"""A name that a query may spell without its ending."""


def reorder_by_names(best: Best, *, query: str) -> RankedPool:
    """The ranking by the formula at the top of this file."""
    lowered = query.lower()
    paths = [source_path(chunk) for chunk in best.chunks]
    spelled = {path: name for path in {*paths} if (name := spelled_name(lowered, path)) is not None}
    if not spelled:
        return best.ranked
    names = {*spelled.values()}
    candidates = zip(paths, best.texts, strict=True)
    e = [path in spelled or any(map(text.lower().__contains__, names)) for path, text in candidates]
    best.facts["named"] = sum(e)
    return best.sorted_by(best.scores + best.scores.max(initial=0.0) * np.array(e, dtype=np.float64))


def source_path(chunk: Chunk) -> str:
    """The path in the metadata of a chunk; without one, its source."""
    paths = (chunk.metadata.get(key) for key in PATHS)
    return next((path for path in paths if isinstance(path, str)), chunk.source or "")


def spelled_name(query: str, path: str) -> str | None:
    """The name of the file at `path` as the query, in lower case, spells it; None: the query does not spell it."""
    file = FOLDERS.sub("", path).lower()
    bare = ENDING.sub("", file)
    if bare not in query:  # true of nearly all files; the test is faster than a pattern
        return None
    names = [file] * ("." in file) + [bare] * (CODE.fullmatch(bare) is not None)
    return next((name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-]|\.\w)", query)), None)

"""Raise the candidates of a file whose name the query spells, as in "what does handbook_2023.pdf say about parking?".

Few chunks of a file hold its name, so BM25 and vectors often rank the chunks of other files first.

    final(i) = score(i) + e(i) * the best score
    e(i) = 1 if the query spells the name of the file of candidate i, or if the text of i holds the name; else 0

A query spells a name if it holds it with its ending ("lease.pdf", ".env"), or without, if the rest has at least four
characters, among them a letter and a digit or "_" ("ITT-2024-934"). A word of a name does not count: "will the bill be
paid" does not ask for the files bill.md and will.md, nor "the U.S. economy" for a page "U.S.".
"""

from __future__ import annotations

import re
from itertools import chain

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
ENDING = re.compile(r"\.[a-z]\w*$")
"""The ending of a file's name in lower case; the whole of a name such as ".env"."""
CODE = re.compile(r"(?=.*[\d_])(?=.*[^\W\d_]).{4,}", re.DOTALL)
"""A name that a query may spell without its ending."""


def reorder_by_names(best: Best, *, query: str) -> RankedPool:
    """The ranking by the formula at the top of this file."""
    lowered = query.lower()
    paths = [source_paths(chunk) for chunk in best.chunks]
    spelled = {path: name for path in {*chain(*paths)} if (name := spelled_name(lowered, path)) is not None}
    if not spelled:
        return best.ranked
    names = {*spelled.values()}
    candidates = zip(paths, best.texts, strict=True)
    e = [not spelled.keys().isdisjoint(own) or any(map(text.lower().__contains__, names)) for own, text in candidates]
    best.facts["named"] = sum(e)
    return best.sorted_by(best.scores + best.scores.max(initial=0.0) * np.array(e, dtype=np.float64))


def source_paths(chunk: Chunk) -> list[str]:
    """The source of a chunk, and the paths in its metadata."""
    either = (chunk.source, *(chunk.metadata.get(key) for key in PATHS))
    return [path for path in either if isinstance(path, str)]


def spelled_name(query: str, path: str) -> str | None:
    """The name of the file at `path` as the query, in lower case, spells it; None: the query does not spell it."""
    file = FOLDERS.sub("", path).lower()
    bare = ENDING.sub("", file)
    if bare not in query:  # true of nearly all files; the test is faster than a pattern
        return None
    names = [file] * (bare != file) + [bare] * (CODE.fullmatch(bare) is not None)
    return next((name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-]|\.\w)", query)), None)

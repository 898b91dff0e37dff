"""The page about one result: it stands alone, asks no network, and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import os
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from umi_common.context.budget import AssembledContext
from umi_common.explain import sections
from umi_common.explain.bars import losses
from umi_common.explain.marking import QueryWords
from umi_common.explain.texts import plain
from umi_common.types import SearchResult


def to_page(
    result: SearchResult, path: str | os.PathLike[str] | None = None, *, context: AssembledContext | None = None
) -> str:
    """A standalone HTML page about a result; every text in it is escaped, and the policy it carries bars other scripts.

    Args:
        path: Also written there, as UTF-8.
        context: What was packed from the result; shown with a bar of tokens for each part.
    """
    style, script = _asset("page.css"), _asset("page.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; base-uri 'none'"
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>umi: {plain(result.query)}</title><style>{style}</style></head>"
        f"<body>{_body(result, context)}<script data-umi>{script}</script></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
    return page


def _body(result: SearchResult, context: AssembledContext | None) -> str:
    words = QueryWords.of(result)
    facts = [f"{len(result)} hits", plain(result.mode), f"{result.trace.milliseconds:.1f} ms"]
    facts.append("deep search" if result.deep_search_used else "no deep search")
    return (
        "<a class='skip' href='#hits'>Skip to the hits</a>"
        f"<header><p class='brand'>umi: why these hits</p><h1 dir='auto'>{plain(result.query)}</h1>"
        f"<p class='facts'>{' · '.join(facts)}</p>{losses(result)}</header><main>"
        f"{sections.hits(result, words)}{sections.flow(result)}{sections.searched(result)}{sections.times(result)}"
        f"{sections.packed(context, words)}{sections.left_out(result)}</main>"
    )


@lru_cache(maxsize=2)
def _asset(name: str) -> str:
    return files("umi_common.explain").joinpath(name).read_text(encoding="utf-8")

"""The HTML page that explains one result: a single file that loads nothing and runs only its own script.

Each section of the page is made by a function that returns HTML; most return "" if there is nothing to show.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from umi_common.context.budget import AssembledContext, ContextPart
from umi_common.context.format import source_label
from umi_common.errors import InputError, writing
from umi_common.explain import notebook as bars
from umi_common.explain.flow import HITS_SHOWN, flow_picture
from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.reasons import MEASURES, Step, decided, in_words, rank_path, steps
from umi_common.explain.texts import escaped, hit_count
from umi_common.frameworks.records import METADATA_ALONE, to_metadata
from umi_common.types import Hit, SearchResult, Signal

EXCERPT_CHARACTERS = 600
"""Length in characters above which a text is shown as an excerpt of about this length, with the whole text folded."""
FOUND_DEPTH = 10
"""Largest rank in an arm at which a query variation counts as having found a hit. An arm ranks hundreds of chunks, so
without this limit every variation would count as having found almost every hit."""


class Page(str):
    """The source of an HTML page. As the last line of a cell it shows its size, not its source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<HTML page of {len(self):,} characters>"


def to_page(
    result: SearchResult, path: str | os.PathLike[str] | None = None, *, context: AssembledContext | None = None
) -> Page:
    """A standalone HTML page that explains a result.

    Texts are escaped, and the page's content security policy forbids every script but its own.

    Args:
        path: File to which the page is also written, in UTF-8; None: no file.
        context: The context assembled from the result, shown with a bar of tokens for each part; None: no context.

    Raises:
        InputError: If `context` is of another type, or the file cannot be written.
    """
    if not isinstance(context, AssembledContext | None):
        raise InputError(f"context is {type(context).__name__}; expected an AssembledContext, as get_context returns")
    style, script = _asset("page.css"), _asset("page.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; base-uri 'none'"
    page = Page(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>umi: {escaped(result.query)}</title><style>{style}</style></head>"
        f"<body>{_body(result, context)}<script data-umi>{script}</script></body></html>\n"
    )
    if path is not None:
        with writing(path):
            Path(path).write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
    return page


def _body(result: SearchResult, context: AssembledContext | None) -> str:
    words = QueryWords.of(result)
    facts = [hit_count(result), escaped(result.mode), _times(result)]
    facts.append("deep search" if result.deep_search_used else "no deep search")
    left_out = _section("out", "Left out, and why", bars.left_out(result)) if result.suppressed else ""
    return (
        "<a class='skip' href='#hits'>Skip to the hits</a>"
        f"<header><p class='brand'>umi: why these hits</p><h1 dir='auto'>{escaped(result.query)}</h1>"
        f"<p class='facts'>{' · '.join(facts)}</p>{bars.losses(result)}</header><main>"
        f"{_hits_section(result, words)}{_flow_section(result)}{_searched_section(result)}{_times_section(result)}"
        f"{_packed_section(context, words)}{left_out}</main>"
    )


def _times(result: SearchResult) -> str:
    """The time of the search in words. In the first search of a process, the time to load the model is stated apart."""
    loading = sum(stage.facts.get("load_ms", 0.0) for stage in result.trace)
    first = f", besides {loading:.0f} ms once for loading the model" if loading else ""
    return f"{result.trace.milliseconds - loading:.1f} ms{first}"


def _asset(name: str) -> str:
    return files("umi_common.explain").joinpath(name).read_text(encoding="utf-8")


def _hits_section(result: SearchResult, words: QueryWords) -> str:
    top, largest = bars.top_score(result), bars.largest_scores(result)
    items = "".join(_hit(hit, path, top, largest, words) for hit, path in zip(result, steps(result), strict=True))
    found = f"<ol class='hits'>{items}</ol>" if items else "<p>No hits.</p>"
    return (
        "<section id='hits' aria-labelledby='hits-head' tabindex='-1'><h2 id='hits-head'>Hits</h2>"
        "<form role='search'><label for='filter'>Filter</label>"
        "<input id='filter' type='search' autocomplete='off' spellcheck='false' aria-describedby='keys'>"
        f"<output id='shown' for='filter' aria-live='polite'>{len(result)} of {len(result)}</output></form>"
        "<p id='keys' class='why'><kbd>/</kbd> filter, <kbd>Esc</kbd> clear, <kbd>j</kbd> <kbd>k</kbd> next and "
        f"previous hit</p>{found}</section>"
    )


def _hit(hit: Hit, path: list[Step], top: float, largest: Mapping[str, float], words: QueryWords) -> str:
    chunk = hit.chunk
    return (
        f"<li id='hit-{hit.rank}' data-rank='{hit.rank}'><article aria-labelledby='name-{hit.rank}'>"
        f"<h3 id='name-{hit.rank}'><a href='#hit-{hit.rank}'><span class='rank'>{hit.rank}</span> "
        f"<bdi>{escaped(chunk.id)}</bdi></a></h3><p class='why'>{bars.place_of(chunk)}</p>"
        f"<div class='bars'><div class='umi-arm'>{bars.bar(hit.score, top, 'var(--ink)')} score {hit.score:.3f}</div>"
        f"{bars.arm_bars(hit, largest)}</div>{_text(chunk.text, words)}"
        f"<p class='why'>{escaped(rank_path(path))}</p>{_numbers(hit)}</article></li>"
    )


def _text(text: str, words: QueryWords) -> str:
    if len(text) <= EXCERPT_CHARACTERS:
        return f"<p class='text' dir='auto'>{marked(text, words)}</p>"
    shown = f"<p class='text' dir='auto'>{marked(excerpt(text, words, EXCERPT_CHARACTERS), words)}</p>"
    return (
        f"{shown}<details class='whole'><summary>Whole text, {len(text):,} characters</summary>"
        f"<p class='text' dir='auto'>{marked(text, words)}</p></details>"
    )


def _numbers(hit: Hit) -> str:
    metadata = "".join(
        f"<tr><th scope='row'>{escaped(key)}</th><td>{escaped(str(value))}</td></tr>"
        for key, value in to_metadata(hit.chunk, METADATA_ALONE).items()
    )
    signals = "".join(_signal(signal) for signal in hit.signals)
    stages = "".join(
        f"<tr><th scope='row'>after {escaped(name)}</th><td>{score:.4f}</td></tr>" for name, score in hit.stages.items()
    )
    if not metadata + signals + stages:
        return ""
    tables = _table("Scores", signals + stages) + _table("Metadata", metadata)
    return f"<details><summary>All numbers</summary>{tables}</details>"


def _signal(signal: Signal) -> str:
    asked = "the query" if signal.variation == 0 else f"variation {signal.variation}"
    rank = "not in its list" if signal.rank is None else f"#{signal.rank}"
    measure = MEASURES.get(signal.arm, "score")
    return f"<tr><th scope='row'>{escaped(signal.arm)}, {asked}</th><td>{measure} {signal.score:.4f}, {rank}</td></tr>"


def _table(caption: str, rows: str) -> str:
    return f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>" if rows else ""


def _flow_section(result: SearchResult) -> str:
    picture = flow_picture(result)
    if not picture:
        return ""
    some = f"<p class='why'>The first {HITS_SHOWN} hits.</p>" if len(result) > HITS_SHOWN else ""
    return _section("flow", "How each hit got its rank", some + _scroll("Rank flow", picture))


def _searched_section(result: SearchResult) -> str:
    """The query and its variations, each with the hits that it found within FOUND_DEPTH."""
    texts = (result.query, *result.query_variations)
    found: list[set[int]] = [set() for _ in texts]  # for each text the ranks of the hits that it found
    for hit in result:
        for signal in hit.signals:
            if signal.rank is not None and signal.rank <= FOUND_DEPTH:
                found[signal.variation].add(hit.rank)
    rows = "".join(_searched(texts[at], at, found) for at in range(len(texts)))
    heads = ("searched", f"hits that it ranked in the first {FOUND_DEPTH}", "found by no other")
    table = _scroll("Searches", bars.table(heads, rows))
    return _section("searched", "What was searched, and what it found", table)


def _searched(text: str, at: int, found: list[set[int]]) -> str:
    by_others: set[int] = set().union(*found[:at], *found[at + 1 :])
    only_here = found[at] - by_others
    kind = "the query" if at == 0 else f"variation {at}"
    return (
        f"<tr><th scope='row'><span class='why'>{kind}</span><br><bdi>{escaped(text)}</bdi></th>"
        f"<td>{_links(sorted(found[at]))}</td><td>{_links(sorted(only_here))}</td></tr>"
    )


def _links(ranks: Iterable[int]) -> str:
    return ", ".join(f"<a href='#hit-{rank}'>#{rank}</a>" for rank in ranks) or "–"


def _times_section(result: SearchResult) -> str:
    longest = max((stage.milliseconds for stage in result.trace), default=0.0)
    rows = "".join(
        f"<tr><th scope='row'>{escaped(stage.name)}</th><td class='time'>{stage.milliseconds:.2f} ms "
        f"{bars.bar(stage.milliseconds, longest, bars.OTHER_COLOUR)}</td>"
        f"<td>{escaped(decided(stage))}</td></tr>"
        for stage in result.trace
    )
    if not rows:
        return ""
    caption = f"<caption>{_times(result)}</caption>"
    table = _scroll("Stages", bars.table(("stage", "time", "what it decided"), rows, caption))
    return _section("times", "Where the time went", table)


def _packed_section(context: AssembledContext | None, words: QueryWords) -> str:
    if context is None:
        return ""
    stats = context.stats
    items = "".join(_part(part, stats.budget, words) for part in context)
    dropped = "".join(f"<li><b>{escaped(each.id)}</b>: {escaped(in_words(each.reason))}</li>" for each in stats.dropped)
    summary = f"<summary>Left out of the context: {len(stats.dropped)}</summary>"
    rest = f"<details>{summary}<ul>{dropped}</ul></details>" if dropped else ""
    about = "about " if stats.approximate else ""
    facts = f"{about}{stats.tokens} of {stats.budget} tokens, {stats.sources} sources, {len(context)} parts"
    body = f"<p class='facts'>{facts}</p><ol class='parts'>{items}</ol>{rest}"
    return _section("packed", "The context for the prompt", body)


def _part(part: ContextPart, budget: int, words: QueryWords) -> str:
    cut = ", cut short" if part.trimmed else ""
    tokens = f"{bars.bar(part.tokens, budget, bars.OTHER_COLOUR)} {part.tokens} tokens{cut}"
    return (
        f"<li><div class='umi-arm'>{tokens}</div>"
        f"<b>[{part.number}] <bdi>{escaped(source_label(part))}</bdi></b> "
        f"<span class='why'>{escaped(part.reason)}</span>{_text(part.text, words)}</li>"
    )


def _section(name: str, title: str, body: str) -> str:
    return f"<section aria-labelledby='{name}-head'><h2 id='{name}-head'>{title}</h2>{body}</section>"


def _scroll(label: str, body: str) -> str:
    return f"<div class='scroll' tabindex='0' role='region' aria-label='{label}'>{body}</div>"

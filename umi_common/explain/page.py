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
from umi_common.explain.reasons import FINAL, MEASURES, Step, facts_in_words, in_words, rank_path, steps
from umi_common.explain.texts import escaped, with_count
from umi_common.frameworks.records import METADATA_ALONE, to_metadata
from umi_common.types import Hit, SearchResult

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
    style, script = (
        files("umi_common.explain").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
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
    facts = [with_count(len(result), "hit"), escaped(result.mode), _times(result)]
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


def _hits_section(result: SearchResult, words: QueryWords) -> str:
    largest = bars.largest_scores(result)
    items = "".join(_hit(hit, path, largest, words) for hit, path in zip(result, steps(result), strict=True))
    found = f"<ol class='hits'>{items}</ol>" if items else "<p>No hits.</p>"
    return (
        "<section id='hits' aria-labelledby='hits-head' tabindex='-1'><h2 id='hits-head'>Hits</h2>"
        "<form role='search'><label for='filter'>Filter</label>"
        "<input id='filter' type='search' autocomplete='off' spellcheck='false' aria-describedby='keys'>"
        f"<output id='shown' for='filter' aria-live='polite'>{len(result)} of {len(result)}</output></form>"
        "<p id='keys' class='why'><kbd>/</kbd> filter, <kbd>Esc</kbd> clear, <kbd>j</kbd> <kbd>k</kbd> next and "
        f"previous hit</p>{found}</section>"
    )


def _hit(hit: Hit, path: list[Step], largest: Mapping[str, float], words: QueryWords) -> str:
    chunk, score_bar = hit.chunk, bars.bar(hit.score, largest[FINAL], "var(--ink)")
    return (
        f"<li id='hit-{hit.rank}' data-rank='{hit.rank}'><article aria-labelledby='name-{hit.rank}'>"
        f"<h3 id='name-{hit.rank}'><a href='#hit-{hit.rank}'><span class='rank'>{hit.rank}</span> "
        f"<bdi>{escaped(chunk.id)}</bdi></a></h3><p class='why'>{bars.place_of(chunk)}</p>"
        f"<div class='bars'><div class='umi-arm'>{score_bar} score {hit.score:.3f}</div>"
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
    scores: list[tuple[str, object]] = []
    for signal in hit.signals:
        rank = "not in its list" if signal.rank is None else f"#{signal.rank}"
        measured = f"{MEASURES.get(signal.arm, 'score')} {signal.score:.4f}, {rank}"
        scores.append((f"{signal.arm}, {_searched_text(signal.variation)}", measured))
    scores += [(f"after {name}", f"{score:.4f}") for name, score in hit.stages.items()]
    tables = _table("Scores", scores) + _table("Metadata", to_metadata(hit.chunk, METADATA_ALONE).items())
    return f"<details><summary>All numbers</summary>{tables}</details>" if tables else ""


def _table(caption: str, facts: Iterable[tuple[str, object]]) -> str:
    rows = "".join(f"<tr><th scope='row'>{escaped(k)}</th><td>{escaped(str(v))}</td></tr>" for k, v in facts)
    return f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>" if rows else ""


def _searched_text(variation: int) -> str:
    return "the query" if variation == 0 else f"variation {variation}"


def _flow_section(result: SearchResult) -> str:
    picture = flow_picture(result)
    some = f"<p class='why'>The first {HITS_SHOWN} hits.</p>" if len(result) > HITS_SHOWN else ""
    return _section("flow", "How each hit got its rank", some + _scroll("Rank flow", picture)) if picture else ""


def _searched_section(result: SearchResult) -> str:
    """The query and its variations, each with the hits that it found within FOUND_DEPTH."""
    texts = (result.query, *result.query_variations)
    found: list[set[int]] = [set() for _ in texts]  # for each text the ranks of the hits that it found
    for hit in result:
        for signal in hit.signals:
            if signal.rank is not None and signal.rank <= FOUND_DEPTH:
                found[signal.variation].add(hit.rank)
    rows = ""
    for at, text in enumerate(texts):
        only_here = found[at].difference(*found[:at], *found[at + 1 :])
        kind = f"<span class='why'>{_searched_text(at)}</span>"
        name = f"<th scope='row'>{kind}<br><bdi>{escaped(text)}</bdi></th>"
        rows += f"<tr>{name}<td>{_links(found[at])}</td><td>{_links(only_here)}</td></tr>"
    heads = ("searched", f"hits that it ranked in the first {FOUND_DEPTH}", "found by no other")
    table = _scroll("Searches", bars.table(heads, rows))
    return _section("searched", "What was searched, and what it found", table)


def _links(ranks: Iterable[int]) -> str:
    return ", ".join(f"<a href='#hit-{rank}'>#{rank}</a>" for rank in sorted(ranks)) or "–"


def _times_section(result: SearchResult) -> str:
    longest = max((stage.milliseconds for stage in result.trace), default=0.0)
    rows = ""
    for stage in result.trace:
        time = f"{stage.milliseconds:.2f} ms {bars.bar(stage.milliseconds, longest, bars.OTHER_COLOUR)}"
        name, facts = escaped(stage.name), escaped(facts_in_words(stage))
        rows += f"<tr><th scope='row'>{name}</th><td class='time'>{time}</td><td>{facts}</td></tr>"
    table = bars.table(("stage", "time", "what it decided"), rows, f"<caption>{_times(result)}</caption>")
    return _section("times", "Where the time went", _scroll("Stages", table)) if rows else ""


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

"""Why a hit is there: in words, in a terminal, in a notebook, as a picture of ranks."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest
from hostile import MARKUP, hostile_result
from hypothesis import given
from hypothesis import strategies as st

from umi_common.config import AnalyzerConfig, UmiConfig
from umi_common.context.budget import TokenBudget
from umi_common.embedders import WordLlamaEmbedder
from umi_common.errors import InputError
from umi_common.explain import reasons, snippet, to_html, to_page, to_text
from umi_common.explain.flow import flow_picture
from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.reasons import Step, steps
from umi_common.explain.texts import visible
from umi_common.retriever import DualRetriever
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.types import Chunk, Degradation, Hit, SearchResult, Signal, Stage, Suppressed, Trace

ENGLISH = Analyzer(AnalyzerConfig()).terms
ACTING = "\x1b\x07\x00\u202e\u2066\u0085"


def words_of(query, *, terms_of=ENGLISH):
    return QueryWords.of(SearchResult((), query, terms_of=terms_of))


def hit(rank=1, *, signals=(), ranks=None, text="Priya works at Acme."):
    return Hit(Chunk(f"c{rank}", text), 1.0 / rank, rank, signals=tuple(signals), ranks=ranks or {})


def test_reasons_name_the_strongest_arm_first_and_every_move():
    signals = [Signal("lexical", 0, 4, 2.0), Signal("lexical", 1, 2, 3.0), Signal("dense", 0, 1, 0.5)]
    found = reasons(hit(signals=signals, ranks={"fused": 3, "neighbours": 3, "decay": 1}))
    assert found == ["dense #1 (cosine 0.50)", "lexical #2 (BM25 3.00, variation 1)", "decay #3 → #1"]


def test_a_reason_says_through_which_chunk_a_hit_was_found_if_that_raised_it():
    raised = replace(hit(ranks={"fused": 7, "references": 2, "decay": 1}), through="d4")
    assert reasons(raised) == ["references #7 → #2 (found through d4)", "decay #2 → #1"]
    assert reasons(replace(raised, ranks={"fused": 1, "references": 2})) == ["references #1 → #2"]


def test_a_hit_that_no_arm_found_is_beside_a_strong_one():
    assert reasons(hit(signals=[Signal("lexical", 0, None, 0.0)])) == ["beside a strong hit"]


def test_the_way_of_a_hit_has_the_same_stations_as_every_other():
    hits = [
        hit(1, signals=[Signal("lexical", 0, 2, 1.0)], ranks={"fused": 1}),
        hit(2, signals=[Signal("dense", 0, 1, 1.0)], ranks={"fused": 2, "decay": 2}),
    ]
    first, second = steps(hits)
    assert first == [Step("lexical", 2), Step("dense", None), Step("fused", 1), Step("decay", None), Step("final", 1)]
    assert second == [Step("lexical", None), Step("dense", 1), Step("fused", 2), Step("decay", 2), Step("final", 2)]


def test_a_snippet_is_one_line_cut_at_a_word():
    assert snippet("one\n two  three", 9) == "one two …"
    assert snippet("short") == "short"


def test_an_excerpt_begins_a_little_before_a_word_that_comes_late():
    text = "filler " * 100 + "the boiler inspector came " + "filler " * 100
    shown = excerpt(text, words_of("inspectors"), 100)
    assert shown.startswith("… ")
    assert "boiler inspector" in shown
    assert len(shown) <= 104


def test_an_excerpt_begins_with_the_text_if_a_word_comes_early_and_is_the_whole_of_a_short_text():
    assert excerpt("the boiler " + "filler " * 100, words_of("boiler"), 100).startswith("the boiler filler")
    assert excerpt("filler " * 12 + "the\nboiler", words_of("boiler"), 100) == "filler " * 12 + "the boiler"


def test_the_text_says_where_a_hit_is_from_unless_its_id_does():
    facts = {"page": 4, "last_page": 5, "section": "Roof"}
    time = datetime(2024, 1, 2, 9, 30, tzinfo=timezone.utc)
    chunk = Chunk("c1", "It leaks.", source="house.md", position=3, metadata=facts, event_time=time)
    for each, where in (
        (chunk, "c1  [house.md · position 3 · page 4–5 · Roof · 02 Jan 2024 09:30 UTC]"),
        (replace(chunk, id="house.md#3"), "house.md#3  [page 4–5 · Roof · 02 Jan 2024 09:30 UTC]"),
    ):
        assert to_text(SearchResult((Hit(each, 1.0, 1),), "roof")).splitlines()[1].endswith(where)


def test_the_text_says_that_no_hit_is_an_answer_and_how_many_chunks_were_left_out():
    gone = (Suppressed("c2", "mmr"),)
    shown = to_text(SearchResult((replace(hit(), relevance=0.02),), "who", answerable=False, suppressed=gone))
    assert "none is likely to answer the query: the best relevance is 0.02" in shown
    assert "left out: 1 (result.suppressed says why)" in shown


def test_the_full_text_has_every_rank_and_the_facts_of_each_stage():
    trace = Trace((Stage("recall", 1.25, {"dense_engine": "exact", "share": 0.12345, "rows": (3, 4)}),))
    shown = to_text(SearchResult((hit(ranks={"fused": 2, "decay": 1}),), "who", trace=trace), full=True)
    assert "fused #2 → decay #1 → final #1" in shown
    assert "dense engine: exact; share: 0.123; rows: 3, 4" in shown


def test_the_page_links_the_hits_that_a_query_ranked_in_the_first_ten():
    tenth, next_one = (hit(rank, signals=[Signal("lexical", 0, rank + 9, 1.0)]) for rank in (1, 2))
    page = to_page(SearchResult((tenth, next_one), "who"))
    assert page.count("<td><a href='#hit-1'>#1</a></td>") == 2 and "<td><a href='#hit-2'>" not in page
    assert "Whole text" not in page


@pytest.mark.parametrize(
    "query, text, expected",
    [
        ("inspection", "They inspected it.", "They <mark>inspected</mark> it."),
        ("who is at Acme", "who is at Acme", "who is at <mark>Acme</mark>"),
        ("who is it", "who is it", "<mark>who</mark> <mark>is</mark> <mark>it</mark>"),
        ("東京", "昨日東京で", "昨日<mark>東京</mark>で"),
        ("café हिंदी", "Cafés में हिंदी", "<mark>Cafés</mark> में <mark>हिंदी</mark>"),
        ("wait", "asyncio.wait_for waits", "asyncio.<mark>wait</mark>_for <mark>waits</mark>"),
        ("ac12", "AC-12, ac 13", "<mark>AC</mark>-<mark>12</mark>, <mark>ac</mark> 13"),
        ("Acme's", "Acme’s acme", "<mark>Acme</mark>’s <mark>acme</mark>"),
        ("don", "I don't, Don", "I don&#x27;t, <mark>Don</mark>"),
        ("USA", "the U.S.A. budget", "the <mark>U.S.A</mark>. budget"),
        ("for wait_for", "wait for it", "<mark>wait</mark> for it"),
        ("b", "<b>b</b>", "&lt;<mark>b</mark>&gt;<mark>b</mark>&lt;/<mark>b</mark>&gt;"),
    ],
)
def test_words_of_the_query_are_marked_by_their_stem_and_function_words_are_not(query, text, expected):
    assert marked(text, words_of(query)) == expected


def test_what_is_marked_is_what_the_stores_own_analyzer_equates():
    chunk = Chunk("c", "Die Häuser liefen voll, das Haus nicht; running ran.")
    marks = {}
    for language in ("german", "english", "none"):
        with HybridStore.open(config=UmiConfig(analyzer=AnalyzerConfig(language=language))) as store:
            store.add([chunk])
            result = DualRetriever(store).search("haus runs")
        marks[language] = re.findall("<mark>(.*?)</mark>", to_html(copy.deepcopy(result)))
    assert marks == {"german": ["Häuser", "Haus"], "english": ["Haus", "running"], "none": ["Haus"]}


def test_a_result_of_a_store_that_tells_no_terms_marks_the_words_as_typed():
    assert marked("Leaks at the VALVE", words_of("the valve leak", terms_of=None)) == "Leaks at the <mark>VALVE</mark>"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_no_text_whatever_brings_markup_or_controls(text, query):
    shown = marked(text, words_of(query))
    parser = Tags()
    parser.feed(shown)
    parser.close()
    assert set(parser.tags) <= {"mark"}
    assert "".join(parser.texts) == visible(text)
    assert not set(shown) & set(ACTING)


class Tags(HTMLParser):
    """Start tags and texts of a fragment, and whether every tag is closed."""

    VOID = frozenset({"br", "meta", "input", "link", "line", "circle", "path"})

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize(
    "draw", [to_html, to_page, lambda result: result._repr_html_(), lambda result: result.explain()]
)
def test_hostile_texts_are_escaped_and_every_tag_is_closed(draw):
    html = draw(hostile_result())
    parser = Tags()
    parser.feed(html)
    assert parser.open == []
    assert parser.tags.count("script") == (1 if "<!doctype" in html else 0)
    assert "img" not in parser.tags
    assert MARKUP[:20] in "".join(parser.texts)
    assert not set(html) & set(ACTING)


def test_the_fragment_for_a_notebook_shows_arms_losses_and_what_was_left_out():
    html = to_html(hostile_result())
    assert "table-layout:auto!important" in html  # Jupyter's own style squeezes columns to equal widths
    for part in ("lexical #1 (BM25 3.00)", "Without <b>dense</b>", "left out: 1", "<mark>Acme</mark>", "neighbours #4"):
        assert part in html
    assert "<script" not in html
    assert len(html) < 20_000  # a line of 100 kB does not fill the notebook's file


def test_the_frame_of_a_result_without_hits_has_the_columns_that_code_reads():
    frame = SearchResult((), "nothing like it").to_frame()
    assert len(frame) == 0
    assert list(frame["id"]) == list(frame["relevance"]) == list(frame["text"]) == []


def test_the_text_for_a_terminal_cannot_steer_it():
    shown = to_text(hostile_result())
    assert not set(shown) & set(ACTING)
    assert shown.splitlines()[0] == "4 hits, hybrid, 4.5 ms"
    assert "  without dense: <b>damaged</b>; searched exactly" in shown
    assert str(hostile_result()) == shown


def test_the_id_through_which_a_hit_was_found_and_the_reason_of_a_loss_cannot_steer_a_terminal():
    found = replace(hit(ranks={"fused": 2, "references": 1}), through=f"a{ACTING}b")
    lost = Degradation(f"arm{ACTING}", f"it said {ACTING}", f"searched without {ACTING}")
    gone = Suppressed("c2", f"near{ACTING}")
    result = SearchResult((found,), "who", degraded=(lost,), suppressed=(gone,))
    shown = to_text(result, full=True)
    assert "found through a⟨U+001B⟩" in shown
    assert "it said ⟨U+001B⟩" in shown
    assert not set(shown) & set(ACTING)


def test_a_page_is_refused_a_context_that_is_none(tmp_path):
    with pytest.raises(InputError, match="context is str; expected an AssembledContext"):
        hostile_result().explain(tmp_path / "why.html", context="text")
    assert not (tmp_path / "why.html").exists()


def test_the_page_says_who_found_what_and_how_long_it_took(tmp_path):
    page = to_page(hostile_result(), tmp_path / "why.html")
    assert (tmp_path / "why.html").read_text(encoding="utf-8") == page
    for part in ("3.00 ms", "mode: &lt;hybrid&gt;", "variation 1", "Left out, and why", "#3 → dense #1 → fused #1"):
        assert part in page
    assert "http://" not in page and "https://" not in page


def test_a_page_as_the_last_line_of_a_cell_does_not_fill_the_notebook_with_its_source(tmp_path):
    page = hostile_result().explain(tmp_path / "why.html")
    assert repr(page) == f"<HTML page of {len(page):,} characters>"
    assert str(page) == f"{page}" == (tmp_path / "why.html").read_text(encoding="utf-8")


def test_the_page_shows_the_context_with_tokens_for_each_part():
    from umi_common.context.assemble import assemble
    from umi_common.context.budget import TokenBudget

    result = hostile_result()
    context = assemble(result.hits[:2], budget=TokenBudget(max_total=200), counter=lambda text: len(text.split()))
    page = result.explain(context=context)
    assert f"{context.stats.tokens} of 200 tokens" in page
    for part in context:
        assert f"{part.tokens} tokens" in page


def test_the_page_and_the_text_say_in_words_why_a_chunk_was_left_out():
    from umi_common.context.assemble import assemble
    from umi_common.context.budget import TokenBudget

    hits = (Hit(Chunk("a", "The roof leaks.", source="x"), 1.0, 1), Hit(Chunk("b", "word " * 60, source="y"), 0.5, 2))
    gone = (Suppressed("c", "relevance"), Suppressed("d", "near-duplicate", "a"))
    result = SearchResult(hits, "roof", suppressed=gone)
    context = assemble(hits, budget=TokenBudget(max_total=20), counter=lambda text: len(text.split()))
    page = result.explain(context=context)
    assert "Left out of the context: 1" in page and "<b>b</b>: no tokens left in the budget" in page
    assert "<b>c</b>: relevance below the minimum" in page and "<b>d</b>: near-duplicate, replaced by a" in page
    assert "left out: c (relevance below the minimum)" in to_text(result, full=True)


def test_ranks_beyond_the_shown_hits_follow_below_the_rule_in_order():
    hits = [
        hit(1, signals=[Signal("dense", 0, 90, 0.1)]),
        hit(2, signals=[Signal("dense", 0, 7, 0.1)]),
        hit(3, signals=[Signal("dense", 0, None, 0.1)]),
    ]
    picture = flow_picture(SearchResult(tuple(hits), "q"))
    # Rows of 26 px from 44: rank 7 in row 4, 90 in row 5, none in row 6 of the arm's column at x = 42.
    for y in (44 + 26 * 3 + 13, 44 + 26 * 4 + 13, 44 + 26 * 5 + 13):
        assert f"<circle cx='42' cy='{y}'" in picture
    assert "class='rule'" in picture


def test_a_result_without_hits_is_drawn_too():
    nothing = SearchResult((), "nobody", suppressed=(Suppressed("c", "mmr"),))
    assert "No hits." in to_html(nothing)
    assert "No hits." in to_page(nothing)
    assert to_text(nothing).startswith("0 hits")


def test_scores_of_zero_and_below_draw_empty_bars():
    flat = SearchResult((Hit(Chunk("c", "t"), 0.0, 1, signals=(Signal("dense", 0, 1, -0.5),)),), "q")
    assert "width:0%" in to_html(flat)


def test_ipython_in_a_terminal_shows_the_text():
    said = []
    hostile_result()._repr_pretty_(type("Printer", (), {"text": said.append}), False)
    assert said == [to_text(hostile_result())]


def test_a_notebook_shows_a_context_with_tokens_and_sources_and_nothing_unescaped():
    chunks = [Chunk("a", "The roof <b>leaks</b>.", source="notes"), Chunk("b", "The barn is red.")]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(chunks)
        context = umi.get_context("which roof leaks?", budget=TokenBudget(max_total=200))
    shown = context._repr_html_()
    assert f"{context.stats.tokens} of 200 tokens, {context.stats.sources} sources" in shown
    assert "<b>notes</b><p dir='auto'>The roof &lt;b&gt;leaks&lt;/b&gt;.</p>" in shown
    assert "<b>b</b>" in shown


def test_the_page_of_a_first_search_shows_the_time_of_loading_the_model_apart():
    with HybridStore.open(embedder=WordLlamaEmbedder()) as store, DualRetriever(store) as umi:
        vector = WordLlamaEmbedder().embed_documents(["The roof leaks."])
        store.add([Chunk("a", "The roof leaks.")], vectors=vector)
        first, second = umi.search("which roof leaks?"), umi.search("which roof leaks?")
    (loading,) = re.findall(r"<caption>([\d.]+) ms, besides (\d+) ms once for loading the model<", to_page(first))
    assert float(loading[0]) + float(loading[1]) == pytest.approx(first.trace.milliseconds, abs=1)
    assert float(loading[1]) > 0
    assert "loading the model" not in to_page(second)

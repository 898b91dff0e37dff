"""Text to terms: a table over scripts and kinds of code, and the laws behind it."""

from __future__ import annotations

import threading
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stopwatch import processor_seconds

from umi_common.config import AnalyzerConfig
from umi_common.errors import ConfigError
from umi_common.stores.lexical import analyzer as module
from umi_common.stores.lexical.analyzer import Analyzer

ENGLISH = Analyzer(AnalyzerConfig())
TABLE = [
    # words
    ("The Cats were running", "the cat were run"),
    ("I saw a B and a 7", "i saw a b and a 7"),
    ("Mel's idea, I'm told", "mel s idea i m told"),
    ("don't can't won't", "do not can not will not"),
    ("Mel\u2019s o\u2019clock 'quoted'", "mel s oclock quot"),
    ("L'homme d'État", "l homm d état"),
    ("long-term and/or", "long term and or"),
    ("e-mail email Wi-Fi", "e mail email email wi fi wifi"),
    ("-- ... \u2014 !?", ""),
    ("", ""),
    # codes: the parts, each level joined
    ("asyncio.wait_for", "asyncio wait for waitfor asynciowaitfor"),
    ("snake_case __init__", "snake case snakecas init"),
    ("writeBoolean HTTPServer2", "write boolean writeboolean http server 2 httpserver2"),
    ("iPhone eBook kWh nRows", "phone iphon book ebook wh kwh row nrow"),  # the i of iPhone is no pronoun
    ("HTTP-404 AC-12/b", "http 404 http404 ac 12 b ac12b ac12"),
    ("10.0.0.15/24", "10 0 0 15 24 10.0.0.15/24 10.0.0.15"),
    ("src/mail.py:42", "src mail py 42 srcmailpy42 srcmailpy mailpy"),
    ("a.go:10:5", "a go 10 5 ago105 ago 10:5"),
    ("at 2026-05-01T09:30", "at 2026 05 01 t 09 01t09 30 20260501t0930 2026-05-01 09:30 9:30"),
    ("C++ C# g++ .NET", "c c++ c c# g g++ net"),
    ("ann@acme.com", "ann acm com annacmecom acmecom"),
    ("mp3 B12", "mp 3 mp3 b 12 b12"),
    ("#tag @me", "tag me"),
    ("3rd 11TH Rd", "3 3rd 11 11th rd"),  # the rd of 3rd is no road
    # numbers keep their marks, but for thousands
    ("1,234.50", "1234 50 1234.50"),
    ("€1.234,50 1.5,2", "1234 50 1234.50 euro 1 5 1.5 2"),  # a decimal comma, and two numbers
    ("250.000 1.234.567 1.23456", "250 000 250.000 250000 1 234 567 1.234.567 1234567 1 23456 1.23456"),  # thousands
    ("978-3-16-148410-0", "978 3 16 148410 0 978-3-16-148410-0 9783161484100 161484100"),
    ("1½ cups 18,450¹ 10² m²", "1 1 2 1/2 cup 18450 1 10 2 m 2 m2"),  # not 11, 184501 and 102
    ("v2.10 go/V3.0.1", "v 2 v2 10 v210 2.10 go v 3 v3 0 1 gov301 v301 3.0.1"),
    ("3.14 10:30 2023-05-08", "3 14 3.14 10 30 10:30 2023 05 08 2023-05-08"),
    ("1,000 12,345.50 1,2", "1000 12345 50 12345.50 1 2"),
    # Unicode: one form for what reads the same
    ("ﬁne ＡＢＣ ½", "fine abc 1 2 1/2"),
    ("insur-\nance", "insur anc insur"),
    ("cafe\u0301 caf\u00e9", "café café"),
    ("co\u00adoperate zero\u200bwidth auf\u200cgeben joi\u2060ned \ufeffmark", "cooper zerowidth aufgeben join mark"),
    ("İstanbul İSTANBUL I\u0307stanbul istanbul", "istanbul istanbul istanbul istanbul"),
    ("\u0958लम \u0915\u093cलम कलम", "कलम कलम कलम"),
    ("हिन्दी हिंदी पाँच पांच", "हिंद हिंद पांच पांच"),
    ("٢٠٢٣, ۲۰۲۳, २०२३, ๒๐๒๓, ١٬٢٣٤٫٥٠", "2023 2023 2023 2023 1234 50 1234.50"),
    ("کتاب كتاب می\u200cخواهم ميخواهم", "كتاب كتاب ميخو ميخو"),
    ("п\u02bcять п'ять", "пят пят"),
    # signs that are mostly left out: stress, vowels of Hebrew and Arabic, Greek breathings, letters like apostrophes
    ("росси\u0301я россия йод", "росс росс йод"),
    ("בְּרֵאשִׁית בראשית", "בראשית בראשית"),
    ("كِتَاب كتـاب كتاب", "كتاب كتاب كتاب"),
    ("ἐν ἀρχῇ ἦν, εν αρχη ην", "εν αρχ ην εν αρχ ην"),
    ("Hawai\u02bbi Hawai\u2018i hawaii", "hawaii hawaii hawaii"),
    ("O\u02bbzbek O'zbek \u02bfAbd Qur\u02bean Quran \u2018quoted\u2019", "ozbek ozbek abd quran quran quot"),
    ("\u0219coal\u0103 \u015fcoal\u0103", "\u015fcoal\u0103 \u015fcoal\u0103"),
    # each emoji is a word, without the marks that join or colour it
    (
        "thanks\U0001f64f see \u2764\ufe0f \U0001f469\u200d\U0001f680",
        "thank \U0001f64f see \u2764 \U0001f469 \U0001f680",
    ),
    ("press 1\ufe0f\u20e3", "press 1"),
    ("\U0001f44d\U0001f3fd\U0001f44d", "\U0001f44d \U0001f3fd \U0001f44d"),
    ("\u2192 \u2022 \u2014 \u00b0", ""),
    # other scripts: the stemmer of the script, marks inside words
    ("Книги книгами", "книг книг"),
    ("Αθήνα ΑΘΗΝΑΣ", "αθην αθην"),
    ("العربيّة عربية", "عرب عرب"),
    ("लड़कियों लड़की", "लडक लडक"),
    ("שלום", "שלום"),
    # no spaces between words
    ("日本語", "日本 本語 日 本 語"),
    ("人", "人"),
    ("カタカナ", "カタ タカ カナ"),
    ("한국어", "한국 국어"),
    ("ภาษาไทย", "ภาษ าษา ษาไ าไท ไทย"),
    ("2019年NFL", "2019 年 nfl"),
    ("北京2008", "北京 北 京 2008"),
    ("黑豹队 Panthers", "黑豹 豹队 黑 豹 队 panther"),
]


@pytest.mark.parametrize(("text", "terms"), TABLE, ids=[text or "nothing" for text, _ in TABLE])
def test_table(text: str, terms: str):
    assert ENGLISH.terms(text) == [unicodedata.normalize("NFKC", term) for term in terms.split()]


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("german", "Häuser Straße книгами", "haus strass книг"),
        ("none", "Running Книгами", "running книгами"),
        ("russian", "running книгами", "run книг"),
        ("persian", "running کتاب\u200cها", "run کتاب"),
        ("persian", "کِتاب کتاب", "کتاب کتاب"),
        ("turkish", "ISPARTA İstanbul'da", "ıspar istanbul"),
    ],
)
def test_a_language_is_for_its_own_script_only(language: str, text: str, terms: str):
    assert Analyzer(AnalyzerConfig(language=language)).terms(text) == terms.split()


def test_stop_words_go_before_stemming():
    config = AnalyzerConfig(stop_words=frozenset({"the", "being"}))
    assert Analyzer(config).terms("The being beings") == ["be"]


def test_stop_words_may_be_written_in_capitals():
    assert Analyzer(AnalyzerConfig(stop_words=frozenset({"The"}))).terms("the Boat") == ["boat"]


def test_an_unknown_language_is_named_with_those_there_are():
    with pytest.raises(ConfigError, match=r"'klingon'; expected 'none' or one of arabic, .*english"):
        Analyzer(AnalyzerConfig(language="klingon"))


def test_the_fingerprint_follows_the_settings_and_nothing_else():
    same = Analyzer(AnalyzerConfig(stop_words=frozenset({"b", "a"})))
    again = Analyzer(AnalyzerConfig(stop_words=frozenset({"a", "b"})))
    assert same.fingerprint == again.fingerprint
    others = [AnalyzerConfig(), AnalyzerConfig(language="german"), AnalyzerConfig(stop_words=frozenset({"a"}))]
    assert len({same.fingerprint, *(Analyzer(config).fingerprint for config in others)}) == 4


@given(st.text())
@example("\ue000")  # the first character of the words that the analyzer inserts
def test_any_text_gives_terms_without_white_space(text: str):
    terms = ENGLISH.terms(text)
    assert all(term and term == "".join(term.split()) for term in terms)


@given(st.text())
def test_the_cache_changes_nothing(text: str):
    assert ENGLISH.terms(text) == ENGLISH.terms(text) == Analyzer(AnalyzerConfig()).terms(text)


@given(st.lists(st.text(alphabet="abcXYZ012éжह语", min_size=1, max_size=6), max_size=6))
def test_words_are_analysed_one_by_one(words: list[str]):
    assert ENGLISH.terms(" ; ".join(words)) == [term for word in words for term in ENGLISH.terms(word)]


@given(st.text(alphabet="abcdefghij ", max_size=20))
def test_case_does_not_matter_where_it_marks_no_humps(text: str):
    assert ENGLISH.terms(text.upper()) == ENGLISH.terms(text) == ENGLISH.terms(text.title())


def test_a_full_cache_changes_no_terms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PIECES_KEPT", 3)
    small = Analyzer(AnalyzerConfig())
    assert small.terms("ants bees cats dogs eels") == ["ant", "bee", "cat", "dog", "eel"]
    assert small._cached.cache_info().currsize <= 3
    assert small.terms("cats ants eels") == ["cat", "ant", "eel"]


def test_threads_share_one_analyzer():
    shared, faults = Analyzer(AnalyzerConfig()), []
    words = [f"running{i}s connection{i}ally" for i in range(3_000)]
    expected = [Analyzer(AnalyzerConfig()).terms(word) for word in words]

    def work() -> None:
        if [shared.terms(word) for word in words] != expected:
            faults.append("differs")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_short_texts_are_analyzed_nearly_as_fast_as_the_same_words_in_long_texts():
    short = [f"Text {i}: we met at the café on {i % 28}.05., and talked about word{i % 5_000}" for i in range(5_000)]
    long = ["\n".join(short[start : start + 100]) for start in range(0, len(short), 100)]

    def seconds(texts: list[str]) -> float:
        fresh = Analyzer(AnalyzerConfig())
        return processor_seconds(lambda: [fresh.terms(text) for text in texts])

    ratios = [seconds(short) / seconds(long) for _ in range(3)]
    assert min(ratios) < 6  # 2.3 on a quiet machine

"""What comes out of an LLM's reply: the right strings from helpful ones, nothing from the rest, never an exception."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stopwatch import processor_seconds

from umi_common.config import REWRITE_TEMPLATE, RewriteConfig
from umi_common.query.rewriting.reply import REPLY_CHARS_MAX, Reply, read_reply
from umi_common.sim import FAULTS, FaultyLLM

QUERY = "Who do I know at Acme?"
# ADR-009, "Query Rewriting": Output: ["Acme", "works at Acme", "Acme Corp employee"]
ADR_REPLY = '["Acme", "works at Acme", "Acme Corp employee"]'
ADR_VARIATIONS = ("Acme", "works at Acme", "Acme Corp employee")


def parse_reply(text: str, **options: object) -> tuple[str, ...]:
    """The variations of a reply."""
    return read_reply(text, **options).variations


def test_the_reply_of_adr_009_gives_its_three_variations():
    assert parse_reply(ADR_REPLY, query=QUERY) == ADR_VARIATIONS


def test_a_variation_may_name_the_tag_of_thinking():
    asked = ["what does <think> do", "tag <think> of a model"]
    assert parse_reply(json.dumps(asked), query="the think tag") == tuple(asked)


UNDERSTOOD = [
    f"```json\n{ADR_REPLY}\n```",
    f"```\n{ADR_REPLY}\n```",
    f"<think>The user wants [several] {{things}}.</think>\n{ADR_REPLY}",
    f'<thinking>Perhaps ["offices", "staff"].</thinking>\n{ADR_REPLY}',
    f'[THINK]Perhaps ["offices", "staff"].[/THINK]{ADR_REPLY}',
    f'<|channel|>analysis<|message|>Maybe ["hq"].<|end|><|start|>assistant<|channel|>final<|message|>{ADR_REPLY}',
    f"no opening tag, as some servers send it</think>{ADR_REPLY}",
    f"Sure! Here are the variations:\n\n{ADR_REPLY}\n\nLet me know if you need more.",
    f'{{"variations": {ADR_REPLY}}}',
    f'{{"filter": {{"user": "*"}}, "limit": 10000, "queries": {ADR_REPLY}}}',
    '[{"query": "Acme"}, {"query": "works at Acme"}, {"query": "Acme Corp employee"}]',
    '{"queries": [{"query": "Acme", "reason": "name"}, {"query": "works at Acme"}, {"query": "Acme Corp employee"}]}',
    '["Acme", 7, null, "works at Acme", {"a": 1, "b": 2}, true, "Acme Corp employee"]',
    '{"query1": "Acme", "query2": "works at Acme", "query3": "Acme Corp employee"}',
    '{\n  "1": "Acme",\n  "2": "works at Acme",\n  "3": {"query": "Acme Corp employee"}\n}',
    '{"query": "Acme"}\n{"query": "works at Acme"}\n{"query": "Acme Corp employee"}',
    '[{"id": "1", "query": "Acme"}, {"id": "2", "query": "works at Acme"}, {"query": "Acme Corp employee"}]',
    "[“Acme”, “works at Acme”, “Acme Corp employee”]",
    "['Acme', 'works at Acme', 'Acme Corp employee']",
    '["Acme", "works at Acme", "Acme Corp employee",]',
    '["Acme", "works at Acme", "Acme Corp employee", "cut sho',
    "1. Acme\n2. works at Acme\n3. Acme Corp employee",
    '1) "Acme"\n2) "works at Acme"\n3) "Acme Corp employee"',
    "Here are three variations:\n\n- Acme\n- works at Acme\n- Acme Corp employee\n\nHope this helps!",
    "* **Acme**\n* **works at Acme**\n* **Acme Corp employee**",
    "• Acme\n• works at Acme\n• Acme Corp employee",
    "(a) Acme\n(b) works at Acme\n(c) Acme Corp employee",
    "Query 1: Acme\nQuery 2: works at Acme\nQuery 3: Acme Corp employee",
    "**Variation 1:** Acme\n**Variation 2:** works at Acme\n**Variation 3:** Acme Corp employee",
    "Variations:\nAcme\nworks at Acme\nAcme Corp employee",
    "Variations:\nAcme\n\nworks at Acme\n\nAcme Corp employee",
    '- "Acme",\n- "works at Acme",\n- "Acme Corp employee"',
    f"{REWRITE_TEMPLATE.replace('{query}', QUERY)}\n{ADR_REPLY}",
    '\ufeff["Acme", "works\\nat\\tAcme", " Acme  Corp employee "]',
    '["Acme", "works at Acme", "who do i know at ACME", "Acme Corp employee"]',
]


@pytest.mark.parametrize("reply", UNDERSTOOD)
def test_what_models_really_send_is_understood(reply: str):
    assert parse_reply(reply, query=QUERY) == ADR_VARIATIONS


@pytest.mark.parametrize(
    "reply",
    [
        "<query>Acme staff</query>\n<query>works at Acme</query>",
        "<queries><query>Acme staff</query><query>works at Acme</query></queries>",
        "Here they are:\n<variations>\n  <v id='1'>Acme staff</v>\n  <v id='2'>works at Acme</v>\n</variations>",
        "<reason>shorter</reason>\n<query>Acme staff</query>\n<query>works at Acme</query>",
        "<query>1. Acme staff</query>\n<query>2. works at Acme</query>",
        '["1. Acme staff", "2. works at Acme"]',
        "['1) Acme staff', '2) works at Acme']",
    ],
)
def test_tags_and_numbers_are_no_part_of_a_variation(reply: str):
    assert parse_reply(reply, query=QUERY) == ("Acme staff", "works at Acme")


def test_one_tagged_or_numbered_variation_is_read_and_a_number_of_its_own_stays():
    assert parse_reply("<query>R&amp;D at Acme</query>", query=QUERY) == ("R&D at Acme",)
    assert parse_reply('["1. Acme staff"]', query=QUERY) == ("Acme staff",)
    assert parse_reply('["5. Symphonie", "1. FC Acme"]', query=QUERY) == ("5. Symphonie", "1. FC Acme")
    assert parse_reply("- who uses <b>bold</b> text\n- what is <i>", query=QUERY)[0] == "who uses <b>bold</b> text"


def test_an_apostrophe_inside_single_quotes_does_not_end_the_string():
    assert parse_reply("['Ann's job', 'where Ann works']", query=QUERY) == ("Ann's job", "where Ann works")
    assert parse_reply(r"['Ann\'s job', 'where Ann works',", query=QUERY) == ("Ann's job", "where Ann works")


def test_escapes_of_json_are_read_beside_other_fields_too():
    reply = r'{"language": "fr", "variations": ["caf\u00e9 ferm\u00e9", "bistro ferm\u00e9"]}'
    assert parse_reply(reply, query=QUERY) == ("café fermé", "bistro fermé")


def test_a_short_end_of_the_prompt_may_occur_in_a_variation():
    config = RewriteConfig(template="Rewrite {query}\nQuery:")
    assert parse_reply('["Acme", "Query: sent to Acme"]', query=QUERY, config=config) == ("Acme", "Query: sent to Acme")


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"raises", "hangs", "not text"}))
def test_no_fault_gives_a_variation(fault: str):
    prompt = REWRITE_TEMPLATE.replace("{query}", QUERY)
    reply = read_reply(FaultyLLM(fault).complete(prompt), query=QUERY)
    assert reply.variations == ()
    assert reply.fault


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "empty reply"),
        ("I cannot help with that.", "refusal"),
        ("I’m sorry, I can’t do that.", "refusal"),
        ("Sorry!", "refusal"),
        ("As an AI model, I have no memories.", "refusal"),
        ('["I am sorry, but I cannot help with that"]', "no usable string in the reply"),
        ("502 Bad Gateway\n\nnginx", "error of a server"),
        ("<html><head><title>502 Bad Gateway</title></head><center>nginx</center></html>", "error of a server"),
        ("HTTP/1.1 503 Service Unavailable\nRetry later", "error of a server"),
        ("Internal Server Error\nrequest 1234", "error of a server"),
        ("\n502 Bad Gateway\n", "error of a server"),
        ("I know of no other wording.\nPlease ask in another way!", "no list of strings in the reply"),
        ('{"errors": ["Rate limit exceeded"]}', "error of a server"),
        ('{"detail": [{"msg": "field required"}]}', "error of a server"),
        ("[]", "no usable string in the reply"),
        ("{}", "no list of strings in the reply"),
        ('{\n  "query": "Acme",\n  "reason": "a shorter query"\n}', "no list of strings in the reply"),
        ("null", "no list of strings in the reply"),
        ("42", "no list of strings in the reply"),
        ("NaN", "no list of strings in the reply"),
        ('"Acme"', "no list of strings in the reply"),
        ("9" * 10_000, "no list of strings in the reply"),
        ("[" * 30_000, "no list of strings in the reply"),
        ("[]" * 30_000, "no usable string in the reply"),
        ("{" * 30_000, "no list of strings in the reply"),
        ('["variation 1", "variation 2", "variation 3"]', "no usable string in the reply"),
        ("[" + ",".join(f'"{number}"' for number in range(1_000)) + "]", "list of more than 50 strings"),
        ('["' + "x" * 70_000 + '"]', f"reply of more than {REPLY_CHARS_MAX:,} characters"),
        ('["' + "x" * 2_000 + '"]', "no usable string in the reply"),
        ('["...", "—", "   ", "?!"]', "no usable string in the reply"),
        (REWRITE_TEMPLATE, "reply repeats the prompt"),
    ],
)
def test_a_useless_reply_says_why(reply: str, fault: str):
    assert read_reply(reply, query=QUERY).fault == fault


def test_a_list_of_refusals_and_answers_keeps_the_answers():
    reply = '["I cannot help with that", "sorry I missed your birthday"]'
    assert parse_reply(reply, query=QUERY) == ("sorry I missed your birthday",)
    assert parse_reply('["why Acme cannot process my order"]', query=QUERY) == ("why Acme cannot process my order",)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("Who do I know at Acme?", "who do i know at acme"),
        ("Ann's books", "Ann books"),
        ("sales report", "'sales' report"),
        ("painted walls", "painting wall"),
        ("Café  menu", "CAFÉ menu!"),
        ("ﬁle names", "file names"),
    ],
)
def test_a_variation_that_says_the_same_is_dropped(query: str, same: str):
    assert parse_reply(json.dumps([same, "something else"]), query=query) == ("something else",)


def test_at_most_three_are_kept_in_the_order_of_the_reply():
    assert parse_reply('["d", "c", "b", "a"]', query=QUERY) == ("d", "c", "b")
    assert parse_reply('["d", "c", "b", "a"]', query=QUERY, config=RewriteConfig(variations_max=1)) == ("d",)


def test_bytes_are_counted_not_characters():
    config = RewriteConfig(variation_bytes_max=10)
    assert parse_reply('["ééééé", "éééééé"]', query=QUERY, config=config) == ("ééééé",)


def test_what_is_kept_is_one_printable_line():
    reply = json.dumps(["a\u202eb\x1b[31mc\nd\u200b", "می\u200cخواهم"])
    assert parse_reply(reply, query=QUERY) == ("ab [31mc d", "می\u200cخواهم")


def test_damaged_strings_are_dropped_and_others_kept():
    assert parse_reply('["\\ud800", "nul\\u0000", "fine", "pair \\ud83d\\ude00"]', query=QUERY) == ("fine", "pair 😀")


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "]",
        "[]",
        '["',
        "['",
        "{",
        "1. a\n",
        "- \n",
        "<think>",
        "```\n",
        '"',
        "[{}",
        " ",
        "\\",
        "<a>b</a>",
        "<a ",
        "<a>",
        "<",
    ],
)
def test_the_largest_reply_is_read_in_no_time(piece: str):
    reply = (piece * REPLY_CHARS_MAX)[:REPLY_CHARS_MAX]
    assert processor_seconds(lambda: parse_reply(reply, query=QUERY)) < 1.0


MARKS = [
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    ",",
    ":",
    "\\",
    "\n",
    "```",
    "```json\n",
    "<think>",
    "</think>",
    "1. ",
    "- ",
    "“",
    "”",
]
DAMAGE = [
    "\ud800",
    "\0",
    "\u202e",
    "\\u0000",
    "\\ud800",
    "1e999",
    "null",
    "I can't",
    "Sorry",
    REWRITE_TEMPLATE,
    ADR_REPLY,
]
PIECES = st.sampled_from([*MARKS, *DAMAGE])
STRINGS = st.text(max_size=5) | PIECES
JSON = st.recursive(
    STRINGS | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=2),
    max_leaves=6,
).map(json.dumps)
FUZZ_EXAMPLES = int(os.environ.get("UMI_FUZZ_EXAMPLES", "2000"))
"""About five seconds; UMI_FUZZ_EXAMPLES=100000 for five minutes."""


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A reply that is understood, in which a part has been replaced."""
    whole = draw(st.sampled_from(UNDERSTOOD))
    first = draw(st.integers(0, len(whole)))
    return whole[:first] + draw(STRINGS | JSON) + whole[first + draw(st.integers(0, 20)) :]


@given(
    st.text() | st.lists(STRINGS | JSON, max_size=20).map("".join) | damaged(),
    st.text(max_size=20),
)
@settings(max_examples=FUZZ_EXAMPLES, deadline=None, derandomize=True)
def test_no_reply_gives_more_than_a_few_short_clean_strings(text: str, query: str):
    config = RewriteConfig(variations_max=2, variation_bytes_max=40)
    variations = parse_reply(text, query=query, config=config)
    assert isinstance(variations, tuple)
    assert len(variations) <= 2
    for variation in variations:
        assert 1 <= len(variation.encode()) <= 40
        assert variation == " ".join(variation.split())
        assert variation.isprintable() or "\u200c" in variation or "\u200d" in variation or not variation.isascii()
        assert "\0" not in variation


@given(st.lists(st.text(alphabet="abcdefgh ", min_size=1, max_size=20), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_plain_json_array_keeps_its_order(strings: list[str]):
    variations = parse_reply(json.dumps(strings), query="zzz")
    cleaned = [" ".join(string.split()) for string in strings]
    places = [cleaned.index(variation) for variation in variations]
    assert places == sorted(places)


def test_variations_may_hold_many_brackets():
    wanted = ("what is [[[[[[[[[ in a log", "nine nested brackets")
    assert parse_reply(json.dumps(dict(enumerate(wanted, 1))), query="brackets") == wanted


def test_a_question_about_an_error_of_a_server_has_its_variations():
    wanted = ("502 Bad Gateway causes", "nginx error 502")
    for reply in (json.dumps(wanted), "\n".join(wanted), "- 502 Bad Gateway causes\n- nginx error 502"):
        assert parse_reply(reply, query="why do I get a 502?") == wanted


def test_a_query_that_is_fine_as_it_is_is_no_failure_of_the_llm():
    assert read_reply('["Who works at Acme?"]', query="who works at acme") == Reply(())
    assert read_reply('["\\u0000"]', query="who works at acme").fault == "no usable string in the reply"


LOGIN = "why is login broken?"
LOGIN_VARIATIONS = ("I can't log in", "login page error", "password rejected")


@pytest.mark.parametrize(
    "reply",
    [
        "* I can't log in\n* login page error\n* password rejected",
        "- I can't log in\n- login page error\n- password rejected",
        '"I can\'t log in"\n"login page error"\n"password rejected"',
        '["I can\'t log in", "login page error", "password rejected"]',
    ],
)
def test_a_list_that_begins_with_a_complaint_is_no_refusal(reply: str):
    assert read_reply(reply, query=LOGIN) == Reply(LOGIN_VARIATIONS)


@pytest.mark.parametrize("reply", ['"I cannot help with that."', "**I'm sorry**, I can't do that.", "> Sorry!"])
def test_a_refusal_in_quotation_marks_or_bold_is_a_refusal(reply: str):
    assert read_reply(reply, query=LOGIN).fault == "refusal"


def test_a_refusal_is_looked_for_in_the_answer_and_not_in_the_thinking():
    reply = 'We cannot know which login, so vary the words.\n</think>\n["sign-in fails", "login page error"]'
    assert parse_reply(reply, query=LOGIN) == ("sign-in fails", "login page error")
    reply = "<think>hm</think>I'm sorry, I can't help with that\nPlease ask me something else"
    assert read_reply(reply, query=LOGIN).fault == "refusal"


@pytest.mark.parametrize(
    "reply",
    [
        '[{"type": "synonym", "query": "sign-in fails"}, {"type": "broader", "query": "login page error"}]',
        '{"queries": [{"id": "q1", "text": "sign-in fails"}, {"id": "q2", "text": "login page error"}]}',
        '[{"query": "login", "variation": "sign-in fails"}, {"query": "login", "Variation": "login page error"}]',
        'Here is the string[]:\n["sign-in fails", "login page error"]',
        'A string[] of two: ["sign-in fails", "login page error"]',
        'I kept the term ["login"] out of these:\n1. sign-in fails\n2. login page error',
        'Variations ["sign-in fails", "login page error"]:',
        "Variations [of the query]:\n1. sign-in fails\n2. login page error",
        'Variations: ["sign-in fails", "login page error"]\n\nReasons:\n- other words\n- the page',
    ],
)
def test_the_variations_are_found_beside_other_fields_and_lists(reply: str):
    assert parse_reply(reply, query=LOGIN) == ("sign-in fails", "login page error")


def test_a_list_of_queries_about_a_refused_request_is_no_error_of_a_server():
    reply = "too many requests\nHTTP 429 meaning\nrate limit error"
    assert parse_reply(reply, query="what is 429") == ("too many requests", "HTTP 429 meaning", "rate limit error")


def test_variations_that_differ_in_a_vowel_sign_or_in_the_sign_of_a_language_are_all_kept():
    hindi = ("दिन का खाना", "दान का खाना")
    languages = ("C# sort list", "C++ sort list", "C sort list")
    for wanted in (hindi, languages):
        assert parse_reply(json.dumps(wanted), query="sort") == wanted
    assert parse_reply('["#login broken", "login + broken?", "sign-in"]', query="login broken") == ("sign-in",)


def test_a_server_error_with_many_empty_lines_is_read_in_no_time():
    reply = "bad gateway" + "\n" * 30_000 + "x" + "\ny" * 10_000
    assert processor_seconds(lambda: parse_reply(reply, query=QUERY)) < 1.0

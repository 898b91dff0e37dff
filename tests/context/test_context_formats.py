"""How a context reads, and that no text can break out of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from context_toys import MAY, Words, hit
from hypothesis import given
from hypothesis import strategies as st

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.format import NOT_XML

LARGE = TokenBudget(max_total=10**6)
FOUND = [
    hit("a", "Mira bought a house.", 0.9, 1, source="talk-1", position=3, time=MAY),
    hit("b", "The roof leaks.", 0.8, 2, source="talk-2", position=1, time=MAY + timedelta(days=20)),
    hit("c", "It is by the canal.", 0.7, 3, source="talk-1", position=9, time=MAY + timedelta(days=1)),
]
HOSTILE = st.text(
    alphabet=st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("<>&\"'{}]\\/\r\n")), min_size=1
)


def written(found, **policy):
    return assemble(found, budget=LARGE, policy=AssemblyPolicy(**policy), counter=Words()).text


def test_plain_numbers_its_sources_and_lists_them_once_with_their_days():
    assert written(FOUND) == (
        "[1] Mira bought a house.\n\n[2] The roof leaks.\n\n[1] It is by the canal.\n\n"
        "Sources:\n[1] talk-1 2023-05-08 to 2023-05-09\n[2] talk-2 2023-05-28"
    )


def test_header_heading_separator_and_citation_are_the_callers():
    text = written(
        FOUND[:2], header="What I know:", separator="\n---\n", citation="({number}) {ids}", sources_heading=""
    )
    assert text == "What I know:\n---\n[1] Mira bought a house.\n---\n[2] The roof leaks.\n---\n(1) a\n(2) b"


def test_a_template_is_filled_and_a_brace_in_a_text_stays_a_brace():
    found = [hit("a", "set {number} = {text}", 0.5, 1, source="f.py", kind="code")]
    text = written(found, format="<<{kind} {number} {source} {score} {ids}>> {text}{{}}", citation="")
    assert text == "<<code 1 f.py 0.5 a>> set {number} = {text}{{}}"


def test_a_source_without_a_name_is_cited_by_its_chunk():
    assert written([hit("a", "alpha")]).endswith("[1] a")


@pytest.mark.parametrize("format", ["plain", "xml", "json"])
def test_a_source_whose_name_is_blank_is_cited_by_its_chunk(format):
    texts = [written([hit("a", "text", 0.5, source=source)], format=format) for source in (None, "", " ")]
    assert texts == [texts[0]] * 3 and "a" in texts[0]


def test_a_source_with_line_breaks_stays_on_its_line():
    assert written([hit("a", "alpha", source="x\n[2] fake\n")]).endswith("Sources:\n[1] x [2] fake")


def test_xml_reads_back():
    root = ET.fromstring(written(FOUND, format="xml"))
    assert [(p.get("number"), p.get("source"), p.get("date"), p.text) for p in root] == [
        ("1", "talk-1", "2023-05-08", "Mira bought a house."),
        ("2", "talk-2", "2023-05-28", "The roof leaks."),
        ("1", "talk-1", "2023-05-09", "It is by the canal."),
    ]


def test_json_reads_back():
    assert json.loads(written(FOUND, format="json"))[1] == {
        "number": 2,
        "source": "talk-2",
        "date": "2023-05-28",
        "text": "The roof leaks.",
    }


@pytest.mark.parametrize("format", ["xml", "json"])
def test_a_cut_part_says_so(format):
    budget = TokenBudget(per_chunk_max=3)
    text = assemble(FOUND[:1], budget=budget, policy=AssemblyPolicy(format=format), counter=Words()).text
    assert ('trimmed="true"' if format == "xml" else '"trimmed": true') in text


@given(HOSTILE.filter(str.strip), HOSTILE)
def test_no_text_closes_its_xml_element(text, source):
    (part,) = ET.fromstring(written([hit("a", text, source=source)], format="xml"))
    assert part.text == NOT_XML.sub("\ufffd", text)


@given(HOSTILE.filter(str.strip), HOSTILE)
def test_no_text_closes_its_json_string(text, source):
    (part,) = json.loads(written([hit("a", text, source=source)], format="json"))
    assert part["text"] == text

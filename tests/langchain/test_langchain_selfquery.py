"""LangChain's `SelfQueryRetriever` over `UmiVectorStore`: an LLM writes the filter, `UmiTranslator` translates it."""

from __future__ import annotations

import ast
import json

import pytest
from langchain_classic.chains.query_constructor.base import get_query_constructor_prompt
from langchain_classic.retrievers import SelfQueryRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery

from umi_common.errors import FilterError
from umi_common.sim import ScriptedLLM
from umi_langchain import UmiTranslator, UmiVectorStore

FILMS = [
    (
        "A heist inside of dreams",
        {"year": 2010, "genre": "thriller", "tags": ["dreams", "crime"], "seen": "2024-05-01"},
    ),
    ("Toys come alive", {"year": 1995, "genre": "animated", "tags": ["toys"], "seen": "2024-06-01"}),
    ("Three men walk into a zone", {"year": 1979, "genre": "thriller", "tags": [], "seen": "2024-07-01"}),
]
FIELDS = [{"name": name, "description": name, "type": "string"} for name in FILMS[0][1]]


@pytest.fixture(scope="module")
def store():
    texts, metadatas = zip(*FILMS, strict=True)
    made = UmiVectorStore.from_texts(list(texts), metadatas=list(metadatas), ids=["dreams", "toys", "zone"])
    yield made
    made.close()


def parsed(reply):
    """What LangChain's parser makes of a reply; it needs the package lark."""
    answer = json.loads(reply)
    asked = answer["filter"]
    directive = None if asked == "NO_FILTER" else _directive(ast.parse(asked, mode="eval").body)
    return StructuredQuery(answer["query"], directive, answer.get("limit"))


def _directive(call):
    name = call.func.id.removesuffix("_")
    if name in {operator.value for operator in Operator}:
        return Operation(Operator(name), [_directive(argument) for argument in call.args])
    attribute, value = map(ast.literal_eval, call.args)
    return Comparison(Comparator(name), attribute, value)


def retriever(store, reply, translator=None, **options):
    translator = UmiTranslator() if translator is None else translator
    prompt = get_query_constructor_prompt(
        "films",
        FIELDS,
        allowed_comparators=translator.allowed_comparators,
        allowed_operators=translator.allowed_operators,
    )
    llm = ScriptedLLM(lambda prompt: json.dumps({"query": "", **reply}))
    constructor = prompt | RunnableLambda(lambda value: llm.complete(value.to_string())) | parsed
    return SelfQueryRetriever(
        query_constructor=constructor, vectorstore=store, structured_query_translator=translator, **options
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("NO_FILTER", {"dreams", "toys", "zone"}),
        ('eq("genre", "thriller")', {"dreams", "zone"}),
        ('and_(eq("genre", "thriller"), gt("year", 2000))', {"dreams"}),
        ('or_(lt("year", 1980), contain("tags", "toys"))', {"toys", "zone"}),
        ('not_(eq("genre", "thriller"))', {"toys"}),
        ('and_(ne("genre", "animated"), gte("year", 1979), lte("year", 1990))', {"zone"}),
        ('in_("year", [1995, 2010])', {"dreams", "toys"}),
        ('nin("year", [1995, 2010])', {"zone"}),
        ('gte("seen", {"date": "2024-06-01", "type": "date"})', {"toys", "zone"}),
        ('eq("genre", "opera")', set()),
        ('in_("year", [])', set()),
        ('nin("year", [])', {"dreams", "toys", "zone"}),
        ('or_(in_("year", []), eq("genre", "animated"))', {"toys"}),
    ],
)
async def test_what_the_llm_asks_for_is_what_is_found(store, asked, found):
    """With words to search for, and without: then the passing documents are listed."""
    for words in ("a film", ""):
        made = retriever(store, {"query": words, "filter": asked})
        assert {document.id for document in made.invoke("which film?")} == found
        assert {document.id for document in await made.ainvoke("which film?")} == found


def test_the_llms_limit_is_k(store):
    assert len(retriever(store, {"query": "a film", "filter": "NO_FILTER", "limit": 1}).invoke("one film")) == 1


def test_an_llm_that_asks_for_a_thousand_documents_gets_as_many_as_a_search_returns(store, caplog):
    asked = {"query": "a film", "filter": "NO_FILTER", "limit": 1_000}
    assert len(retriever(store, asked).invoke("all films")) == 3
    assert "asked SelfQueryRetriever for 1000 documents; a search returns at most 100" in caplog.text


def test_the_llm_never_widens_the_translators_filter(store):
    own = UmiTranslator({"genre": "thriller"})
    for asked in ("NO_FILTER", 'or_(eq("genre", "thriller"), eq("genre", "animated"))', 'ne("genre", "x")'):
        made = retriever(store, {"query": "a film", "filter": asked}, own)
        assert {document.id for document in made.invoke("any film")} == {"dreams", "zone"}


def test_what_has_no_meaning_is_refused_by_name(store):
    with pytest.raises(ValueError, match="disallowed comparator"):
        retriever(store, {"filter": 'like("genre", "thr")'}).invoke("films like thr")
    with pytest.raises(FilterError, match=r"year.*\$in"):
        retriever(store, {"filter": 'in_("year", 1995)'}).invoke("films of 1995")

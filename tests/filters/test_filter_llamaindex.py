"""LlamaIndex's own filter objects, all operators and conditions, without umi importing LlamaIndex."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery

from umi_common.errors import FilterError
from umi_common.filters import matches, parse_filter
from umi_common.sim import HashEmbedder
from umi_llamaindex import UmiVectorStore

types = pytest.importorskip("llama_index.core.vector_stores.types")
MetadataFilter, MetadataFilters = types.MetadataFilter, types.MetadataFilters
FilterOperator, FilterCondition = types.FilterOperator, types.FilterCondition


def _filters(*filters: Any, condition: Any = FilterCondition.AND) -> Any:
    return MetadataFilters(filters=list(filters), condition=condition)


def _one(operator: Any, value: Any) -> Any:
    return _filters(MetadataFilter(key="a", operator=operator, value=value))


OPERATORS = [
    (FilterOperator.EQ, 1, {"a": 1}, {"a": 2}),
    (FilterOperator.NE, 1, {}, {"a": 1}),
    (FilterOperator.GT, 1, {"a": 2}, {"a": 1}),
    (FilterOperator.GTE, 1, {"a": 1}, {"a": 0}),
    (FilterOperator.LT, 1, {"a": 0}, {"a": 1}),
    (FilterOperator.LTE, 1, {"a": 1}, {"a": 2}),
    (FilterOperator.IN, ["x", "y"], {"a": "y"}, {"a": "z"}),
    (FilterOperator.NIN, ["x", "y"], {}, {"a": "x"}),
    (FilterOperator.ANY, ["x", "y"], {"a": ["y"]}, {"a": ["z"]}),
    (FilterOperator.ALL, ["x", "y"], {"a": ["y", "x", "z"]}, {"a": ["x"]}),
    (FilterOperator.CONTAINS, "x", {"a": ["x"]}, {"a": ["xy"]}),
    (FilterOperator.CONTAINS, "x", {"a": "wxy"}, {"a": "WXY"}),
    (FilterOperator.CONTAINS, "", {"a": [""]}, {"a": "x"}),
    (FilterOperator.ANY, ["x", "y"], {"a": "axe"}, {"a": "b"}),
    (FilterOperator.TEXT_MATCH, "Ann", {"a": "Anna"}, {"a": "anna"}),
    (FilterOperator.TEXT_MATCH, "x", {"a": "x"}, {"a": ["x"]}),
    (FilterOperator.TEXT_MATCH_INSENSITIVE, "ÄR", {"a": "Bären"}, {"a": "Bar"}),
    (FilterOperator.IS_EMPTY, None, {"a": []}, {"a": [None]}),
    (FilterOperator.IS_EMPTY, None, {"a": ""}, {"a": 0}),
    (FilterOperator.IS_EMPTY, None, {}, {"a": False}),
]


@pytest.mark.parametrize(("operator", "value", "passing", "failing"), OPERATORS)
def test_an_operator_means_what_the_table_says(operator: Any, value: Any, passing: Any, failing: Any):
    tree = parse_filter(_one(operator, value))
    assert matches(tree, passing)
    assert not matches(tree, failing)


def test_every_operator_of_llamaindex_is_tested():
    assert {operator for operator, *_ in OPERATORS} == set(FilterOperator)


@pytest.mark.parametrize("operator", ["contains", "text_match", "text_match_insensitive", "any", "all"])
def test_texts_are_matched_as_in_llamaindexs_simple_store(operator: str):
    texts = ["Anna", "anna", "Ann", "", "Ärger", "ärgern"]
    nodes = [TextNode(id_=str(at), text="a", metadata={"a": text}, embedding=[1.0]) for at, text in enumerate(texts)]
    simple, umi = SimpleVectorStore(), UmiVectorStore(HashEmbedder(16))
    simple.add(nodes)
    umi.add([node.model_copy(update={"embedding": None}) for node in nodes])
    for asked in ("ann", "Ann", "Är", "är", "z"):
        wanted = _one(operator, [asked] if operator in ("any", "all") else asked)
        found = simple.query(VectorStoreQuery([1.0], similarity_top_k=9, filters=wanted)).ids
        assert sorted(node.node_id for node in umi.get_nodes(filters=wanted)) == sorted(found)
        assert {hit.node.node_id for hit in umi.retriever(9, filters=wanted).retrieve("a")} == set(found)
    deleted = _one(operator, ["Är"] if operator in ("any", "all") else "Är")
    umi.delete_nodes(filters=deleted)
    assert len(umi.get_nodes()) == (4 if operator.endswith("insensitive") else 5)
    umi.close()


@pytest.mark.parametrize(
    ("condition", "dict_spelling"),
    [
        (FilterCondition.AND, {"$and": [{"a": 1}, {"b": 2}]}),
        (None, {"$and": [{"a": 1}, {"b": 2}]}),
        (FilterCondition.OR, {"$or": [{"a": 1}, {"b": 2}]}),
        (FilterCondition.NOT, {"$not": {"$or": [{"a": 1}, {"b": 2}]}}),
    ],
)
def test_a_condition_gives_the_same_tree_as_its_dict_spelling(condition: Any, dict_spelling: dict[str, Any]):
    filters = _filters(MetadataFilter(key="a", value=1), MetadataFilter(key="b", value=2), condition=condition)
    assert parse_filter(filters) == parse_filter(dict_spelling)


@pytest.mark.parametrize("operator", ["in", "nin", "any", "all"])
@pytest.mark.parametrize("value", ["drama", 3, 1.5])
def test_one_value_in_place_of_a_list_is_a_list_of_one(operator: str, value: Any):
    assert parse_filter(MetadataFilter(key="a", operator=operator, value=value)) == parse_filter(
        MetadataFilter(key="a", operator=operator, value=[value])
    )


def test_filters_nest_and_mix_with_dicts():
    inner = _filters(MetadataFilter(key="a", value=1), MetadataFilter(key="a", value=2), condition=FilterCondition.OR)
    outer = _filters(inner, MetadataFilter(key="b", operator=FilterOperator.GT, value=0))
    spelled = {"$and": [{"$or": [{"a": 1}, {"a": 2}]}, {"b": {"$gt": 0}}]}
    assert parse_filter(outer) == parse_filter(spelled)
    assert parse_filter({"$and": [inner, {"b": {"$gt": 0}}]}) == parse_filter(spelled)
    assert parse_filter(MetadataFilter(key="a", value=1)) == parse_filter({"a": 1})


def test_a_key_that_begins_with_a_dollar_can_be_named():
    assert matches(parse_filter(_filters(MetadataFilter(key="$x", value=1))), {"$x": 1})


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (
            _filters(MetadataFilter(key="price >", value=3)),
            r"'price >' ends in a comparison; write \{\"price\": \{\"\$gt\": 3\}\}",
        ),
        (MetadataFilter(key="price__gte", value=3), r"write \{\"price\": \{\"\$gte\": 3\}\}"),
        (_filters(), r"MetadataFilters\(and\) holds an empty list"),
        (_one(FilterOperator.IN, []), "'a', 'in': empty list"),
        (
            _one(FilterOperator.IN, "x, y"),
            "'a', 'in': expected a list of values, got 'x, y'; use == for a single value",
        ),
        (
            _one(FilterOperator.NIN, "x,y"),
            "'a', 'nin': expected a list of values, got 'x,y'; use != for a single value",
        ),
        (_one(FilterOperator.ANY, "x, y"), "'a', any: .*not empty"),
        (_one(FilterOperator.NE, float("nan")), "'a', '!=': nan is not finite"),
        (_one(FilterOperator.CONTAINS, float("nan")), "'a', 'contains': nan is not finite"),
        (_one(FilterOperator.ANY, [float("nan")]), "'a', 'any': nan is not finite"),
        (_one(FilterOperator.GTE, None), "'a', '>=': None has no order"),
        (_one(FilterOperator.ANY, []), "'a', any: .*not empty"),
        (_one(FilterOperator.ALL, None), "'a', all: "),
        (_one(FilterOperator.GT, None), "no order"),
        (_one(FilterOperator.EQ, float("nan")), "not finite"),
        (_one(FilterOperator.TEXT_MATCH, ""), "expected a text"),
        (_one(FilterOperator.TEXT_MATCH, 3), "expected a text"),
    ],
)
def test_a_filter_without_meaning_is_refused(filters: Any, message: str):
    with pytest.raises(FilterError, match=message):
        parse_filter(filters)


def test_umi_filters_import_no_framework():
    frameworks = "{'llama_index', 'langchain_core', 'chromadb'}"
    code = f"import sys, umi_common.filters; print(sorted({frameworks} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

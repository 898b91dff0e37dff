"""Budgets and policies: what makes no sense is refused, and the field named."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from umi_common.config import AssemblyConfig, UmiConfig
from umi_common.context.budget import AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.errors import BudgetError, ConfigError


@pytest.mark.parametrize(
    "caps",
    [{"max_total": 0}, {"max_total": True}, {"per_source_max": -1}, {"per_chunk_max": 1.5}, {"reserves": {"a": -1}}],
)
def test_a_budget_that_makes_no_sense_is_refused_and_the_field_named(caps):
    with pytest.raises(ConfigError, match=next(iter(caps))):
        TokenBudget(**caps)


@pytest.mark.parametrize("field", ["reserves", "kinds"])
def test_a_share_of_a_budget_has_a_name(field):
    with pytest.raises(ConfigError, match=rf"TokenBudget\.{field} has the key 1; expected a name"):
        TokenBudget(**{field: {1: 2}})


def test_a_budget_can_be_copied_compared_and_hashed():
    budget = TokenBudget(max_total=100, reserves={"system": 10}, kinds={"code": 5})
    assert copy.deepcopy(budget) == budget
    assert hash(copy.deepcopy(budget)) == hash(budget)
    with pytest.raises(TypeError):
        budget.reserves["system"] = 0


def test_reserves_that_leave_nothing_are_an_error():
    with pytest.raises(BudgetError, match="take 10 of max_total=10"):
        TokenBudget(max_total=10, reserves={"system": 10})


@pytest.mark.parametrize(
    "field",
    [
        {"order": "random"},
        {"format": "markdown"},
        {"format": "{text} {nonsense}"},
        {"citation": "{text}"},
        {"neighbours": 11},
        {"neighbours": "2"},
        {"kinds": "code"},
        {"kinds": 3},
        {"offset_keys": None},
        {"offset_keys": [["start_index"]]},
        {"kinds": ["code", None]},
        {"pack": "luck"},
        {"header": "x", "format": "xml"},
        {"separator": 3},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_and_the_field_named(field):
    with pytest.raises(ConfigError, match=next(iter(field))):
        AssemblyPolicy(**field)


@pytest.mark.parametrize("field", [{"format": "markdown"}, {"citation": "{text}"}, {"header": "x", "format": "xml"}])
def test_settings_that_no_context_can_be_written_with_are_refused_when_they_are_made(field):
    with pytest.raises(ConfigError, match=f"^UmiConfig.assembly.{next(iter(field))} "):
        UmiConfig(assembly=field)


def test_a_number_as_budget_keeps_the_caps_of_the_settings():
    settings = AssemblyConfig(max_total=500, per_source_max=100, per_chunk_max=50)
    assert asked_assembly(settings, 1000, None)[0] == TokenBudget(1000, per_source_max=100, per_chunk_max=50)
    assert asked_assembly(settings, None, None)[0] == TokenBudget(500, per_source_max=100, per_chunk_max=50)
    own = TokenBudget(1000, per_source_max=7)
    assert asked_assembly(settings, own, None)[0] == own


def test_a_whole_number_of_numpy_is_a_number_of_tokens():
    n = np.int64(60)
    budget = TokenBudget(max_total=n, per_source_max=n, per_chunk_max=n, reserves={"system": n - 1}, kinds={"code": n})
    assert budget == TokenBudget(60, 60, 60, {"system": 59}, {"code": 60})
    assert type(budget.max_total) is int and type(budget.reserves["system"]) is int
    assert asked_assembly(AssemblyConfig(), n, None)[0].max_total == 60
    assert AssemblyPolicy(neighbours=np.int64(2)) == AssemblyPolicy(neighbours=2)
    with pytest.raises(ConfigError, match=r"max_total is .*True_?; expected a whole number"):
        TokenBudget(max_total=np.True_)

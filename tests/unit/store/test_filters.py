"""Filters become SQL in which keys and values are bound."""

import pytest
import sqlalchemy as sa
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from sqlalchemy.dialects import postgresql

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.filters import is_empty, where

SUPPORTED = {"==", "!=", ">", ">=", "<", "<=", "in", "nin"}


def _one(key, value, operator="=="):
    return MetadataFilters(
        filters=[MetadataFilter(key=key, value=value, operator=operator)]
    )


@pytest.mark.parametrize("operator", sorted(SUPPORTED))
def test_neither_key_nor_value_is_part_of_the_statement(operator):
    """Both stand among the bound parameters only."""
    attack = "x' OR '1'='1"
    value = [attack] if operator in {"in", "nin"} else attack
    clause = where(sa.column("metadata_"), _one(attack, value, operator))
    assert "OR '1'" not in str(clause.compile(dialect=postgresql.dialect()))


@pytest.mark.parametrize(
    "operator", [each for each in FilterOperator if each.value not in SUPPORTED]
)
def test_an_operator_that_is_not_supported_is_named(operator):
    """Better an error than a filter that means something else."""
    with pytest.raises(StoreError, match=f"'{operator.value}'.*not supported"):
        where(sa.column("metadata_"), _one("k", "v", operator))


@pytest.mark.parametrize(
    ("value", "operator"), [("a", "in"), (["a"], "=="), (None, "=="), (None, "nin")]
)
def test_a_value_of_the_wrong_kind_is_refused(value, operator):
    """Lists for `in` and `nin`, one value for the rest."""
    with pytest.raises(StoreError, match="takes a"):
        where(sa.column("metadata_"), _one("k", value, operator))


@pytest.mark.parametrize("value", ["\x00", "\ud800", float("nan")])
def test_a_value_that_postgresql_cannot_hold_is_refused(value):
    """No driver error comes out of a filter."""
    with pytest.raises(StoreError, match="filter value"):
        where(sa.column("metadata_"), _one("k", value))


def test_a_group_of_empty_groups_is_empty():
    """`delete_nodes` must not take it for "all"."""
    assert is_empty(MetadataFilters(filters=[MetadataFilters(filters=[])]))

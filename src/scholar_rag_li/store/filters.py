"""LlamaIndex's metadata filters as SQL: keys and values are bound, never interpolated.

Comparison is typed, as in JSON: 2020 equals 2020.0 and not "2020"; greater and less
    compare numbers with numbers and strings with strings. A node without the key
    matches `!=` and `nin` and nothing else, as in LlamaIndex's own in-memory store.
"""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from sqlalchemy.dialects.postgresql import JSONB

from scholar_rag_li.errors import StoreError

Clause = sa.ColumnElement[bool]


def where(column: Any, filters: MetadataFilters) -> Clause:
    """Return the condition that a group of filters stands for.

    Args:
        column: The table's metadata column, JSON or JSONB.
        filters: Filters and groups of filters. A group without any is true.

    Raises:
        StoreError: If an operator is not supported or its value is not of the right
            kind.
    """
    clauses = [
        where(column, each)
        if isinstance(each, MetadataFilters)
        else _leaf(sa.cast(column, JSONB), each)
        for each in filters.filters
    ]
    if not clauses:
        return sa.true()
    if filters.condition == FilterCondition.OR:
        return sa.or_(*clauses)
    if filters.condition == FilterCondition.NOT:
        return sa.not_(sa.or_(*clauses))
    return sa.and_(*clauses)


def is_empty(filters: MetadataFilters) -> bool:
    """Say whether a group holds no filter at all, at any depth."""
    return all(
        isinstance(each, MetadataFilters) and is_empty(each) for each in filters.filters
    )


def _leaf(column: Any, each: MetadataFilter) -> Clause:
    """Return the condition of one filter; never NULL, so that NOT can negate it."""
    if each.operator not in _OPERATORS:
        raise StoreError(
            f"the filter operator {each.operator.value!r} (key {each.key!r}) is not "
            f"supported; use one of {', '.join(known.value for known in _OPERATORS)}"
        )
    many = each.operator in _OF_LISTS
    if many != isinstance(each.value, list) or each.value is None:
        raise StoreError(
            f"the filter {each.key!r} {each.operator.value!r} takes "
            f"{'a list' if many else 'a string or a number'}, not {each.value!r}"
        )
    field = column.op("->")(sa.literal(each.key, sa.Text))
    absent = each.operator in (FilterOperator.NE, FilterOperator.NIN)
    clause = _OPERATORS[each.operator](field, each.value)
    return sa.func.coalesce(clause, sa.literal(absent, sa.Boolean))


def _json(value: object) -> Any:
    """Return a value as bound JSONB."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError as error:
        raise StoreError(f"the filter value {value!r} is not JSON: {error}") from None
    if "\\u0000" in text:
        raise StoreError(f"the filter value {value!r} holds a NUL character")
    return sa.cast(sa.literal(text, sa.Text), JSONB)


def _ordered(operator: str) -> Callable[[Any, Any], Any]:
    """Return a comparison within one JSON type: JSONB orders across types as well."""

    def compare(field: Any, value: Any) -> Any:
        same = sa.func.jsonb_typeof(field) == sa.func.jsonb_typeof(_json(value))
        return sa.and_(same, field.op(operator, is_comparison=True)(_json(value)))

    return compare


def _equals_any(field: Any, values: list[Any]) -> Any:
    """Return whether the field is one of the values; no value, no match."""
    return sa.or_(
        sa.false(), *(field.op("=", is_comparison=True)(_json(v)) for v in values)
    )


_OPERATORS: dict[FilterOperator, Callable[[Any, Any], Any]] = {
    FilterOperator.EQ: lambda field, value: _equals_any(field, [value]),
    FilterOperator.NE: lambda field, value: sa.not_(_equals_any(field, [value])),
    FilterOperator.IN: _equals_any,
    FilterOperator.NIN: lambda field, values: sa.not_(_equals_any(field, values)),
    FilterOperator.GT: _ordered(">"),
    FilterOperator.GTE: _ordered(">="),
    FilterOperator.LT: _ordered("<"),
    FilterOperator.LTE: _ordered("<="),
}
_OF_LISTS = (FilterOperator.IN, FilterOperator.NIN)

"""Names are safe, dimensions possible, and a wrong table is described."""

import pytest

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.tables import (
    check_columns,
    check_dimension,
    check_identifier,
)


@pytest.mark.parametrize(
    "name",
    ["", "1a", "A", "a-b", "a b", 'a"', "a;drop table b", "á", "a" * 41, "a\n"],
)
def test_an_unsafe_name_is_refused(name):
    """Only a-z, 0-9 and _ are allowed, 40 at most."""
    with pytest.raises(StoreError, match="not allowed"):
        check_identifier("table", name)


@pytest.mark.parametrize("name", ["a", "_", "chunks_1000_150", "a" * 40])
def test_a_safe_name_is_kept(name):
    """A name is never changed."""
    assert check_identifier("table", name) == name


@pytest.mark.parametrize("dimension", [0, -1, 16001])
def test_an_impossible_dimension_is_refused(dimension):
    """Pgvector stores 1 to 16000."""
    with pytest.raises(StoreError, match=str(dimension)):
        check_dimension(dimension)


def test_a_wrong_column_is_described_with_what_was_asked():
    """Both sides are in the text."""
    with pytest.raises(StoreError, match=r"is vector\(3\), asked was vector\(4\)"):
        check_columns(
            "t", {"embedding": "vector(3)"}, {"embedding": ("vector(4)", "vector")}
        )


def test_a_missing_column_is_called_missing():
    """A table of something else is not used."""
    with pytest.raises(StoreError, match="text is missing"):
        check_columns("t", {}, {"text": ("text",)})

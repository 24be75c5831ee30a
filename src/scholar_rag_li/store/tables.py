"""Names, columns and creation of tables: what is there is checked before it is used."""

import re
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.connection import lock_setup

# 40 leaves room for prefixes and suffixes within PostgreSQL's 63 bytes.
IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,39}")
MOST_DIMENSIONS = 16000  # pgvector's limit for the type `vector`


def check_identifier(what: str, name: str) -> str:
    """Return a name that is safe to use in SQL.

    Raises:
        StoreError: If it is not: names are never quoted or changed.

    >>> check_identifier("table", "chunks_fixed_1000")
    'chunks_fixed_1000'
    """
    if not IDENTIFIER.fullmatch(name):
        raise StoreError(
            f"the {what} name {name!r} is not allowed; use 1 to 40 of a-z, 0-9 and _, "
            "not beginning with a digit"
        )
    return name


def check_dimension(embed_dim: int) -> int:
    """Return a number of dimensions; raise StoreError if it is not 1 to 16000."""
    if not 1 <= embed_dim <= MOST_DIMENSIONS:
        raise StoreError(
            f"embed_dim is {embed_dim}; pgvector stores 1 to {MOST_DIMENSIONS} of them"
        )
    return embed_dim


def column_types(engine: sa.Engine, schema: str, table: str) -> dict[str, str]:
    """Return the type of each column as PostgreSQL writes it, e.g. `vector(384)`.

    Returns:
        Empty if there is no such table.
    """
    query = sa.text(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "JOIN pg_class ON pg_class.oid = attrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = :schema AND relname = :table "
        "AND attnum > 0 AND NOT attisdropped"
    )
    with engine.connect() as connection:
        rows = connection.execute(query, {"schema": schema, "table": table})
        # A type outside the search path comes with its schema before it.
        return {str(name): str(kind).rsplit(".", 1)[-1] for name, kind in rows}


def create_table(engine: sa.Engine, table: sa.Table) -> None:
    """Create a table, its schema and its indexes if they are missing; one at a time."""
    with engine.begin() as connection:
        lock_setup(connection)
        schemas = sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
        if (
            table.schema
            and not connection.execute(schemas, {"schema": table.schema}).first()
        ):
            connection.execute(sa.schema.CreateSchema(table.schema))
        table.create(connection, checkfirst=True)


def check_columns(
    name: str, present: Mapping[str, str], wanted: Mapping[str, Sequence[str]]
) -> None:
    """Check that a table has the columns that are asked of it.

    Args:
        name: The table, for the message.
        present: Column -> type, as `column_types` returns it.
        wanted: Column -> the types that will do, the one that was asked for first.

    Raises:
        StoreError: If it hasn't; the text says what is there and what was asked.
    """
    wrong = [
        f"{column} is {present.get(column, 'missing')}, asked was {kinds[0]}"
        for column, kinds in wanted.items()
        if present.get(column) not in kinds
    ]
    if wrong:
        raise StoreError(
            f"the table {name} is not what was asked for: {'; '.join(wrong)}; "
            "use another table name, or open it with what it holds"
        )

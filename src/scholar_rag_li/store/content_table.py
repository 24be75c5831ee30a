"""A persistent table of results by the digest of what they were computed from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.connection import Database, store_errors, transact
from scholar_rag_li.store.tables import (
    check_columns,
    check_identifier,
    column_types,
    create_table,
)

DIGEST_BYTES = 32  # SHA-256
KEYS_A_QUERY = 5000
ROWS_A_STATEMENT = 1000
BYTES_A_STATEMENT = 16_000_000  # PostgreSQL takes a message of up to 1 GB
_TYPES = {"kind": ("text",), "key": ("bytea",), "value": ("bytea",)}


class ContentTable:
    """Values by kind and key; what is written stays, and the first writer wins.

    The key is the digest of everything that the value depends on, so two writers of one
    key have computed the same value and nothing is ever updated. A value that is to be
    measured anew is deleted first.
    """

    def __init__(self, database: Database, name: str = "content") -> None:
        """Open the table; create it if it is missing.

        Args:
            database: Where it is.
            name: Its name, in the schema `public`.

        Raises:
            StoreError: If the name is not allowed or the table there is another one.
        """
        check_identifier("table", name)
        self._engine = database.engine
        self._table = sa.Table(
            name,
            sa.MetaData(schema="public"),
            sa.Column("kind", sa.Text, primary_key=True),
            sa.Column("key", sa.LargeBinary, primary_key=True),
            sa.Column("value", sa.LargeBinary, nullable=False),
            sa.Column(
                "created",
                sa.DateTime(timezone=True),
                nullable=False,
                server_default=sa.func.now(),
            ),
        )
        with store_errors(f"opening the table {name}"):
            present = column_types(self._engine, "public", name)
            if not present:
                create_table(self._engine, self._table)
            else:
                check_columns(name, present, _TYPES)

    def get_many(self, kind: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of the keys that are there.

        Args:
            kind: What sort of value.
            keys: Digests of 32 bytes; may repeat.

        Returns:
            Key -> value, in the order of `keys`; a key that is not there is left out.
        """
        _check_keys(keys)
        found: dict[bytes, bytes] = {}
        columns = self._table.c

        def read(connection: sa.Connection) -> None:
            for start in range(0, len(keys), KEYS_A_QUERY):
                query = sa.select(columns.key, columns.value).where(
                    columns.kind == kind,
                    _is_any_of(columns.key, keys[start : start + KEYS_A_QUERY]),
                )
                found.update((bytes(k), bytes(v)) for k, v in connection.execute(query))

        with store_errors(f"reading {len(keys)} keys of {kind!r}"):
            transact(self._engine, read)
        return {key: found[key] for key in keys if key in found}

    def put_many(self, kind: str, items: Mapping[bytes, bytes]) -> None:
        """Write values, all or none; committed when it returns.

        Args:
            kind: What sort of value.
            items: Digest of 32 bytes -> value. A key that is there keeps its value.
        """
        _check_keys(list(items))

        def write(connection: sa.Connection) -> None:
            statement = insert(self._table).on_conflict_do_nothing()
            for batch in _batches(items):
                rows = [
                    {"kind": kind, "key": key, "value": items[key]} for key in batch
                ]
                connection.execute(statement.values(rows))

        if items:
            with store_errors(f"writing {len(items)} values of {kind!r}"):
                transact(self._engine, write)

    def delete(self, kind: str, keys: Sequence[bytes]) -> int:
        """Remove values, so that they can be measured anew; committed when it returns.

        Args:
            kind: What sort of value.
            keys: Digests of 32 bytes; one that is not there is passed over.

        Returns:
            The number of values removed.
        """
        _check_keys(keys)
        columns = self._table.c

        def remove(connection: sa.Connection) -> int:
            removed = 0
            for start in range(0, len(keys), KEYS_A_QUERY):
                statement = sa.delete(self._table).where(
                    columns.kind == kind,
                    _is_any_of(columns.key, keys[start : start + KEYS_A_QUERY]),
                )
                removed += connection.execute(statement).rowcount
            return removed

        with store_errors(f"removing {len(keys)} keys of {kind!r}"):
            return transact(self._engine, remove)

    def count(self, kind: str) -> int:
        """Return how many values of a kind there are."""
        query = sa.select(sa.func.count()).where(self._table.c.kind == kind)
        with store_errors(f"counting {kind!r}"):
            return transact(self._engine, lambda c: int(c.execute(query).scalar_one()))


def _is_any_of(
    column: sa.Column[bytes], keys: Sequence[bytes]
) -> sa.ColumnElement[bool]:
    """Return the condition that a key is among some, which go over as one array."""
    wanted: sa.BindParameter[Any] = sa.bindparam(None, list(keys))
    return column == sa.any_(sa.cast(wanted, sa.ARRAY(sa.LargeBinary)))


def _check_keys(keys: Sequence[bytes]) -> None:
    """Raise StoreError if a key is no digest."""
    wrong = [key for key in keys if len(key) != DIGEST_BYTES]
    if wrong:
        raise StoreError(
            f"{len(wrong)} keys are not digests of {DIGEST_BYTES} bytes, "
            f"the first has {len(wrong[0])}; use hashlib.sha256(...).digest()"
        )


def _batches(items: Mapping[bytes, bytes]) -> Iterator[list[bytes]]:
    """Yield the keys in parts that fit in a statement.

    Sorted: two writers that lock the same keys in different orders would deadlock.
    """
    batch: list[bytes] = []
    size = 0
    for key in sorted(items):
        if batch and (
            len(batch) == ROWS_A_STATEMENT or size + len(items[key]) > BYTES_A_STATEMENT
        ):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += len(items[key])
    if batch:
        yield batch

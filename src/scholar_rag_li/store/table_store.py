"""The table under a `Store`: its set-up, and writing to it by COPY."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, cast

import sqlalchemy as sa
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.vector_stores.postgres import PGVectorStore
from sqlalchemy.ext.asyncio import AsyncEngine

from scholar_rag_li.store.connection import (
    ADVISORY_LOCK,
    Database,
    ensure_vector,
    store_errors,
    transact,
)
from scholar_rag_li.store.rows import COPY_COLUMNS, Row, binary_copies, to_rows
from scholar_rag_li.store.tables import check_columns, column_types, create_table

_TEXT = ("character varying", "text")


class TableStore(PGVectorStore):
    """A PGVectorStore that fails loudly at set-up and replaces what it writes again."""

    _owned: Database | None = PrivateAttr(default=None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what PGVectorStore takes; connects to nothing."""
        super().__init__(*args, **kwargs)
        # Finds the rows to replace at any size, and keeps other writers from doubling
        # them.
        sa.Index(f"{self.table_name}_node_id", self._table_class.node_id, unique=True)

    def set_up(self) -> None:
        """Connect, create the table if it is missing and check it, before first use."""
        self._initialize()

    def own(self, database: Database) -> None:
        """Close this database with the store."""
        self._owned = database

    async def close(self) -> None:
        """Close the database if it was opened for this store alone."""
        if self._owned is not None:
            self._owned.close()

    @property
    def _name(self) -> str:
        """The table as SQL names it."""
        preparer = self._engines[0].dialect.identifier_preparer
        return str(preparer.format_table(self._table_class.__table__))

    @property
    def _engines(self) -> tuple[sa.Engine, AsyncEngine]:
        """The engines, made from the connection strings if none were given."""
        if self._engine is None or self._async_engine is None:
            self._connect()
        return cast("tuple[sa.Engine, AsyncEngine]", (self._engine, self._async_engine))

    def _initialize(self) -> None:
        """Connect, create the table if it is missing and check it; fail loudly."""
        if self._is_initialized:
            return
        self._connect()
        engine, name = self._engines[0], self._table_class.__tablename__
        with store_errors(f"opening {self._name}"):
            if not column_types(engine, self.schema_name, name):
                transact(engine, ensure_vector)
                create_table(engine, self._table_class.__table__)
            present = column_types(engine, self.schema_name, name)
        vector = "halfvec" if self.use_halfvec else "vector"
        wanted = {
            "node_id": _TEXT,
            "text": _TEXT,
            "metadata_": ("jsonb",) if self.use_jsonb else ("json",),
            "embedding": (f"{vector}({self.embed_dim})", vector),
        }
        check_columns(self._name, present, wanted)
        self._is_initialized = True

    def _write(self, nodes: Sequence[BaseNode], *, whole_documents: bool) -> list[str]:
        """Check nodes and write them through psycopg2."""
        rows = to_rows(nodes, self.embed_dim, half=self.use_halfvec)
        self._initialize()
        columns = ", ".join(COPY_COLUMNS)
        command = (
            f"COPY {self._name} ({columns}) FROM STDIN (FORMAT binary, ENCODING 'UTF8')"
        )

        def work(connection: sa.Connection) -> None:
            for statement in self._make_room(rows, whole_documents=whole_documents):
                connection.execute(statement)
            cursor: Any = connection.connection.cursor()
            for copy in self._copies(rows):
                cursor.copy_expert(command, copy)

        with store_errors(f"adding {len(rows)} nodes to {self._name}"):
            transact(self._engines[0], work)
        return [node.node_id for node in nodes]

    async def _awrite(
        self, nodes: Sequence[BaseNode], *, whole_documents: bool
    ) -> list[str]:
        """Check nodes and write them through asyncpg."""
        rows = to_rows(nodes, self.embed_dim, half=self.use_halfvec)
        self._initialize()
        with store_errors(f"adding {len(rows)} nodes to {self._name}"):
            async with self._engines[1].begin() as connection:
                for statement in self._make_room(rows, whole_documents=whole_documents):
                    await connection.execute(statement)
                raw = await connection.get_raw_connection()
                driver: Any = raw.driver_connection
                for copy in self._copies(rows):
                    await driver.copy_to_table(
                        self._table_class.__tablename__,
                        schema_name=self.schema_name,
                        columns=COPY_COLUMNS,
                        source=copy,
                        format="binary",
                        encoding="UTF8",
                    )
        return [node.node_id for node in nodes]

    def _copies(self, rows: Sequence[Row]) -> Iterator[BytesIO]:
        """Yield the rows in the form that this table takes."""
        return binary_copies(rows, jsonb=self.use_jsonb, half=self.use_halfvec)

    def _make_room(
        self, rows: Sequence[Row], *, whole_documents: bool
    ) -> Iterator[sa.Executable]:
        """Yield what locks the table for other writers and removes what is replaced."""
        # A table made by PGVectorStore itself has no unique index: two writers would
        # double a node.
        yield sa.select(
            sa.func.pg_advisory_xact_lock(ADVISORY_LOCK, sa.func.hashtext(self._name))
        )
        table = self._table_class
        yield sa.delete(table).where(
            _any_of(table.node_id, [row.node_id for row in rows])
        )
        if whole_documents:
            documents = sorted(
                {row.ref_doc_id for row in rows if row.ref_doc_id is not None}
            )
            yield sa.delete(table).where(
                _any_of(table.metadata_["ref_doc_id"].astext, documents)
            )


def _any_of(column: Any, values: Sequence[str]) -> Any:
    """Return whether a column is one of any number of values, as one bound array."""
    bound = sa.bindparam(None, list(values), sa.ARRAY(sa.Text))
    return column == sa.any_(sa.cast(bound, sa.ARRAY(sa.Text)))

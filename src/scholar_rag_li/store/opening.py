"""`open_store`: a Store on an embedded server or on the user's; the same after that."""

from pathlib import Path
from typing import Any

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.connection import Database, open_database
from scholar_rag_li.store.tables import (
    check_dimension,
    check_identifier,
    column_types,
)
from scholar_rag_li.store.vector_store import Store


def open_store(
    dsn: str | None = None,
    *,
    embed_dim: int,
    table: str = "chunks",
    schema: str = "public",
    directory: Path | None = None,
    database: Database | None = None,
) -> Store:
    """Open a table of chunks in PostgreSQL as a LlamaIndex vector store.

    Args:
        dsn: The user's server, e.g. `postgresql://user:password@host/database`; without
            one (and without `database`) an embedded PostgreSQL is started, or joined if
            it runs.
        embed_dim: Dimensions of the embeddings, 1 to 16000.
        table: One per chunking. Its name in SQL is `data_<table>`, as PGVectorStore
            has it. Created if missing; one that is there is taken as it is.
        schema: Created if missing.
        directory: Where the embedded server lives; by default in the user's data
            directory.
        database: An open database, shared with other stores and closed by whoever
            opened it.

    Returns:
        A store that is connected and whose table was checked. `await store.close()`
        closes a database that was opened here; so does the end of the process.

    Raises:
        StoreError: If a name is not allowed, the database can't be reached, or the
            table has another dimension than was asked for.
    """
    if database is not None and (dsn is not None or directory is not None):
        raise StoreError(
            "a `database` was given and a `dsn` or a `directory` too; pass one"
        )
    check_identifier("table", table)
    check_identifier("schema", schema)
    check_dimension(embed_dim)
    if database is not None:
        return _open(database, schema, table, embed_dim)
    owned = open_database(dsn, directory=directory)
    try:
        store = _open(owned, schema, table, embed_dim)
    except BaseException:
        owned.close()
        raise
    store.own(owned)
    return store


def _open(database: Database, schema: str, table: str, embed_dim: int) -> Store:
    """Open the table with the types that it has, if it is there already."""
    present = column_types(database.engine, schema, f"data_{table}")
    # The addresses show in repr() and to_json(), so they go without the password; the
    # engines are what is used.
    settings: dict[str, Any] = {
        "connection_string": database.url.render_as_string(hide_password=True),
        "async_connection_string": database.async_url.render_as_string(
            hide_password=True
        ),
        "engine": database.engine,
        "async_engine": database.async_engine,
        "table_name": table,
        "schema_name": schema,
        "embed_dim": embed_dim,
        "use_jsonb": present.get("metadata_") != "json",
        "use_halfvec": present.get("embedding", "").startswith("halfvec"),
        "initialization_fail_on_error": True,
    }
    store = Store(**settings)
    store.set_up()
    return store

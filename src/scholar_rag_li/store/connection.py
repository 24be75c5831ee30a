"""A database by its DSN or embedded: a sync and an async engine out of one address."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg
import psycopg2
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store import embedded
from scholar_rag_li.store.urls import async_url, asyncpg_dsn, sync_url

CONNECT_SECONDS = 5  # long enough for a far server, short enough to wait for an error
REVIVE_SECONDS = (
    30  # how long a connection waits for a killed embedded server to be back
)
# One number for all that this package creates; the letters "srag" as an integer.
ADVISORY_LOCK = int.from_bytes(b"srag", "big")

_DRIVER_ERRORS = (
    psycopg2.Error,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    OSError,
)
# After user: in an address, after password= in a connection string or a query.
_PASSWORD = re.compile(
    r"""((?<=://)[^\s:/@]*:)\S+(?=@)|(\bpassword=)(?:'(?:\\.|[^'\\])*'|[^\s&'"]+)"""
)
T = TypeVar("T")


class Database:
    """One PostgreSQL: the user's, or an embedded one. Made by `open_database`.

    Attributes:
        url: Its address for psycopg2; prints without the password.
        async_url: Its address for asyncpg; prints without the password.
        engine: Notices dead connections before it hands them out.
        async_engine: Has no pool, so that every `asyncio.run` may use it.
    """

    def __init__(self, url: sa.URL, *, directory: Path | None = None) -> None:
        """Make the engines; connects to nothing.

        Args:
            url: The psycopg2 URL.
            directory: The embedded server's directory; None for a server of the user's.
        """
        self.url = url
        self.async_url = async_url(url)
        self._directory = directory
        timeout = int(str(url.query.get("connect_timeout", CONNECT_SECONDS)))
        self.engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            hide_parameters=True,  # an error would print every text and vector
            connect_args={"connect_timeout": timeout},
        )
        self.async_engine: AsyncEngine = create_async_engine(
            self.async_url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"timeout": timeout, **asyncpg_dsn(url)},
        )
        if directory is not None:
            for engine in (self.engine, self.async_engine.sync_engine):
                sa.event.listen(engine, "do_connect", _connecting(directory))

    def close(self) -> None:
        """Close all connections; an embedded server stops with its last user."""
        self.engine.dispose()
        if self._directory is not None:
            embedded.release(self._directory)
            self._directory = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Show the address without the password."""
        return f"Database({self.url.render_as_string(hide_password=True)!r})"


def open_database(dsn: str | None = None, *, directory: Path | None = None) -> Database:
    """Open a PostgreSQL with pgvector.

    Args:
        dsn: The user's server (see `sync_url`); None for an embedded one.
        directory: Where the embedded server lives; None for the user's data directory.

    Returns:
        A database that was reached and that has the extension `vector`.

    Raises:
        StoreError: If it can't be reached or has no pgvector, with what to check.
    """
    if dsn is not None and directory is not None:
        raise StoreError(
            "both a `dsn` and a `directory` were given; a directory is for the "
            "embedded server: pass one of the two"
        )
    if dsn is not None:
        database = Database(sync_url(dsn))
    else:
        directory = directory or embedded.default_directory()
        database = Database(sync_url(embedded.acquire(directory)), directory=directory)
    try:
        _reach(database)
        transact(database.engine, ensure_vector)
    except BaseException:
        database.close()
        raise
    return database


def transact(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    """Do work in one transaction; once more from the start if the connection breaks.

    Args:
        engine: Where.
        work: What. A second time must do no harm: the first may have been committed.

    Returns:
        What the work returns, committed.
    """

    def once() -> T:
        with engine.begin() as connection:
            return work(connection)

    return retried(once)


def retried(call: Callable[[], T]) -> T:
    """Call, and call again if the connection broke meanwhile.

    A connection is tried before it is used, but the processes of a killed server may
    answer that and end a moment later.
    """
    try:
        return call()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    except (psycopg2.OperationalError, psycopg2.InterfaceError):
        pass  # from COPY, which speaks to the driver itself
    return call()


@contextmanager
def store_errors(action: str) -> Iterator[None]:
    """Turn the driver's errors into one line that says what was being done.

    >>> with store_errors("reading"):
    ...     raise OSError("gone")
    Traceback (most recent call last):
    scholar_rag_li.errors.StoreError: reading failed: gone
    """
    try:
        yield
    except (SQLAlchemyError, *_DRIVER_ERRORS) as error:
        raise StoreError(f"{action} failed: {_reason(error)}") from error


def lock_setup(connection: sa.Connection) -> None:
    """Be the only one to create anything here until the transaction ends."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))


def _reach(database: Database) -> None:
    """Connect once; say in one line what was tried if that fails."""
    try:
        database.engine.connect().close()
    except (SQLAlchemyError, *_DRIVER_ERRORS) as error:
        url = database.url
        host = url.host or url.query.get("host", "(default)")
        port = url.port or url.query.get("port", 5432)
        raise StoreError(
            f"no connection to PostgreSQL at host {host}, port {port}, "
            f"database {url.database or '(default)'}, "
            f"user {url.username or '(default)'}: {_reason(error)}; "
            "check that the server runs and accepts this user, and the parts of the DSN"
        ) from None  # the driver's error may hold the password


def ensure_vector(connection: sa.Connection) -> None:
    """Create the extension if it is missing, and only then: it may need a superuser."""
    installed = sa.text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
    if connection.execute(installed).first():
        return
    lock_setup(connection)
    try:
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    except DBAPIError as error:
        raise StoreError(
            f"database {connection.engine.url.database} has no extension `vector` and "
            f"it can't be created: {_reason(error)}; install pgvector on the server, "
            "then let a superuser run CREATE EXTENSION vector"
        ) from error


def _connecting(directory: Path) -> Callable[..., Any]:
    """Return a hook for SQLAlchemy that brings a killed embedded server back."""

    def connect(dialect: Any, _record: Any, args: Any, options: dict[str, Any]) -> Any:
        end = time.monotonic() + REVIVE_SECONDS
        while True:
            try:
                return dialect.connect(*args, **options)
            except _DRIVER_ERRORS:
                if time.monotonic() > end:
                    raise
            # Another process may have started it, with its socket elsewhere.
            options["host"] = sync_url(embedded.revive(directory)).query["host"]
            time.sleep(0.1)

    return connect


def _reason(error: BaseException) -> str:
    """Return the driver's message as one line, without a password."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return without_password(" ".join(str(cause).split())) or type(cause).__name__


def without_password(text: str) -> str:
    """Hide a password where an address or libpq's connection string has it.

    Not wherever its letters occur: a short one occurs in any text, and the gaps would
    tell it.

    >>> without_password("at postgresql://ana:e@db/tesis or password='an e' port=1")
    'at postgresql://ana:***@db/tesis or password=*** port=1'
    """
    return _PASSWORD.sub(r"\1\2***", text)

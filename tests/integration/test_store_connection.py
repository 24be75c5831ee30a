"""A server by its DSN and an embedded one behave alike; what is missing is said."""

import asyncio
import threading

import pytest
import sqlalchemy as sa

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store import ContentTable, open_database

pytestmark = pytest.mark.integration


def _dsn(database, /, **changes):
    """The embedded server's address as a user would write it."""
    url = database.url.set(drivername="postgresql", **changes)
    return url.render_as_string(hide_password=False)


@pytest.fixture
def bare(database):
    """A new database without pgvector, and a role without rights; both are dropped."""
    engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE ROLE reader LOGIN"))
        connection.execute(sa.text("CREATE DATABASE bare"))
        yield {"username": "reader", "database": "bare"}
        connection.execute(sa.text("DROP DATABASE bare WITH (FORCE)"))
        connection.execute(sa.text("DROP ROLE reader"))


def test_a_dsn_opens_the_same_server(database):
    """What one writes the other reads."""
    table = ContentTable(database, "shared")
    table.put_many("k", {b"\0" * 32: b"v"})
    with open_database(_dsn(database)) as other:
        assert ContentTable(other, "shared").get_many("k", [b"\0" * 32]) == {
            b"\0" * 32: b"v"
        }


@pytest.mark.parametrize("options", ["&sslmode=prefer", "&application_name=tesis"])
def test_libpqs_options_reach_the_async_engine(database, options):
    """Asyncpg connects with a DSN that was written for libpq."""

    async def one(opened):
        async with opened.async_engine.connect() as connection:
            return (await connection.execute(sa.text("SELECT 1"))).scalar()

    with open_database(_dsn(database) + options) as opened:
        assert asyncio.run(one(opened)) == 1


def test_two_event_loops_use_one_database(database):
    """A second `asyncio.run` finds no connection of the first."""

    async def one():
        async with database.async_engine.connect() as connection:
            return (await connection.execute(sa.text("SELECT 1"))).scalar()

    assert asyncio.run(one()) + asyncio.run(one()) == 1 + 1


def test_a_connection_that_was_cut_is_replaced(database):
    """The server ends all connections; the next use notices before it fails."""
    with open_database(_dsn(database)) as other:
        with database.engine.connect() as connection:
            connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
            )
        with other.engine.connect() as connection:
            assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_an_unknown_database_is_named(database):
    """The text says which one was asked for."""
    with pytest.raises(StoreError, match="database no_such, user postgres"):
        open_database(_dsn(database, database="no_such"))


def test_a_role_that_may_not_create_pgvector_is_told_so(database, bare):
    """The extension is missing and a superuser is needed."""
    with pytest.raises(StoreError, match="no extension `vector`"):
        open_database(_dsn(database, **bare))


def test_no_right_is_needed_when_pgvector_is_there(database, bare):
    """A role without rights opens what a superuser has prepared."""
    open_database(_dsn(database, database="bare")).close()
    with open_database(_dsn(database, **bare)) as opened:
        assert opened.url.username == "reader"


def test_eight_threads_create_the_extension_once(database, bare):
    """A first use at the same time is one first use."""
    errors = []

    def opening():
        try:
            open_database(_dsn(database, database=bare["database"])).close()
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=opening) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_dsn_and_directory_exclude_each_other(tmp_path):
    """A directory is the embedded server's."""
    with pytest.raises(StoreError, match="pass one of the two"):
        open_database("postgresql://db/tesis", directory=tmp_path)

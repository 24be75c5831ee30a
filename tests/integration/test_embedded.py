"""The embedded server starts anywhere, is shared, and ends with its users."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psycopg2
import pytest
import sqlalchemy as sa
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store import embedded, open_database, open_store
from scholar_rag_li.store._server_files import (
    is_alive,
    postgres_processes,
    read_pid_file,
)
from scholar_rag_li.store.urls import sync_url

pytestmark = pytest.mark.integration

CLIENT = """
import sys
from pathlib import Path
from scholar_rag_li.store import open_database
database = open_database(directory=Path(sys.argv[1]))
print("open", flush=True)
input()
"""


@pytest.fixture(scope="module")
def cluster():
    """A directory whose cluster is made, which is what takes time; stopped."""
    with tempfile.TemporaryDirectory(prefix="srl-") as name:
        directory = Path(name).resolve()
        embedded.acquire(directory)
        embedded.release(directory)
        yield directory


@pytest.fixture
def made(cluster):
    """The same, stopped again after each test, also after one that failed."""
    yield cluster
    while embedded._uses[cluster]:
        embedded.release(cluster)


@pytest.fixture
def client():
    """Start another process that opens the directory and holds it until told to end."""
    started = []

    def start(directory):
        process = subprocess.Popen(  # noqa: S603  # our own interpreter
            [sys.executable, "-c", CLIENT, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "open\n"
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def _one(dsn):
    """Ask the server of a DSN for 1."""
    connection = psycopg2.connect(
        sync_url(dsn).set(drivername="postgresql").render_as_string()
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone()[0]
    finally:
        connection.close()


def _server(directory):
    """Return the process id of the directory's server."""
    return read_pid_file(directory / "data")[0]


@pytest.mark.parametrize("name", ["a b, c/d'e$f", "x" * 120], ids=["unusual", "long"])
def test_a_server_starts_in_an_unusual_or_long_path(home, name):
    """Spaces, commas, quotes and 120 characters are fine, parents are made."""
    directory = home / name / "postgres"
    assert _one(embedded.acquire(directory)) == 1
    embedded.release(directory)


def test_the_server_stops_with_its_last_user(made):
    """Two acquired, two released: no process of it is left."""
    for _ in range(2):
        embedded.acquire(made)
    for _ in range(2):
        embedded.release(made)
    assert postgres_processes(made / "data") == set()


def test_the_server_stays_for_the_other_user(made):
    """One of two released: the other one is served."""
    dsn = embedded.acquire(made)
    embedded.acquire(made)
    embedded.release(made)
    assert _one(dsn) == 1
    embedded.release(made)


def test_a_file_is_no_directory(home):
    """The error names it."""
    (home / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        embedded.acquire(home / "file")


def test_other_data_is_left_alone(home):
    """A `data` directory that is no cluster is not touched."""
    (home / "data").mkdir()
    (home / "data" / "thesis.txt").write_text("x")
    with pytest.raises(StoreError, match="not a PostgreSQL cluster"):
        embedded.acquire(home)


def test_a_cluster_that_was_half_made_is_made_anew(home):
    """A kill during initdb leaves `data.new` only."""
    (home / "data.new").mkdir()
    (home / "data.new" / "PG_VERSION").write_text("18\n")
    assert _one(embedded.acquire(home)) == 1
    embedded.release(home)


def test_a_program_with_a_stale_number_is_not_killed(made):
    """The number in an old pid file now belongs to someone else, who lives on."""
    embedded.acquire(made)
    lines = (made / "data" / "postmaster.pid").read_text().splitlines()
    embedded.release(made)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as other:
        lines[0] = str(other.pid)
        (made / "data" / "postmaster.pid").write_text("\n".join(lines) + "\n")
        embedded.acquire(made)
        embedded.release(made)
        assert is_alive(other.pid)


def test_a_truncated_pid_file_is_no_obstacle(made):
    """A pid file of one line is thrown away."""
    embedded.acquire(made)
    embedded.release(made)
    (made / "data" / "postmaster.pid").write_text("12\n")
    assert _one(embedded.acquire(made)) == 1
    embedded.release(made)


def test_eight_threads_start_one_server(made):
    """All get the same DSN."""
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(embedded.acquire(made)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)
    for _ in range(8):
        embedded.release(made)


def test_rows_survive_a_killed_server(made):
    """After kill -9 the same store starts it again and finds what was committed."""
    node = TextNode(id_="d#0", text="becas", embedding=[1.0, 2.0])
    with open_database(directory=made) as database:
        store = open_store(database=database, embed_dim=2)
        store.add([node])
        os.kill(_server(made), signal.SIGKILL)
        asked = VectorStoreQuery(query_embedding=[1.0, 2.0], similarity_top_k=1)
        assert store.query(asked).ids == ["d#0"]


def test_nodes_are_added_to_a_killed_server(made):
    """COPY goes on as well: the row of before and the one of after are there."""
    nodes = [TextNode(id_=f"d#{at}", text="a", embedding=[1.0]) for at in range(2)]
    with open_database(directory=made) as database:
        store = open_store(database=database, table="copied", embed_dim=1)
        store.add(nodes[:1])
        os.kill(_server(made), signal.SIGKILL)
        store.add(nodes[1:])
        assert store.count() == 2


async def test_the_async_engine_survives_a_killed_server(made):
    """The async side starts it again as well."""
    with open_database(directory=made) as database:
        os.kill(_server(made), signal.SIGKILL)
        async with database.async_engine.connect() as connection:
            assert (await connection.execute(sa.text("SELECT 1"))).scalar() == 1


def test_a_process_joins_the_server_of_another(made, client):
    """Both speak to one process."""
    client(made)
    first = _server(made)
    with open_database(directory=made):
        assert _server(made) == first


def test_the_server_outlives_the_process_that_started_it(made, client):
    """The starter ends, we go on."""
    starter = client(made)
    with open_database(directory=made) as database:
        starter.communicate("\n", timeout=60)
        with database.engine.connect() as connection:
            assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_the_end_of_the_last_process_stops_the_server(made, client):
    """No explicit close is needed."""
    client(made).communicate("\n", timeout=60)
    assert postgres_processes(made / "data") == set()


def test_a_killed_client_does_not_keep_the_server(made, client):
    """Its handle is pruned, so that we are the last."""
    killed = client(made)
    embedded.acquire(made)
    killed.kill()
    killed.wait()
    embedded.release(made)
    assert postgres_processes(made / "data") == set()

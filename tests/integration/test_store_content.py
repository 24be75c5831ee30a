"""The content table keeps what was written first, and keeps it."""

import hashlib
import os
import signal
import threading

import pytest
import sqlalchemy as sa

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store import ContentTable, open_database
from scholar_rag_li.store._server_files import read_pid_file

pytestmark = pytest.mark.integration


def _key(name):
    return hashlib.sha256(str(name).encode()).digest()


@pytest.fixture
def content(database, table):
    """A new content table."""
    return ContentTable(database, table)


def test_what_was_put_is_found(content):
    """Any bytes come back as they were, also none and NUL."""
    items = {_key(1): b"", _key(2): bytes(range(256))}
    content.put_many("k", items)
    assert content.get_many("k", list(items)) == items


def test_a_key_that_is_not_there_is_left_out(content):
    """One of two."""
    content.put_many("k", {_key(1): b"a"})
    assert content.get_many("k", [_key(2), _key(1)]) == {_key(1): b"a"}


def test_kinds_do_not_meet(content):
    """The same key in two kinds is two things."""
    content.put_many("a", {_key(1): b"a"})
    assert content.get_many("b", [_key(1)]) == {}


def test_the_first_writer_wins(content):
    """A second value for a key is dropped."""
    content.put_many("k", {_key(1): b"first"})
    content.put_many("k", {_key(1): b"second"})
    assert content.get_many("k", [_key(1)]) == {_key(1): b"first"}


def test_more_than_one_statement_and_query_hold(content):
    """6001 rows take 7 statements of 1000 and 2 queries of 5000."""
    items = {_key(at): str(at).encode() for at in range(6001)}
    content.put_many("k", items)
    assert content.get_many("k", list(items)) == items


def test_large_values_are_split_over_statements(content):
    """3 values of 9 MB are more than the 16 MB of a statement."""
    items = {_key(at): bytes(9_000_000) for at in range(3)}
    content.put_many("k", items)
    assert content.count("k") == 3


def test_nothing_asked_is_nothing_found(content):
    """No key and no item are fine."""
    content.put_many("k", {})
    assert content.get_many("k", []) == {}


def test_a_key_that_is_no_digest_is_refused(content):
    """32 bytes, always."""
    with pytest.raises(StoreError, match="3"):
        content.put_many("k", {b"abc": b""})


def test_what_was_deleted_is_gone(content):
    """One of two keys; another may be written in its place."""
    content.put_many("k", {_key(1): b"a", _key(2): b"b"})
    content.delete("k", [_key(1)])
    content.put_many("k", {_key(1): b"anew"})
    assert content.get_many("k", [_key(1), _key(2)]) == {
        _key(1): b"anew",
        _key(2): b"b",
    }


def test_the_deleted_are_counted(content):
    """Those that were there, of that kind: 5001 of 5002 keys in 2 statements."""
    content.put_many("k", {_key(at): b"" for at in range(5001)})
    content.put_many("other", {_key(5001): b""})
    assert content.delete("k", [_key(at) for at in range(5002)]) == 5001


def test_opening_twice_finds_the_rows(database, table):
    """A second object is the same table."""
    ContentTable(database, table).put_many("k", {_key(1): b"a"})
    assert ContentTable(database, table).count("k") == 1


def test_another_table_of_that_name_is_refused(database, table):
    """The error says what is missing."""
    with database.engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE {table} (kind text)"))
    with pytest.raises(StoreError, match="key is missing"):
        ContentTable(database, table)


def test_writers_of_the_same_keys_do_not_deadlock(content):
    """4 writers in opposite orders: all end, each key is there once."""
    items = [(_key(at), b"v") for at in range(2000)]
    writers = [
        threading.Thread(target=content.put_many, args=("k", dict(order)))
        for order in (items, items[::-1], items, items[::-1])
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert content.count("k") == 2000


def test_a_killed_server_loses_nothing(home):
    """What was committed before kill -9 is read after it, by the same object."""
    with open_database(directory=home) as database:
        content = ContentTable(database)
        content.put_many("k", {_key(1): b"a"})
        os.kill(read_pid_file(home / "data")[0], signal.SIGKILL)
        assert content.get_many("k", [_key(1)]) == {_key(1): b"a"}

"""Fixtures for all tests: one PostgreSQL a session, a table name for each test."""

import itertools
import tempfile
from pathlib import Path

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def database():
    """An open database on an embedded server that lives as long as the session.

    Not below pytest's own temporary directory: every session that starts closes that to
    all other users, and as root the server runs as one of them.
    """
    from scholar_rag_li.store import open_database  # noqa: PLC0415  # only if asked for

    with (
        tempfile.TemporaryDirectory(prefix="srl-") as directory,
        open_database(directory=Path(directory) / "postgres") as opened,
    ):
        yield opened


@pytest.fixture
def home():
    """A new directory with a short name, open to the user that PostgreSQL runs as."""
    with tempfile.TemporaryDirectory(prefix="srl-") as directory:
        yield Path(directory).resolve()


@pytest.fixture
def table():
    """A table name that no other test uses."""
    return f"t{next(_numbers)}"

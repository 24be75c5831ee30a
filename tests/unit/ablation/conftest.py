"""A table in memory in place of PostgreSQL, and a cache over it."""

import pytest

from scholar_rag_li.ablation.cache import Cache


class MemoryTable:
    """Offers what a cache asks of a `ContentTable`, and keeps it in a dictionary."""

    def __init__(self):
        self.values = {}

    def get_many(self, kind, keys):
        return {k: self.values[kind, k] for k in keys if (kind, k) in self.values}

    def put_many(self, kind, items):
        for key, value in items.items():
            self.values.setdefault((kind, key), value)

    def delete(self, kind, keys):
        return sum(self.values.pop((kind, key), None) is not None for key in keys)


@pytest.fixture
def memory():
    """An empty table."""
    return MemoryTable()


@pytest.fixture
def cache(memory):
    """A cache that has nothing yet."""
    return Cache(memory)

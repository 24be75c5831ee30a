"""Nodes and cached results in PostgreSQL; the only part that knows PostgreSQL."""

from scholar_rag_li.store.connection import Database, open_database
from scholar_rag_li.store.content_table import ContentTable
from scholar_rag_li.store.opening import open_store
from scholar_rag_li.store.vector_store import Store

__all__ = ["ContentTable", "Database", "Store", "open_database", "open_store"]

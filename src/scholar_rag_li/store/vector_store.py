"""`Store`: LlamaIndex's PGVectorStore that replaces, checks and fails loudly."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.connection import retried, store_errors, transact
from scholar_rag_li.store.filters import is_empty, where
from scholar_rag_li.store.rows import check_ref_doc_id, check_vector
from scholar_rag_li.store.table_store import TableStore

_MODES = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)


class Store(TableStore):
    """A PGVectorStore over one table; made by `open_store`.

    What differs from its base: adding a node again replaces it; everything is checked
        before anything is written; filters can't inject SQL; a failed set-up is an
        error; results of equal similarity stand in the order of their node ids. The
        similarity is the cosine, over all rows (exact). Each method has its async form.
    """

    def add(self, nodes: Sequence[BaseNode], **_add_kwargs: Any) -> list[str]:
        """Write nodes in one transaction; a node whose id is there already is replaced.

        Args:
            nodes: With embeddings.

        Returns:
            Their ids, in the order given.

        Raises:
            StoreError: If a node can't be stored; it names each, and nothing is
                written.
        """
        return self._write(nodes, whole_documents=False)

    def replace(self, nodes: Sequence[BaseNode]) -> list[str]:
        """Write nodes in place of all that the table holds of their documents.

        One transaction: a reader sees the old chunks or the new ones. Chunks that the
            documents no longer have vanish. Otherwise as `add`.
        """
        return self._write(nodes, whole_documents=True)

    async def async_add(self, nodes: Sequence[BaseNode], **_kwargs: Any) -> list[str]:
        """Do as `add`."""
        return await self._awrite(nodes, whole_documents=False)

    async def areplace(self, nodes: Sequence[BaseNode]) -> list[str]:
        """Do as `replace`."""
        return await self._awrite(nodes, whole_documents=True)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the query's embedding.

        Returns:
            Nodes, ids and cosine similarities, the greatest first; ties by node id.

        Raises:
            StoreError: If the embedding, the mode or a filter can't be used.
        """
        self._check_query(query)
        with store_errors(f"querying {self._name}"):
            return _plain(retried(partial(super().query, query, **kwargs)))

    async def aquery(
        self, query: VectorStoreQuery, **kwargs: Any
    ) -> VectorStoreQueryResult:
        """Do as `query`."""
        self._check_query(query)
        with store_errors(f"querying {self._name}"):
            return _plain(await super().aquery(query, **kwargs))

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove all nodes of a document; '' and 'None' are refused."""
        check_ref_doc_id(ref_doc_id)
        with store_errors(f"deleting from {self._name}"):
            retried(partial(super().delete, ref_doc_id, **delete_kwargs))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Do as `delete`."""
        check_ref_doc_id(ref_doc_id)
        with store_errors(f"deleting from {self._name}"):
            await super().adelete(ref_doc_id, **delete_kwargs)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Remove nodes by id and filters, both if both are given; no ids, no node.

        Raises:
            StoreError: If the filters hold no condition: that would remove every node.
        """
        if _asks_for_some(node_ids, filters):
            with store_errors(f"deleting from {self._name}"):
                delete = partial(super().delete_nodes, node_ids, filters)
                retried(partial(delete, **delete_kwargs))

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Do as `delete_nodes`."""
        if _asks_for_some(node_ids, filters):
            with store_errors(f"deleting from {self._name}"):
                await super().adelete_nodes(node_ids, filters, **delete_kwargs)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes with their embeddings, by id and filters; no ids, no node.

        Returns:
            In the order of `node_ids`; without ids, in the order of `nodes`.
        """
        if not _asks_for_some(node_ids, filters):
            return []
        with store_errors(f"reading {self._name}"):
            found = retried(partial(super().get_nodes, node_ids, filters))
            return _sorted(found, node_ids)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Do as `get_nodes`."""
        if not _asks_for_some(node_ids, filters):
            return []
        with store_errors(f"reading {self._name}"):
            return _sorted(await super().aget_nodes(node_ids, filters), node_ids)

    def nodes(self) -> list[BaseNode]:
        """Return all nodes, without embeddings.

        Returns:
            In the order of their documents' ids, then of their ordinals
            (`<doc_id>#<ordinal>`), then of their own ids.
        """
        self._initialize()
        columns = self._table_class.__table__.c
        query = sa.select(columns.metadata_, columns.text)
        with store_errors(f"reading {self._name}"):
            rows = transact(self._engines[0], lambda c: c.execute(query).all())
        return _sorted(
            [metadata_dict_to_node(meta, text=text) for meta, text in rows], None
        )

    def count(self) -> int:
        """Return the number of nodes."""
        self._initialize()
        query = sa.select(sa.func.count()).select_from(self._table_class)
        with store_errors(f"counting {self._name}"):
            return transact(
                self._engines[0], lambda c: int(c.execute(query).scalar_one())
            )

    def _check_query(self, query: VectorStoreQuery) -> None:
        """Refuse what has no answer, before the database is asked."""
        if query.mode not in _MODES:
            raise StoreError(
                f"the query mode {query.mode.value!r} is not supported; use one of "
                f"{', '.join(mode.value for mode in _MODES)}, and fuse rankings for "
                "hybrid search"
            )
        if query.query_embedding is None:
            raise StoreError("the query has no embedding; embed the question first")
        if query.similarity_top_k < 1:
            raise StoreError(
                f"similarity_top_k is {query.similarity_top_k}; ask for 1 or more"
            )
        try:
            check_vector(query.query_embedding, self.embed_dim, half=self.use_halfvec)
        except StoreError as error:
            raise StoreError(f"the query can't be answered: {error}") from None

    def _build_query(self, *args: Any, **kwargs: Any) -> Any:
        return super()._build_query(*args, **kwargs).order_by(self._by_id())

    def _build_query_with_embedding(self, *args: Any, **kwargs: Any) -> Any:
        return (
            super()._build_query_with_embedding(*args, **kwargs).order_by(self._by_id())
        )

    def _by_id(self) -> sa.ColumnElement[str]:
        """The order among equal similarities: by code point, on every server alike."""
        return sa.collate(self._table_class.node_id, "C")

    def _recursively_apply_filters(self, filters: Any) -> Any:
        return where(self._table_class.metadata_, filters)


def _plain(result: VectorStoreQueryResult) -> VectorStoreQueryResult:
    """Return a result whose similarities are Python's floats, not numpy's."""
    result.similarities = [float(value) for value in result.similarities or []]
    return result


def _asks_for_some(node_ids: list[str] | None, filters: MetadataFilters | None) -> bool:
    """Say whether ids and filters can mean a node; refuse "no condition" for "all"."""
    if node_ids is None and (filters is None or is_empty(filters)):
        raise StoreError(
            "neither node ids nor a filter were given; name some, or use nodes() or "
            "clear() for the whole table"
        )
    return node_ids is None or bool(node_ids)


def _sorted(
    nodes: Sequence[BaseNode], node_ids: Sequence[str] | None
) -> list[BaseNode]:
    """Return nodes in the order of the ids asked for, or else of their documents."""
    for node in nodes:
        if node.embedding is not None:  # numpy's, as the driver returns it
            node.embedding = [float(value) for value in node.embedding]
    if node_ids is not None:
        place = {node_id: at for at, node_id in reversed(list(enumerate(node_ids)))}
        return sorted(nodes, key=lambda node: place[node.node_id])
    return sorted(nodes, key=_document_order)


def _document_order(node: BaseNode) -> tuple[str, int, str]:
    """Return document id, ordinal (-1 without one) and id of a node."""
    ordinal = re.fullmatch(r".*#(\d+)", node.node_id, re.DOTALL)
    return node.ref_doc_id or "", int(ordinal[1]) if ordinal else -1, node.node_id

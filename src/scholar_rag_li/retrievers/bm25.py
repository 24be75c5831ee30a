"""BM25 in the corpus's own language, by bm25s."""

import asyncio
import json
from collections.abc import Sequence
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import bm25s
import numpy as np
import Stemmer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
)
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.core.vector_stores.utils import (
    metadata_dict_to_node,
    node_to_metadata_dict,
)
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.retrievers.bm25.base import DEFAULT_PERSIST_FILENAME

from scholar_rag_li.errors import ConfigError
from scholar_rag_li.language import Analyzer, language

# bm25s's defaults (Lù, 2024, arXiv:2407.03618): Lucene's variant with its idf.
VARIANT = "lucene"
K1 = 1.5
B = 0.75


class LanguageBM25Retriever(BM25Retriever):
    """`BM25Retriever` whose one setting `language` rules both sides of the search.

    Chunks and questions go through the same `Analyzer`: stemmer, stop words, codes kept
    whole ("AX-7/8") beside their parts. Indexed is the text that an embedder reads.

    Args:
        nodes: Chunks to index; may be empty. They are copied, never changed.
        language: ISO 639-1 code or English name.
        existing_bm25: An index that this class has built, with the nodes as its corpus;
            in place of `nodes`.
        similarity_top_k: Results wanted, at least 1; fewer come when fewer match.
        callback_manager, objects, object_map, verbose: As in LlamaIndex's retrievers.
        filters: Metadata filters; applied once, here.
        corpus_weight_mask: 1 or 0 for each node, in order: whether it may be returned.

    Raises:
        ConfigError: `similarity_top_k` below 1, or neither nodes nor an index.
        UnknownComponentError: A language without a stemmer.
        ValueError: The filters leave no node (the parent's own).

    >>> from llama_index.core.schema import TextNode
    >>> nodes = [TextNode(id_="a", text="Las elecciones"), TextNode(text="El agua")]
    >>> retriever = LanguageBM25Retriever(nodes, language="es")
    >>> [hit.node_id for hit in retriever.retrieve("¿Cuándo es la elección?")]
    ['a']
    """

    def __init__(  # noqa: PLR0913  the parent's arguments
        self,
        nodes: Sequence[BaseNode] | None = None,
        language: str = "es",
        *,
        existing_bm25: bm25s.BM25 | None = None,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        callback_manager: CallbackManager | None = None,
        objects: list[IndexNode] | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
        filters: MetadataFilters | None = None,
        corpus_weight_mask: list[int] | None = None,
    ) -> None:
        """Index the nodes."""
        if similarity_top_k < 1:
            raise ConfigError(
                f"similarity_top_k is {similarity_top_k}; give a whole number from 1."
            )
        self.analyzer = _analyzer(language)
        if existing_bm25 is not None:
            nodes = [metadata_dict_to_node(entry) for entry in existing_bm25.corpus]
        elif nodes is None:
            raise ConfigError("Give nodes, or an index that this class has built.")
        self._nodes = [_copy(node) for node in nodes]
        index = existing_bm25 or _index(self._nodes, self.analyzer)
        super().__init__(
            existing_bm25=index,
            stemmer=Stemmer.Stemmer(self.analyzer.language.stemmer),
            language=self.analyzer.language.code,
            # The parent would lower the user's k to the size of the corpus, for good.
            similarity_top_k=min(similarity_top_k, index.scores["num_docs"]),
            callback_manager=callback_manager,
            objects=objects,
            object_map=object_map,
            verbose=verbose,
            filters=filters,
            corpus_weight_mask=corpus_weight_mask,
        )
        self.similarity_top_k = similarity_top_k

    @classmethod
    def from_defaults(  # type: ignore[override]  # noqa: PLR0913  stemmer: by language
        cls,
        index: VectorStoreIndex | None = None,
        nodes: Sequence[BaseNode] | None = None,
        docstore: BaseDocumentStore | None = None,
        language: str = "es",
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        *,
        verbose: bool = False,
        filters: MetadataFilters | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> Self:
        """Index the nodes of exactly one of an index, a list, or a docstore.

        Raises:
            ConfigError: None or several are given; the index keeps its text in the
                vector store, so that its docstore has no nodes.
        """
        if sum(given is not None for given in (index, nodes, docstore)) != 1:
            raise ConfigError("Give exactly one of index, nodes or docstore.")
        if index is not None:
            docstore = index.docstore
            if not docstore.docs and index.vector_store.stores_text:
                raise ConfigError(
                    "The index keeps its text in the vector store and its docstore is "
                    "empty; give the nodes themselves: nodes=[...]."
                )
        if docstore is not None:
            nodes = list(docstore.docs.values())
        return cls(
            nodes,
            language,
            similarity_top_k=similarity_top_k,
            verbose=verbose,
            filters=filters,
            callback_manager=callback_manager,
        )

    @property
    def fingerprint(self) -> str:
        """Everything but the nodes that a score depends on."""
        bm25 = f"{VARIANT}-k1={K1}-b={B}-bm25s{version('bm25s')}"
        return f"{self.analyzer.fingerprint}-{bm25}"

    def get_persist_args(self) -> dict[str, Any]:
        """Return what is written beside the index; the language among it."""
        return {
            **super().get_persist_args(),
            "language": self.analyzer.language.code,
            "fingerprint": self.fingerprint,
        }

    def persist(self, path: str, encoding: str = "utf-8", **kwargs: Any) -> None:
        """Write index, nodes and settings into a directory."""
        kwargs = {"show_progress": False, "raise_on_serialization_error": True} | kwargs
        super().persist(path, encoding, **kwargs)

    @classmethod
    def from_persist_dir(
        cls, path: str, encoding: str = "utf-8", **kwargs: Any
    ) -> Self:
        """Read what `persist` wrote; index the nodes again if the tokens have changed.

        Raises:
            ConfigError: The directory was written by another class.
        """
        settings = json.loads(
            (Path(path) / DEFAULT_PERSIST_FILENAME).read_text(encoding=encoding)
        )
        if "fingerprint" not in settings:
            raise ConfigError(
                f"{path} was not written by {cls.__name__}: it names no language. "
                "Build the retriever from the nodes and persist it again."
            )
        fingerprint = settings.pop("fingerprint")
        bm25 = bm25s.BM25.load(
            path, load_corpus=True, **{"show_progress": False} | kwargs
        )
        retriever = cls(existing_bm25=bm25, **settings)
        if retriever.fingerprint != fingerprint:
            retriever.bm25 = _index(retriever._nodes, retriever.analyzer)
        return retriever

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the nodes that share a token with the question.

        At most `similarity_top_k`, by falling score and then by node id; scores are
        BM25's, above 0.
        """
        tokens = self.analyzer(query_bundle.query_str)
        if not tokens or not self._nodes:
            return []
        mask = np.array(self.corpus_weight_mask) if self.corpus_weight_mask else None
        scores = self.bm25.get_scores(tokens, weight_mask=mask)
        # The last score that counts; nothing below it needs to be sorted.
        found, k = scores[scores > 0], self.similarity_top_k
        least = np.partition(found, -k)[-k] if k < len(found) else 0.0
        order = sorted(
            np.flatnonzero((scores > 0) & (scores >= least)).tolist(),
            key=lambda i: (-scores[i], self._nodes[i].node_id),
        )
        return [
            NodeWithScore(node=_copy(self._nodes[i]), score=float(scores[i]))
            for i in order[:k]
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Do the same in a thread, so that the event loop stays free."""
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _analyzer(code: str) -> Analyzer:
    # Where an argument is called `language`, the function can't be.
    return Analyzer(language(code))


def _index(nodes: Sequence[BaseNode], analyzer: Analyzer) -> bm25s.BM25:
    """Index the tokens; the corpus is the nodes, written as the parent writes them."""
    tokens = [analyzer(node.get_content(MetadataMode.EMBED)) for node in nodes]
    if not any(tokens):
        # bm25s can't build on no tokens at all; the analyzer never gives an empty one.
        tokens = [[""]] * max(len(nodes), 1)
    bm25 = bm25s.BM25(k1=K1, b=B, method=VARIANT)
    bm25.index(tokens, show_progress=False)
    bm25.corpus = [
        node_to_metadata_dict(node) | {"node_id": node.node_id} for node in nodes
    ]
    return bm25


def _copy(node: BaseNode) -> BaseNode:
    """Copy a node so that no change to it reaches the original; without its embedding.

    Not a deep copy: the object behind an `IndexNode` may be a whole query engine.
    """
    return node.model_copy(
        update={
            "embedding": None,
            "metadata": deepcopy(node.metadata),
            "relationships": dict(node.relationships),
            "excluded_embed_metadata_keys": list(node.excluded_embed_metadata_keys),
            "excluded_llm_metadata_keys": list(node.excluded_llm_metadata_keys),
        }
    )

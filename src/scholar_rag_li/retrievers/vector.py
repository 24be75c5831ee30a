"""The vector leg: LlamaIndex's own VectorIndexRetriever over a store."""

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.vector_stores.types import BasePydanticVectorStore


def vector_retriever(
    store: BasePydanticVectorStore,
    embed_model: BaseEmbedding,
    *,
    similarity_top_k: int = 5,
) -> VectorIndexRetriever:
    """Retrieve the nodes of a store that are nearest to the question.

    Args:
        store: holds the nodes and their vectors, as `open_store` gives it.
        embed_model: embeds the question; the same model that embedded the nodes.
        similarity_top_k: how many nodes are returned at most.

    Returns:
        A retriever whose scores are cosine similarities.
    """
    index = VectorStoreIndex.from_vector_store(store, embed_model=embed_model)
    return VectorIndexRetriever(
        index, similarity_top_k=similarity_top_k, embed_model=embed_model
    )

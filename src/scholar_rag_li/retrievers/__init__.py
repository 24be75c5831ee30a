"""Retrievers: one leg each, and their fusion; all of them LlamaIndex retrievers."""

from scholar_rag_li.retrievers.bm25 import LanguageBM25Retriever
from scholar_rag_li.retrievers.hybrid import PROVENANCE, HybridRetriever
from scholar_rag_li.retrievers.vector import vector_retriever

__all__ = ["PROVENANCE", "HybridRetriever", "LanguageBM25Retriever", "vector_retriever"]

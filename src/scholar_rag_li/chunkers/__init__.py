"""Chunkers: LlamaIndex NodeParsers whose chunks are exact spans of their document."""

from scholar_rag_li.chunkers.fixed import FixedChunker
from scholar_rag_li.chunkers.sentence import SentenceChunker
from scholar_rag_li.chunkers.spans import SpanParser

__all__ = ["FixedChunker", "SentenceChunker", "SpanParser"]

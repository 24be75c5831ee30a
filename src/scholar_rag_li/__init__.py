"""LlamaIndex retrieval parts, and an ablation that puts a number behind their settings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scholar_rag_li.ablation import Ablation as Ablation
    from scholar_rag_li.ablation import AblationResult as AblationResult
    from scholar_rag_li.ablation import System as System
    from scholar_rag_li.chunkers import FixedChunker as FixedChunker
    from scholar_rag_li.chunkers import SentenceChunker as SentenceChunker
    from scholar_rag_li.corpus import Corpus as Corpus
    from scholar_rag_li.corpus import Gold as Gold
    from scholar_rag_li.corpus import Question as Question
    from scholar_rag_li.corpus import load_corpus as load_corpus
    from scholar_rag_li.evaluators import evaluate as evaluate
    from scholar_rag_li.fusion import rrf as rrf
    from scholar_rag_li.fusion import rrf_scores as rrf_scores
    from scholar_rag_li.judging import Evidence as Evidence
    from scholar_rag_li.rerank import CrossEncoderRerank as CrossEncoderRerank
    from scholar_rag_li.retrievers import HybridRetriever as HybridRetriever
    from scholar_rag_li.retrievers import LanguageBM25Retriever as LanguageBM25Retriever
    from scholar_rag_li.retrievers import vector_retriever as vector_retriever
    from scholar_rag_li.store import open_store as open_store

_HOMES = {
    "Ablation": "ablation",
    "AblationResult": "ablation",
    "Corpus": "corpus",
    "CrossEncoderRerank": "rerank",
    "Evidence": "judging",
    "FixedChunker": "chunkers",
    "Gold": "corpus",
    "HybridRetriever": "retrievers",
    "LanguageBM25Retriever": "retrievers",
    "Question": "corpus",
    "SentenceChunker": "chunkers",
    "System": "ablation",
    "evaluate": "evaluators",
    "load_corpus": "corpus",
    "open_store": "store",
    "rrf": "fusion",
    "rrf_scores": "fusion",
    "vector_retriever": "retrievers",
}
"""Public name -> module. Read at first use: LlamaIndex alone takes seconds to import."""

__all__ = sorted(_HOMES)  # noqa: PLE0605  # one list of names is enough


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__

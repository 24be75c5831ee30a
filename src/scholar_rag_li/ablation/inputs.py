"""What a run is made of, and which groups its questions form."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor

from scholar_rag_li.ablation.components import Chunking, Hybrid, Leg
from scholar_rag_li.ablation.config import Settings
from scholar_rag_li.ablation.models import EmbeddingSource
from scholar_rag_li.ablation.plan import Plan
from scholar_rag_li.corpus import Question
from scholar_rag_li.results import QuestionInfo
from scholar_rag_li.stats import evidence_groups

DOCUMENT_UNIT_FROM = 20  # documents; fewer can't stand for others like them


@dataclass(frozen=True)
class Inputs:
    """Everything that was checked before the run.

    Args:
        questions: the judged questions.
        unjudged: ids of the questions without evidence.
        chunk: makes the chunking of a level.
        legs: levels of the factor retriever.
        rerankers: levels of the factor reranker.
        embedding: the bi-encoder.
        plan: which systems.
        settings: how they are judged, tested and timed.
        language: of the corpus.
        corpus: how many documents, and digests of documents and gold.
    """

    questions: Sequence[Question]
    unjudged: Sequence[str]
    chunk: Callable[[str], Chunking]
    legs: Mapping[str, Leg | Hybrid]
    rerankers: Mapping[str, BaseNodePostprocessor | None]
    embedding: EmbeddingSource
    plan: Plan
    settings: Settings
    language: str
    corpus: Mapping[str, Any]

    @cached_property
    def documents(self) -> frozenset[str]:
        """Ids of the documents that hold evidence."""
        return frozenset(
            evidence.doc_id
            for question in self.questions
            for fact in question.facts
            for evidence in fact
        )

    @property
    def unit(self) -> str:
        """What is resampled and flipped: ``question`` or ``document``."""
        if self.settings.unit != "auto":
            return self.settings.unit
        many = len(self.documents) >= DOCUMENT_UNIT_FROM
        return "document" if many else "question"

    def infos(self) -> tuple[QuestionInfo, ...]:
        """Kind and group of each question; overlapping evidence is one group."""
        whole = self.unit == "document"
        spans: dict[str, list[tuple[str, int, int]]] = {
            question.id: [
                (each.doc_id, 0, sys.maxsize)
                if whole or each.whole_document
                else each.span
                for fact in question.facts
                for each in fact
            ]
            for question in self.questions
        }
        groups = evidence_groups(spans)
        return tuple(QuestionInfo(q.id, q.kind, groups[q.id]) for q in self.questions)

    def candidates(self, reranker: str) -> int:
        """Tell how many results of the first stage a reranker gets."""
        own = getattr(self.rerankers[reranker], "candidates", None)
        return self.settings.candidates if own is None else int(own)

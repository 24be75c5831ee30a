"""Scores of a run: our measures under both policies, ragas's beside them."""

from collections.abc import Sequence
from typing import Any

from scholar_rag_li.ablation.cache import Cache, Work
from scholar_rag_li.ablation.components import Chunking
from scholar_rag_li.ablation.inputs import Inputs
from scholar_rag_li.ablation.plan import NO_RERANKER, System
from scholar_rag_li.ablation.ranking import Run
from scholar_rag_li.judging import POLICIES, first_ranks, reaching_chunks
from scholar_rag_li.measures import MEASURES, Measure, parse_measure
from scholar_rag_li.ragas_metrics import IdSample, id_scores, ragas_version
from scholar_rag_li.studies import UNION

CUTOFFS = (1, 3, 5, 10)
READ = 5  # chunks that an LLM is taken to read: cutoff of ragas's scores and characters

Columns = dict[str, dict[str, float]]
"""Measure -> question id -> value."""


class Scorer:
    """Scores runs over the questions of an ablation.

    Args:
        inputs: questions, plan and settings.
        cache: keeps ragas's scores.
    """

    def __init__(self, inputs: Inputs, cache: Cache) -> None:
        """Judge nothing yet."""
        self._in, self._cache = inputs, cache
        self.relevant: dict[str, dict[str, list[str]]] = {}
        """Chunker -> question id -> chunks that reach evidence on their own."""

    def scores(self, run: Run, system: System, chunking: Chunking) -> Columns:
        """Score a run of a system over a chunking.

        Measures that read deeper than a reranker's candidates are left out: the ranks
        are not there.
        """
        deepest = self._in.settings.depth
        if system.reranker != NO_RERANKER:
            deepest = self._in.candidates(system.reranker)
        measures = [each for each in self._measures() if each.k <= deepest]
        return self._ours(run, measures) | self._ragas(run, chunking)

    def _ours(self, run: Run, measures: Sequence[Measure]) -> Columns:
        columns: Columns = {}
        coverage = self._in.settings.coverage
        for question in self._in.questions:
            spans = [hit.span for hit in run[question.id]]
            for policy in POLICIES:
                ranks = first_ranks(
                    question.facts, spans, policy=policy, coverage=coverage
                )
                suffix = UNION if policy == "union" else ""
                for measure in measures:
                    column = columns.setdefault(f"{measure}{suffix}", {})
                    column[question.id] = measure(ranks)
            read = sum(span.end - span.start for span in spans[:READ])
            columns.setdefault(f"characters@{READ}", {})[question.id] = float(read)
        return columns

    def _measures(self) -> list[Measure]:
        """Those of every table, those of the studies, and what a reranker can reach."""
        tables = {Measure(name, k) for name in MEASURES for k in CUTOFFS}
        planned = {parse_measure(study.measure) for study in self._in.plan.studies}
        reach = {
            Measure(name, self._in.candidates(reranker))
            for name in ("recall", "success")
            for reranker in self._in.rerankers
        }
        return sorted(tables | planned | reach)

    def _ragas(self, run: Run, chunking: Chunking) -> Columns:
        """Score with ragas, where it is installed."""
        installed = ragas_version()
        relevant = self._reaching(chunking)
        if installed is None:
            return {}
        samples = [
            IdSample(
                tuple(hit.id for hit in run[question.id][:READ]),
                tuple(relevant[question.id]),
            )
            for question in self._in.questions
        ]
        work: Work[IdSample, Any] = Work(
            kind="scoring with ragas",
            key=lambda sample: {"ragas": installed, "ids": sample},
            compute=id_scores,
            batch_size=1000,
        )
        return self._columns(self._cache.get(work, samples))

    def _columns(self, pairs: Sequence[tuple[float, float]]) -> Columns:
        ids = [question.id for question in self._in.questions]
        names = (f"ragas_id_recall@{READ}", f"ragas_id_precision@{READ}")
        return {
            name: {id_: pair[i] for id_, pair in zip(ids, pairs, strict=True)}
            for i, name in enumerate(names)
        }

    def _reaching(self, chunking: Chunking) -> dict[str, list[str]]:
        if chunking.name not in self.relevant:
            chunks = [(id_, chunking.spans.span(id_)) for id_ in chunking.texts]
            coverage = self._in.settings.coverage
            self.relevant[chunking.name] = {
                question.id: reaching_chunks(question.facts, chunks, coverage=coverage)
                for question in self._in.questions
            }
        return self.relevant[chunking.name]

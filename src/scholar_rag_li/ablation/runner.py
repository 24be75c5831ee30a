"""One run of an ablation: study after study, each written as soon as it is done."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scholar_rag_li.ablation.cache import Cache, Progress, Work
from scholar_rag_li.ablation.components import Chunking, Hybrid, Leg, VectorLeg
from scholar_rag_li.ablation.config import Settings
from scholar_rag_li.ablation.embedding import CachedEmbedding
from scholar_rag_li.ablation.latency import live_system, time_systems
from scholar_rag_li.ablation.manifest import (
    cut_share,
    describe_chunking,
    hardware,
    versions,
)
from scholar_rag_li.ablation.models import EmbeddingSource
from scholar_rag_li.ablation.plan import Plan, System
from scholar_rag_li.ablation.ranking import Bench, Ranker, Run
from scholar_rag_li.corpus import Question
from scholar_rag_li.judging import POLICIES, first_ranks, reaching_chunks
from scholar_rag_li.measures import MEASURES, Measure, parse_measure
from scholar_rag_li.ragas_metrics import IdSample, id_scores, ragas_version
from scholar_rag_li.rerank import CrossEncoderRerank
from scholar_rag_li.results import (
    QuestionInfo,
    Results,
    Study,
    Timing,
    write_qrels,
    write_results,
    write_run,
)
from scholar_rag_li.stats import evidence_groups
from scholar_rag_li.store import Database
from scholar_rag_li.studies import UNION, outcome

DOCUMENT_UNIT_FROM = 20  # documents; fewer can't stand for others like them
CUTOFF = 5  # of ragas's scores and of the characters read
MEASURED = tuple(
    Measure(name, k)
    for name in MEASURES
    for k in (1, 3, CUTOFF, 10)
    if k <= 10  # noqa: PLR2004
)

OnStudy = Callable[[Results, Study], None]


@dataclass(frozen=True)
class Inputs:
    """What an ablation is made of, checked.

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
    """

    questions: Sequence[Question]
    unjudged: Sequence[str]
    chunk: Callable[[str], Chunking]
    legs: Mapping[str, Leg | Hybrid]
    rerankers: Mapping[str, Any]
    embedding: EmbeddingSource
    plan: Plan
    settings: Settings
    language: str


class Runner:
    """Runs the studies of a plan in their order.

    Args:
        inputs: what is run.
        database: keeps what was computed, and a table per chunking.
        cache: over that database.
        folder: where results are written; None to keep them in memory only.
        progress: told what is being computed.
    """

    def __init__(
        self,
        inputs: Inputs,
        database: Database,
        cache: Cache,
        folder: Path | None,
        progress: Progress,
    ) -> None:
        """Chunk nothing yet."""
        self._in, self._folder, self._progress = inputs, folder, progress
        self._cache, self._database = cache, database
        self._chunkings: dict[str, Chunking] = {}
        self._systems: dict[str, System] = {}
        self._reaching: dict[str, dict[str, list[str]]] = {}
        source = inputs.embedding
        cached = CachedEmbedding(source.load, source.fingerprint, cache)
        self._ranker = Ranker(
            inputs.questions,
            inputs.legs,
            inputs.rerankers,
            bench=Bench(cached, cached, database),
            cache=cache,
            depth=inputs.settings.depth,
            candidates=inputs.settings.candidates,
        )

    def run(self, on_study: OnStudy) -> Results:
        """Run all studies; each is written and handed to `on_study` when it is done."""
        results = Results(self._manifest(), self._infos())
        plan, base = self._in.plan, self._in.plan.baseline
        self._embed_everything()
        for planned in plan.studies:
            systems = plan.systems(planned.factor, base)
            for system in systems.values():
                results = self._score(results, system)
            study = plan.study(planned, systems)
            results = replace(results, studies=(*results.studies, study))
            if planned is plan.studies[-1]:
                results = self._time(results)
            results = self._described(results)
            self._write(results)
            on_study(results, study)
            if planned.carry:
                base = systems[outcome(results, study).chosen]
        return results

    def _chunking(self, name: str) -> Chunking:
        if name not in self._chunkings:
            self._chunkings[name] = self._in.chunk(name)
        return self._chunkings[name]

    def _embed_everything(self) -> None:
        """Embed the chunks of all chunkings at once: batches depend on the plan alone."""
        if not any(isinstance(leg, VectorLeg) for leg in self._in.legs.values()):
            return
        names = {str(level) for level in self._in.plan.levels["chunker"]}
        if not any(study.factor == "chunker" for study in self._in.plan.studies):
            names = {self._in.plan.baseline.chunker}
        texts = [
            text
            for name in sorted(names)
            for text in self._chunking(name).texts.values()
        ]
        self._ranker.bench.cached.embed_texts(texts)

    def _score(self, results: Results, system: System) -> Results:
        if system.name in results.scores:
            return results
        self._systems[system.name] = system
        chunking = self._chunking(system.chunker)
        run = self._ranker.run(system, chunking)
        scores = self._judged(run, chunking)
        if self._folder is not None:
            ids = {question: [hit.id for hit in hits] for question, hits in run.items()}
            write_run(self._folder / "runs" / f"{system.name}.trec", system.name, ids)
        return replace(results, scores={**results.scores, system.name: scores})

    def _judged(self, run: Run, chunking: Chunking) -> dict[str, dict[str, float]]:
        """Score a run: measure -> question id -> value."""
        scores: dict[str, dict[str, float]] = {}
        for question in self._in.questions:
            hits = run[question.id]
            spans = [hit.span for hit in hits]
            for policy in POLICIES:
                ranks = first_ranks(
                    question.facts,
                    spans,
                    policy=policy,
                    coverage=self._in.settings.coverage,
                )
                suffix = UNION if policy == "union" else ""
                for measure in self._measures():
                    column = scores.setdefault(f"{measure}{suffix}", {})
                    column[question.id] = measure(ranks)
            read = sum(span.end - span.start for span in spans[:CUTOFF])
            scores.setdefault(f"characters@{CUTOFF}", {})[question.id] = float(read)
        return scores | self._ragas(run, chunking)

    def _measures(self) -> list[Measure]:
        """Measures of every table, those of the studies, and what a reranker can reach."""
        planned = [parse_measure(study.measure) for study in self._in.plan.studies]
        reach = [
            Measure(measure, self._ranker.candidates(name))
            for name in self._in.rerankers
            for measure in ("recall", "success")
        ]
        return sorted({*MEASURED, *planned, *reach})

    def _ragas(self, run: Run, chunking: Chunking) -> dict[str, dict[str, float]]:
        """Score a run with ragas, where it is installed."""
        installed = ragas_version()
        if installed is None:
            return {}
        relevant = self._relevant(chunking)
        samples = [
            IdSample(
                tuple(hit.id for hit in run[question.id][:CUTOFF]),
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
        scored = self._cache.get(work, samples)
        ids = [question.id for question in self._in.questions]
        names = (f"ragas_id_recall@{CUTOFF}", f"ragas_id_precision@{CUTOFF}")
        return {
            name: {id_: pair[i] for id_, pair in zip(ids, scored, strict=True)}
            for i, name in enumerate(names)
        }

    def _relevant(self, chunking: Chunking) -> dict[str, list[str]]:
        """Ids of the chunks that reach evidence of each question, written as qrels too."""
        if chunking.name not in self._reaching:
            chunks = [(id_, chunking.spans.span(id_)) for id_ in chunking.texts]
            coverage = self._in.settings.coverage
            self._reaching[chunking.name] = {
                question.id: reaching_chunks(question.facts, chunks, coverage=coverage)
                for question in self._in.questions
            }
        return self._reaching[chunking.name]

    def _time(self, results: Results) -> Results:
        """Time the systems that differ in what a query costs, all against each other."""
        count = self._in.settings.latency_questions
        names = {
            system
            for study in results.studies
            if study.factor in ("retriever", "reranker")
            for system in study.systems.values()
        }
        if count == 0 or not names:
            return results
        timed = {name: self._systems[name] for name in sorted(names)}
        work: Work[str, dict[str, Any]] = Work(
            kind="timing single questions",
            key=lambda what: {"what": what, **self._timing_key(timed)},
            compute=lambda _: [
                self._measure(timed, _spread(self._in.questions, count))
            ],
        )
        [measured] = self._cache.get(work, ["latency"])
        timings = tuple(Timing(*row) for row in measured.pop("timings"))
        manifest = {**results.manifest, "latency": measured}
        return replace(results, timings=timings, manifest=manifest)

    def _timing_key(self, timed: Mapping[str, System]) -> dict[str, Any]:
        """Everything that the timings depend on and that can be known.

        A component of the user's that has no fingerprint counts by the name of its level.
        """
        bench, settings = self._ranker.bench, self._in.settings
        legs = {
            name: leg.fingerprint(bench)
            for name, leg in self._in.legs.items()
            if not isinstance(leg, Hybrid)
        }
        rerankers = {
            name: getattr(reranker, "fingerprint", None)
            for name, reranker in self._in.rerankers.items()
        }
        return {
            "systems": {
                name: [self._chunking(system.chunker).digest, system.name]
                for name, system in timed.items()
            },
            "legs": legs,
            "rerankers": rerankers,
            "questions": [question.question for question in self._in.questions],
            "settings": settings.model_dump(),
            "hardware": hardware(),
            "versions": versions(),
        }

    def _measure(
        self, timed: Mapping[str, System], questions: Sequence[Question]
    ) -> dict[str, Any]:
        """Time the systems live: the models themselves in place of the cache."""
        start = time.perf_counter()
        model = self._in.embedding.load()
        model.get_query_embedding(questions[0].question)
        cold = {"embedding model": round((time.perf_counter() - start) * 1000, 1)}
        services = replace(self._ranker.bench, embed_model=model)
        live = {
            name: live_system(
                system, self._chunking(system.chunker), self._ranker, services
            )
            for name, system in timed.items()
        }
        for name, reranker in self._in.rerankers.items():
            if isinstance(reranker, CrossEncoderRerank):
                cold[name] = _cold_start(reranker, questions[0].question)
        timings = time_systems(
            live,
            questions,
            repeats=self._in.settings.latency_repeats,
            seed=self._in.settings.seed,
            progress=self._progress,
        )
        return {"timings": timings, "cold_ms": cold, "torch_threads": _torch_threads()}

    def _write(self, results: Results) -> None:
        if self._folder is None:
            return
        write_results(results, self._folder)
        for name, relevant in self._reaching.items():
            write_qrels(self._folder / "qrels" / f"{name}.qrels", relevant)

    def _described(self, results: Results) -> Results:
        """Add what is known of the chunkings so far to the manifest."""
        chunkings = {
            name: describe_chunking(chunking) | self._cut(chunking)
            for name, chunking in sorted(self._chunkings.items())
        }
        return replace(results, manifest={**results.manifest, "chunkings": chunkings})

    def _cut(self, chunking: Chunking) -> dict[str, Any]:
        """Tell how much of the chunks the models do not get to read."""
        texts = list(chunking.texts.values())
        source = self._in.embedding
        found: dict[str, Any] = {}
        if source.path is not None:
            prefixed = [source.text_instruction + text for text in texts]
            found["embedding"] = cut_share(
                self._cache, source.path, source.fingerprint, prefixed
            )
        return found

    def _manifest(self) -> dict[str, Any]:
        settings, plan = self._in.settings, self._in.plan
        infos = self._infos()
        return {
            "settings": settings.model_dump(),
            "language": self._in.language,
            "policy": "single; columns ending in [union] are judged by union",
            "baseline": plan.baseline.name,
            "unit": self._unit(),
            "n_groups": len({info.group for info in infos}),
            "n_documents": len(_documents(self._in.questions)),
            "unjudged": list(self._in.unjudged),
            "embedding": {
                "name": self._in.embedding.name,
                "description": self._in.embedding.description,
                "fingerprint": dict(self._in.embedding.fingerprint),
            },
            "legs": {
                name: _described(leg, self._ranker.bench)
                for name, leg in self._in.legs.items()
            },
            "rerankers": {
                name: _reranker(reranker, self._ranker.candidates(name))
                for name, reranker in self._in.rerankers.items()
            },
            "versions": versions(),
            "hardware": hardware(),
        }

    def _unit(self) -> str:
        unit = self._in.settings.unit
        if unit != "auto":
            return unit
        many = len(_documents(self._in.questions)) >= DOCUMENT_UNIT_FROM
        return "document" if many else "question"

    def _infos(self) -> tuple[QuestionInfo, ...]:
        whole = self._unit() == "document"
        spans = {
            question.id: [
                (each.doc_id, 0, 1)
                if whole or each.whole_document
                else tuple(each.span)
                for fact in question.facts
                for each in fact
            ]
            for question in self._in.questions
        }
        groups = evidence_groups(spans)  # type: ignore[arg-type]  # spans are such tuples
        return tuple(
            QuestionInfo(q.id, q.kind, groups[q.id]) for q in self._in.questions
        )


def _documents(questions: Sequence[Question]) -> set[str]:
    return {each.doc_id for q in questions for fact in q.facts for each in fact}


def _spread(questions: Sequence[Question], count: int) -> list[Question]:
    """Take `count` questions, evenly spread over the gold."""
    step = max(len(questions) / count, 1)
    return [questions[int(i * step)] for i in range(min(count, len(questions)))]


def _described(leg: Leg | Hybrid, bench: Bench) -> dict[str, Any]:
    if isinstance(leg, Hybrid):
        return {"kind": "hybrid", "legs": leg.legs, "weights": leg.weights}
    return dict(
        leg.fingerprint(bench) or {"kind": "the user's own, without fingerprint"}
    )


def _reranker(reranker: Any, candidates: int) -> dict[str, Any] | None:
    if reranker is None:
        return None
    return {
        "class": type(reranker).__qualname__,
        "model": getattr(reranker, "model", None),
        "fingerprint": getattr(reranker, "fingerprint", None),
        "candidates": candidates,
        "top_n": getattr(reranker, "top_n", None),
    }


def _cold_start(reranker: CrossEncoderRerank, question: str) -> float:
    """Load a second copy of a reranker and time it to its first score, milliseconds."""
    start = time.perf_counter()
    fresh = CrossEncoderRerank(
        model=reranker.model,
        device=reranker.device,
        cache_folder=reranker.cache_folder,
        cross_encoder_kwargs=reranker.cross_encoder_kwargs,
    )
    fresh.predict([(question, question)])
    return round((time.perf_counter() - start) * 1000, 1)


def _torch_threads() -> int | None:
    """Return how many threads torch uses; None when no model of the run loaded it."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())

"""One run of an ablation: study after study, each written as soon as it is done."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from scholar_rag_li.ablation.cache import Cache, Progress
from scholar_rag_li.ablation.components import Chunking, VectorLeg
from scholar_rag_li.ablation.embedding import CachedEmbedding
from scholar_rag_li.ablation.inputs import Inputs
from scholar_rag_li.ablation.latency import measure_latency
from scholar_rag_li.ablation.manifest import cut_share, describe, describe_chunking
from scholar_rag_li.ablation.plan import System
from scholar_rag_li.ablation.ranking import Bench, Ranker
from scholar_rag_li.ablation.scoring import Scorer
from scholar_rag_li.report import write_report
from scholar_rag_li.results import (
    Results,
    Study,
    Timing,
    write_qrels,
    write_results,
    write_run,
)
from scholar_rag_li.store import Database
from scholar_rag_li.studies import outcome

COSTLY = ("retriever", "reranker")  # the factors that change what a query costs

OnStudy = Callable[[Results, Study], None]


class Runner:
    """Runs the studies of a plan in their order.

    Args:
        inputs: what is run.
        database: keeps what was computed, and a table per chunking.
        cache: over that database.
        folder: where results are written; None to keep them in memory only.
        progress: told what is being computed.
        time_again: measure the latency anew.
    """

    def __init__(  # what is run, with what, and who is told
        self,
        inputs: Inputs,
        database: Database,
        cache: Cache,
        folder: Path | None,
        progress: Progress,
        *,
        time_again: bool = False,
    ) -> None:
        """Chunk nothing yet."""
        self._in, self._folder, self._progress = inputs, folder, progress
        self._time_again = time_again
        self._cache = cache
        self._chunkings: dict[str, Chunking] = {}
        self._systems: dict[str, System] = {}
        self._scorer = Scorer(inputs, cache)
        source = inputs.embedding
        cached = CachedEmbedding(source.load, source.fingerprint, cache)
        self._ranker = Ranker(inputs, Bench(cached, cached, database), cache)

    def run(self, on_study: OnStudy) -> Results:
        """Run all studies; each is written and handed to `on_study` when it is done."""
        results = Results(describe(self._in, self._ranker.bench), self._in.infos())
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
            results = self._with_chunkings(results)
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
        plan = self._in.plan
        if not any(isinstance(leg, VectorLeg) for leg in self._in.legs.values()):
            return
        names = {plan.baseline.chunker}
        if any(study.factor == "chunker" for study in plan.studies):
            names |= {str(level) for level in plan.levels["chunker"]}
        chunkings = [self._chunking(name) for name in sorted(names)]
        texts = [text for each in chunkings for text in each.texts.values()]
        self._ranker.bench.cached.embed_texts(texts)

    def _score(self, results: Results, system: System) -> Results:
        if system.name in results.scores:
            return results
        self._systems[system.name] = system
        chunking = self._chunking(system.chunker)
        run = self._ranker.run(system, chunking)
        scores = self._scorer.scores(run, system, chunking)
        if self._folder is not None:
            ids = {question: [hit.id for hit in hits] for question, hits in run.items()}
            write_run(self._folder / "runs" / f"{system.name}.trec", system.name, ids)
        return replace(results, scores={**results.scores, system.name: scores})

    def _time(self, results: Results) -> Results:
        """Time the systems that differ in what a query costs, all against each other."""
        studies = [study for study in results.studies if study.factor in COSTLY]
        names = sorted({name for study in studies for name in study.systems.values()})
        if self._in.settings.latency_questions == 0 or not names:
            return results
        systems = {name: self._systems[name] for name in names}
        timed = {
            name: (system, self._chunking(system.chunker))
            for name, system in systems.items()
        }
        measured = measure_latency(
            self._in,
            self._ranker,
            timed,
            self._cache,
            self._progress,
            again=self._time_again,
        )
        timings = tuple(Timing(*row) for row in measured.pop("timings"))
        manifest = {**results.manifest, "latency": measured}
        return replace(results, timings=timings, manifest=manifest)

    def _with_chunkings(self, results: Results) -> Results:
        """Add what is known of the chunkings so far to the manifest."""
        chunkings = {
            name: describe_chunking(chunking) | {"embedding": self._cut(chunking)}
            for name, chunking in sorted(self._chunkings.items())
        }
        return replace(results, manifest={**results.manifest, "chunkings": chunkings})

    def _cut(self, chunking: Chunking) -> dict[str, Any] | None:
        """Tell how much of the chunks the embedding model does not get to read."""
        source = self._in.embedding
        if source.path is None:
            return None
        texts = [source.text_instruction + text for text in chunking.texts.values()]
        return cut_share(self._cache, source.path, source.fingerprint, texts)

    def _write(self, results: Results) -> None:
        if self._folder is None:
            return
        write_results(results, self._folder)
        write_report(results, self._folder)
        for name, relevant in self._scorer.relevant.items():
            write_qrels(self._folder / "qrels" / f"{name}.qrels", relevant)

"""Latency of single questions, end to end, uncached, after warm-up."""

import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.schema import QueryBundle

from scholar_rag_li.ablation.cache import Cache, Progress, Work
from scholar_rag_li.ablation.components import (
    Chunking,
    Hybrid,
    Leg,
    Services,
    VectorLeg,
)
from scholar_rag_li.ablation.inputs import Inputs
from scholar_rag_li.ablation.manifest import hardware, versions
from scholar_rag_li.ablation.plan import NO_RERANKER, System
from scholar_rag_li.ablation.ranking import Ranker
from scholar_rag_li.corpus import Question
from scholar_rag_li.rerank import CrossEncoderRerank
from scholar_rag_li.results import Timing
from scholar_rag_li.retrievers import HybridRetriever

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that set how many threads torch and numpy use."""

RESULTS = 10  # without a reranker, as deep as the deepest measure of the tables reads

Timed = Mapping[str, tuple[System, Chunking]]
"""Name of a system -> its levels, and the chunks it retrieves."""


def measure_latency(
    inputs: Inputs,
    ranker: Ranker,
    timed: Timed,
    cache: Cache,
    progress: Progress,
    *,
    again: bool = False,
) -> dict[str, Any]:
    """Time systems against each other, or return what was measured under the same terms.

    Args:
        inputs: questions, settings and models.
        ranker: holds the levels.
        timed: what is timed.
        cache: keeps the timings.
        progress: told after each question.
        again: measure anew, whatever is known.

    Returns:
        ``timings``, rows of `Timing`; ``cold_ms``, model -> milliseconds from loading to
        its first answer; ``torch_threads``. JSON-like.
    """

    def measure(_: Sequence[str]) -> list[dict[str, Any]]:
        return [_measured(inputs, ranker, timed, progress)]

    terms = _terms(inputs, ranker, timed)
    if terms is None:
        return measure([""])[0]
    work: Work[str, dict[str, Any]] = Work(
        kind="latency", key=lambda _: terms, compute=measure
    )
    if again:
        cache.forget(work, [""])
    return cache.get(work, [""])[0]


def _terms(inputs: Inputs, ranker: Ranker, timed: Timed) -> dict[str, Any] | None:
    """Everything that timings depend on; None when a part of the user's is among it."""
    systems = [system for system, _ in timed.values()]
    levels = _legs(inputs, timed)
    parts: dict[str, Any] = {
        name: [level.legs, level.weights]
        if isinstance(level, Hybrid)
        else level.fingerprint(ranker.bench)
        for name, level in levels.items()
    }
    for system in systems:
        if system.reranker != NO_RERANKER:
            reranker = inputs.rerankers[system.reranker]
            parts[f"reranker {system.reranker}"] = (
                [
                    reranker.fingerprint,
                    reranker.device,
                    reranker.top_n,
                    inputs.candidates(system.reranker),
                ]
                if isinstance(reranker, CrossEncoderRerank)
                else None
            )
    if any(part is None for part in parts.values()):
        return None
    wanted = ("depth", "latency_questions", "latency_repeats", "seed")
    return {
        "systems": {name: chunking.digest for name, (_, chunking) in timed.items()},
        "parts": parts,
        "questions": [question.question for question in inputs.questions],
        "settings": {name: getattr(inputs.settings, name) for name in wanted},
        "hardware": hardware(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "versions": versions(),
    }


def _legs(inputs: Inputs, timed: Timed) -> dict[str, Leg | Hybrid]:
    """Name the retriever levels of the systems, and the legs of the hybrids among them."""
    levels = {s.retriever: inputs.legs[s.retriever] for s, _ in timed.values()}
    for level in list(levels.values()):
        if isinstance(level, Hybrid):
            levels |= {name: inputs.legs[name] for name in level.legs}
    return levels


def _measured(
    inputs: Inputs, ranker: Ranker, timed: Timed, progress: Progress
) -> dict[str, Any]:
    """Time the systems live: the models themselves in place of the cache."""
    settings = inputs.settings
    questions = _spread(inputs.questions, settings.latency_questions)
    first = questions[0].question
    services, cold = ranker.bench, {}
    if any(isinstance(leg, VectorLeg) for leg in _legs(inputs, timed).values()):
        start = time.perf_counter()
        model = inputs.embedding.load()
        model.get_query_embedding(first)
        cold["embedding model"] = round((time.perf_counter() - start) * 1000, 1)
        services = replace(services, embed_model=model)
    for name, reranker in inputs.rerankers.items():
        if isinstance(reranker, CrossEncoderRerank):
            cold[name] = _cold_start(reranker, first)
    live = {
        name: live_system(system, chunking, ranker, services)
        for name, (system, chunking) in timed.items()
    }
    timings = time_systems(
        live,
        questions,
        repeats=settings.latency_repeats,
        seed=settings.seed,
        progress=progress,
    )
    return {"timings": timings, "cold_ms": cold, "torch_threads": _torch_threads()}


def live_system(
    system: System, chunking: Chunking, ranker: Ranker, services: Services
) -> Callable[[str], Any]:
    """Build a system as an application would, of the same parts.

    Args:
        system: which levels.
        chunking: the chunks it retrieves.
        ranker: holds the levels.
        services: with the embedding model itself, not behind the cache.

    Returns:
        A function from a question to its results, embedding and reranking included.
    """
    reranker = ranker.rerankers[system.reranker]
    wanted = RESULTS
    if system.reranker != NO_RERANKER:
        wanted = ranker.candidates(system.reranker)
    level = ranker.legs[system.retriever]
    if isinstance(level, Hybrid):
        legs = {
            name: leg.build(services, chunking, ranker.depth)
            for name in level.legs
            if not isinstance(leg := ranker.legs[name], Hybrid)
        }
        retriever: Any = HybridRetriever(
            legs,
            rrf_k=60 if system.rrf_k is None else system.rrf_k,
            retriever_weights=level.weights,
            depth=max(ranker.depth, wanted),
            similarity_top_k=wanted,
        )
    else:
        retriever = level.build(services, chunking, wanted)

    def ask(question: str) -> Any:
        bundle = QueryBundle(question)
        nodes = retriever.retrieve(bundle)
        if reranker is None:
            return nodes
        return reranker.postprocess_nodes(nodes, bundle)

    return ask


def time_systems(  # what is timed, and how
    systems: Mapping[str, Callable[[str], Any]],
    questions: Sequence[Question],
    *,
    repeats: int,
    seed: int,
    progress: Progress,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Time every system on every question, systems interleaved in random order.

    Args:
        systems: name -> function that answers a question.
        questions: asked one at a time; the first also warms each system up.
        repeats: rounds over all questions.
        seed: of the order.
        progress: told after each question.
        clock: seconds.

    Returns:
        One observation per system, question and round.
    """
    for ask in systems.values():
        ask(questions[0].question)
    order = random.Random(seed)  # noqa: S311  # an order, no secret
    timings = []
    for repeat in range(repeats):
        for number, question in enumerate(questions):
            names = sorted(systems)
            order.shuffle(names)
            for name in names:
                start = clock()
                systems[name](question.question)
                milliseconds = round((clock() - start) * 1000, 3)  # as latency.csv
                timings.append(Timing(name, question.id, repeat, milliseconds))
            done = repeat * len(questions) + number + 1
            progress("timing single questions", done, repeats * len(questions))
    return timings


def _spread(questions: Sequence[Question], count: int) -> list[Question]:
    """Take `count` questions, evenly spread over the gold."""
    step = max(len(questions) / count, 1)
    return [questions[int(i * step)] for i in range(min(count, len(questions)))]


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

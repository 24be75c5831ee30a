"""Latency of single questions, end to end, uncached, after warm-up."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.schema import QueryBundle

from scholar_rag_li.ablation.cache import Progress
from scholar_rag_li.ablation.components import Chunking, Hybrid, Services
from scholar_rag_li.ablation.plan import NO_RERANKER, System
from scholar_rag_li.ablation.ranking import Ranker
from scholar_rag_li.corpus import Question
from scholar_rag_li.results import Timing
from scholar_rag_li.retrievers import HybridRetriever

RESULTS = 10  # without a reranker, as deep as the deepest measure of the tables reads


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
                milliseconds = (clock() - start) * 1000
                timings.append(Timing(name, question.id, repeat, milliseconds))
            done = repeat * len(questions) + number + 1
            progress("timing single questions", done, repeats * len(questions))
    return timings

"""Rankings of systems: each leg once, fusions as arithmetic, each pair scored once."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from scholar_rag_li.ablation.cache import Cache, Work, digest
from scholar_rag_li.ablation.components import Chunking, Hybrid, Leg, VectorLeg
from scholar_rag_li.ablation.embedding import CachedEmbedding
from scholar_rag_li.ablation.inputs import Inputs
from scholar_rag_li.ablation.plan import NO_RERANKER, System
from scholar_rag_li.corpus import Question
from scholar_rag_li.errors import RetrievalError, ScholarRagError, StoreError
from scholar_rag_li.fusion import RRF_K, rrf_scores
from scholar_rag_li.judging import Span
from scholar_rag_li.rerank import CrossEncoderRerank
from scholar_rag_li.store import Database, Store, open_store

logger = logging.getLogger(__name__)

DECIMALS = (
    6  # scores that differ by less are a tie, so that no machine's last bit decides
)


class Hit(NamedTuple):
    """A place in a ranking."""

    id: str
    span: Span
    score: float


Run = dict[str, list[Hit]]
"""Question id -> its ranking, best first."""


@dataclass
class Bench:
    """What the legs of an ablation share: the embedding model and the tables.

    Args:
        embed_model: embeds questions for the legs.
        cached: embeds the chunks, each distinct text once.
        database: holds a table per chunking.
    """

    embed_model: BaseEmbedding
    cached: CachedEmbedding
    database: Database

    def embedding_fingerprint(self) -> Mapping[str, Any]:
        """Return what identifies the embedding model."""
        return self.cached.fingerprint

    def store(self, chunking: Chunking) -> Store:
        """Return the table of a chunking, filled if it is not.

        The table is named by content: one that is complete needs no second look, and
        two runs that fill it at once write the same rows.

        Raises:
            StoreError: it does not hold the chunks after it was filled.
        """
        ids = list(chunking.texts)
        vectors = self.cached.embed_texts([chunking.texts[id_] for id_ in ids])
        name = self._table(chunking)
        store = open_store(
            database=self.database, table=name, embed_dim=len(vectors[0])
        )
        if store.count() != len(ids):
            store.add(
                [
                    node.model_copy(update={"embedding": vector})
                    for node, vector in zip(chunking.nodes, vectors, strict=True)
                ]
            )
        if (there := store.count()) != len(ids):
            raise StoreError(
                f"the table {name!r} holds {there} rows for {len(ids)} chunks; something "
                "else writes to it: drop it, or use another database"
            )
        return store

    def _table(self, chunking: Chunking) -> str:
        content = {"chunks": chunking.digest, "model": self.cached.fingerprint}
        return "chunks_" + digest(content).hex()[:24]


class Ranker:
    """Ranks the questions with any system of the plan.

    Args:
        inputs: questions, levels and settings.
        bench: what the legs share.
        cache: keeps rankings and pair scores.
    """

    def __init__(self, inputs: Inputs, bench: Bench, cache: Cache) -> None:
        """Rank nothing yet."""
        self.questions, self.depth = inputs.questions, inputs.settings.depth
        self.legs, self.rerankers = inputs.legs, inputs.rerankers
        self.candidates = inputs.candidates
        self.bench, self._cache = bench, cache
        self._runs: dict[tuple[str, str], Run] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def run(self, system: System, chunking: Chunking) -> Run:
        """Rank all questions with a system."""
        first = self.first_stage(system, chunking)
        if system.reranker == NO_RERANKER:
            return first
        return self._reranked(first, system, chunking)

    def first_stage(self, system: System, chunking: Chunking) -> Run:
        """Rank all questions with the retriever of a system alone."""
        level = self.legs[system.retriever]
        if not isinstance(level, Hybrid):
            return self._leg(system.retriever, level, chunking)
        runs = [self._leg(name, self.legs[name], chunking) for name in level.legs]
        fused: Run = {}
        for question in self.questions:
            rankings = [run[question.id] for run in runs]
            spans = {hit.id: hit.span for ranking in rankings for hit in ranking}
            scores = rrf_scores(
                [[hit.id for hit in ranking] for ranking in rankings],
                RRF_K if system.rrf_k is None else system.rrf_k,
                level.weights,
            )
            fused[question.id] = [
                Hit(id_, spans[id_], score) for id_, score in scores.items()
            ]
        return fused

    def _leg(self, name: str, leg: Leg | Hybrid, chunking: Chunking) -> Run:
        assert not isinstance(leg, Hybrid)  # noqa: S101  # refused when the plan is made
        key = (name, chunking.digest)
        if key not in self._runs:
            self._runs[key] = self._rank(name, leg, chunking)
        return self._runs[key]

    def _rank(self, name: str, leg: Leg, chunking: Chunking) -> Run:
        fingerprint = leg.fingerprint(self.bench)
        if fingerprint is None:
            logger.info("%s can't be fingerprinted; it is run again each time", name)
            built = self._build(name, leg, chunking)
            return {q.id: self._ask(name, built, q, chunking) for q in self.questions}
        retriever: list[BaseRetriever] = []  # made when a ranking is missing

        def compute(batch: Sequence[Question]) -> list[list[tuple[str, float]]]:
            if not retriever:
                if isinstance(leg, VectorLeg):
                    asked = [question.question for question in self.questions]
                    self.bench.cached.embed_questions(asked)
                retriever.append(self._build(name, leg, chunking))
            return [
                _ordered(self._ask(name, retriever[0], each, chunking))
                for each in batch
            ]

        work: Work[Question, Any] = Work(
            kind="ranking",
            key=lambda question: {
                "leg": fingerprint,
                "chunks": chunking.digest,
                "question": question.question,
                "depth": self.depth,
            },
            compute=compute,
            batch_size=50,
        )
        rankings = self._cache.get(work, list(self.questions))
        return {
            question.id: [Hit(id_, chunking.spans.span(id_), s) for id_, s in ranking]
            for question, ranking in zip(self.questions, rankings, strict=True)
        }

    def _build(self, name: str, leg: Leg, chunking: Chunking) -> BaseRetriever:
        with _blamed(
            f"the retriever {name!r} could not be made over {chunking.name!r}"
        ):
            return leg.build(self.bench, chunking, self.depth)

    def _ask(
        self,
        name: str,
        retriever: BaseRetriever,
        question: Question,
        chunking: Chunking,
    ) -> list[Hit]:
        """Ask one question; results in delivered order, cut to the depth."""
        with _blamed(f"the retriever {name!r} failed on question {question.id!r}"):
            found = retriever.retrieve(QueryBundle(question.question))[: self.depth]
        self._texts |= {
            (chunking.digest, hit.node.node_id): hit.node.get_content(
                MetadataMode.EMBED
            )
            for hit in found
            if hit.node.node_id not in chunking.texts
        }
        return [
            Hit(hit.node.node_id, chunking.spans.span(hit), float(hit.score or 0.0))
            for hit in found
        ]

    def _reranked(self, first: Run, system: System, chunking: Chunking) -> Run:
        reranker = self.rerankers[system.reranker]
        count = self.candidates(system.reranker)
        cut = {id_: hits[:count] for id_, hits in first.items()}
        if isinstance(reranker, CrossEncoderRerank):
            return self._cross_encoded(cut, reranker, chunking)
        assert reranker is not None  # noqa: S101  # "none" was handled by the caller
        run: Run = {}
        for question in self.questions:
            hits = {hit.id: hit for hit in cut[question.id]}
            given = [
                NodeWithScore(node=self._node(chunking, hit.id), score=hit.score)
                for hit in hits.values()
            ]
            with _blamed(
                f"the reranker {system.reranker!r} failed on question {question.id!r}"
            ):
                kept = reranker.postprocess_nodes(given, QueryBundle(question.question))
            returned = [each.node.node_id for each in kept]
            if len(set(returned)) < len(returned):
                raise RetrievalError(
                    f"the reranker {system.reranker!r} returned a node twice on question "
                    f"{question.id!r}; a reranker may only order and drop"
                )
            foreign = [each for each in kept if each.node.node_id not in hits]
            if foreign:
                raise RetrievalError(
                    f"the reranker {system.reranker!r} returned the node "
                    f"{foreign[0].node.node_id!r}, which it was not given; a reranker "
                    "may only order and drop"
                )
            run[question.id] = [
                hits[each.node.node_id]._replace(score=float(each.score or 0.0))
                for each in kept
            ]
        return run

    def _cross_encoded(
        self, cut: Run, reranker: CrossEncoderRerank, chunking: Chunking
    ) -> Run:
        asked = {question.id: question.question for question in self.questions}
        pairs = [
            (asked[id_], self._text(chunking, hit.id))
            for id_, hits in cut.items()
            for hit in hits
        ]
        work: Work[tuple[str, str], float] = Work(
            kind="reranking pairs",
            key=lambda pair: {"reranker": reranker.fingerprint, "pair": pair},
            compute=reranker.predict,
            order=lambda pair: (len(pair[0]) + len(pair[1]), pair),
        )
        scores = iter(self._cache.get(work, pairs))
        return {
            id_: sorted(
                (hit._replace(score=round(next(scores), DECIMALS)) for hit in hits),
                key=lambda hit: (-hit.score, hit.id),
            )
            for id_, hits in cut.items()
        }

    def _text(self, chunking: Chunking, id_: str) -> str:
        """Return what a reranker reads of a chunk, or of a node from elsewhere."""
        if id_ in chunking.texts:
            return chunking.texts[id_]
        return self._texts[chunking.digest, id_]

    def _node(self, chunking: Chunking, id_: str) -> TextNode:
        """Return a node that the user's postprocessor may do with as it likes."""
        for node in chunking.nodes:
            if node.node_id == id_:
                return node.model_copy(deep=True)
        return TextNode(id_=id_, text=self._text(chunking, id_))


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Say whose the error is, when a part of the user's raises one of its own."""
    try:
        yield
    except ScholarRagError:
        raise
    except Exception as error:
        raise RetrievalError(f"{what}: {type(error).__name__}: {error}") from error


def _ordered(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    """Round the scores and sort: best first, ties by id."""
    rounded = [(hit.id, round(hit.score, DECIMALS)) for hit in hits]
    return sorted(rounded, key=lambda each: (-each[1], each[0]))

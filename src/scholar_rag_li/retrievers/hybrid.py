"""Hybrid retrieval: any number of LlamaIndex retrievers fused by reciprocal rank."""

import asyncio
import contextvars
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.llms.utils import LLMType
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.retrievers.bm25 import BM25Retriever

from scholar_rag_li.errors import ConfigError, RetrievalError
from scholar_rag_li.fusion import RRF_K, check_fusion, rrf_scores

PROVENANCE = "retrieval_legs"
"""Metadata key of each result: leg name -> {"rank": from 1, "score": the leg's own}."""

DEPTH = 20

_Results = dict[tuple[str, int], list[NodeWithScore]]


class HybridRetriever(QueryFusionRetriever):
    """A QueryFusionRetriever in reciprocal-rank mode whose constant and weights count.

    A result's score is the sum over legs of weight / (rrf_k + rank), ranks from 1 in the
    order each leg delivers, a node being its node id (the parent counts from 0, fixes
    the constant, ignores the weights and compares nodes by the hash of their text). Legs
    run at the same time, in the sync path as well. The caller's retrievers and nodes are
    left as they are; each result is a new node that carries, under `PROVENANCE`, its
    rank and score in every leg, hidden from the embedder, the reranker and the LLM.

    Args:
        retrievers: the legs, at least one; or a mapping of leg names to retrievers.
        rrf_k: constant of the fusion, >= 0.
        retriever_weights: one factor per leg, used as given; all 1 by default. A leg of
            weight 0 contributes nothing and is not asked.
        depth: how many results each leg is asked for; at least `similarity_top_k`.
        similarity_top_k: how many results are returned.
        num_queries: with more than 1, an LLM writes that many less one further queries
            and all rankings are fused; with 1, no LLM is touched.
        llm: for `num_queries` > 1; `Settings.llm` when not given.
        **kwargs: the parent's other arguments, such as `query_gen_prompt`, `verbose` and
            `callback_manager`.

    Raises:
        ConfigError: settings out of range.
    """

    def __init__(  # noqa: PLR0913  # the parent's arguments under the parent's names
        self,
        retrievers: Sequence[BaseRetriever] | Mapping[str, BaseRetriever],
        *,
        rrf_k: float = RRF_K,
        retriever_weights: Sequence[float] | None = None,
        depth: int = DEPTH,
        similarity_top_k: int = 5,
        num_queries: int = 1,
        llm: LLMType | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the settings and take a copy of each leg that asks for `depth`."""
        legs = _named(retrievers)
        _check(len(legs), similarity_top_k, depth, num_queries)
        check_fusion(len(legs), rrf_k, retriever_weights)
        super().__init__(
            [_at_depth(leg, depth) for leg in legs.values()],
            # the parent resolves Settings.llm (OpenAI unless set) even for one query
            llm=llm if num_queries > 1 else MockLLM(),
            mode=FUSION_MODES.RECIPROCAL_RANK,
            similarity_top_k=similarity_top_k,
            num_queries=num_queries,
            **kwargs,
        )
        self.rrf_k = rrf_k
        self.depth = depth
        self.leg_names = tuple(legs)
        self._retriever_weights = list(retriever_weights or [1.0] * len(legs))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        queries = [query_bundle]
        if self.num_queries > 1:
            queries += self._get_queries(query_bundle.query_str)
        return self._fused(self._run_sync_queries(queries))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        queries = [query_bundle]
        if self.num_queries > 1:
            queries += await self._aget_queries(query_bundle.query_str)
        return self._fused(await self._run_async_queries(queries))

    def _tasks(self, queries: list[QueryBundle]) -> list[tuple[int, QueryBundle]]:
        return [
            (leg, query)
            for query in queries
            for leg, weight in enumerate(self._retriever_weights)
            if weight > 0
        ]

    def _run_sync_queries(self, queries: list[QueryBundle]) -> _Results:
        tasks = self._tasks(queries)
        with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
            futures = [
                # LlamaIndex keeps its instrumentation spans in context variables
                pool.submit(contextvars.copy_context().run, self._ask, leg, query)
                for leg, query in tasks
            ]
            return {
                (query.query_str, leg): future.result()
                for (leg, query), future in zip(tasks, futures, strict=True)
            }

    async def _run_async_queries(self, queries: list[QueryBundle]) -> _Results:
        tasks = self._tasks(queries)
        results = await asyncio.gather(*(self._aask(*task) for task in tasks))
        return {
            (query.query_str, leg): result
            for (leg, query), result in zip(tasks, results, strict=True)
        }

    def _ask(self, leg: int, query: QueryBundle) -> list[NodeWithScore]:
        try:
            # a copy, for a vector leg writes its own model's embedding into it
            return self._retrievers[leg].retrieve(copy(query))[: self.depth]
        except Exception as error:
            raise self._failure(leg, error) from error

    async def _aask(self, leg: int, query: QueryBundle) -> list[NodeWithScore]:
        retriever = self._retrievers[leg]
        if type(retriever)._aretrieve is BaseRetriever._aretrieve:  # noqa: SLF001  # is it async at all
            # the base class would run the sync code inside the loop and block it
            return await asyncio.to_thread(self._ask, leg, query)
        try:
            return (await retriever.aretrieve(copy(query)))[: self.depth]
        except Exception as error:
            raise self._failure(leg, error) from error

    def _failure(self, leg: int, error: Exception) -> RetrievalError:
        return RetrievalError(
            f"the leg {self.leg_names[leg]!r} failed: {type(error).__name__}: {error}"
        )

    def _fused(self, results: _Results) -> list[NodeWithScore]:
        scores = rrf_scores(
            [[hit.node.node_id for hit in hits] for hits in results.values()],
            self.rrf_k,
            [self._retriever_weights[leg] for _, leg in results],
        )
        nodes = {
            hit.node.node_id: hit.node for hits in results.values() for hit in hits
        }
        places = self._provenance(results)
        best = list(scores.items())[: self.similarity_top_k]
        return [
            NodeWithScore(node=_with_hidden(nodes[id_], places[id_]), score=score)
            for id_, score in best
        ]

    def _provenance(self, results: _Results) -> dict[str, dict[str, Any]]:
        """Per node id, its best rank in each leg (several queries ask a leg again)."""
        places: dict[str, dict[str, Any]] = {}
        for (_, leg), hits in results.items():
            name = self.leg_names[leg]
            distinct = {hit.node.node_id: hit.score for hit in reversed(hits)}
            for rank, id_ in enumerate(dict.fromkeys(h.node.node_id for h in hits), 1):
                known = places.setdefault(id_, {})
                if name not in known or rank < known[name]["rank"]:
                    known[name] = {"rank": rank, "score": distinct[id_]}
        return places


def _named(
    retrievers: Sequence[BaseRetriever] | Mapping[str, BaseRetriever],
) -> dict[str, BaseRetriever]:
    """Name each leg: as given, else by its class, numbered where a class recurs."""
    if isinstance(retrievers, Mapping):
        return dict(retrievers)
    legs: dict[str, BaseRetriever] = {}
    for retriever in retrievers:
        name = base = type(retriever).__name__
        number = 1
        while name in legs:
            number += 1
            name = f"{base}-{number}"
        legs[name] = retriever
    return legs


def _check(legs: int, similarity_top_k: int, depth: int, num_queries: int) -> None:
    if legs == 0:
        raise ConfigError("a hybrid of no retrievers; give at least one")
    if similarity_top_k < 1 or num_queries < 1:
        raise ConfigError(
            f"similarity_top_k is {similarity_top_k} and num_queries {num_queries}; "
            "give at least 1 of each"
        )
    if depth < similarity_top_k:
        raise ConfigError(
            f"depth is {depth} with similarity_top_k {similarity_top_k}; each leg must "
            "be asked for at least as many as are returned"
        )


def _at_depth(retriever: BaseRetriever, depth: int) -> BaseRetriever:
    """Copy a retriever and let the copy ask for `depth`; without that setting, as it is."""
    if not hasattr(retriever, "similarity_top_k"):
        return retriever
    if isinstance(retriever, BM25Retriever):  # bm25s gives no more than it holds
        depth = min(depth, int(retriever.bm25.scores["num_docs"]))
    leg = copy(retriever)
    leg.similarity_top_k = depth
    return leg


def _with_hidden(node: Any, value: Any) -> Any:
    """Copy a node with a metadata entry that neither embedder nor LLM reads."""

    def hidden(keys: list[str]) -> list[str]:
        return keys if PROVENANCE in keys else [*keys, PROVENANCE]

    return node.model_copy(
        update={
            "metadata": {**deepcopy(node.metadata), PROVENANCE: value},
            "relationships": dict(node.relationships),
            "excluded_embed_metadata_keys": hidden(node.excluded_embed_metadata_keys),
            "excluded_llm_metadata_keys": hidden(node.excluded_llm_metadata_keys),
        }
    )

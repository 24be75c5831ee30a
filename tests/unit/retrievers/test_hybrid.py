"""Hybrid retrieval over legs of fixed rankings; each trap of the stock one, done right."""

import asyncio
import contextlib
import threading

import pytest
from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import (
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.retrievers.bm25 import BM25Retriever

from scholar_rag_li.errors import ConfigError, RetrievalError
from scholar_rag_li.fusion import rrf
from scholar_rag_li.retrievers.bm25 import LanguageBM25Retriever
from scholar_rag_li.retrievers.hybrid import PROVENANCE, HybridRetriever

TIMEOUT = 20  # seconds; only a test that fails waits for them
both_paths = pytest.mark.parametrize("path", ["sync", "async"])


def node(id_, text=None):
    return TextNode(
        id_=id_,
        text=text or f"text of {id_}",
        metadata={"title": "T", "tags": ["x"]},
        excluded_llm_metadata_keys=["tags"],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d")},
    )


def hits_of(ids):
    """Make hits with falling scores .9, .8, ..."""
    return [
        NodeWithScore(node=node(id_), score=0.9 - i / 10) for i, id_ in enumerate(ids)
    ]


class Leg(BaseRetriever):
    """Returns the first `similarity_top_k` of fixed hits; notes what it was asked."""

    def __init__(self, hits, similarity_top_k=2):
        self.hits = hits_of(hits) if isinstance(hits, str) else hits
        self.similarity_top_k = similarity_top_k
        self.asked = []
        super().__init__()

    def _retrieve(self, query_bundle):
        self.asked.append((query_bundle.query_str, self.similarity_top_k))
        return self.hits[: self.similarity_top_k]


class OtherLeg(Leg):
    """The same under another name."""


class AsyncLeg(Leg):
    """A leg with an async path of its own, which alone it uses."""

    def _retrieve(self, query_bundle):
        raise AssertionError(query_bundle)

    async def _aretrieve(self, query_bundle):
        await asyncio.sleep(0)
        return super()._retrieve(query_bundle)


class Failing(Leg):
    """A leg whose index is gone."""

    def _retrieve(self, query_bundle):
        raise KeyError(query_bundle.query_str)


class Lines(CustomLLM):
    """An LLM that writes fixed lines."""

    lines: str = ""

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **_):  # noqa: FBT002
        return CompletionResponse(text=self.lines)

    def stream_complete(self, prompt, formatted=False, **_):  # noqa: FBT002
        raise NotImplementedError


def run(retriever, path="sync", question="q"):
    """Ask by one of the two paths."""
    if path == "sync":
        return retriever.retrieve(question)
    return asyncio.run(retriever.aretrieve(question))


def ids(hits):
    return [hit.node_id for hit in hits]


def scores(hits, digits=6):
    return {hit.node_id: round(hit.score, digits) for hit in hits}


@both_paths
def test_the_worked_example_of_the_design(path):
    """Vector 2,7,6 and BM25 6,2,7 with k=1: 1/2+1/3, 1/4+1/2, 1/3+1/4."""
    found = run(HybridRetriever([Leg("276"), Leg("627")], rrf_k=1), path)
    assert list(scores(found, 3).items()) == [("2", 0.833), ("6", 0.75), ("7", 0.583)]


@both_paths
def test_weights_and_ranks_count(path):
    """[a,b] and [b,c], weights .9 and .1: .9/61, .9/62 + .1/61, .1/62."""
    hybrid = HybridRetriever([Leg("ab"), Leg("bc")], retriever_weights=[0.9, 0.1])
    assert scores(run(hybrid, path)) == {"b": 0.016155, "a": 0.014754, "c": 0.001613}


def test_weights_are_one_each_when_not_given():
    """1/61, not 1/2 of it."""
    assert run(HybridRetriever([Leg("a"), Leg("b")]))[0].score == 1 / 61


@both_paths
def test_a_leg_of_weight_zero_contributes_no_node(path):
    """Weights 0 and 1: `a` is gone."""
    hybrid = HybridRetriever([Leg("ab"), Leg("bc")], retriever_weights=[0, 1])
    assert ids(run(hybrid, path)) == ["b", "c"]


@both_paths
def test_a_leg_of_weight_zero_is_not_asked(path):
    """It could only cost time, or fail."""
    hybrid = HybridRetriever([Failing("a"), Leg("bc")], retriever_weights=[0, 1])
    assert ids(run(hybrid, path)) == ["b", "c"]


def test_chunks_of_equal_text_are_not_one():
    """Identity is the node id: boilerplate of two pages stays two nodes."""
    legs = [
        Leg([NodeWithScore(node=node(id_, "same"), score=1.0) for id_ in order])
        for order in ("ab", "ba")
    ]
    assert scores(run(HybridRetriever(legs))) == dict.fromkeys(
        "ab", round(1 / 61 + 1 / 62, 6)
    )


def test_one_chunk_is_one_whatever_the_legs_made_of_it():
    """A leg that adds metadata changes the hash, not the id."""
    changed = hits_of("a")
    changed[0].node.metadata["distance"] = 0.3
    assert scores(run(HybridRetriever([Leg("a"), Leg(changed)]))) == {
        "a": round(2 / 61, 6)
    }


def test_the_delivered_order_is_the_rank():
    """Scores that rise down a leg don't turn it round."""
    hits = [NodeWithScore(node=node(i), score=s) for i, s in (("a", 0.1), ("b", 0.9))]
    assert ids(run(HybridRetriever([Leg(hits)]))) == ["a", "b"]


def test_a_leg_without_scores_is_ranked_by_its_order():
    """A score of None is no obstacle."""
    hits = [NodeWithScore(node=node(id_)) for id_ in "ba"]
    assert ids(run(HybridRetriever([Leg(hits)]))) == ["b", "a"]


@both_paths
def test_the_third_of_both_legs_wins(path):
    """Two results wanted, legs of two each: only depth 3 can see x at 2/63."""
    hybrid = HybridRetriever([Leg("abx"), Leg("cdx")], similarity_top_k=2, depth=3)
    assert ids(run(hybrid, path)) == ["x", "a"]


def test_legs_are_asked_for_depth():
    """Not for their own 2, nor for the 5 that are returned."""
    leg = Leg("abc")
    run(HybridRetriever([leg], depth=7))
    assert leg.asked == [("q", 7)]


@both_paths
def test_a_leg_that_gives_more_is_cut_to_depth(path):
    """A leg without `similarity_top_k` can't be told how many are wanted."""

    class Bare(BaseRetriever):
        def _retrieve(self, query_bundle):
            return hits_of("abcdef")

    hybrid = HybridRetriever([Bare()], depth=3, similarity_top_k=3)
    assert ids(run(hybrid, path)) == ["a", "b", "c"]


def test_the_callers_legs_keep_their_setting():
    """They may be in use elsewhere."""
    leg = Leg("abc", similarity_top_k=2)
    run(HybridRetriever([leg], depth=7))
    assert leg.similarity_top_k == 2


def test_disjoint_legs_are_joined():
    """[a,b] and [c,d], three wanted: 1/61, 1/61, 1/62, ties by id."""
    hybrid = HybridRetriever([Leg("ab"), Leg("cd")], similarity_top_k=3)
    assert ids(run(hybrid)) == ["a", "c", "b"]


def test_on_top_of_one_leg_only_still_competes():
    """With k=1, solo's 1/2 beats twice's 1/5 + 1/5."""
    found = run(HybridRetriever([Leg("sabt", 9), Leg("cdet", 9)], rrf_k=1))
    assert ids(found).index("s") < ids(found).index("t")


def test_a_leg_counts_a_node_once():
    """The second `a` neither scores nor takes a rank from b."""
    found = run(HybridRetriever([Leg("aab")], rrf_k=0))
    assert scores(found) == {"a": 1.0, "b": 0.5}


@both_paths
@pytest.mark.parametrize(
    ("legs", "expected"), [(["", "ab"], ["a", "b"]), (["", ""], [])]
)
def test_a_leg_may_find_nothing(path, legs, expected):
    """The others stand; with nothing anywhere, nothing is returned."""
    assert ids(run(HybridRetriever([Leg(each) for each in legs]), path)) == expected


@both_paths
def test_the_callers_nodes_are_left_as_they_are(path):
    """Neither scores nor metadata are written into them."""
    legs = [Leg("abc", 9), Leg("bcd", 9)]
    before = [hit.model_dump() for leg in legs for hit in leg.hits]
    run(HybridRetriever(legs), path)
    assert [hit.model_dump() for leg in legs for hit in leg.hits] == before


def test_changing_a_result_does_not_reach_the_callers_nodes():
    """Text, metadata within metadata, key lists and relations are the result's own."""
    leg = Leg("a")
    (found,) = run(HybridRetriever([leg]))
    found.node.set_content("changed")
    found.node.metadata["tags"].append("changed")
    found.node.excluded_llm_metadata_keys.append("changed")
    found.node.relationships.clear()
    assert leg.hits[0].node == node("a")


def test_a_result_carries_its_rank_and_score_in_each_leg():
    """By the names of the legs; a leg that missed it is not there."""
    hybrid = HybridRetriever({"vector": Leg("ab"), "bm25": Leg("bc")})
    found = {hit.node_id: hit.node.metadata[PROVENANCE] for hit in run(hybrid)}
    assert found == {
        "a": {"vector": {"rank": 1, "score": 0.9}},
        "b": {"vector": {"rank": 2, "score": 0.8}, "bm25": {"rank": 1, "score": 0.9}},
        "c": {"bm25": {"rank": 2, "score": 0.8}},
    }


def test_the_provenance_of_a_repeated_node_is_its_first_place():
    """`a` at 1 with .9, and again at 2 with .8; b is second."""
    found = run(HybridRetriever([Leg("aab", 3)]))
    assert [hit.node.metadata[PROVENANCE]["Leg"] for hit in found] == [
        {"rank": 1, "score": 0.9},
        {"rank": 2, "score": pytest.approx(0.7)},
    ]


@pytest.mark.parametrize("mode", [MetadataMode.EMBED, MetadataMode.LLM])
def test_what_embedder_and_llm_read_is_unchanged(mode):
    """The provenance is hidden; the rest of the metadata is read as before."""
    (found,) = run(HybridRetriever([Leg("a")]))
    assert found.node.get_content(mode) == node("a").get_content(mode)


@pytest.mark.parametrize("mode", [MetadataMode.EMBED, MetadataMode.LLM])
def test_a_hybrid_of_hybrids_is_hidden_as_well(mode):
    """The provenance of the inner one is replaced, not added to the text."""
    inner = HybridRetriever([Leg("ab")])
    (found, _) = run(HybridRetriever({"inner": inner}))
    assert found.node.metadata[PROVENANCE] == {
        "inner": {"rank": 1, "score": pytest.approx(1 / 61)}
    }
    assert found.node.get_content(mode) == node("a").get_content(mode)


def test_legs_are_named_by_class_and_number():
    """A second one of the same class is told apart."""
    hybrid = HybridRetriever([Leg("a"), OtherLeg("a"), Leg("a")])
    assert hybrid.leg_names == ("Leg", "OtherLeg", "Leg-2")


@both_paths
def test_the_error_of_a_leg_has_its_name(path):
    """And its own class and text, not 'nested async'."""
    hybrid = HybridRetriever({"vector": Leg("a"), "words": Failing("a")})
    with pytest.raises(RetrievalError, match="the leg 'words' failed: KeyError: 'q'"):
        run(hybrid, path)


def test_the_error_of_an_async_leg_has_its_name():
    """An async path of its own fails in the same words."""

    class Broken(Leg):
        async def _aretrieve(self, query_bundle):
            raise TimeoutError(query_bundle.query_str)

    with pytest.raises(RetrievalError, match="'Broken' failed: TimeoutError: q"):
        run(HybridRetriever([Broken("a")]), "async")


@both_paths
def test_sync_legs_run_at_the_same_time(path):
    """Each waits for the other at a barrier: one after the other would never pass."""
    barrier = threading.Barrier(2, timeout=TIMEOUT)

    class Meeting(Leg):
        def _retrieve(self, query_bundle):
            barrier.wait()
            return super()._retrieve(query_bundle)

    assert ids(run(HybridRetriever([Meeting("a"), Meeting("b")]), path)) == ["a", "b"]


def test_async_legs_run_at_the_same_time():
    """Each waits for the other's event."""

    class Meeting(Leg):
        events = (asyncio.Event(), asyncio.Event())

        async def _aretrieve(self, query_bundle):
            mine, other = (
                self.events if self.hits[0].node_id == "a" else self.events[::-1]
            )
            mine.set()
            await asyncio.wait_for(other.wait(), TIMEOUT)
            return self._retrieve(query_bundle)

    found = run(HybridRetriever([Meeting("a"), Meeting("b")]), "async")
    assert ids(found) == ["a", "b"]


async def test_a_sync_leg_leaves_the_loop_free():
    """The leg waits for what only the loop can set while the leg waits."""
    free = threading.Event()

    class Waiting(Leg):
        def _retrieve(self, query_bundle):
            if not free.wait(TIMEOUT):
                raise TimeoutError
            return super()._retrieve(query_bundle)

    waiting = asyncio.create_task(HybridRetriever([Waiting("a")]).aretrieve("q"))
    for _ in range(3):
        await asyncio.sleep(0)
    free.set()
    assert ids(await waiting) == ["a"]


async def test_the_sync_path_works_in_a_running_loop():
    """As in a notebook: no nested loop is needed."""
    assert ids(HybridRetriever([Leg("ab"), Leg("bc")]).retrieve("q")) == ["b", "a", "c"]


def test_async_legs_are_asked_by_their_async_path():
    """Its sync path would fail."""
    assert ids(run(HybridRetriever([AsyncLeg("ab")]), "async")) == ["a", "b"]


@both_paths
@pytest.mark.parametrize("use_async", [True, False])
def test_the_parents_use_async_changes_no_result(path, use_async):
    """It is accepted, and legs run together anyway."""
    hybrid = HybridRetriever([Leg("ab"), Leg("bc")], use_async=use_async)
    assert ids(run(hybrid, path)) == ["b", "a", "c"]


@both_paths
def test_a_leg_writes_its_embedding_into_a_bundle_of_its_own(path):
    """Else the second vector leg would search with the first one's model."""

    class Embedding(Leg):
        def _retrieve(self, query_bundle):
            assert query_bundle.embedding is None
            query_bundle.embedding = [1.0]
            return super()._retrieve(query_bundle)

    bundle = QueryBundle("q")
    run(HybridRetriever([Embedding("a"), Embedding("b")]), path, bundle)
    assert bundle.embedding is None


def test_an_async_leg_writes_its_embedding_into_a_bundle_of_its_own():
    """The same for legs with an async path."""

    class Embedding(Leg):
        async def _aretrieve(self, query_bundle):
            query_bundle.embedding = [1.0]
            return []

    bundle = QueryBundle("q")
    run(HybridRetriever([Embedding("")]), "async", bundle)
    assert bundle.embedding is None


def test_a_given_embedding_reaches_the_legs():
    """The question is not embedded again."""
    seen = []

    class Watching(Leg):
        def _retrieve(self, query_bundle):
            seen.append(query_bundle.embedding)
            return []

    run(HybridRetriever([Watching("")]), question=QueryBundle("q", embedding=[0.5]))
    assert seen == [[0.5]]


@both_paths
def test_one_query_needs_no_llm(path, monkeypatch):
    """Settings.llm, which would want OpenAI, is not so much as looked at."""

    def resolve(self):
        raise AssertionError(self)

    monkeypatch.setattr(type(Settings), "llm", property(resolve))
    assert ids(run(HybridRetriever([Leg("a")]), path)) == ["a"]


@both_paths
def test_a_second_query_is_fused_with_the_first(path):
    """One leg asked twice: a and b swap, so each scores 1/61 + 1/62."""

    class Turning(Leg):
        def _retrieve(self, query_bundle):
            return self.hits[:: -1 if query_bundle.query_str == "other" else 1]

    hybrid = HybridRetriever([Turning("ab")], num_queries=2, llm=Lines(lines="other"))
    assert scores(run(hybrid, path)) == dict.fromkeys("ab", round(1 / 61 + 1 / 62, 6))


def test_the_llm_is_asked_for_one_query_less():
    """The first query is the question itself; surplus lines are left out."""
    leg = Leg("a")
    hybrid = HybridRetriever([leg], num_queries=3, llm=Lines(lines="one\n\ntwo\nthree"))
    run(hybrid)
    assert sorted(asked for asked, _ in leg.asked) == ["one", "q", "two"]


def test_provenance_over_several_queries_is_the_best_rank():
    """`b` is second for the question and first for the other query."""

    class Turning(Leg):
        def _retrieve(self, query_bundle):
            return hits_of("ba" if query_bundle.query_str == "other" else "ab")

    hybrid = HybridRetriever([Turning("")], num_queries=2, llm=Lines(lines="other"))
    ranks = {
        h.node_id: h.node.metadata[PROVENANCE]["Turning"]["rank"] for h in run(hybrid)
    }
    assert ranks == {"a": 1, "b": 1}


def test_it_is_a_query_fusion_retriever():
    """Whatever takes one takes it."""
    assert isinstance(HybridRetriever([Leg("a")]), QueryFusionRetriever)


def test_nothing_is_printed(capsys):
    """Unless `verbose` asks for it."""
    run(HybridRetriever([Leg("a")], num_queries=2, llm=Lines(lines="other")))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rrf_k": -1}, "rrf_k is -1; give a finite number >= 0"),
        ({"rrf_k": float("nan")}, "rrf_k is nan"),
        ({"retriever_weights": [1]}, "1 weights for 2 rankings"),
        ({"retriever_weights": [1, -1]}, "give finite numbers >= 0"),
        ({"retriever_weights": [0, 0]}, "all weights are 0"),
        ({"depth": 4}, "depth is 4 with similarity_top_k 5"),
        ({"similarity_top_k": 0}, "similarity_top_k is 0"),
        ({"similarity_top_k": -1}, "similarity_top_k is -1"),
        ({"num_queries": 0}, "num_queries 0; give at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    """Before anything is asked, with what was given."""
    with pytest.raises(ConfigError, match=message):
        HybridRetriever([Leg("a"), Leg("b")], **settings)


@pytest.mark.parametrize("legs", [[], {}])
def test_no_legs_are_refused(legs):
    """A hybrid of nothing."""
    with pytest.raises(ConfigError, match="give at least one"):
        HybridRetriever(legs)


TEXTS = {
    "t#0": "Las elecciones municipales se celebran cada cuatro años.",
    "t#1": "El agua potable se analiza cada semana.",
    "t#2": "La elección de la muestra sigue el protocolo municipal de agua.",
    "t#3": "Los plazos de entrega del agua.",
}


def bm25(cls=LanguageBM25Retriever, texts=TEXTS, **settings):
    nodes = [TextNode(id_=id_, text=text) for id_, text in texts.items()]
    return cls(nodes=nodes, **settings)


@both_paths
@pytest.mark.parametrize("question", ["elección municipal", "agua de la semana"])
def test_real_legs_are_fused_as_rrf_fuses_their_rankings(path, question):
    """BM25 in Spanish and in English: rrf over the ids that each returns alone."""
    legs = [bm25(language="es"), bm25(language="en")]
    alone = [ids(leg.retrieve(question)) for leg in legs]
    found = run(HybridRetriever(legs, similarity_top_k=4), path, question)
    assert ids(found) == rrf(alone, top=4)


def test_a_real_leg_that_matches_nothing_adds_nothing():
    """BM25 finds no 'xyz', the other leg stands."""
    found = run(HybridRetriever([bm25(), Leg("ab")]), question="xyz")
    assert ids(found) == ["a", "b"]


def test_the_scores_of_a_real_leg_are_kept():
    """BM25's own, under the leg's name."""
    leg = bm25()
    first = leg.retrieve("plazos de entrega")[0]
    found = run(HybridRetriever({"bm25": leg}), question="plazos de entrega")[0]
    assert found.node.metadata[PROVENANCE] == {
        "bm25": {"rank": 1, "score": first.score}
    }


def test_a_stock_bm25_leg_may_be_smaller_than_the_depth():
    """bm25s refuses more than its four texts; 20 are asked."""
    with contextlib.redirect_stdout(None):
        leg = BM25Retriever.from_defaults(
            nodes=bm25()._nodes, similarity_top_k=2, skip_stemming=True
        )
    assert run(HybridRetriever([leg], depth=20), question="plazos")[0].node_id == "t#3"

"""Timing by a clock of our own: what is asked, in which order, and what is recorded."""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import Document, NodeWithScore, TextNode

from scholar_rag_li.ablation import Ablation, latency
from scholar_rag_li.ablation.components import CustomLeg, Hybrid
from scholar_rag_li.ablation.latency import (
    RESULTS,
    live_system,
    measure_latency,
    time_systems,
)
from scholar_rag_li.ablation.plan import System
from scholar_rag_li.ablation.ranking import Bench as SharedBench
from scholar_rag_li.ablation.ranking import Ranker
from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.judging import Evidence
from scholar_rag_li.rerank import CrossEncoderRerank
from scholar_rag_li.results import Timing

QUESTIONS = [Question(f"q{i}", f"question {i}", (), "text") for i in range(4)]
SECONDS = {"fast": 0.001, "middle": 0.25, "slow": 2.0}


class Bench:
    """Systems that take a set time on a clock that only they move."""

    def __init__(self, seconds=SECONDS):
        self.now, self.asked, self.told = 100.0, [], []
        self.systems = {name: self._system(name, s) for name, s in seconds.items()}

    def _system(self, name, seconds):
        def ask(question):
            self.asked.append((name, question))
            self.now += seconds

        return ask

    def time(self, repeats=5, seed=0):
        """Time the systems on the questions."""
        return time_systems(
            self.systems,
            QUESTIONS,
            repeats=repeats,
            seed=seed,
            progress=lambda *args: self.told.append(args),
            clock=lambda: self.now,
        )


def test_milliseconds_are_the_clock_s():
    """0.001, 0.25 and 2 seconds are 1, 250 and 2000 ms, on every observation."""
    found = {(timing.system, timing.milliseconds) for timing in Bench().time()}
    assert found == {("fast", 1.0), ("middle", 250.0), ("slow", 2000.0)}


def test_one_observation_per_system_question_and_repeat():
    """3 systems, 4 questions and 5 rounds give 60 observations, all different."""
    found = [timing[:3] for timing in Bench().time()]
    expected = [(s, q.id, r) for s in SECONDS for q in QUESTIONS for r in range(5)]
    assert sorted(found) == sorted(expected)


def test_each_system_is_warmed_up_first():
    """Before anything else every system answers the first question."""
    bench = Bench()
    bench.time()
    assert bench.asked[:3] == [(name, "question 0") for name in SECONDS]


def test_warm_up_is_not_recorded():
    """60 observations of 63 calls: the three of the warm-up are left out."""
    bench = Bench()
    timings = bench.time()
    assert (len(bench.asked), len(timings)) == (63, 60)


def test_systems_are_interleaved():
    """All systems answer a question before any answers the next."""
    timings = Bench().time()
    rounds = [timings[i : i + 3] for i in range(0, len(timings), 3)]
    together = [{(t.question, t.repeat) for t in each} for each in rounds]
    assert together == [{(q.id, r)} for r in range(5) for q in QUESTIONS]


def test_the_order_of_the_systems_varies():
    """No system is always first: over 20 rounds each is so at least once."""
    timings = Bench().time()
    assert {timing.system for timing in timings[::3]} == set(SECONDS)


def test_a_seed_gives_an_order():
    """The same seed asks in the same order, whatever the order of the mapping."""
    backwards = Bench(dict(reversed(SECONDS.items())))
    assert backwards.time(seed=7) == Bench().time(seed=7)


def test_another_seed_gives_another_order():
    """Seeds 0 and 1 ask in different orders."""
    assert Bench().time(seed=0) != Bench().time(seed=1)


def test_progress_after_each_question():
    """Four questions twice: 1 to 8 of 8."""
    bench = Bench()
    bench.time(repeats=2)
    assert bench.told == [("timing single questions", i, 8) for i in range(1, 9)]


def test_milliseconds_are_those_that_the_folder_keeps():
    """Observations are in whole microseconds, as latency.csv writes them."""
    [timing, *_] = Bench({"odd": 0.0123456789}).time()
    assert timing == Timing("odd", "q0", 0, 12.346)


# a system as an application would build it


class Ids(BaseRetriever):
    """Returns the same ids for any question, and notes what it is asked for."""

    def __init__(self, *ids):
        self.ids, self.similarity_top_k = ids, 2
        super().__init__()

    def _retrieve(self, _):
        hits = [NodeWithScore(node=TextNode(id_=id_), score=1.0) for id_ in self.ids]
        return hits[: self.similarity_top_k]


class Levels:
    """What `live_system` reads of a ranker."""

    depth = 20

    def __init__(self, legs, rerankers=None, candidates=20):
        self.legs, self.rerankers = legs, {"none": None} | (rerankers or {})
        self._candidates = candidates

    def candidates(self, _):
        return self._candidates


class Chunks:
    """A chunking without chunks."""

    nodes = ()


def live(system, **levels):
    """Build a system of the levels given, and ask it."""
    hits = live_system(system, Chunks(), Levels(**levels), None)("where?")
    return [(hit.node.node_id, round(hit.score, 6)) for hit in hits]


LEGS = {
    "a": CustomLeg(lambda _: Ids("x", "y")),
    "b": CustomLeg(lambda _: Ids("y", "z")),
    "fused": Hybrid(["a", "b"], [1, 0.5]),
}


def test_live_hybrid_fuses_as_the_system_says():
    """rrf_k 1, weights 1 and .5: x 1/2, y 1/3 + .5/2, z .5/3."""
    assert live(System("c", "fused", 1), legs=LEGS) == [
        ("y", round(1 / 3 + 0.5 / 2, 6)),
        ("x", round(1 / 2, 6)),
        ("z", round(0.5 / 3, 6)),
    ]


def test_live_leg_gives_as_many_as_the_tables_read():
    """Without a reranker a leg is asked for as many as the deepest measure reads."""
    leg = CustomLeg(lambda _: Ids(*map(str, range(50))))
    assert len(live(System("c", "leg"), legs={"leg": leg})) == RESULTS


@pytest.mark.parametrize("retriever", ["leg", "fused"])
def test_live_reranker_gets_its_candidates(retriever):
    """A reranker of 15 candidates is given 15, of a leg as of a hybrid."""
    leg = CustomLeg(lambda _: Ids(*map(str, range(50))))
    given = []

    class Reranker:
        def postprocess_nodes(self, nodes, _):
            given.extend(nodes)
            return nodes[:1]

    live(
        System("c", retriever, reranker="ce"),
        legs={"leg": leg, "fused": Hybrid(["leg"])},
        rerankers={"ce": Reranker()},
        candidates=15,
    )
    assert len(given) == 15


def test_live_reranker_has_the_last_word():
    """What the reranker returns is what the system answers."""

    class Last:
        def postprocess_nodes(self, nodes, bundle):
            assert bundle.query_str == "where?"
            return nodes[-1:]

    found = live(
        System("c", "a", reranker="last"), legs=LEGS, rerankers={"last": Last()}
    )
    assert found == [("y", 1.0)]


# what timings depend on

CORPUS = Corpus(
    (Document(id_="a", text="agua dura"),),
    Gold((Question("q1", "¿agua?", ((Evidence("a", 0, 4, "agua"),),), "text"),)),
)


@pytest.fixture
def measured(cache, monkeypatch):
    """Measure BM25 with and without a reranker; how often was it really timed?"""
    runs = []

    def timed(*_, **__):
        runs.append(len(runs))
        return {"timings": [], "cold_ms": {}, "torch_threads": len(runs)}

    monkeypatch.setattr(latency, "_measured", timed)
    monkeypatch.setattr(CrossEncoderRerank, "fingerprint", {"model": "ce"})

    def measure(again=False, **reranker):  # noqa: FBT002  # as the function has it
        inputs = inputs_of(CrossEncoderRerank(model="m", **reranker))
        chunking = inputs.chunk("fixed")
        systems = [System("fixed", "bm25"), System("fixed", "bm25", None, "ce")]
        ranker = Ranker(inputs, None, cache)
        measure_latency(
            inputs,
            ranker,
            {each.name: (each, chunking) for each in systems},
            cache,
            lambda *_: None,
            again=again,
        )
        return len(runs)

    return measure


def inputs_of(reranker):
    """Make inputs of BM25 and a reranker, without an embedding model."""
    return Ablation(
        CORPUS,
        chunkers={"fixed": {"kind": "fixed"}},
        retrievers={"bm25": {"kind": "bm25"}},
        rerankers={"ce": reranker},
        baseline=System("fixed", "bm25"),
    )._inputs()


def test_latency_is_measured_once(measured):
    """Under the same terms the first measurement is given out again."""
    measured()
    assert measured() == 1


def test_latency_is_measured_anew_when_asked(measured):
    """`again` forgets what is known."""
    measured()
    assert measured(again=True) == 2


def test_what_was_measured_anew_is_kept(measured):
    """After `again` the new measurement is the known one."""
    measured(again=True)
    assert measured() == 1


@pytest.mark.parametrize("name", latency.THREADS)
def test_latency_depends_on_the_threads(measured, monkeypatch, name):
    """Other threads, other milliseconds."""
    monkeypatch.setenv(name, "1")
    measured()
    monkeypatch.setenv(name, "2")
    assert measured() == 2


@pytest.mark.parametrize(
    "change", [{"device": "cuda:1"}, {"top_n": 7}, {"candidates": 12}], ids=str
)
def test_latency_depends_on_how_the_reranker_runs(measured, change):
    """Another device, fewer results or fewer candidates are timed for themselves."""
    measured(device="cpu", top_n=5, candidates=20)
    assert measured(**({"device": "cpu", "top_n": 5, "candidates": 20} | change)) == 2


def test_latency_needs_no_embedding_model(cache):
    """BM25 alone is timed where there is no model: one question, five times."""
    inputs = inputs_of(None)
    system = System("fixed", "bm25")
    found = measure_latency(
        inputs,
        Ranker(inputs, SharedBench(None, None, None), cache),
        {system.name: (system, inputs.chunk("fixed"))},
        cache,
        lambda *_: None,
    )
    assert (len(found["timings"]), found["cold_ms"]) == (5, {})

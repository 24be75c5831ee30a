"""Which measures a run is scored on: none that reads deeper than what was ranked."""

import pytest
from llama_index.core.schema import Document

from scholar_rag_li.ablation import Ablation
from scholar_rag_li.ablation.config import Settings
from scholar_rag_li.ablation.plan import PlannedStudy, System
from scholar_rag_li.ablation.ranking import Hit
from scholar_rag_li.ablation.scoring import Scorer
from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.judging import Evidence, Span
from scholar_rag_li.rerank import CrossEncoderRerank
from scholar_rag_li.studies import UNION

TEXT = "agua dura"
QUESTION = Question("q1", "¿agua?", ((Evidence("a", 0, 4, "agua"),),), "text")
CORPUS = Corpus((Document(id_="a", text=TEXT),), Gold((QUESTION,)))


@pytest.fixture
def columns(cache):
    """Score one ranking as that of a system; the cutoffs of recall by one chunk."""

    def score(reranker, candidates=3, **settings):
        inputs = Ablation(
            CORPUS,
            chunkers={"fixed": {"kind": "fixed"}, "sentence": {"kind": "sentence"}},
            retrievers={"bm25": {"kind": "bm25"}},
            rerankers={"ce": CrossEncoderRerank(model="m", candidates=candidates)},
            baseline=System("fixed", "bm25"),
            studies=[PlannedStudy("chunker", "recall@7")],
            settings=Settings(**settings),
        )._inputs()
        run = {"q1": [Hit("a#0", Span("a", 0, len(TEXT)), 1.0)]}
        system = System("fixed", "bm25", None, reranker)
        return Scorer(inputs, cache).scores(run, system, inputs.chunk("fixed"))

    return score


def cutoffs(found, name="recall"):
    """Return the cutoffs of a measure of ours, sorted."""
    return sorted(
        int(each.split("@")[1])
        for each in found
        if each.startswith(f"{name}@") and not each.endswith(UNION)
    )


def test_a_ranking_is_read_as_deep_as_it_is(columns):
    """1, 3, 5, 10, the study's 7, and the candidates of either level: 3 and 20."""
    assert cutoffs(columns("none")) == [1, 3, 5, 7, 10, 20]


def test_a_reranked_one_is_read_as_deep_as_its_candidates(columns):
    """Of three candidates there is no fifth rank."""
    assert cutoffs(columns("ce")) == [1, 3]


def test_the_last_candidate_is_read(columns):
    """Of five candidates the fifth is there, and no seventh."""
    assert cutoffs(columns("ce", candidates=5)) == [1, 3, 5]


def test_no_ranking_is_read_deeper_than_the_legs(columns):
    """Legs of 10 have no rank 20, though that is what a reranker would be given."""
    assert cutoffs(columns("none", depth=10)) == [1, 3, 5, 7, 10]


@pytest.mark.parametrize("name", ["rr", "success", "precision", "recall"])
def test_every_measure_keeps_to_the_candidates(columns, name):
    """By one chunk and by union, whatever is measured."""
    found = columns("ce")
    union = [each.removesuffix(UNION) for each in found if each.endswith(UNION)]
    assert (cutoffs(found, name)[-1], cutoffs(union, name)[-1]) == (3, 3)


def test_what_is_left_out_is_not_scored_zero(columns):
    """A measure that can't be read has no column, not one of zeros."""
    found = columns("ce")
    assert ("recall@5" in found, found["recall@3"]) == (False, {"q1": 1.0})

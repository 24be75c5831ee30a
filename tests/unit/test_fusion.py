"""Reciprocal rank fusion over ids: worked examples, what it ignores, what it refuses."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholar_rag_li.errors import ConfigError
from scholar_rag_li.fusion import RRF_K, rrf, rrf_scores

RANKINGS = st.lists(
    st.lists(st.sampled_from("abcdefgh"), max_size=8), min_size=1, max_size=4
)
CONSTANTS = st.floats(0, 1000)
many = settings(max_examples=100, deadline=None)


def test_a_document_in_both_rankings_comes_first():
    """B: 1/62 + 1/61; A: 1/61; C: 1/62."""
    assert rrf([["A", "B"], ["B", "C"]]) == ["B", "A", "C"]


def test_the_worked_example_of_the_design():
    """Vector 2,7,6 and BM25 6,2,7 with k=1."""
    vector, bm25 = ["2", "7", "6"], ["6", "2", "7"]
    expected = {
        "2": 1 / (1 + 1) + 1 / (1 + 2),  # 0.833
        "6": 1 / (1 + 3) + 1 / (1 + 1),  # 0.75
        "7": 1 / (1 + 2) + 1 / (1 + 3),  # 0.583
    }
    assert rrf_scores([vector, bm25], k=1) == pytest.approx(expected, abs=1e-15)


def test_first_and_third_place():
    """Ranks count from 1: 1/(60+1) + 1/(60+3)."""
    scores = rrf_scores([["x", "a", "b"], ["c", "d", "x"]])
    assert scores["x"] == pytest.approx(1 / (60 + 1) + 1 / (60 + 3), abs=1e-15)


def test_the_constant_is_that_of_the_paper():
    """Cormack, Clarke and Buettcher use 60."""
    assert RRF_K == 60


def test_on_top_of_one_list_only_still_competes():
    """With k=1, solo's 1/2 beats twice's 1/4 + 1/5; with k=60, 1/61 < 1/63 + 1/64."""
    rankings = [["solo", "a", "twice"], ["b", "c", "d", "twice"]]
    order = {
        k: [id_ for id_ in rrf(rankings, k=k, top=None) if id_ in ("solo", "twice")]
        for k in (1, 60)
    }
    assert order == {1: ["solo", "twice"], 60: ["twice", "solo"]}


def test_weights_multiply_each_leg():
    """Weights .9 and .1 as given: .9/61, .9/62 + .1/61, .1/62."""
    scores = rrf_scores([["a", "b"], ["b", "c"]], weights=[0.9, 0.1])
    rounded = {id_: round(score, 6) for id_, score in scores.items()}
    assert rounded == {"b": 0.016155, "a": 0.014754, "c": 0.001613}


def test_weights_are_not_normalised():
    """2/61, not 1/61: the weights need not add up to 1."""
    assert rrf_scores([["a"]], weights=[2]) == {"a": 2 / 61}


def test_a_ranking_of_weight_zero_contributes_no_id():
    """Weights 0 and 1 leave the second ranking alone."""
    assert rrf_scores([["a", "b"], ["b"]], weights=[0, 1]) == {"b": 1 / 61}


def test_a_repeated_id_counts_once_and_takes_no_rank():
    """Second `a` gives nothing, and `b` behind it is second, not third."""
    assert rrf_scores([["a", "a", "b"]], k=0) == {"a": 1 / 1, "b": 1 / 2}


def test_ties_go_by_id():
    """Both first in one ranking: the smaller id wins, wherever it stood."""
    assert rrf([["z"], ["m"], ["b"]]) == ["b", "m", "z"]


def test_top_cuts_the_fused_ranking():
    """Five by default, all with None."""
    ranking = list("abcdefgh")
    assert (len(rrf([ranking])), len(rrf([ranking], top=None))) == (5, 8)


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_nothing_in_nothing_out(rankings):
    """No rankings, or empty ones, are no error."""
    assert rrf(rankings) == []


def test_an_empty_ranking_changes_nothing():
    """A leg that found nothing adds nothing."""
    assert rrf_scores([["a", "b"], []]) == rrf_scores([["a", "b"]])


@pytest.mark.parametrize("k", [-1, -0.5, math.nan, math.inf])
def test_a_constant_that_cannot_be_meant_is_refused(k):
    """The message names the constant and what is allowed."""
    with pytest.raises(ConfigError, match=rf"rrf_k is {k}; give a finite number >= 0"):
        rrf([["a"]], k=k)


@pytest.mark.parametrize("top", [0, -1])
def test_a_top_below_one_is_refused(top):
    """A slice with -1 would drop the last in silence."""
    with pytest.raises(ConfigError, match=f"top is {top}; give a whole number"):
        rrf([["a", "b"]], top=top)


def test_one_weight_for_two_rankings_is_refused():
    """The message has both numbers."""
    with pytest.raises(ConfigError, match="1 weights for 2 rankings"):
        rrf_scores([["a"], ["b"]], weights=[1])


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
def test_a_weight_that_cannot_be_meant_is_refused(weight):
    """Negative and non-finite weights name themselves."""
    with pytest.raises(ConfigError, match="give finite numbers >= 0"):
        rrf_scores([["a"], ["b"]], weights=[1, weight])


def test_weights_that_are_all_zero_are_refused():
    """They would return nothing for every question."""
    with pytest.raises(ConfigError, match="all weights are 0"):
        rrf_scores([["a"], ["b"]], weights=[0, 0])


@many
@given(RANKINGS, CONSTANTS, st.randoms(use_true_random=False))
def test_the_order_of_the_rankings_does_not_count(rankings, k, random):
    """Shuffled legs give the same scores to the last bit."""
    shuffled = random.sample(rankings, len(rankings))
    assert list(rrf_scores(shuffled, k).items()) == list(
        rrf_scores(rankings, k).items()
    )


@many
@given(st.lists(st.text(max_size=3), unique=True), CONSTANTS)
def test_one_ranking_keeps_its_order(ranking, k):
    """With nothing to fuse, nothing moves."""
    assert rrf([ranking], k, top=None) == ranking


@many
@given(RANKINGS, CONSTANTS)
def test_scores_are_the_sums_of_the_formula(rankings, k):
    """Against the formula, written for lists without repeats."""
    distinct = [list(dict.fromkeys(ranking)) for ranking in rankings]
    expected = {
        id_: sum(1 / (k + r.index(id_) + 1) for r in distinct if id_ in r)
        for id_ in {id_ for ranking in distinct for id_ in ranking}
    }
    assert rrf_scores(rankings, k) == pytest.approx(expected, rel=1e-12)


@many
@given(RANKINGS, CONSTANTS)
def test_scores_fall_and_equal_ones_go_by_id(rankings, k):
    """The result is sorted by falling score, then by id."""
    items = list(rrf_scores(rankings, k).items())
    assert items == sorted(items, key=lambda item: (-item[1], item[0]))


@many
@given(RANKINGS)
def test_the_input_stays_as_it_is(rankings):
    """Fusion returns new values."""
    before = [list(ranking) for ranking in rankings]
    rrf_scores(rankings)
    assert rankings == before

"""The measures on first ranks: worked values, their bounds, and their names."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholar_rag_li.errors import ConfigError, ScholarRagError, UnknownComponentError
from scholar_rag_li.measures import (
    MEASURES,
    Measure,
    parse_measure,
    precision,
    recall,
    reciprocal_rank,
    success,
)

many = settings(max_examples=100, deadline=None)
RANKS = st.lists(st.none() | st.integers(1, 30), min_size=1, max_size=8)
CUTOFFS = st.integers(1, 30)
NAMES = st.sampled_from(sorted(MEASURES))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("recall", 2 / 4), ("success", 1.0), ("rr", 1 / 2), ("precision", 2 / 5)],
)
def test_four_facts_two_of_them_within_five(name, expected):
    """Ranks 5, never, 2, 6 at k=5: 2 of 4 facts, the first at 2, 2 of 5 ranks."""
    assert Measure(name, 5)([5, None, 2, 6]) == expected


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_nothing_reached_scores_zero(name):
    """Nothing found, or found beyond the cutoff."""
    assert (Measure(name, 3)([None, None]), Measure(name, 3)([4, None])) == (0.0, 0.0)


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_everything_at_the_first_rank_of_one_scores_one(name):
    """One fact, at rank 1, with k=1."""
    assert Measure(name, 1)([1]) == 1.0


def test_recall_counts_the_facts_and_not_the_ranks():
    """Three facts at rank 1 and one nowhere: 3 of 4."""
    assert recall([1, 1, 1, None], 5) == 3 / 4


def test_precision_counts_a_rank_once():
    """Three facts at rank 1: one rank of five brings something new."""
    assert precision([1, 1, 1, None], 5) == 1 / 5


def test_precision_is_over_k():
    """Over 10, though only one chunk may have been returned."""
    assert precision([1], 10) == 1 / 10


def test_reciprocal_rank_is_that_of_the_first_fact():
    """Facts at 7 and 3: 1/3."""
    assert reciprocal_rank([7, 3, None], 10) == 1 / 3


@pytest.mark.parametrize(("k", "expected"), [(4, 0.0), (5, 1.0)])
def test_the_cutoff_is_included(k, expected):
    """A fact at rank 5 is a success at 5, not at 4."""
    assert success([5], k) == expected


@many
@given(NAMES, RANKS, CUTOFFS)
def test_measures_lie_between_zero_and_one(name, ranks, k):
    """All of them, always."""
    assert 0 <= Measure(name, k)(ranks) <= 1


@many
@given(st.sampled_from(["recall", "success", "rr"]), RANKS, CUTOFFS)
def test_measures_never_fall_as_k_grows(name, ranks, k):
    """Reading one rank more can only help; precision divides by k and is left out."""
    assert Measure(name, k)(ranks) <= Measure(name, k + 1)(ranks)


@many
@given(NAMES, RANKS, CUTOFFS, st.randoms(use_true_random=False))
def test_the_order_of_the_facts_does_not_count(name, ranks, k, random):
    """Facts are a set."""
    shuffled = random.sample(ranks, len(ranks))
    assert Measure(name, k)(shuffled) == Measure(name, k)(ranks)


@many
@given(NAMES, RANKS, CUTOFFS)
def test_what_lies_beyond_the_cutoff_counts_as_not_found(name, ranks, k):
    """Rank k+1 and no rank at all are the same."""
    cut = [rank if rank is not None and rank <= k else None for rank in ranks]
    assert Measure(name, k)(cut) == Measure(name, k)(ranks)


@many
@given(NAMES, CUTOFFS)
def test_a_measure_reads_back_from_its_text(name, k):
    """parse(str(measure)) is the measure."""
    assert parse_measure(str(Measure(name, k))) == Measure(name, k)


def test_the_cutoff_is_part_of_the_name():
    """Recall at 1 and at 5 are two columns, not one."""
    assert [str(Measure("recall", k)) for k in (1, 5)] == ["recall@1", "recall@5"]


def test_an_unknown_measure_names_the_known_ones():
    """The list is that of the registry."""
    with pytest.raises(
        UnknownComponentError, match=f"choose from {', '.join(MEASURES)}"
    ):
        Measure("hits", 5)


@pytest.mark.parametrize("k", [0, -1, 2.5, math.nan])
def test_a_cutoff_that_is_no_whole_number_from_one_is_refused(k):
    """The message names it."""
    with pytest.raises(ConfigError, match=f"cutoff is {k}; give a whole number"):
        Measure("recall", k)


@pytest.mark.parametrize(
    "text", ["recall", "recall@", "@5", "recall@-1", "recall @5", ""]
)
def test_text_of_another_form_is_refused(text):
    """The message shows the form."""
    with pytest.raises(ConfigError, match="write name@cutoff, as in recall@5"):
        parse_measure(text)


@pytest.mark.parametrize("text", ["recall@0", "hits@5"])
def test_text_of_an_impossible_measure_is_refused(text):
    """A cutoff of 0, a name that is none."""
    with pytest.raises(ScholarRagError, match=r"cutoff is 0|'hits' is unknown"):
        parse_measure(text)


def test_a_question_without_facts_has_no_score():
    """0 of 0 facts is not a number."""
    with pytest.raises(ConfigError, match="without facts has no score"):
        Measure("recall", 5)([])

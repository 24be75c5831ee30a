"""Reciprocal rank fusion against ranx on random runs."""

import numpy as np
import pytest

from scholar_rag_li.fusion import rrf, rrf_scores

pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:numba.NumbaWarning"),
]

QUESTIONS = [f"q{i}" for i in range(8)]


def random_rankings(seed, legs):
    """Make, per leg and question, a ranking of 3 to 20 of 30 documents."""
    rng = np.random.default_rng(seed)
    names = [f"d{i:02}" for i in range(30)]
    return [
        {q: list(rng.permutation(names)[: rng.integers(3, 21)]) for q in QUESTIONS}
        for _ in range(legs)
    ]


def fused_by_ranx(rankings, k):
    """Fuse with ranx, which wants scores: here, minus the rank."""
    from ranx import Run, fuse  # noqa: PLC0415  # compiles with numba for seconds

    runs = [
        Run({q: {str(d): -float(i) for i, d in enumerate(r)} for q, r in leg.items()})
        for leg in rankings
    ]
    return fuse(runs=runs, method="rrf", params={"k": k}).to_dict()


@pytest.mark.parametrize(("seed", "legs", "k"), [(1, 2, 60), (2, 3, 10), (3, 2, 200)])
def test_scores_are_those_of_ranx(seed, legs, k):
    """Each document of each question has ranx's score."""
    rankings = random_rankings(seed, legs)
    ours = {q: rrf_scores([leg[q] for leg in rankings], k) for q in QUESTIONS}
    theirs = fused_by_ranx(rankings, k)
    assert ours == {q: pytest.approx(theirs[q], rel=1e-9) for q in QUESTIONS}


def test_the_order_is_that_of_falling_ranx_scores():
    """Ties aside: ranx's scores, read in our order, never rise."""
    rankings = random_rankings(4, 3)
    theirs = fused_by_ranx(rankings, 60)
    for q in QUESTIONS:
        order = rrf([leg[q] for leg in rankings], top=None)
        assert np.diff([theirs[q][d] for d in order]).max() < 1e-12

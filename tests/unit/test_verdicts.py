"""One case a wording, one case a branch of the decision, comparisons by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholar_rag_li.errors import ConfigError
from scholar_rag_li.stats import Interval, difference_interval, standard_error
from scholar_rag_li.verdicts import (
    MIRROR,
    Comparison,
    Decision,
    Reason,
    Verdict,
    compare,
    decide,
    verdict,
)

INF = math.inf


def bounds(low, high):
    """Return an interval around the middle of its bounds."""
    return Interval(low + (high - low) / 2, low, high)


# delta is .05 throughout; equivalence_floor is .0205 for 178 groups, .0649 for 55
CASES = {
    "L above delta": ((0.06, 0.2), True, (0.07, 0.19), 178, Verdict.BETTER_BY_DELTA),
    "L at delta": ((0.05, 0.2), True, (0.06, 0.19), 178, Verdict.BETTER_BY_DELTA),
    "U < delta": ((0.01, 0.04), True, (0.02, 0.03), 178, Verdict.BETTER_BELOW_DELTA),
    "floor lifts U": ((0.01, 0.04), True, (0.02, 0.03), 55, Verdict.BETTER),
    "U at delta": ((0.01, 0.05), True, (0.02, 0.04), 178, Verdict.BETTER),
    "across delta": ((0.01, 0.1), True, (0.02, 0.09), 178, Verdict.BETTER),
    "Holm holds L": ((0.06, 0.2), False, (0.07, 0.19), 178, Verdict.NOT_WORSE),
    "Holm, small": ((0.01, 0.04), False, (0.02, 0.03), 178, Verdict.NO_DIFFERENCE),
    "L at 0": ((0.0, 0.2), True, (0.01, 0.19), 178, Verdict.NOT_WORSE),
    "both inside": ((-0.04, 0.04), False, (-0.03, 0.03), 178, Verdict.NO_DIFFERENCE),
    "equivalent": ((-0.06, 0.06), False, (-0.04, 0.04), 178, Verdict.NO_DIFFERENCE),
    "at delta": ((-0.06, 0.06), False, (-0.05, 0.05), 178, Verdict.TOO_FEW),
    "floor": ((-0.04, 0.04), False, (-0.03, 0.03), 55, Verdict.TOO_FEW),
    "U alone inside": ((-0.1, 0.03), False, (-0.08, 0.02), 178, Verdict.NOT_BETTER),
    "L alone inside": ((-0.03, 0.1), False, (-0.02, 0.08), 178, Verdict.NOT_WORSE),
    "wide": ((-0.1, 0.1), False, (-0.08, 0.08), 178, Verdict.TOO_FEW),
    "one group": ((-INF, INF), False, (-INF, INF), 1, Verdict.TOO_FEW),
    "U below -delta": ((-0.2, -0.06), True, (-0.1, -0.07), 178, Verdict.WORSE_BY_DELTA),
    "L > -delta": (
        (-0.04, -0.01),
        True,
        (-0.03, -0.02),
        178,
        Verdict.WORSE_BELOW_DELTA,
    ),
    "across -delta": ((-0.1, -0.01), True, (-0.09, -0.02), 178, Verdict.WORSE),
}


@pytest.mark.parametrize(
    ("interval", "rejected", "equivalence", "n_groups", "expected"),
    CASES.values(),
    ids=CASES.keys(),
)
def test_verdict_table(interval, rejected, equivalence, n_groups, expected):
    """Each wording, at its edges too, is the one MEASURES gives."""
    found = verdict(
        bounds(*interval),
        0.05,
        rejected=rejected,
        equivalence=bounds(*equivalence),
        n_groups=n_groups,
    )
    assert found == expected


BOUND = st.floats(-1, 1).map(lambda x: round(x, 2))
BOUNDS = st.tuples(BOUND, BOUND).map(sorted)


@given(BOUNDS, BOUNDS, st.booleans(), st.integers(1, 400), st.floats(0.01, 0.3))
def test_verdict_is_total_and_mirrored(interval, equivalence, rejected, g, delta):
    """Any two intervals have a verdict; turned around, they have its mirror."""
    (low, high), (e_low, e_high) = interval, equivalence
    found = verdict(
        bounds(low, high),
        delta,
        rejected=rejected,
        equivalence=bounds(e_low, e_high),
        n_groups=g,
    )
    turned = verdict(
        bounds(-high, -low),
        delta,
        rejected=rejected,
        equivalence=bounds(-e_high, -e_low),
        n_groups=g,
    )
    assert turned == MIRROR[found]


@given(BOUNDS, BOUNDS, st.integers(1, 400))
def test_no_direction_without_rejection(interval, equivalence, g):
    """Where Holm does not reject, no verdict says better or worse."""
    found = verdict(
        bounds(*interval),
        0.05,
        rejected=False,
        equivalence=bounds(*equivalence),
        n_groups=g,
    )
    assert not found.value.startswith(("better", "worse"))


# compare


def questions(*scores):
    """Name scores q0, q1, ..."""
    return {f"q{i:03}": float(score) for i, score in enumerate(scores)}


def own(scores):
    """Make each question of a score table its own group."""
    return {question: question for values in scores.values() for question in values}


EIGHT = {
    "vector": questions(0, 0, 0, 0, 0, 0, 0, 1),
    "hybrid": questions(1, 1, 1, 1, 1, 1, 0, 1),
    "bm25": questions(1, 0, 0, 0, 0, 0, 0, 0),
}


def test_compare_counts_by_hand():
    """Hybrid wins 6 and ties 2 of 8; p = 2/2^6, times 2 for two levels."""
    hybrid, _ = compare(EIGHT, "vector", own(EIGHT))
    found = (
        hybrid.level,
        hybrid.reference,
        hybrid.n,
        hybrid.n_groups,
        hybrid.mean,
        hybrid.reference_mean,
        hybrid.wins,
        hybrid.ties,
        hybrid.losses,
        hybrid.p,
        hybrid.p_holm,
    )
    assert found == ("hybrid", "vector", 8, 8, 7 / 8, 1 / 8, 6, 2, 0, 1 / 32, 2 / 32)


def test_compare_uses_both_levels_of_confidence():
    """With two levels: 1 - .05/2 for the verdict, 1 - 2 · .05 for equivalence."""
    d = questions(1, 1, 1, 1, 1, 1, 0, 0)
    groups = own(EIGHT)
    hybrid, _ = compare(EIGHT, "vector", groups)
    assert (hybrid.difference, hybrid.equivalence) == (
        difference_interval(d, groups, confidence=1 - 0.05 / 2),
        difference_interval(d, groups, confidence=1 - 2 * 0.05),
    )


def test_compare_tells_what_the_gold_set_detects():
    """At alpha' = .05/2 the factor is 2.241403 + .841621; 4n halve the error."""
    hybrid, _ = compare(EIGHT, "vector", own(EIGHT), delta=0.3)
    error = standard_error(questions(1, 1, 1, 1, 1, 1, 0, 0), own(EIGHT))
    factor = 2.241403 + 0.841621
    detectable = max(factor * error, 7 / 8)  # m_min = ceil(1 + log2(40)) = 7
    needed = max(8 * (factor * error / 0.3) ** 2, 7 / 0.3)
    assert (hybrid.smallest_detectable, hybrid.questions_needed) == (
        pytest.approx(detectable, rel=1e-6),
        math.ceil(needed),
    )


def test_compare_without_holm_rejection_claims_no_direction():
    """Six wins of 8 have L > 0, but p_holm = 2/32 > .05; the floor of 8 is .37."""
    hybrid, _ = compare(EIGHT, "vector", own(EIGHT))
    assert (hybrid.difference.low > 0, hybrid.verdict) == (True, Verdict.TOO_FEW)


def test_compare_alone_in_the_family_rejects():
    """The same level alone: p_holm = 1/32 <= .05 and L >= .05."""
    pair = {level: EIGHT[level] for level in ("vector", "hybrid")}
    [hybrid] = compare(pair, "vector", own(pair))
    assert hybrid.verdict == Verdict.BETTER_BY_DELTA


@pytest.mark.parametrize(
    ("n", "expected"), [(178, Verdict.NO_DIFFERENCE), (55, Verdict.TOO_FEW)]
)
def test_levels_that_never_differ(n, expected):
    """178 equal questions settle .05; 55 can't: the floor is .065."""
    scores = {"k60": questions(*[1] * n), "k10": questions(*[1] * n)}
    [k10] = compare(scores, "k60", own(scores))
    assert k10.verdict == expected


def test_one_group_says_nothing():
    """All questions about one passage: infinite bounds, and no number of questions."""
    groups = dict.fromkeys(own(EIGHT), "passage")
    hybrid, _ = compare(EIGHT, "vector", groups)
    assert (hybrid.verdict, hybrid.difference.high, hybrid.questions_needed) == (
        Verdict.TOO_FEW,
        INF,
        None,
    )


def test_differences_of_rounding_are_ties():
    """0.1 + 0.2 against 0.3 is a tie, not a win."""
    scores = {"a": questions(0.3, 0.3), "b": questions(0.1 + 0.2, 0.3)}
    [b] = compare(scores, "a", own(scores))
    assert (b.wins, b.ties, b.losses) == (0, 2, 0)


def test_compare_ignores_the_order_of_questions():
    """Scores in another order give the same bytes, sampled test included."""
    a = questions(*(math.sin(i) ** 2 for i in range(60)))
    b = questions(*(math.cos(i * i) ** 2 for i in range(60)))
    groups = {question: str(i // 2) for i, question in enumerate(a)}
    forwards = compare({"a": a, "b": b}, "a", groups)
    backwards = {"a": dict(reversed(a.items())), "b": dict(reversed(b.items()))}
    assert repr(compare(backwards, "a", groups)) == repr(forwards)


def test_compare_leaves_a_lone_reference_alone():
    """A factor with one level has no comparison."""
    assert compare({"vector": EIGHT["vector"]}, "vector", own(EIGHT)) == []


def test_compare_names_every_missing_question():
    """Levels scored on different questions are all named, with the questions."""
    scores = {"a": {"q1": 1.0}, "b": {"q2": 0.0, "q3": 0.0}, "c": own({})}
    with pytest.raises(ConfigError) as caught:
        compare(scores, "a", {})
    assert str(caught.value).splitlines()[1:] == [
        "  - 'a' has no score for 'q2', 'q3'",
        "  - 'b' has no score for 'q1'",
        "  - 'c' has no score for 'q1', 'q2', 'q3'",
    ]


@pytest.mark.parametrize(
    ("reference", "alpha", "delta", "message"),
    [
        ("vectro", 0.05, 0.05, "'vectro' has no scores; give one of 'vector'"),
        ("vector", 0.0, 0.05, "alpha between 0 and 0.5"),
        ("vector", 0.5, 0.05, "alpha between 0 and 0.5"),
        ("vector", 0.05, 0.0, "delta above 0"),
        ("vector", 0.05, math.nan, "delta above 0"),
    ],
)
def test_compare_refuses_settings(reference, alpha, delta, message):
    """An unknown reference, alpha or delta out of range are errors that say so."""
    with pytest.raises(ConfigError, match=message):
        compare(EIGHT, reference, own(EIGHT), alpha=alpha, delta=delta)


# decide

TEMPLATE = Comparison(
    level="",
    reference="vector",
    n=178,
    n_groups=178,
    mean=0.6,
    reference_mean=0.5,
    difference=Interval(0.1, 0.0, 0.2),
    equivalence=Interval(0.1, 0.0, 0.2),
    p=0.01,
    p_holm=0.01,
    verdict=Verdict.TOO_FEW,
    wins=1,
    ties=1,
    losses=1,
    smallest_detectable=0.1,
    questions_needed=1,
)
COSTS = {"vector": 10.0, "hybrid": 20.0, "rerank": 200.0, "bm25": 5.0}


def level(name, said, estimate=0.1):
    """Return a comparison with what the decision reads."""
    difference = Interval(estimate, estimate - 0.1, estimate + 0.1)
    return replace(TEMPLATE, level=name, verdict=said, difference=difference)


DECISIONS = {
    "adopt": (
        [level("hybrid", Verdict.BETTER_BY_DELTA)],
        Decision("hybrid", Reason.ADOPTED),
    ),
    "adopt, delta not settled but estimated": (
        [level("hybrid", Verdict.BETTER, 0.05)],
        Decision("hybrid", Reason.ADOPTED),
    ),
    "better, estimate below delta": (
        [level("hybrid", Verdict.BETTER, 0.04)],
        Decision("vector", Reason.UNPROVEN, unproven=("hybrid",)),
    ),
    "beyond the budget": (
        [level("rerank", Verdict.BETTER_BY_DELTA), level("bm25", Verdict.TOO_FEW)],
        Decision(
            "vector",
            Reason.OVER_BUDGET,
            unproven=("bm25",),
            over_budget=("rerank",),
        ),
    ),
    "the affordable one": (
        [
            level("rerank", Verdict.BETTER_BY_DELTA, 0.3),
            level("hybrid", Verdict.BETTER_BY_DELTA, 0.2),
        ],
        Decision("hybrid", Reason.ADOPTED, over_budget=("rerank",)),
    ),
    "the largest estimate": (
        [
            level("bm25", Verdict.BETTER_BY_DELTA, 0.1),
            level("hybrid", Verdict.BETTER_BY_DELTA, 0.2),
        ],
        Decision("hybrid", Reason.ADOPTED),
    ),
    "the cheapest of equals": (
        [
            level("hybrid", Verdict.BETTER_BY_DELTA, 0.3),
            level("bm25", Verdict.BETTER_BY_DELTA, 0.1 + 0.2),
        ],
        Decision("bm25", Reason.ADOPTED),
    ),
    "no difference": (
        [level("hybrid", Verdict.NO_DIFFERENCE), level("bm25", Verdict.WORSE)],
        Decision("vector", Reason.NO_GAIN, dropped=("hybrid", "bm25")),
    ),
    "too few": (
        [level("hybrid", Verdict.TOO_FEW), level("bm25", Verdict.NOT_BETTER)],
        Decision("vector", Reason.UNPROVEN, dropped=("bm25",), unproven=("hybrid",)),
    ),
    "nothing to compare": ([], Decision("vector", Reason.NO_GAIN)),
}


@pytest.mark.parametrize(
    ("comparisons", "expected"), DECISIONS.values(), ids=DECISIONS.keys()
)
def test_decision_table(comparisons, expected):
    """Each branch of the rule, with a budget of 100 ms."""
    found = decide(comparisons, COSTS, "vector", delta=0.05, budget_ms=100)
    assert found == expected


def test_without_budget_any_cost_will_do():
    """No budget, no limit: the reranker is adopted at 200 ms."""
    comparisons = [level("rerank", Verdict.BETTER_BY_DELTA)]
    found = decide(comparisons, COSTS, "vector", delta=0.05)
    assert found == Decision("rerank", Reason.ADOPTED)


def test_equal_estimates_and_costs_go_by_name():
    """The last tie is broken by the name."""
    pair = [level(name, Verdict.BETTER_BY_DELTA) for name in ("rrf", "hybrid")]
    costs = {"vector": 1.0, "rrf": 2.0, "hybrid": 2.0}
    assert decide(pair, costs, "vector", delta=0.05).level == "hybrid"


@pytest.mark.parametrize("said", Verdict)
def test_every_verdict_leads_somewhere(said):
    """A level is chosen, dropped, unproven or over budget, and only one of these."""
    found = decide([level("hybrid", said)], COSTS, "vector", delta=0.05, budget_ms=1)
    places = [(found.level,), found.dropped, found.unproven, found.over_budget]
    assert sum("hybrid" in place for place in places) == 1


def test_decide_names_what_it_lacks():
    """Levels without cost and foreign references are listed together."""
    foreign = replace(level("bm25", Verdict.WORSE), reference="hybrid")
    with pytest.raises(ConfigError) as caught:
        decide([level("xyz", Verdict.WORSE), foreign], COSTS, "vector", delta=0.05)
    assert str(caught.value).splitlines()[1:] == [
        "  - 'xyz' has no cost",
        "  - 'bm25' is compared with 'hybrid', not with 'vector'",
    ]

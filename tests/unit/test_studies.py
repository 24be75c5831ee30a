"""What a study decides: under both policies, with paired latency, within a budget."""

import pytest

from scholar_rag_li.results import QuestionInfo, Results, Study, Timing
from scholar_rag_li.studies import UNION, added_milliseconds, outcome
from scholar_rag_li.verdicts import Reason

N = 20
QUESTIONS = [f"q{i:02}" for i in range(N)]
NOTHING, HALF, ALL = 0, N // 2, N
"""How many of the questions, from the first, a system answers."""


def column(answered):
    """Score 1 on the first questions, 0 on the others."""
    return {id_: float(i < answered) for i, id_ in enumerate(QUESTIONS)}


def results(scores, timings=(), groups=None, **settings):
    """Make results of system -> questions answered, or (single, union)."""
    settings = {"alpha": 0.05, "delta": 0.05, "seed": 0, "budget_ms": None} | settings
    pairs = {
        system: answered if isinstance(answered, tuple) else (answered, answered)
        for system, answered in scores.items()
    }
    return Results(
        {"settings": settings},
        tuple(QuestionInfo(q, "text", (groups or {}).get(q, q)) for q in QUESTIONS),
        scores={
            system: {
                "recall@5": column(single),
                f"recall@5{UNION}": column(union),
            }
            for system, (single, union) in pairs.items()
        },
        timings=tuple(timings),
    )


def study(factor, *levels):
    """Make a study of levels whose systems are called `s-<level>`; the first refers."""
    systems = {level: f"s-{level}" for level in levels}
    return Study(factor, systems, levels[0], "recall@5")


CHUNKERS = study("chunker", "old", "new")
RERANKERS = study("reranker", "none", "ce")


# decisions


def test_a_proven_level_is_used():
    """Ten wins of twenty have p = 2 / 2^10 and are adopted."""
    found = outcome(results({"s-old": NOTHING, "s-new": HALF}), CHUNKERS)
    assert (found.chosen, found.decision.reason) == ("new", Reason.ADOPTED)


def test_the_reference_is_kept_where_nothing_is_proven():
    """Three wins of twenty have p = 2 / 2^3 and prove nothing."""
    found = outcome(results({"s-old": NOTHING, "s-new": 3}), CHUNKERS)
    assert (found.chosen, found.decision.reason) == ("old", Reason.UNPROVEN)


def test_other_levels_are_compared_in_their_order():
    """One comparison per other level, in the order of the study."""
    three = study("retriever", "vector", "hybrid", "bm25")
    scores = {"s-bm25": 1, "s-hybrid": 2, "s-vector": 0}
    found = outcome(results(scores), three)
    assert [each.level for each in found.comparisons] == ["hybrid", "bm25"]


def test_comparisons_are_on_the_primary_measure():
    """10 of 20 against 5 of 20 are .5 against .25."""
    [new] = outcome(results({"s-old": 5, "s-new": 10}), CHUNKERS).comparisons
    assert (new.mean, new.reference_mean) == (10 / 20, 5 / 20)


def test_delta_is_the_run_s():
    """A gain of 10 / 20 is not enough where only .6 matters."""
    found = outcome(results({"s-old": NOTHING, "s-new": HALF}, delta=0.6), CHUNKERS)
    assert found.chosen == "old"


def test_alpha_is_the_run_s():
    """A p of 2 / 2^10 = .00195 is not enough where alpha is .001."""
    found = outcome(results({"s-old": NOTHING, "s-new": HALF}, alpha=0.001), CHUNKERS)
    assert found.chosen == "old"


def test_groups_are_the_run_s():
    """Ten wins on one passage are one win."""
    together = dict.fromkeys(QUESTIONS, "passage")
    scores = {"s-old": NOTHING, "s-new": HALF}
    found = outcome(results(scores, groups=together), CHUNKERS)
    assert (found.chosen, found.comparisons[0].n_groups) == ("old", 1)


# policies


def test_a_chunker_is_decided_under_both_policies():
    """Where both take the new level, it is used and nothing depends on the policy."""
    found = outcome(results({"s-old": NOTHING, "s-new": (HALF, ALL)}), CHUNKERS)
    assert (found.union_decision.level, found.depends_on_policy, found.chosen) == (
        "new",
        False,
        "new",
    )


def test_a_chunker_is_compared_under_both_policies():
    """10 of 20 by one chunk, and 20 of 20 by the chunks read together."""
    found = outcome(results({"s-old": NOTHING, "s-new": (HALF, ALL)}), CHUNKERS)
    means = [[each.mean for each in c] for c in (found.comparisons, found.union)]
    assert means == [[10 / 20], [20 / 20]]


@pytest.mark.parametrize("factor", ["retriever", "rrf_k", "reranker"])
def test_only_chunkers_are_compared_by_union(factor):
    """Other factors do not change how long the chunks are."""
    found = outcome(results({"s-a": NOTHING, "s-b": HALF}), study(factor, "a", "b"))
    assert found.union == ()


@pytest.mark.parametrize(
    ("new", "single", "union"),
    [((HALF, NOTHING), "new", "old"), ((NOTHING, HALF), "old", "new")],
    ids=["single alone", "union alone"],
)
def test_where_the_policies_disagree_the_reference_stays(new, single, union):
    """A gain under one policy alone depends on the policy, and is not used."""
    found = outcome(results({"s-old": NOTHING, "s-new": new}), CHUNKERS)
    assert (
        found.decision.level,
        found.union_decision.level,
        found.depends_on_policy,
        found.chosen,
    ) == (single, union, True, "old")


def test_two_winners_under_two_policies_leave_the_reference():
    """Large chunks under one policy and small ones under the other: neither is used."""
    scores = {"s-old": NOTHING, "s-large": (ALL, HALF), "s-small": (HALF, ALL)}
    found = outcome(results(scores), study("chunker", "old", "large", "small"))
    assert (found.decision.level, found.union_decision.level, found.chosen) == (
        "large",
        "small",
        "old",
    )


@pytest.mark.parametrize("factor", ["retriever", "rrf_k", "reranker"])
def test_only_chunkers_are_decided_twice(factor):
    """Other factors leave the chunks as they are, so one policy is enough."""
    scores = {"s-old": NOTHING, "s-new": (HALF, NOTHING)}
    found = outcome(results(scores), study(factor, "old", "new"))
    assert (found.union_decision, found.depends_on_policy, found.chosen) == (
        None,
        False,
        "new",
    )


# latency


def timings(**milliseconds):
    """Time systems `s-<level>` on questions q00, q01 ... once each."""
    return [
        Timing(f"s-{level}", f"q{i:02}", 0, value)
        for level, values in milliseconds.items()
        for i, value in enumerate(values)
    ]


def test_added_milliseconds_are_paired():
    """Differences 1, 30, 40 have median 30; the medians 20 and 60 differ by 40."""
    timed = results({}, timings(none=[10, 100, 20], ce=[11, 130, 60]))
    assert added_milliseconds(timed, RERANKERS) == {"none": 0, "ce": 30}


def test_pairs_are_of_the_same_question_and_repeat():
    """Whatever the order of the observations: 1 - 0 and 12 - 10 have median 1.5."""
    observed = [
        Timing("s-ce", "q00", 1, 12.0),
        Timing("s-none", "q00", 0, 0.0),
        Timing("s-none", "q00", 1, 10.0),
        Timing("s-ce", "q00", 0, 1.0),
    ]
    assert added_milliseconds(results({}, observed), RERANKERS)["ce"] == 1.5


def test_a_faster_level_adds_less_than_nothing():
    """5 against 10 is -5."""
    timed = results({}, timings(none=[10, 10], ce=[5, 5]))
    assert added_milliseconds(timed, RERANKERS)["ce"] == -5


@pytest.mark.parametrize("timed", [{}, {"ce": [5]}, {"other": [5]}])
def test_without_the_reference_s_latency_nothing_is_added(timed):
    """Nothing to compare with, nothing said."""
    assert added_milliseconds(results({}, timings(**timed)), RERANKERS) == {}


def test_a_level_without_latency_is_left_out():
    """Only the levels that were timed have an added latency."""
    assert added_milliseconds(results({}, timings(none=[1])), RERANKERS) == {"none": 0}


SLOW = timings(none=[10], ce=[210])  # adds 200 ms
BETTER = {"s-none": NOTHING, "s-ce": HALF}


@pytest.mark.parametrize(
    ("budget", "chosen", "reason"),
    [
        (None, "ce", Reason.ADOPTED),
        (200, "ce", Reason.ADOPTED),
        (199, "none", Reason.OVER_BUDGET),
    ],
)
def test_a_reranker_has_to_keep_to_the_budget(budget, chosen, reason):
    """Better by 10 of 20 and slower by 200 ms: used up to that budget."""
    found = outcome(results(BETTER, SLOW, budget_ms=budget), RERANKERS)
    assert (found.chosen, found.decision.reason) == (chosen, reason)


def test_the_budget_is_for_what_is_added():
    """210 ms in all, 200 of them the reranker's, are within a budget of 205."""
    assert outcome(results(BETTER, SLOW, budget_ms=205), RERANKERS).chosen == "ce"


@pytest.mark.parametrize("factor", ["chunker", "retriever", "rrf_k"])
def test_the_budget_is_the_reranker_s_alone(factor):
    """Other factors are not held to it."""
    found = outcome(results(BETTER, SLOW, budget_ms=1), study(factor, "none", "ce"))
    assert found.chosen == "ce"


def test_a_level_that_was_not_timed_costs_nothing():
    """Without latency the budget can't be exceeded."""
    assert outcome(results(BETTER, budget_ms=1), RERANKERS).chosen == "ce"


def test_of_equal_gains_the_faster_is_used():
    """Two rerankers that answer the same: the one that adds 50 ms, not 200."""
    scores = BETTER | {"s-quick": HALF}
    timed = timings(none=[10], ce=[210], quick=[60])
    three = study("reranker", "none", "ce", "quick")
    assert outcome(results(scores, timed), three).chosen == "quick"

"""Groups, intervals, the sign-flip test, detectable differences: by hand arithmetic."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial

from scholar_rag_li.errors import ConfigError
from scholar_rag_li.stats import (
    Interval,
    assumed_se,
    difference_interval,
    equivalence_floor,
    evidence_groups,
    group_sums,
    holm,
    mean_interval,
    questions_needed,
    sign_flip_p,
    smallest_detectable,
    standard_error,
)

T_95_1 = 12.706205  # t quantiles at .975, from a printed table
T_95_2 = 4.302653
T_95_3 = 3.182446


def single(values):
    """Name the values q0, q1, ... and make each question its own group."""
    d = {f"q{i}": float(value) for i, value in enumerate(values)}
    return d, {question: question for question in d}


# groups


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ({"a": [("d", 0, 5)], "b": [("d", 4, 9)]}, {"a": "a", "b": "a"}),
        ({"a": [("d", 0, 5)], "b": [("d", 5, 9)]}, {"a": "a", "b": "b"}),
        ({"a": [("d", 0, 5)], "b": [("e", 0, 5)]}, {"a": "a", "b": "b"}),
        ({"a": [("d", 0, 99)], "b": [("d", 7, 8)]}, {"a": "a", "b": "a"}),
        ({"a": [("d", 0, 5)], "b": [("d", 3, 3)]}, {"a": "a", "b": "b"}),
        ({"a": [], "b": []}, {"a": "a", "b": "b"}),
        ({}, {}),
    ],
    ids=["overlap", "touch", "other document", "inside", "empty", "no span", "nothing"],
)
def test_evidence_groups_pairs(spans, expected):
    """Two questions are together when a character of one document is in both."""
    assert evidence_groups(spans) == expected


def test_evidence_groups_are_transitive_across_documents():
    """Question c meets b in document e, b meets a in document d: one group, named a."""
    spans = {
        "c": [("e", 0, 4)],
        "b": [("d", 2, 6), ("e", 3, 9)],
        "a": [("d", 0, 3)],
        "z": [("d", 6, 8)],
    }
    assert evidence_groups(spans) == {"a": "a", "b": "a", "c": "a", "z": "z"}


SPAN = st.tuples(st.sampled_from("de"), st.integers(0, 30), st.integers(0, 8)).map(
    lambda s: (s[0], s[1], s[1] + s[2])
)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(SPAN, max_size=3)))
def test_evidence_groups_agree_with_all_pairs(spans):
    """The groups are the closure of "some pair of spans shares a character"."""
    label = {question: question for question in spans}
    characters = {
        q: {(d, i) for d, s, e in items for i in range(s, e)}
        for q, items in spans.items()
    }
    for _ in spans:
        for a, b in combinations(spans, 2):
            if characters[a] & characters[b]:
                label[a] = label[b] = min(label[a], label[b])
    assert evidence_groups(spans) == label


def test_group_sums_ignore_the_order_of_questions():
    """0.1 + 0.2 + 0.3 is the same float from either end."""
    values = {"a": 0.1, "b": 0.2, "c": 0.3}
    groups = dict.fromkeys(values, "g")
    backwards = dict(reversed(values.items()))
    assert group_sums(values, groups) == group_sums(backwards, groups)


@pytest.mark.parametrize(
    ("values", "groups", "message"),
    [
        ({}, {}, "no question"),
        ({"q1": 1.0, "q2": 0.0}, {"q1": "g"}, "'q2' has no group"),
        ({"q1": math.nan}, {"q1": "g"}, "'q1' has the value nan"),
    ],
)
def test_values_without_a_mean_are_refused(values, groups, message):
    """No question, a question without group and NaN are errors that name them."""
    with pytest.raises(ConfigError, match=message):
        group_sums(values, groups)


# intervals


def test_adjusted_interval_by_hand():
    """Of d = 1, 1, 0, -1: d~ = 1/6, SE^2 = ((3+1)/6 - 1/36)/6, t with 3 degrees."""
    d, groups = single([1, 1, 0, -1])
    half = T_95_3 * math.sqrt((4 / 6 - 1 / 36) / 6)
    interval = difference_interval(d, groups, confidence=0.95)
    expected = (1 / 4, 1 / 6 - half, 1 / 6 + half)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(expected)


def test_clustered_interval_by_hand():
    """Sums 2, 0, -1 of sizes 2, 1, 1; d- = 1/4; residuals 3/2, -1/4, -5/4."""
    d = {"a": 1.0, "b": 1.0, "c": 0.0, "e": -1.0}
    groups = {"a": "g", "b": "g", "c": "c", "e": "e"}
    squares = (3 / 2) ** 2 + (1 / 4) ** 2 + (5 / 4) ** 2
    half = T_95_2 * math.sqrt(3 / 2 * squares / 4**2)
    interval = difference_interval(d, groups, confidence=0.95)
    expected = (1 / 4, 1 / 4 - half, 1 / 4 + half)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(expected)


def test_differences_beyond_one_are_not_adjusted():
    """Of d = 2, 0: mean 1, SE^2 = 2/1 * (1 + 1)/4 = 1, t with 1 degree."""
    d, groups = single([2, 0])
    interval = difference_interval(d, groups, confidence=0.95)
    assert (interval.low, interval.high) == pytest.approx((1 - T_95_1, 1 + T_95_1))


def test_mean_interval_is_not_adjusted():
    """Values 1, 0: mean 1/2, SE^2 = 2/1 * (1/4 + 1/4)/4 = 1/4, t with 1 degree."""
    values, groups = single([1, 0])
    interval = mean_interval(values, groups, confidence=0.95)
    expected = (1 / 2 - T_95_1 / 2, 1 / 2 + T_95_1 / 2)
    assert (interval.low, interval.high) == pytest.approx(expected)


@pytest.mark.parametrize("interval", [difference_interval, mean_interval])
@pytest.mark.parametrize("n", [1, 3])
def test_one_group_bounds_nothing(interval, n):
    """From one group nothing is known about the next: the bounds are infinite."""
    values = {f"q{i}": 0.5 for i in range(n)}
    groups = dict.fromkeys(values, "g")
    expected = Interval(0.5, -math.inf, math.inf)
    assert interval(values, groups, confidence=0.95) == expected


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_confidence_out_of_range_is_refused(confidence):
    """A confidence of 95 is a slip for .95 and no interval."""
    d, groups = single([1, 0])
    with pytest.raises(ConfigError, match="between 0 and 1"):
        difference_interval(d, groups, confidence=confidence)


def test_interval_ignores_the_order_of_questions():
    """The same differences in another order give the same floats."""
    d = {f"q{i}": math.sin(i) for i in range(40)}
    groups = {question: str(i // 3) for i, question in enumerate(d)}
    shuffled = {f"q{7 * i % 40}": math.sin(7 * i % 40) for i in range(40)}
    expected = difference_interval(d, groups, confidence=0.95)
    assert difference_interval(shuffled, groups, confidence=0.95) == expected


def adjusted_coverage(n, gain, loss):
    """Exact coverage: every count of wins and losses, weighed by its probability."""
    covered = 0.0
    for wins in range(n + 1):
        losses = np.arange(n + 1 - wins)
        cells = np.stack([np.full_like(losses, wins), losses, n - wins - losses], 1)
        chance = multinomial.pmf(cells, n, [gain, loss, 1 - gain - loss])
        for count, probability in zip(losses, chance, strict=True):
            if probability > 1e-7:
                d, groups = single([1] * wins + [-1] * count + [0] * (n - wins - count))
                found = difference_interval(d, groups, confidence=0.95)
                covered += probability * (found.low <= gain - loss <= found.high)
    return covered


TWO_SIDED = [(0.01, 0.01), (0.02, 0.01), (0.05, 0.05), (0.15, 0.05), (0.3, 0.1)]


@pytest.mark.parametrize(("gain", "loss"), [(0.02, 0.01), (0.15, 0.05)])
def test_adjusted_interval_covers(gain, loss):
    """95 % intervals hold the true difference in 94 % of all gold sets or more."""
    assert adjusted_coverage(55, gain, loss) >= 0.94


@pytest.mark.slow
@pytest.mark.parametrize("n", [55, 77, 178])
@pytest.mark.parametrize(("gain", "loss"), [*TWO_SIDED, (0.4, 0.4)])
def test_adjusted_interval_covers_everywhere(n, gain, loss):
    """The same for few and many differing questions, small and large gold sets."""
    assert adjusted_coverage(n, gain, loss) >= 0.94


@pytest.mark.slow
@pytest.mark.parametrize("n", [55, 77, 178])
@pytest.mark.parametrize("gained", [1, 2, 5, 20])
def test_adjusted_interval_covers_less_when_nothing_is_ever_lost(n, gained):
    """If no question can get worse, 95 % is 85 % at the least, near 2/n: a limit."""
    assert adjusted_coverage(n, gained / n, 0.0) >= 0.85


def clustered_coverage(rng, n_groups, repeats):
    """Simulate: groups of 1 to 4 questions share an effect; the true mean is 0."""
    covered = 0
    for _ in range(repeats):
        sizes = rng.integers(1, 5, size=n_groups)
        labels = np.repeat(np.arange(n_groups), sizes)
        values = rng.normal(size=n_groups)[labels] + rng.normal(size=labels.size)
        d = {f"q{i}": float(value) for i, value in enumerate(values)}
        groups = {f"q{i}": str(label) for i, label in enumerate(labels)}
        found = difference_interval(d, groups, confidence=0.95)
        covered += found.low <= 0 <= found.high
    return covered / repeats


def test_clustered_interval_covers():
    """300 simulated gold sets: .95 give or take 2.5 · sqrt(.95 · .05 / 300)."""
    assert clustered_coverage(np.random.default_rng(1), 40, 300) >= 0.95 - 0.031


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [20, 55, 178])
def test_clustered_interval_covers_everywhere(n_groups):
    """3000 simulated gold sets: at least .93, from 20 groups on."""
    assert clustered_coverage(np.random.default_rng(2), n_groups, 3000) >= 0.93


# the randomisation test


def test_sign_flip_enumerates_small_families():
    """Sums 3, 1, -1: |T| = 3; of the 8 patterns 5, 3, 3, 1 and mirrors: 6 reach it."""
    assert sign_flip_p({"a": 3.0, "b": 1.0, "c": -1.0}, seed=0) == 6 / 8


@pytest.mark.parametrize("m", [1, 5, 16])
def test_sign_flip_smallest_p(m):
    """Equal sums are only reached by themselves and their mirror: p = 2/2^m."""
    sums = {str(i): 1.0 for i in range(m)}
    assert sign_flip_p(sums, seed=0) == 2 ** (1 - m)


def test_sign_flip_without_any_difference():
    """Nothing differs: p is 1, not a division by zero."""
    assert sign_flip_p({"a": 0.0, "b": 0.0}, seed=0) == 1.0


def test_sign_flip_ignores_groups_without_difference():
    """Groups whose sum is zero, or only rounding, leave p as it is."""
    sums = {"a": 0.5, "b": 1.0, "c": 0.25}
    zeros = {f"z{i}": 5e-17 for i in range(40)}
    assert sign_flip_p(sums | zeros, seed=0) == sign_flip_p(sums, seed=0)


def test_sign_flip_counts_sums_that_rounding_parts():
    """0.1 + 0.2 - 0.3 = 5.6e-17 is as far out as 0: all of 0, .2, .4, .6 reach |T|."""
    assert sign_flip_p({"a": 0.1, "b": 0.2, "c": -0.3}, seed=0) == 1.0


def test_sign_flip_sampled_p_is_never_zero():
    """60 equal sums: no random pattern reaches them, p = (1 + 0)/(9999 + 1)."""
    assert sign_flip_p({str(i): 1.0 for i in range(60)}, seed=0) == 1 / 10_000


def test_sign_flip_sampled_is_near_enumerated():
    """17 groups, sampled, against all 2^17 patterns of their sum, within 4 SE."""
    sums = [0.1 * i - 0.5 for i in range(1, 18)]
    patterns = 1 - 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    exact = np.mean(abs(patterns @ np.array(sums)) >= abs(sum(sums)) - 1e-12)
    found = sign_flip_p({f"{i:02}": s for i, s in enumerate(sums)}, seed=3)
    assert abs(found - exact) < 4 * math.sqrt(exact * (1 - exact) / 9999)


def test_sign_flip_ignores_the_order_of_groups():
    """The same sums in another order meet the same random signs."""
    sums = {f"{i:02}": 0.01 * i**2 - 1 for i in range(20)}
    backwards = dict(reversed(sums.items()))
    assert sign_flip_p(sums, seed=5) == sign_flip_p(backwards, seed=5)


def test_holm_by_hand():
    """Sorted .01, .02, .03 times 3, 2, 1, kept from falling: .03, .04, .04."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])


def test_holm_of_no_family():
    """A factor with one level has nothing to correct."""
    assert holm([]) == []


# what a gold set can detect


def test_smallest_detectable_by_hand():
    """(1.959964 + .841621) · .02 at alpha' .05."""
    expected = (1.959964 + 0.841621) * 0.02
    assert smallest_detectable(0.02, 1000, 0.05) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("alpha", "fewest"), [(0.05, 6), (0.0625, 5), (0.01, 8)])
def test_smallest_detectable_floor(alpha, fewest):
    """Without any spread, m_min = ceil(1 + log2(1/alpha')) questions must differ."""
    assert smallest_detectable(0.0, 100, alpha) == fewest / 100


def test_half_the_difference_takes_four_times_the_questions():
    """questions_needed at half of what n questions detect is 4n."""
    se = assumed_se(200)
    detected = smallest_detectable(se, 200, 0.05)
    assert questions_needed(200, se, detected / 2, 0.05) == 4 * 200


def test_questions_needed_keeps_the_floor():
    """Without spread the test's floor decides: 6 / .05 = 120."""
    assert questions_needed(55, 0.0, 0.05, 0.05) == 120


@given(st.integers(2, 500), st.floats(0.001, 0.1), st.floats(0.02, 0.5))
def test_questions_needed_is_the_smallest_number(n, se, delta):
    """That many detect delta, one fewer does not."""
    needed = questions_needed(n, se, delta, 0.05)

    def detects(m):
        return smallest_detectable(se * math.sqrt(n / m), m, 0.05) <= delta * (
            1 + 1e-11
        )

    assert (detects(needed), needed > 1 and detects(needed - 1)) == (True, False)


def test_questions_needed_is_unknown_for_one_group():
    """One group has no spread to go by."""
    se = standard_error({"a": 1.0, "b": 0.0}, {"a": "g", "b": "g"})
    assert questions_needed(2, se, 0.05, 0.05) is None


def test_equivalence_floor_solves_its_equation():
    """A share x = floor stays unseen in 77 groups with probability (1-x)^77 = .025."""
    assert (1 - equivalence_floor(77)) ** 77 == pytest.approx(0.025)

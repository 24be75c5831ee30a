"""Groups of questions, intervals, the randomisation test, Holm, detectable differences.

Pure arithmetic on per-question values; what it means for a decision is in `verdicts`.
The unit that is resampled, flipped or counted is always the group, never the question.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from scholar_rag_li.errors import ConfigError, listing

TOLERANCE = 1e-12
"""Differences and sums nearer to each other than this are the same number."""

ENUMERATED_GROUPS = 16
"""Up to 2**15 sign patterns are looked at one by one; beyond, they are sampled."""

POWER = 0.8
"""Chance of detecting a difference of the stated size (Cohen, 1988)."""

ASSUMED_VARIANCE = 0.2
"""Variance of a question's difference before a run: one in five changes from 0 to 1."""

_BLOCK = 1000
"""Sign patterns held in memory at a time."""


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence bounds.

    Attributes:
        estimate: The plain mean, also where the bounds lie around an adjusted one.
        low: Lower bound; minus infinity when one group alone was seen.
        high: Upper bound; infinity when one group alone was seen.
    """

    estimate: float
    low: float
    high: float


def evidence_groups(
    spans_by_question: Mapping[str, Sequence[tuple[str, int, int]]],
) -> dict[str, str]:
    """Put questions whose evidence overlaps, directly or through others, together.

    For the document as the unit, give each question one span `(doc_id, 0, 1)` for each
    of its documents.

    Args:
        spans_by_question: Question id -> (document id, start, end) in characters, end
            exclusive. Spans that touch, and empty ones, overlap nothing.

    Returns:
        Question id -> the smallest question id of its group, ordered by question id.

    >>> evidence_groups({"b": [("d", 0, 9)], "a": [("d", 8, 12)], "c": [("d", 12, 20)]})
    {'a': 'a', 'b': 'a', 'c': 'c'}
    """
    parent = {question: question for question in sorted(spans_by_question)}

    def root(question: str) -> str:
        while parent[question] != question:
            parent[question] = question = parent[parent[question]]
        return question

    spans = sorted(
        (document, start, end, question)
        for question, items in spans_by_question.items()
        for document, start, end in items
        if start < end
    )
    open_document, reach, neighbour = None, 0, ""
    for document, start, end, question in spans:
        if document == open_document and start < reach:
            smaller, larger = sorted((root(neighbour), root(question)))
            parent[larger] = smaller
            reach = max(reach, end)
        else:
            open_document, reach, neighbour = document, end, question
    return {question: root(question) for question in parent}


def group_sums(
    values: Mapping[str, float], groups: Mapping[str, str]
) -> dict[str, float]:
    """Sum the values of each group.

    Args:
        values: Question id -> value.
        groups: Question id -> group; may know more questions.

    Returns:
        Group -> sum, whatever the order of the questions.

    Raises:
        ConfigError: No value, a value that is not finite, a question without group.

    >>> group_sums({"q1": 1.0, "q2": -0.5}, {"q1": "q1", "q2": "q1"})
    {'q1': 0.5}
    """
    members = _by_group(values, groups)
    return {group: math.fsum(members[group]) for group in sorted(members)}


def difference_interval(
    differences: Mapping[str, float], groups: Mapping[str, str], *, confidence: float
) -> Interval:
    """Bound the mean difference between two systems.

    With d̄ the mean, s_g and n_g the sum and size of group g, n questions, G groups:
    d̄ ± t_{G-1} · SE, SE² = G/(G-1) · sum_g (s_g - n_g·d̄)² / n² (cluster-robust).
    When every group is one question and all |d| <= 1: d̃ ± t_{G-1} · SE with
    d̃ = sum d/(n+2), SE² = [(sum d² + 1)/(n+2) - d̃²]/(n+2) (Agresti and Min,
    Statistics in Medicine, 2005), which covers also when few questions differ. Known
    limit: where no question can get worse, 95 % may be 86 %, and 89 % once bounds are
    held to `equivalence_floor`; the sign-flip test is exact there too.

    Args:
        differences: Question id -> score minus the reference's score.
        groups: Question id -> group.
        confidence: In (0, 1), such as .95.

    Returns:
        The plain mean with its bounds, infinite for a single group.

    Raises:
        ConfigError: As `group_sums`, or a confidence outside (0, 1).

    >>> difference_interval({"q1": 1.0}, {"q1": "q1"}, confidence=0.95)
    Interval(estimate=1.0, low=-inf, high=inf)
    """
    members = _by_group(differences, groups)
    return _interval(members, _spread(members), confidence)


def mean_interval(
    values: Mapping[str, float], groups: Mapping[str, str], *, confidence: float
) -> Interval:
    """Bound the mean of one system with the cluster-robust formula.

    For showing a system by itself; two systems are compared by `difference_interval`.
    Values that are all the same leave an interval of no width. Arguments, result and
    errors are those of `difference_interval`, with scores in place of differences.

    >>> mean_interval({"q1": 1, "q2": 1}, {"q1": "a", "q2": "b"}, confidence=0.95)
    Interval(estimate=1.0, low=1.0, high=1.0)
    """
    members = _by_group(values, groups)
    return _interval(members, _clustered(members), confidence)


def standard_error(
    differences: Mapping[str, float], groups: Mapping[str, str]
) -> float:
    """Return the standard error that `difference_interval` uses; infinite if G is 1.

    >>> round(standard_error({"q1": 1, "q2": 0}, {"q1": "a", "q2": "b"}) ** 2, 6)
    0.109375
    """
    return _spread(_by_group(differences, groups))[1]


def sign_flip_p(
    sums_by_group: Mapping[str, float], *, resamples: int = 9999, seed: int
) -> float:
    """Two-sided randomisation test of the hypothesis that signs are a coin's work.

    T is the sum over groups; T* the same after flipping the sign of each group or not.
    With at most 16 groups that are not zero all patterns are enumerated and p is the
    share with |T*| >= |T|; else p = (1 + #{|T*| >= |T|}) / (resamples + 1) over random
    patterns, which never is zero (Phipson and Smyth, 2010). m groups that are not zero
    can't give less than 2^(1-m).

    Args:
        sums_by_group: Group -> sum of its questions' differences (`group_sums`).
        resamples: Random patterns, when they are not enumerated.
        seed: Of the random patterns.

    Returns:
        p in (0, 1]; 1 when all groups are zero.

    >>> sign_flip_p({"a": 1.0, "b": 1.0, "c": 1.0}, seed=0)
    0.25
    """
    ordered = (sums_by_group[group] for group in sorted(sums_by_group))
    sums = np.array([value for value in ordered if abs(value) > TOLERANCE])
    observed = abs(math.fsum(sums)) - TOLERANCE
    if not sums.size:
        return 1.0
    if sums.size <= ENUMERATED_GROUPS:
        totals = sums[:1]  # its sign can stay: a pattern's mirror has the same |T*|
        for value in sums[1:]:
            totals = np.concatenate((totals + value, totals - value))
        return float(np.mean(np.abs(totals) >= observed))
    rng = np.random.default_rng(seed)
    reached = 0
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        signs = rng.choice((-1.0, 1.0), size=(rows, sums.size))  # (rows, groups)
        reached += int(np.count_nonzero(np.abs(signs @ sums) >= observed))
    return (1 + reached) / (resamples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of one family (Holm, 1979), in the order given.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    if not p_values:
        return []
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 - slow import

    return [float(p) for p in multipletests(p_values, method="holm")[1]]


def smallest_detectable(se: float, n: int, alpha_corrected: float) -> float:
    """Return the smallest mean difference that n questions detect with power .8.

    (z_{1-alpha'/2} + z_.8) · SE, and never below m_min/n: the randomisation test
    needs m_min = ceil(1 + log2(1/alpha')) questions that differ.

    Args:
        se: Standard error of the mean difference (`standard_error`, `assumed_se`).
        n: Questions.
        alpha_corrected: alpha' = alpha / number of comparisons in the family.

    >>> round(smallest_detectable(assumed_se(55), 55, 0.05), 3)
    0.169
    """
    return max(_power_factor(alpha_corrected) * se, _fewest(alpha_corrected) / n)


def assumed_se(n: int) -> float:
    """Return the standard error to expect of n questions before a run, sd = sqrt(.2).

    >>> round(assumed_se(80), 6)
    0.05
    """
    return math.sqrt(ASSUMED_VARIANCE / n)


def questions_needed(
    n: int, se: float, delta: float, alpha_corrected: float
) -> int | None:
    """Return how many questions like these would detect `delta` with power .8.

    The standard error falls with the root of the number of questions; the result is the
    smallest number whose `smallest_detectable` is at most delta.

    Args:
        n: Questions that `se` was measured on.
        se: Standard error of the mean difference.
        delta: Difference to detect, above 0.
        alpha_corrected: alpha' = alpha / number of comparisons in the family.

    Returns:
        Questions, those at hand included; None for one group, whose spread is unknown.

    >>> questions_needed(55, assumed_se(55), 0.05, 0.05)
    628
    """
    if not math.isfinite(se):
        return None
    by_spread = n * (_power_factor(alpha_corrected) * se / delta) ** 2
    by_test = _fewest(alpha_corrected) / delta
    return math.ceil(max(by_spread, by_test) - 1e-9)  # 120.00000000000001 is 120


def equivalence_floor(n_groups: int) -> float:
    """Return the bound below which G groups can't claim a difference to lie.

    If a share x of groups differs, G groups show none of them with probability
    (1-x)^G; x = 1 - .025^(1/G) is the largest share that this does not rule out.

    >>> round(equivalence_floor(55), 4)
    0.0649
    """
    return float(1 - 0.025 ** (1 / n_groups))


def groups_needed(delta: float) -> int:
    """Return the fewest groups that can claim a difference to lie below delta.

    The smallest G with `equivalence_floor` below delta, in (0, 1).

    >>> groups_needed(0.05), equivalence_floor(71) > 0.05 > equivalence_floor(72)
    (72, True)
    """
    return math.floor(math.log(0.025) / math.log(1 - delta)) + 1


def _by_group(
    values: Mapping[str, float], groups: Mapping[str, str]
) -> dict[str, list[float]]:
    """Return group -> its values, ordered by question id; refuse what has no mean."""
    if not values:
        raise ConfigError("There is no question; give one with gold, or more.")
    problems = [
        f"{question!r} has no group"
        if question not in groups
        else f"{question!r} has the value {values[question]}"
        for question in sorted(values)
        if question not in groups or not math.isfinite(values[question])
    ]
    if problems:
        heading = "Every question needs a finite value and a group:"
        raise ConfigError(listing(heading, problems))
    members: dict[str, list[float]] = {}
    for question in sorted(values):
        members.setdefault(groups[question], []).append(values[question])
    return members


def _spread(members: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Return centre and standard error, adjusted where the adjustment is defined."""
    values = [value for group in members.values() for value in group]
    n = len(values)
    if len(members) == 1 or len(members) < n or max(map(abs, values)) > 1:
        return _clustered(members)
    centre = math.fsum(values) / (n + 2)
    squares = math.fsum(value * value for value in values)
    return centre, math.sqrt(((squares + 1) / (n + 2) - centre**2) / (n + 2))


def _clustered(members: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Return mean and cluster-robust standard error; infinite for a single group."""
    mean, n_groups = _mean(members), len(members)
    if n_groups == 1:
        return mean, math.inf
    n = sum(len(values) for values in members.values())
    residuals = (math.fsum(values) - len(values) * mean for values in members.values())
    squares = math.fsum(residual * residual for residual in residuals)
    return mean, math.sqrt(n_groups / (n_groups - 1) * squares) / n


def _mean(members: Mapping[str, Sequence[float]]) -> float:
    values = [value for group in members.values() for value in group]
    return math.fsum(values) / len(values)


def _interval(
    members: Mapping[str, Sequence[float]],
    spread: tuple[float, float],
    confidence: float,
) -> Interval:
    """Put t_{G-1} standard errors on both sides of the centre."""
    if not 0 < confidence < 1:
        raise ConfigError(
            f"confidence is {confidence}; give a number between 0 and 1, such as 0.95."
        )
    mean, (centre, error) = _mean(members), spread
    if len(members) == 1:  # t with no degree of freedom has no quantile
        return Interval(mean, -math.inf, math.inf)
    half = float(stdtrit(len(members) - 1, (1 + confidence) / 2)) * error
    return Interval(mean, centre - half, centre + half)


def _power_factor(alpha_corrected: float) -> float:
    """Return z_{1-alpha'/2} + z_.8, standard errors a detectable difference is away."""
    z = NormalDist().inv_cdf
    return z(1 - alpha_corrected / 2) + z(POWER)


def _fewest(alpha_corrected: float) -> int:
    """Return m_min, the fewest differing questions that reach p <= alpha'."""
    return math.ceil(1 + math.log2(1 / alpha_corrected))

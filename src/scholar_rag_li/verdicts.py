"""What a measured difference allows one to say, and which level to keep.

The verdict speaks about the numbers; the decision adds the cost and is apart.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scholar_rag_li import stats
from scholar_rag_li.errors import ConfigError, listing
from scholar_rag_li.stats import Interval

MAX_ALPHA = 0.5
"""Beyond it the equivalence interval, 1 - 2·alpha, is empty."""


class Verdict(StrEnum):
    """What can be said about a level against its reference."""

    BETTER_BY_DELTA = "better by at least delta"
    BETTER_BELOW_DELTA = "better, but by less than delta"
    BETTER = "better, delta not settled"
    WORSE_BY_DELTA = "worse by at least delta"
    WORSE_BELOW_DELTA = "worse, but by less than delta"
    WORSE = "worse, delta not settled"
    NO_DIFFERENCE = "no difference larger than delta"
    NOT_BETTER = "not better by delta"
    NOT_WORSE = "not worse by delta"
    TOO_FEW = "too few questions to say"


MIRROR = {
    Verdict.BETTER_BY_DELTA: Verdict.WORSE_BY_DELTA,
    Verdict.BETTER_BELOW_DELTA: Verdict.WORSE_BELOW_DELTA,
    Verdict.BETTER: Verdict.WORSE,
    Verdict.NOT_BETTER: Verdict.NOT_WORSE,
    Verdict.NO_DIFFERENCE: Verdict.NO_DIFFERENCE,
    Verdict.TOO_FEW: Verdict.TOO_FEW,
}
MIRROR |= {mirrored: verdict for verdict, mirrored in MIRROR.items()}
"""The verdict on the reference against the level, from that on the level."""

_PROVEN = {Verdict.BETTER_BY_DELTA, Verdict.BETTER}
_BELOW_DELTA = {
    Verdict.BETTER_BELOW_DELTA,
    Verdict.NO_DIFFERENCE,
    Verdict.NOT_BETTER,
    Verdict.WORSE_BY_DELTA,
    Verdict.WORSE_BELOW_DELTA,
    Verdict.WORSE,
}


@dataclass(frozen=True)
class Comparison:
    """One level against the reference, on one measure.

    Attributes:
        level: The level compared.
        reference: The level it is compared with.
        n: Questions.
        n_groups: Groups of questions, the unit of the interval and the test.
        mean: The level's mean score.
        reference_mean: The reference's mean score.
        difference: Mean difference, bounds at 1 - alpha/m for m other levels.
        equivalence: Mean difference, bounds at 1 - 2·alpha.
        p: Of the randomisation test.
        p_holm: The same, corrected for the other levels.
        verdict: What the numbers allow one to say.
        wins: Questions on which the level scores higher.
        ties: Questions on which both score the same.
        losses: Questions on which the level scores lower.
        smallest_detectable: Difference these questions detect with power .8.
        questions_needed: Questions like these that would detect delta; None if unknown.
    """

    level: str
    reference: str
    n: int
    n_groups: int
    mean: float
    reference_mean: float
    difference: Interval
    equivalence: Interval
    p: float
    p_holm: float
    verdict: Verdict
    wins: int
    ties: int
    losses: int
    smallest_detectable: float
    questions_needed: int | None


class Reason(StrEnum):
    """Why the decision is what it is."""

    ADOPTED = "proven better, by delta or more in the estimate, within the budget"
    OVER_BUDGET = "what is proven better costs more than the budget"
    UNPROVEN = "no level is proven to gain delta; some may"
    NO_GAIN = "no level gains delta"


@dataclass(frozen=True)
class Decision:
    """The level to use. Every other level but the chosen one is in at most one tuple.

    Attributes:
        level: The level to use.
        reason: Why.
        dropped: Levels that gain less than delta.
        unproven: Levels whose gain these questions can't settle.
        over_budget: Levels that would be adopted if they cost less.
    """

    level: str
    reason: Reason
    dropped: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    over_budget: tuple[str, ...] = ()


def verdict(
    interval: Interval,
    delta: float,
    *,
    rejected: bool,
    equivalence: Interval,
    n_groups: int,
) -> Verdict:
    """Put an interval [L, U] into words, the first line that holds.

    Without Holm's rejection L is read as at most 0 and U as at least 0. A claim to be
    nearer to 0 than delta (U < delta, L > -delta) is made of bounds at least as far out
    as `equivalence_floor(n_groups)`; L >= delta and L > 0 are read as they are.

    1. L >= delta: better by at least delta.
    2. L > 0, U < delta: better, but by less than delta.
    3. L > 0: better, delta not settled. (1 to 3 mirrored: worse.)
    4. [L, U] or the equivalence interval inside (-delta, delta): no difference larger
       than delta.
    5. U < delta: not better by delta.
    6. L > -delta: not worse by delta.
    7. Else: too few questions to say.

    Args:
        interval: Bounds at 1 - alpha/m.
        delta: Smallest difference that matters, above 0.
        rejected: Whether Holm's procedure rejects "no difference".
        equivalence: Bounds at 1 - 2·alpha.
        n_groups: Groups behind both intervals.

    >>> wide, narrow = Interval(0.0, -0.06, 0.06), Interval(0.0, -0.04, 0.04)
    >>> print(verdict(wide, 0.05, rejected=False, equivalence=narrow, n_groups=178))
    no difference larger than delta
    """
    low, high = interval.low, interval.high
    if not rejected:
        low, high = min(low, 0.0), max(high, 0.0)
    floor = stats.equivalence_floor(n_groups)
    if low > 0:
        return _better(low, max(high, floor), delta)
    if high < 0:
        return MIRROR[_better(-high, max(-low, floor), delta)]
    below = max(high, floor) < delta
    above = min(low, -floor) > -delta
    equivalent = max(equivalence.high, -equivalence.low, floor) < delta
    if equivalent or (below and above):
        return Verdict.NO_DIFFERENCE
    if below:
        return Verdict.NOT_BETTER
    return Verdict.NOT_WORSE if above else Verdict.TOO_FEW


def _better(low: float, high: float, delta: float) -> Verdict:
    if low >= delta:
        return Verdict.BETTER_BY_DELTA
    return Verdict.BETTER_BELOW_DELTA if high < delta else Verdict.BETTER


def compare(
    scores: Mapping[str, Mapping[str, float]],
    reference: str,
    groups: Mapping[str, str],
    *,
    alpha: float = 0.05,
    delta: float = 0.05,
    seed: int = 0,
) -> list[Comparison]:
    """Compare every other level of one factor with the reference, as one family.

    Args:
        scores: Level -> question id -> score on the primary measure, the same questions
            for all levels, in any order.
        reference: The level the others are compared with.
        groups: Question id -> group (`stats.evidence_groups`).
        alpha: Family-wise error, in (0, .5).
        delta: Smallest difference that matters, above 0, fixed before the run.
        seed: Of the randomisation test.

    Returns:
        One comparison a level, in the order of `scores`, the reference left out.

    Raises:
        ConfigError: Unknown reference, levels with other questions, a score that is not
            finite, a question without group, no question, alpha or delta out of range.

    >>> scores = {"vector": {"q1": 0.0, "q2": 1.0}, "hybrid": {"q1": 1.0, "q2": 1.0}}
    >>> [hybrid] = compare(scores, "vector", {"q1": "q1", "q2": "q2"})
    >>> hybrid.difference.estimate, hybrid.p, hybrid.verdict.value
    (0.5, 1.0, 'too few questions to say')
    """
    _check(scores, reference, alpha, delta)
    base = scores[reference]
    differences = {
        level: _differences(scores[level], base)
        for level in scores
        if level != reference
    }
    sums = [stats.group_sums(values, groups) for values in differences.values()]
    tests = [stats.sign_flip_p(group, seed=seed) for group in sums]
    family = zip(differences.items(), tests, stats.holm(tests), strict=True)
    corrected = alpha / max(len(differences), 1)
    found = []
    for (level, values), p, p_holm in family:
        n, n_groups = len(values), len({groups[question] for question in values})
        interval, equivalence = (
            stats.difference_interval(values, groups, confidence=confidence)
            for confidence in (1 - corrected, 1 - 2 * alpha)
        )
        error = stats.standard_error(values, groups)
        comparison = Comparison(
            level=level,
            reference=reference,
            n=n,
            n_groups=n_groups,
            mean=math.fsum(scores[level].values()) / n,
            reference_mean=math.fsum(base.values()) / n,
            difference=interval,
            equivalence=equivalence,
            p=p,
            p_holm=p_holm,
            verdict=verdict(
                interval,
                delta,
                rejected=p_holm <= alpha,
                equivalence=equivalence,
                n_groups=n_groups,
            ),
            wins=sum(value > 0 for value in values.values()),
            ties=sum(value == 0 for value in values.values()),
            losses=sum(value < 0 for value in values.values()),
            smallest_detectable=stats.smallest_detectable(error, n, corrected),
            questions_needed=stats.questions_needed(n, error, delta, corrected),
        )
        found.append(comparison)
    return found


def decide(
    comparisons: Sequence[Comparison],
    costs: Mapping[str, float],
    reference: str,
    *,
    delta: float,
    budget_ms: float | None = None,
) -> Decision:
    """Choose a level: adopt what is proven and affordable, else keep the reference.

    Adopted is a level with L > 0 (after the Holm reading), estimate >= delta and a cost
    within the budget: of several the largest estimate, the cheapest, the first by name.
    A level with U < delta is dropped; what is left is unproven.

    Args:
        comparisons: Of one factor (`compare`), with the same delta.
        costs: Level -> milliseconds per query; of all levels compared.
        reference: The simplest level, to be kept unless another earns its place.
        delta: Smallest difference that matters.
        budget_ms: Most that a query may cost; None for no limit.

    Raises:
        ConfigError: A level without cost, or compared with another reference.

    >>> decide([], {}, "vector", delta=0.05).reason.value
    'no level gains delta'
    """
    problems = [f"{c.level!r} has no cost" for c in comparisons if c.level not in costs]
    problems += [
        f"{c.level!r} is compared with {c.reference!r}, not with {reference!r}"
        for c in comparisons
        if c.reference != reference
    ]
    if problems:
        raise ConfigError(listing("The levels can't be decided between:", problems))
    limit = math.inf if budget_ms is None else budget_ms
    worthy = [
        c
        for c in comparisons
        if c.verdict in _PROVEN and c.difference.estimate >= delta - stats.TOLERANCE
    ]
    ranked = sorted(
        (-round(c.difference.estimate, 12), costs[c.level], c.level)
        for c in worthy
        if costs[c.level] <= limit
    )
    dropped = tuple(c.level for c in comparisons if c.verdict in _BELOW_DELTA)
    over_budget = tuple(c.level for c in worthy if costs[c.level] > limit)
    settled = {*dropped, *(c.level for c in worthy)}
    unproven = tuple(c.level for c in comparisons if c.level not in settled)
    if ranked:
        level, reason = ranked[0][-1], Reason.ADOPTED
    elif over_budget:
        level, reason = reference, Reason.OVER_BUDGET
    else:
        level = reference
        reason = Reason.UNPROVEN if unproven else Reason.NO_GAIN
    return Decision(level, reason, dropped, unproven, over_budget)


def _differences(
    scores: Mapping[str, float], base: Mapping[str, float]
) -> dict[str, float]:
    """Subtract question by question; what rounding alone leaves over is a tie."""
    found = {question: scores[question] - base[question] for question in base}
    return {q: 0.0 if abs(d) <= stats.TOLERANCE else d for q, d in found.items()}


def _check(
    scores: Mapping[str, Mapping[str, float]],
    reference: str,
    alpha: float,
    delta: float,
) -> None:
    """Refuse what can't be compared, all problems in one message."""
    if reference not in scores:
        raise ConfigError(
            f"The reference {reference!r} has no scores; "
            f"give one of {', '.join(map(repr, scores)) or '(no level)'}."
        )
    if not (0 < alpha < MAX_ALPHA and 0 < delta < math.inf):
        raise ConfigError(
            f"alpha is {alpha} and delta {delta}; give alpha between 0 and {MAX_ALPHA} "
            f"and delta above 0, such as 0.05 and 0.05."
        )
    questions = sorted({question for values in scores.values() for question in values})
    problems = [
        f"{level!r} has no score for {', '.join(missing)}"
        for level, values in scores.items()
        if (missing := [repr(q) for q in questions if q not in values])
    ]
    if problems:
        heading = (
            "Score every level on the same questions; a question found nothing is 0:"
        )
        raise ConfigError(listing(heading, problems))

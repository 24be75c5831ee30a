"""What a study says: comparisons on its primary measure, and the level to use.

The rule is fixed before the run: the primary measure of each factor, delta, alpha and
the reference stand in the plan. A chunking is compared under both judging policies,
since with whole evidence in one chunk the measure is partly about length; where the two
would decide otherwise, the decision depends on the policy and the reference is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from scholar_rag_li.results import Results, Study
from scholar_rag_li.verdicts import Comparison, Decision, compare, decide

UNION = "[union]"
"""Suffix of a measure's column judged under the policy ``union``."""


@dataclass(frozen=True)
class Outcome:
    """A study's numbers and what follows from them.

    Args:
        study: what was varied.
        comparisons: each other level against the reference, on the primary measure.
        decision: the level to use.
        union: for a chunker, the comparisons under the policy ``union``.
        union_decision: for a chunker, the decision under the policy ``union``.
        added_ms: level -> added milliseconds per query, where latency was measured.
    """

    study: Study
    comparisons: tuple[Comparison, ...]
    decision: Decision
    union: tuple[Comparison, ...]
    union_decision: Decision | None
    added_ms: Mapping[str, float]

    @property
    def depends_on_policy(self) -> bool:
        """Whether the two judging policies would choose different levels."""
        other = self.union_decision
        return other is not None and other.level != self.decision.level

    @property
    def chosen(self) -> str:
        """The level to use; the reference where the choice depends on the policy."""
        return self.study.reference if self.depends_on_policy else self.decision.level


def outcome(results: Results, study: Study) -> Outcome:
    """Compare the levels of a study and apply the rule.

    Args:
        results: scores of all its systems, and latency where it was measured.
        study: which systems differ in which factor.
    """
    added = added_milliseconds(results, study)
    costs = {level: added.get(level, 0.0) for level in study.systems}
    comparisons, decision = _compare(results, study, study.measure, costs)
    union: list[Comparison] = []
    union_decision = None
    if study.factor == "chunker":
        union, union_decision = _compare(results, study, study.measure + UNION, costs)
    return Outcome(
        study, tuple(comparisons), decision, tuple(union), union_decision, added
    )


def added_milliseconds(results: Results, study: Study) -> dict[str, float]:
    """Median, over paired observations, of what a level adds to the reference's latency.

    Pairs are of the same question and repeat; a difference of percentiles would mix
    questions.
    """
    times: dict[str, dict[tuple[str, int], float]] = {}
    for timing in results.timings:
        pair = (timing.question, timing.repeat)
        times.setdefault(timing.system, {})[pair] = timing.milliseconds
    reference = times.get(study.systems[study.reference])
    if reference is None:
        return {}
    return {
        level: median(times[system][pair] - reference[pair] for pair in reference)
        for level, system in study.systems.items()
        if system in times
    }


def _compare(
    results: Results, study: Study, measure: str, costs: Mapping[str, float]
) -> tuple[list[Comparison], Decision]:
    delta = results.setting("delta")
    comparisons = compare(
        {
            level: results.column(system, measure)
            for level, system in study.systems.items()
        },
        study.reference,
        results.groups,
        alpha=results.setting("alpha"),
        delta=delta,
        seed=results.setting("seed"),
    )
    budget = results.setting("budget_ms") if study.factor == "reranker" else None
    decision = decide(
        comparisons, costs, study.reference, delta=delta, budget_ms=budget
    )
    return comparisons, decision

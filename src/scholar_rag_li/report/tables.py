"""Tables of a study, as values: one structure, drawn as Markdown or in a terminal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scholar_rag_li.results import Results, Study
from scholar_rag_li.stats import Interval, difference_interval
from scholar_rag_li.studies import UNION, Outcome
from scholar_rag_li.verdicts import Comparison

P95_FROM = 200  # distinct questions; below, the largest observation is shown

TITLES = {
    "chunker": "Which chunking?",
    "retriever": "What does lexical search add to vector search?",
    "rrf_k": "Does rrf_k matter?",
    "reranker": "Does the reranker earn its latency?",
}
BESIDE = {
    "chunker": ("rr@10", "characters@5"),
    "retriever": (
        "rr@10",
        "success@5",
        "precision@5",
        "ragas_id_recall@5",
        "ragas_id_precision@5",
    ),
    "rrf_k": ("rr@10", "recall@10"),
    "reranker": ("recall@5", "recall@10", "ragas_id_recall@5", "ragas_id_precision@5"),
}
"""Measures shown beside the primary one; they decide nothing."""


@dataclass(frozen=True)
class Table:
    """Text in rows and columns.

    Args:
        title: what the table answers.
        columns: headings.
        rows: as many cells each as there are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def study_tables(results: Results, outcome: Outcome) -> list[Table]:
    """Lay out a study: the comparison, the measures beside it, the kinds of question."""
    tables = [comparison_table(results, outcome)]
    if outcome.union:
        tables.append(comparison_table(results, outcome, union=True))
    tables.append(beside_table(results, outcome))
    if outcome.study.factor in ("retriever", "reranker"):
        kinds = kind_table(results, outcome.study)
        tables += [kinds] if kinds is not None else []
    return tables


def title(results: Results, study: Study) -> str:
    """Say which question a study answers."""
    reference = results.manifest["legs"].get(study.reference, {})
    if study.factor == "retriever" and reference.get("leg") != "vector":
        return f"What does another retriever add to {study.reference}?"
    return TITLES[study.factor]


def comparison_table(
    results: Results, outcome: Outcome, *, union: bool = False
) -> Table:
    """Lay out the primary measure, under one policy: means, differences, verdicts."""
    study = outcome.study
    measure = study.measure + UNION if union else study.measure
    comparisons = outcome.union if union else outcome.comparisons
    compared = {each.level: each for each in comparisons}
    columns = (
        study.factor,
        heading(measure),
        f"difference to {study.reference}",
        "p (Holm)",
        "W/T/L",
        "verdict",
    )
    rows = tuple(
        (
            f"{level} ←" if level == outcome.chosen else level,
            number(results.mean(system, measure)),
            *_compared(compared.get(level)),
        )
        for level, system in study.systems.items()
    )
    n, groups = len(results.questions), len(set(results.groups.values()))
    shown = heading(measure)
    caption = f"{shown} by {study.factor}, n = {n} questions in {groups} groups"
    return Table(caption, columns, rows)


def beside_table(results: Results, outcome: Outcome) -> Table:
    """Lay out the other measures, ragas's among them, and the latency where timed."""
    study = outcome.study
    beside = [
        measure
        for measure in BESIDE[study.factor]
        if measure != study.measure and _has(results, study, measure)
    ]
    timed = all(results.milliseconds(system) for system in study.systems.values())
    columns = (
        study.factor,
        *(heading(measure) for measure in beside),
        *(("p50 ms", _top_name(results), "added ms") if timed else ()),
    )
    rows = []
    for level, system in study.systems.items():
        row = [level, *(_mean(results, system, measure) for measure in beside)]
        rows.append((*row, *(_latency(results, outcome, level) if timed else ())))
    n = len(results.questions)
    caption = f"Beside it, exploratory, without verdict (n = {n})"
    return Table(caption, columns, tuple(rows))


def kind_table(results: Results, study: Study) -> Table | None:
    """Break the primary measure of a study down by kind of question.

    None when all questions are of one kind.
    """
    kinds = results.kinds
    if len(kinds) < 2:  # noqa: PLR2004  # nothing to break down
        return None
    columns = [study.factor, *(f"{kind} (n={len(ids)})" for kind, ids in kinds.items())]
    rows = []
    for level, system in study.systems.items():
        cells = [level]
        for ids in kinds.values():
            cell = number(results.mean(system, study.measure, ids))
            if level != study.reference:
                gain = kind_difference(results, study, level, ids)
                cell += f" ({signed(gain.estimate)} {bounds(gain)})"
            cells.append(cell)
        rows.append(tuple(cells))
    caption = f"{study.measure} by kind of question, exploratory, 95 % intervals"
    return Table(caption, tuple(columns), tuple(rows))


def kind_difference(
    results: Results, study: Study, level: str, questions: Sequence[str]
) -> Interval:
    """Return a level's difference to the reference on some questions, at 95 %."""
    own = results.column(study.systems[level], study.measure, questions)
    base = results.column(study.systems[study.reference], study.measure, questions)
    differences = {id_: own[id_] - base[id_] for id_ in questions}
    return difference_interval(differences, results.groups, confidence=0.95)


def heading(measure: str) -> str:
    """Name a measure's column; whose number it is where it is not ours."""
    if measure.startswith("ragas_"):
        return measure.replace("ragas_id_", "ragas ID ")
    return measure.replace(UNION, " (union)").replace("rr@10", "MRR (rr@10)")


def number(value: float) -> str:
    """Print a score to three places."""
    return f"{value:.3f}"


def signed(value: float) -> str:
    """Print a difference with its sign; what rounds to nothing has none."""
    text = f"{value:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text


def bounds(interval: Interval) -> str:
    """Print an interval's bounds."""
    if not math.isfinite(interval.low):
        return "[unknown: one group]"
    if interval.low == interval.high == 0:
        return "[all tie]"  # no spread was seen, which is not to say that there is none
    return f"[{signed(interval.low)}, {signed(interval.high)}]"


def top_latency(results: Results, system: str) -> float:
    """Return p95 where enough distinct questions were timed, else the maximum."""
    times = results.milliseconds(system)
    if not many_timed(results):
        return times[-1]
    return times[math.ceil(0.95 * len(times)) - 1]


def many_timed(results: Results) -> bool:
    """Tell whether enough distinct questions were timed for p95."""
    return len({timing.question for timing in results.timings}) >= P95_FROM


def _top_name(results: Results) -> str:
    if many_timed(results):
        return "p95 ms"
    times = len({(timing.question, timing.repeat) for timing in results.timings})
    return f"max ms (of {times})"


def _latency(results: Results, outcome: Outcome, level: str) -> list[str]:
    system = outcome.study.systems[level]
    times = results.milliseconds(system)
    added = (
        "" if level == outcome.study.reference else f"{outcome.added_ms[level]:+.0f}"
    )
    return [f"{median(times):.0f}", f"{top_latency(results, system):.0f}", added]


def _compared(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return ["(reference)", "", "", ""]
    difference = comparison.difference
    return [
        f"{signed(difference.estimate)} {bounds(difference)}",
        f"{comparison.p_holm:.3f}",
        f"{comparison.wins}/{comparison.ties}/{comparison.losses}",
        str(comparison.verdict),
    ]


def _mean(results: Results, system: str, measure: str) -> str:
    mean = results.mean(system, measure)
    return f"{mean:.0f}" if measure.startswith("characters") else number(mean)


def _has(results: Results, study: Study, measure: str) -> bool:
    return all(measure in results.scores[system] for system in study.systems.values())

"""What follows from a study, in sentences with number, interval and n."""

from scholar_rag_li.report.tables import (
    bounds,
    kind_difference,
    number,
    signed,
    top_latency,
)
from scholar_rag_li.results import Results
from scholar_rag_li.studies import Outcome
from scholar_rag_li.verdicts import Comparison, Reason, Verdict

REASONS = {
    Reason.ADOPTED: "it is proven better and gains at least delta within the budget",
    Reason.OVER_BUDGET: "what is proven better costs more than the budget",
    Reason.UNPROVEN: "no other level is proven to gain delta, though some may",
    Reason.NO_GAIN: "no other level gains delta",
}
UNSETTLED = (
    Verdict.TOO_FEW,
    Verdict.BETTER,
    Verdict.WORSE,
    Verdict.NOT_BETTER,
    Verdict.NOT_WORSE,
)


def decision(results: Results, outcome: Outcome) -> str:
    """Say which level to use and why."""
    study = outcome.study
    if outcome.depends_on_policy:
        other = outcome.union_decision
        under = other.level if other else ""
        return (
            f"Decision: keep `{study.reference}`; it depends on policy: judged chunk by "
            f"chunk the rule takes `{outcome.decision.level}`, judged by the union of the "
            f"chunks read `{under}`."
        )
    text = f"Decision: use `{outcome.chosen}`, as {REASONS[outcome.decision.reason]}"
    if outcome.decision.unproven:
        names = ", ".join(f"`{level}`" for level in outcome.decision.unproven)
        text += f". Unproven: {names}"
    if outcome.decision.over_budget:
        names = ", ".join(f"`{level}`" for level in outcome.decision.over_budget)
        text += f". Over the budget of {results.setting('budget_ms'):g} ms: {names}"
    return text + "."


def conclusions(results: Results, outcome: Outcome) -> list[str]:
    """Say what a study found, its decision last."""
    own = {
        "chunker": _chunker,
        "retriever": _retriever,
        "rrf_k": _rrf_k,
        "reranker": _reranker,
    }[outcome.study.factor]
    sentences = own(results, outcome)
    undecided = _undecided(results, outcome)
    if undecided:
        sentences.append(undecided)
    return [*sentences, decision(results, outcome)]


def _compared(comparison: Comparison) -> str:
    return (
        f"`{comparison.level}` {number(comparison.mean)} against "
        f"{number(comparison.reference_mean)} of `{comparison.reference}` "
        f"({signed(comparison.difference.estimate)} {bounds(comparison.difference)}, "
        f"n = {comparison.n}): {comparison.verdict}"
    )


def _chunker(results: Results, outcome: Outcome) -> list[str]:
    study = outcome.study
    best = max(
        study.systems,
        key=lambda level: results.mean(study.systems[level], study.measure),
    )
    compared = {each.level: each for each in outcome.comparisons}
    highest = f"The highest {study.measure} is that of `{best}`"
    if best in compared:
        return [f"{highest}: {_compared(compared[best])}."]
    mean = number(results.mean(study.systems[best], study.measure))
    return [f"{highest}, the reference, with {mean} (n = {len(results.questions)})."]


def _retriever(results: Results, outcome: Outcome) -> list[str]:
    study, kinds = outcome.study, results.kinds
    sentences = [f"On {study.measure}, {_compared(c)}." for c in outcome.comparisons]
    hybrids = [
        level
        for level in study.systems
        if results.manifest["legs"].get(level, {}).get("kind") == "hybrid"
    ]
    for level in hybrids if len(kinds) > 1 else ():
        if level == study.reference:
            continue
        parts = []
        for kind, ids in kinds.items():
            gain = kind_difference(results, study, level, ids)
            parts.append(
                f"{signed(gain.estimate)} {bounds(gain)} on the {len(ids)} `{kind}`"
            )
        sentences.append(
            f"What `{level}` adds to `{study.reference}` in {study.measure}, by kind of "
            f"question: {', '.join(parts)} (exploratory)."
        )
    return sentences


def _rrf_k(_results: Results, outcome: Outcome) -> list[str]:
    study = outcome.study
    changed = max((c.wins + c.losses for c in outcome.comparisons), default=0)
    sentences = [f"On {study.measure}, {_compared(c)}." for c in outcome.comparisons]
    if all(c.verdict == Verdict.NO_DIFFERENCE for c in outcome.comparisons):
        sentences.append(
            f"rrf_k does not matter here: every level is within delta of "
            f"{study.reference}, and at most {changed} questions change at all."
        )
    else:
        sentences.append(
            "That no level of rrf_k matters is not shown: not every level is proven to "
            f"be within delta; at most {changed} questions change at all."
        )
    return sentences


def _reranker(results: Results, outcome: Outcome) -> list[str]:
    study = outcome.study
    base = study.systems[study.reference]
    rerankers = results.manifest["rerankers"]
    sentences = []
    for comparison in outcome.comparisons:
        level, model = comparison.level, rerankers[comparison.level]["model"]
        sentences.append(f"On {study.measure}, {_compared(comparison)}.")
        candidates = rerankers[level]["candidates"]
        held = results.mean(base, f"recall@{candidates}")
        reach = results.mean(base, f"success@{candidates}")
        first = results.mean(base, "rr@10")
        sentences.append(
            f"The {candidates} candidates hold {number(held)} of the evidence, which no "
            f"reranker's recall can exceed, and some of it for {number(reach)} of the "
            f"questions, which no reranker's MRR can exceed; MRR before reranking is "
            f"{number(first)}, so {_room(reach, first)}."
        )
        if level in outcome.added_ms:
            system = study.systems[level]
            sentences.append(
                f"`{level}` ({model_name(model)}) adds "
                f"{outcome.added_ms[level]:.0f} ms to a query (median, warm); its slowest "
                f"took {top_latency(results, system):.0f} ms in all."
            )
        note = language_note(model, results.manifest["language"])
        if note:
            sentences.append(note)
    return sentences


def _room(reach: float, mrr: float) -> str:
    """Say whether better ordering of the candidates can pay."""
    gap = max(reach - mrr, 0)
    if gap >= 0.1:  # noqa: PLR2004  # two deltas of the usual .05
        return f"a perfect order of them would gain {gap:.3f} and a reranker can pay"
    return f"even a perfect order of them would gain only {gap:.3f}"


def language_note(model: str | None, language: str) -> str:
    """Warn of a cross-encoder that was trained on another language than the corpus.

    Known is only one family: cross-encoders named ms-marco were trained on the English
    MS MARCO passages (mmarco is its translation into 13 more languages).

    >>> language_note("cross-encoder/mmarco-mMiniLMv2-L12-H384-v1", "es")
    ''
    """
    if language == "en" or "ms-marco" not in (model or "").lower():
        return ""
    return (
        f"The cross-encoder {model_name(model)} was trained on English and the corpus is in "
        f"`{language}`: this verdict is about that model on this language, and a "
        "multilingual cross-encoder may do better."
    )


def model_name(model: str | None) -> str:
    """Name a model by the last part of its directory, or by its hub name."""
    parts = (model or "the user's own").split("/")
    return parts[-1] if len(parts) > 2 else "/".join(parts)  # noqa: PLR2004  # owner/name


def _undecided(results: Results, outcome: Outcome) -> str:
    open_ = [c for c in outcome.comparisons if c.verdict in UNSETTLED]
    needed = [c.questions_needed for c in open_ if c.questions_needed is not None]
    if not needed:
        return ""
    delta = results.setting("delta")
    smallest = max(c.smallest_detectable for c in open_)
    return (
        f"These {open_[0].n} questions detect a difference of {smallest:.3f} (power .8); "
        f"to detect one of {delta:g}, about {max(needed)} questions like these are needed."
    )

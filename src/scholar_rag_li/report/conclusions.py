"""What follows from a study, in sentences with number, interval and n."""

from scholar_rag_li.errors import UnknownComponentError
from scholar_rag_li.language import language as known_language
from scholar_rag_li.report.tables import (
    bounds,
    kind_difference,
    many_timed,
    number,
    signed,
    top_latency,
)
from scholar_rag_li.results import Results
from scholar_rag_li.stats import groups_needed
from scholar_rag_li.studies import Outcome
from scholar_rag_li.verdicts import Comparison, Reason, Verdict

REASONS = {
    Reason.ADOPTED: "it is proven better, by delta or more in the estimate",
    Reason.OVER_BUDGET: "what is proven better costs more than the budget",
    Reason.UNPROVEN: "no other level is proven to gain delta, though some may",
    Reason.NO_GAIN: "no other level gains delta",
}


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
    if study.factor == "reranker" and outcome.decision.reason == Reason.ADOPTED:
        budget = results.setting("budget_ms")
        text += "" if budget is None else f", within the budget of {budget:g} ms"
    if outcome.decision.unproven:
        names = ", ".join(f"`{level}`" for level in outcome.decision.unproven)
        text += f". Unproven: {names}"
    if outcome.decision.over_budget:
        names = ", ".join(f"`{level}`" for level in outcome.decision.over_budget)
        text += f". Over the budget of {results.setting('budget_ms'):g} ms: {names}"
    return text + "."


def conclusions(results: Results, outcome: Outcome) -> list[str]:
    """Say what a study found: the answer first, the decision last."""
    own = {
        "chunker": _chunker,
        "retriever": _retriever,
        "rrf_k": _rrf_k,
        "reranker": _reranker,
    }[outcome.study.factor]
    sentences = own(results, outcome)
    return [*sentences, *_undecided(results, outcome), decision(results, outcome)]


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
        key=lambda level: (
            results.mean(study.systems[level], study.measure),
            level == study.reference,  # a tie is no lead over it
        ),
    )
    compared = {each.level: each for each in outcome.comparisons}
    highest = f"The highest {study.measure} is that of `{best}`"
    if best in compared:
        return [f"{highest}: {_compared(compared[best])}."]
    mean = number(results.mean(study.systems[best], study.measure))
    return [f"{highest}, the reference, with {mean} (n = {len(results.questions)})."]


def _retriever(results: Results, outcome: Outcome) -> list[str]:
    """Say what each hybrid adds, overall and by kind, then how the others compare."""
    legs = results.manifest["legs"]
    hybrids = [
        each
        for each in outcome.comparisons
        if legs.get(each.level, {}).get("kind") == "hybrid"
    ]
    others = [each for each in outcome.comparisons if each not in hybrids]
    sentences = [_added(results, outcome, each) for each in hybrids]
    measure = outcome.study.measure
    return sentences + [f"On {measure}, {_compared(each)}." for each in others]


def _added(results: Results, outcome: Outcome, hybrid: Comparison) -> str:
    study, kinds = outcome.study, results.kinds
    text = f"On {study.measure}, {_compared(hybrid)}."
    if len(kinds) == 1:
        return text
    gains = {
        kind: kind_difference(results, study, hybrid.level, ids)
        for kind, ids in kinds.items()
    }
    parts = [
        f"{signed(gain.estimate)} {bounds(gain)} on the {len(kinds[kind])} `{kind}`"
        for kind, gain in gains.items()
    ]
    clear = [
        f"`{kind}`" for kind, gain in gains.items() if gain.low > 0 or gain.high < 0
    ]
    spoken = f"clear of 0 on {', '.join(clear)}" if clear else "clear of 0 on no kind"
    return (
        f"{text} What `{hybrid.level}` adds to `{study.reference}` by kind of question: "
        f"{', '.join(parts)}: {spoken} (exploratory)."
    )


def _rrf_k(results: Results, outcome: Outcome) -> list[str]:
    study, delta = outcome.study, results.setting("delta")
    changed = max((c.wins + c.losses for c in outcome.comparisons), default=0)
    n = outcome.comparisons[0].n if outcome.comparisons else 0
    open_ = [
        f"`{each.level}`"
        for each in outcome.comparisons
        if each.verdict != Verdict.NO_DIFFERENCE
    ]
    if open_:
        verb = "is" if len(open_) == 1 else "are"
        text = (
            f"That rrf_k does not matter is not shown: {', '.join(open_)} {verb} not "
            f"proven to be within {delta:g} of"
        )
    else:
        text = f"rrf_k does not matter here: every level is within {delta:g} of"
    first = (
        f"{text} `{study.reference}` in {study.measure}; {study.measure} changes on at "
        f"most {changed} of {n} questions."
    )
    return [first] + [f"rrf_k {_compared(each)}." for each in outcome.comparisons]


def _reranker(results: Results, outcome: Outcome) -> list[str]:
    study, rerankers = outcome.study, results.manifest["rerankers"]
    plain = [level for level in study.systems if rerankers[level] is None]
    unranked = study.systems[plain[0] if plain else study.reference]
    sentences = []
    for comparison in outcome.comparisons:
        level, reranker = comparison.level, rerankers[comparison.level]
        text = f"On {study.measure}, {_compared(comparison)}."
        if level in outcome.added_ms:
            top = top_latency(results, study.systems[level])
            who = "95 % take at most" if many_timed(results) else "the slowest took"
            text += (
                f" It adds {outcome.added_ms[level]:.0f} ms to a query (median, warm); "
                f"{who} {top:.0f} ms in all."
            )
        if reranker is None:
            sentences.append(text)
            continue
        note = language_note(reranker["model"], results.manifest["language"])
        sentences.append(f"{text} {note}".rstrip())
        sentences.append(_reach(results, unranked, reranker["candidates"]))
    return sentences


def _reach(results: Results, unranked: str, candidates: int) -> str:
    """Say what the candidates of a reranker allow, whatever the reranker."""
    held = results.mean(unranked, f"recall@{candidates}")
    reach = results.mean(unranked, f"success@{candidates}")
    first = results.mean(unranked, "rr@10")
    return (
        f"The {candidates} candidates hold {number(held)} of the evidence, which no "
        f"reranker's recall can exceed, and some of it for {number(reach)} of the "
        f"questions, which no reranker's MRR can exceed; MRR before reranking is "
        f"{number(first)}: {_room(reach, first)}."
    )


def _room(reach: float, mrr: float) -> str:
    """Say whether better ordering of the candidates can pay."""
    gap = max(reach - mrr, 0)
    if gap >= 0.1:  # noqa: PLR2004  # two deltas of the usual .05
        return f"a perfect order would gain {gap:.3f}, so there is room for a reranker"
    return f"even a perfect order would gain only {gap:.3f}"


def language_note(model: str | None, language: str) -> str:
    """Warn of a cross-encoder that was trained on another language than the corpus.

    Known is only one family: cross-encoders named ms-marco were trained on the English
    MS MARCO passages (mmarco is its translation into 13 more languages).

    >>> language_note("cross-encoder/mmarco-mMiniLMv2-L12-H384-v1", "es")
    ''
    """
    if "ms-marco" not in (model or "").lower() or _is_english(language):
        return ""
    return (
        f"The cross-encoder {model_name(model)} was trained on English, the corpus is in "
        f"`{language}`: this verdict is about that model on this language, and a "
        "multilingual cross-encoder may do better."
    )


def _is_english(language: str) -> bool:
    """Tell whether a language is English; one without BM25 rules is another."""
    try:
        return known_language(language).code == "en"
    except UnknownComponentError:
        return False


def model_name(model: str | None) -> str:
    """Name a model by the last part of its directory, or by its hub name."""
    parts = (model or "the user's own").split("/")
    return parts[-1] if len(parts) > 2 else "/".join(parts)  # noqa: PLR2004  # owner/name


def _undecided(results: Results, outcome: Outcome) -> list[str]:
    """Say how many questions or groups would settle what these leave open."""
    open_ = [
        each
        for each in outcome.comparisons
        if each.level in outcome.decision.unproven
        or (outcome.study.factor == "rrf_k" and each.verdict != Verdict.NO_DIFFERENCE)
    ]
    if not open_:
        return []
    delta, n = results.setting("delta"), open_[0].n
    sentences = []
    needed = [c.questions_needed or 0 for c in open_]
    if max(needed) > n:
        smallest = max(c.smallest_detectable for c in open_)
        sentences.append(
            f"These {n} questions detect a difference of {smallest:.3f} (power .8); to "
            f"detect one of {delta:g}, about {max(needed)} questions like these are needed."
        )
    groups, fewest = open_[0].n_groups, groups_needed(delta)
    if groups < fewest:
        sentences.append(
            f"{groups} groups can't show that a difference is below {delta:g}, however "
            f"equal the scores; {fewest} can."
        )
    return sentences

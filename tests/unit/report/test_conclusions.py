"""What follows from a study, in words: every verdict, every reason, and no more."""

from dataclasses import replace

import pytest

from scholar_rag_li.report.conclusions import (
    REASONS,
    conclusions,
    decision,
    language_note,
    model_name,
)
from scholar_rag_li.report.markdown import report
from scholar_rag_li.results import Timing
from scholar_rag_li.studies import outcome
from scholar_rag_li.verdicts import Decision, Reason, Verdict


def of(results, factor):
    """Return the outcome of a factor."""
    [study] = [study for study in results.studies if study.factor == factor]
    return outcome(results, study)


def with_verdict(found, verdict, **changes):
    """Give every comparison of an outcome a verdict."""
    changed = tuple(
        replace(each, verdict=verdict, **changes) for each in found.comparisons
    )
    return replace(found, comparisons=changed)


def with_setting(results, **settings):
    """Change settings of the run."""
    changed = {**results.manifest["settings"], **settings}
    return replace(results, manifest={**results.manifest, "settings": changed})


def with_manifest(results, **parts):
    """Change parts of the manifest."""
    return replace(results, manifest={**results.manifest, **parts})


FACTORS = ["chunker", "retriever", "rrf_k", "reranker"]


# the decision


@pytest.mark.parametrize(
    ("reason", "because"),
    [
        (Reason.ADOPTED, "it is proven better, by delta or more in the estimate"),
        (Reason.OVER_BUDGET, "what is proven better costs more than the budget"),
        (
            Reason.UNPROVEN,
            "no other level is proven to gain delta, though some may",
        ),
        (Reason.NO_GAIN, "no other level gains delta"),
    ],
)
def test_each_reason_has_its_sentence(results, outcomes, reason, because):
    """The decision names the level, and why."""
    found = replace(outcomes["rrf_k"], decision=Decision("60", reason))
    assert decision(results, found) == f"Decision: use `60`, as {because}."


def test_no_reason_is_without_words():
    """A reason that is added later has to be worded."""
    assert set(REASONS) == set(Reason)


def test_unproven_levels_are_named(results, outcomes):
    """What the questions can't settle is said."""
    undecided = Decision("60", Reason.UNPROVEN, unproven=("10", "200"))
    found = replace(outcomes["rrf_k"], decision=undecided)
    assert decision(results, found).endswith("some may. Unproven: `10`, `200`.")


ADOPTED = Decision("cross-encoder", Reason.ADOPTED)


def test_an_adopted_reranker_keeps_to_its_budget(results, outcomes):
    """Where there is a budget, it stands beside what is within it."""
    found = replace(outcomes["reranker"], decision=ADOPTED)
    text = decision(with_setting(results, budget_ms=150.0), found)
    assert text.endswith("in the estimate, within the budget of 150 ms.")


@pytest.mark.parametrize(("factor", "budget"), [("reranker", None), ("rrf_k", 150.0)])
def test_no_budget_is_named_where_none_applies(results, outcomes, factor, budget):
    """Without a budget, and for other factors, nothing is said of one."""
    found = replace(outcomes[factor], decision=ADOPTED)
    text = decision(with_setting(results, budget_ms=budget), found)
    assert "budget" not in text


def test_levels_over_the_budget_are_named(results):
    """The budget stands beside what exceeds it."""
    results = with_setting(results, budget_ms=50.0)
    over = Decision("none", Reason.OVER_BUDGET, over_budget=("cross-encoder",))
    found = replace(of(results, "reranker"), decision=over)
    assert decision(results, found).endswith(
        "Over the budget of 50 ms: `cross-encoder`."
    )


def test_a_decision_that_depends_on_the_policy_keeps_the_reference(results, outcomes):
    """Both levels are named, with the policy that takes each."""
    found = outcomes["chunker"]
    union = Decision("fixed-1000-150", Reason.UNPROVEN)
    assert decision(results, replace(found, union_decision=union)) == (
        "Decision: keep `fixed-1000-150`; it depends on policy: judged chunk by chunk "
        "the rule takes `sentence-1000-150`, judged by the union of the chunks read "
        "`fixed-1000-150`."
    )


@pytest.mark.parametrize("factor", FACTORS)
def test_the_decision_comes_last(results, outcomes, factor):
    """A study ends with what to use, whatever comes before."""
    found = outcomes[factor]
    assert conclusions(results, found)[-1] == decision(results, found)


# verdicts


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize(
    ("factor", "level"),
    [
        ("chunker", "sentence-1000-150"),
        ("retriever", "bm25"),
        ("retriever", "hybrid"),
        ("rrf_k", "200"),
        ("reranker", "cross-encoder"),
    ],
)
def test_each_verdict_is_said_with_its_numbers(
    results, outcomes, factor, level, verdict
):
    """A level's sentence has means, difference, interval, n and the verdict."""
    found = with_verdict(outcomes[factor], verdict)
    [own] = [
        each
        for each in conclusions(results, found)
        if f"`{level}` " in each and "n = 8" in each
    ]
    assert f"n = 8): {verdict}." in own


@pytest.mark.parametrize("factor", FACTORS)
def test_no_sentence_claims_in_bold(results, outcomes, factor):
    """Bold is left to headings: no level is best by its looks."""
    assert "**" not in "".join(conclusions(results, outcomes[factor]))


def test_an_unproven_level_says_how_many_questions_would(results, outcomes):
    """A detectable difference of .3 and 250 questions for delta."""
    found = with_verdict(
        outcomes["reranker"],
        Verdict.TOO_FEW,
        smallest_detectable=0.3,
        questions_needed=250,
    )
    found = replace(
        found, decision=replace(found.decision, unproven=("cross-encoder",))
    )
    assert (
        "These 8 questions detect a difference of 0.300 (power .8); to detect one of "
        "0.05, about 250 questions like these are needed."
    ) in conclusions(results, found)


def test_a_decided_level_asks_for_no_more_questions(results, outcomes):
    """Where the rule could decide, no number of questions is named."""
    found = with_verdict(outcomes["reranker"], Verdict.BETTER, questions_needed=250)
    found = replace(found, decision=replace(found.decision, unproven=()))
    assert "are needed" not in "".join(conclusions(results, found))


def test_no_fewer_questions_are_asked_for_than_there_are(results, outcomes):
    """Eight were asked; that seven are needed would be no advice."""
    found = with_verdict(outcomes["reranker"], Verdict.TOO_FEW, questions_needed=7)
    found = replace(
        found, decision=replace(found.decision, unproven=("cross-encoder",))
    )
    assert "are needed" not in "".join(conclusions(results, found))


def test_one_group_has_no_number_of_questions(results, outcomes):
    """Where the spread is unknown, no number is made up."""
    found = with_verdict(outcomes["reranker"], Verdict.TOO_FEW, questions_needed=None)
    assert "are needed" not in "".join(conclusions(results, found))


ALL_OPEN = "groups can't show that a difference is below 0.05, however equal"


def test_too_few_groups_are_told(results, outcomes):
    """(1 - .05)^71 = .0262 and (1 - .05)^72 = .0249 < .025, so that 8 are too few."""
    assert f"8 {ALL_OPEN} the scores; 72 can." in conclusions(
        results, outcomes["rrf_k"]
    )


def test_enough_groups_are_not_told(results, outcomes):
    """With 72 groups equality can be shown, and nothing is said of groups."""
    found = with_verdict(outcomes["rrf_k"], Verdict.TOO_FEW, n_groups=72)
    assert ALL_OPEN not in "".join(conclusions(results, found))


def test_groups_are_not_told_where_nothing_is_open(results, outcomes):
    """A level that is decided needs no more groups, however few there are."""
    found = with_verdict(outcomes["reranker"], Verdict.TOO_FEW)
    found = replace(found, decision=replace(found.decision, unproven=()))
    assert ALL_OPEN not in "".join(conclusions(results, found))


def test_rrf_k_is_open_until_it_is_shown_not_to_matter(results, outcomes):
    """For rrf_k a level that the rule has dropped leaves the question open too."""
    found = with_verdict(outcomes["rrf_k"], Verdict.TOO_FEW, questions_needed=90)
    found = replace(found, decision=replace(found.decision, unproven=()))
    assert "about 90 questions" in "".join(conclusions(results, found))


def test_only_open_levels_say_how_many_questions(results, outcomes):
    """Of a level that is proven equal the larger number does not count."""
    found = outcomes["rrf_k"]
    ten, other = found.comparisons
    ten = replace(ten, questions_needed=400, verdict=Verdict.NO_DIFFERENCE)
    found = replace(
        found,
        comparisons=(ten, replace(other, questions_needed=300)),
        decision=replace(found.decision, unproven=("200",)),
    )
    assert "about 300 questions" in "".join(conclusions(results, found))


def test_the_hardest_level_says_how_many_questions(results, outcomes):
    """Of two open levels the larger number counts: 400, not 300."""
    found = outcomes["rrf_k"]
    ten, other = found.comparisons
    ten = replace(ten, questions_needed=400)
    other = replace(other, questions_needed=300)
    found = replace(found, comparisons=(ten, other))
    assert "about 400 questions" in "".join(conclusions(results, found))


# chunker


def test_the_highest_chunking_is_named(results, outcomes):
    """1.000 of sentence is more than .250 of fixed."""
    first = conclusions(results, outcomes["chunker"])[0]
    assert first.startswith("The highest recall@5 is that of `sentence-1000-150`: ")


def test_a_reference_that_is_highest_has_no_difference(results):
    """With the better chunking as reference, its mean and n are all there is."""
    [study] = [each for each in results.studies if each.factor == "chunker"]
    found = outcome(results, replace(study, reference="sentence-1000-150"))
    assert conclusions(results, found)[0] == (
        "The highest recall@5 is that of `sentence-1000-150`, the reference, with 1.000 "
        "(n = 8)."
    )


def test_of_equal_chunkings_the_reference_is_the_highest(results):
    """A tie is no lead over the reference, whatever the order of the levels."""
    [study] = [each for each in results.studies if each.factor == "chunker"]
    [_, best] = study.systems.values()
    equal = replace(study, systems={"a": best, "b": best}, reference="b")
    first = conclusions(results, outcome(results, equal))[0]
    assert first.startswith("The highest recall@5 is that of `b`, the reference")


# retriever


def test_what_a_hybrid_adds_comes_first(results, outcomes):
    """The question is what lexical search adds, so the hybrid's sentence leads."""
    first = conclusions(results, outcomes["retriever"])[0]
    assert first.startswith("On recall@5, `hybrid` 1.000 against 0.125 of `vector`")


def test_what_a_hybrid_adds_by_kind(results, outcomes):
    """+1 on four codes, +3/4 on four texts, marked as exploratory."""
    first = conclusions(results, outcomes["retriever"])[0]
    assert first.endswith(
        "What `hybrid` adds to `vector` by kind of question: +1.000 [-0.144, +1.477] on "
        "the 4 `code`, +0.750 [-0.339, +1.339] on the 4 `text`: clear of 0 on no kind "
        "(exploratory)."
    )


def split(results, codes):
    """Make the first questions codes, and the others text."""
    infos = tuple(
        each._replace(kind="code" if i < codes else "text")
        for i, each in enumerate(results.questions)
    )
    return replace(results, questions=infos)


def test_a_kind_that_is_clear_of_0_is_named(results):
    """+1 on six codes: d~ = 6/8, SE² = (7/8 - 9/16)/8, 2.571 · SE = .508 < .75."""
    results = split(results, 6)
    first = conclusions(results, of(results, "retriever"))[0]
    assert first.endswith("on the 2 `text`: clear of 0 on `code` (exploratory).")


def test_a_kind_that_is_clear_below_0_is_named_too(results):
    """A hybrid that loses each of six codes is clear of 0 there as well."""
    [found] = [each for each in results.studies if each.factor == "retriever"]
    swapped = {**found.systems, "vector": found.systems["hybrid"]}
    swapped["hybrid"] = found.systems["vector"]
    study = replace(found, systems=swapped)
    results = split(replace(results, studies=(study,)), 6)
    first = conclusions(results, of(results, "retriever"))[0]
    assert "-1.000 [" in first
    assert first.endswith(": clear of 0 on `code` (exploratory).")


def test_one_kind_is_not_broken_down(results):
    """Where all questions are of one kind, the difference is said once."""
    infos = tuple(each._replace(kind="text") for each in results.questions)
    results = replace(results, questions=infos)
    first = conclusions(results, of(results, "retriever"))[0]
    assert "by kind of question" not in first


# rrf_k


def test_rrf_k_does_not_matter_when_every_level_is_equivalent(results, outcomes):
    """Delta, the reference, the measure and how many questions change: 1 of 8."""
    found = with_verdict(outcomes["rrf_k"], Verdict.NO_DIFFERENCE)
    assert conclusions(results, found)[0] == (
        "rrf_k does not matter here: every level is within 0.05 of `60` in recall@5; "
        "recall@5 changes on at most 1 of 8 questions."
    )


@pytest.mark.parametrize("verdict", sorted(set(Verdict) - {Verdict.NO_DIFFERENCE}))
def test_one_level_that_is_not_equivalent_is_enough(results, outcomes, verdict):
    """With one level equivalent and one not, "does not matter" is not claimed."""
    found = with_verdict(outcomes["rrf_k"], Verdict.NO_DIFFERENCE)
    ten, other = found.comparisons
    found = replace(found, comparisons=(ten, replace(other, verdict=verdict)))
    first = conclusions(results, found)[0]
    assert first.startswith(
        "That rrf_k does not matter is not shown: `200` is not proven to be within 0.05 "
        "of `60` in recall@5"
    )


def test_all_levels_that_are_not_equivalent_are_named(results, outcomes):
    """Neither 10 nor 200 is proven, so both are named."""
    first = conclusions(results, outcomes["rrf_k"])[0]
    assert ": `10`, `200` are not proven to be within 0.05 of `60`" in first


# reranker


def test_what_a_reranker_adds_in_milliseconds(results, outcomes):
    """The paired median is 100, the slowest 112 + 4 + 10."""
    first = conclusions(results, outcomes["reranker"])[0]
    assert (
        "It adds 100 ms to a query (median, warm); the slowest took 126 ms in all."
        in first
    )


def test_without_latency_no_milliseconds(results):
    """What was not timed is not said."""
    results = replace(results, timings=())
    first = conclusions(results, of(results, "reranker"))[0]
    assert " ms " not in first


def test_what_the_candidates_allow_by_hand(results, outcomes):
    """success@20 is 1 and MRR .469: a perfect order would gain .531."""
    second = conclusions(results, outcomes["reranker"])[1]
    assert second == (
        "The 20 candidates hold 1.000 of the evidence, which no reranker's recall can "
        "exceed, and some of it for 1.000 of the questions, which no reranker's MRR can "
        "exceed; MRR before reranking is 0.469: a perfect order would gain 0.531, so "
        "there is room for a reranker."
    )


def test_where_the_order_is_good_there_is_little_room(results):
    """MRR .469 of at most .5, four questions of eight: .031 is all there is to gain."""
    system = results.studies[3].systems["none"]
    columns = dict(results.scores[system])
    columns["success@20"] = {q: float(q < "q5") for q in columns["success@20"]}
    results = replace(results, scores={**results.scores, system: columns})
    second = conclusions(results, of(results, "reranker"))[1]
    assert second.endswith("even a perfect order would gain only 0.031.")


def reranked_reference(results):
    """Make the cross-encoder the reference that "no reranker" is compared with."""
    studies = (
        *results.studies[:3],
        replace(results.studies[3], reference="cross-encoder"),
    )
    return replace(results, studies=studies)


def test_no_reranker_may_be_compared_with_one(results):
    """Where the baseline has a reranker, leaving it out has its sentence too."""
    results = reranked_reference(results)
    first = conclusions(results, of(results, "reranker"))[0]
    assert first.startswith(
        "On rr@10, `none` 0.469 against 0.688 of `cross-encoder` (-0.219 "
    )


def test_no_reranker_saves_milliseconds(results):
    """Without it a query takes 100 ms less."""
    results = reranked_reference(results)
    first = conclusions(results, of(results, "reranker"))[0]
    assert "It adds -100 ms to a query (median, warm)" in first


def test_the_report_of_a_reranked_baseline_is_drawn(results):
    """A study whose reference is a reranker has a report as well."""
    text = report(reranked_reference(results))
    assert "Reference: `cross-encoder`" in text


def test_before_reranking_is_without_any_reranker(results):
    """Compared with another reranker, MRR before reranking is still none's .469."""
    studies = results.studies
    levels = {**studies[3].systems, "second": studies[3].systems["cross-encoder"]}
    second = replace(studies[3], systems=levels, reference="cross-encoder")
    rerankers = results.manifest["rerankers"]
    rerankers = rerankers | {"second": rerankers["cross-encoder"]}
    results = with_manifest(replace(results, studies=(second,)), rerankers=rerankers)
    text = "".join(conclusions(results, of(results, "reranker")))
    assert "MRR before reranking is 0.469" in text


def test_p95_is_named_where_it_is_shown(results):
    """With 200 distinct questions the 190th is not called the slowest."""
    study = results.studies[3]
    many = tuple(
        Timing(system, f"t{i}", 0, float(i))
        for system in study.systems.values()
        for i in range(1, 201)
    )
    results = replace(results, timings=many)
    first = conclusions(results, of(results, "reranker"))[0]
    assert "(median, warm); 95 % take at most 190 ms in all." in first


# models and languages


@pytest.mark.parametrize(
    ("model", "language", "warned"),
    [
        ("cross-encoder/ms-marco-MiniLM-L12-v2", "es", True),
        ("/models/MS-MARCO-MiniLM", "es", True),
        ("cross-encoder/ms-marco-MiniLM-L12-v2", "en", False),
        ("cross-encoder/ms-marco-MiniLM-L12-v2", "english", False),
        ("cross-encoder/ms-marco-MiniLM-L12-v2", "English", False),
        ("cross-encoder/ms-marco-MiniLM-L12-v2", "zh", True),
        ("BAAI/bge-reranker-v2-m3", "zh", False),
        ("cross-encoder/mmarco-mMiniLMv2-L12-H384-v1", "es", False),
        ("BAAI/bge-reranker-v2-m3", "es", False),
        (None, "es", False),
    ],
)
def test_a_model_of_another_language_is_told(model, language, warned):
    """ms-marco was trained on English; mmarco on its translations too.

    English is known however it is written; a language without BM25 rules is another.
    """
    assert bool(language_note(model, language)) is warned


def test_the_warning_names_model_and_language():
    """The reader learns what the verdict is about."""
    note = language_note("cross-encoder/ms-marco-MiniLM-L12-v2", "es")
    assert (
        "The cross-encoder cross-encoder/ms-marco-MiniLM-L12-v2 was trained on English"
        in note,
        "`es`" in note,
    ) == (True, True)


def test_the_warning_stands_in_the_report(results, outcomes):
    """A reranker of another language has its warning in its own sentence."""
    first = conclusions(results, outcomes["reranker"])[0]
    assert first.endswith(language_note("ms-marco-MiniLM-L12-v2", "es"))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("org/name", "org/name"),
        ("name", "name"),
        ("/home/user/models/name", "name"),
        (None, "the user's own"),
    ],
)
def test_a_model_is_named_without_its_folder(model, name):
    """A hub name in full; of a directory only the last part."""
    assert model_name(model) == name

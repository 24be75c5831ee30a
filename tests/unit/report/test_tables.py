"""Tables as values: which columns, which numbers, and how they are written."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholar_rag_li.report.tables import (
    BESIDE,
    TITLES,
    beside_table,
    bounds,
    comparison_table,
    heading,
    kind_difference,
    kind_table,
    number,
    signed,
    study_tables,
    title,
    top_latency,
)
from scholar_rag_li.results import QuestionInfo, Results, Timing
from scholar_rag_li.stats import Interval
from scholar_rag_li.studies import outcome
from scholar_rag_li.verdicts import Verdict


def of(results, factor):
    """Return the study of a factor, and its outcome."""
    [study] = [study for study in results.studies if study.factor == factor]
    return study, outcome(results, study)


def without(results, *measures):
    """Drop measures from all systems."""
    scores = {
        system: {m: column for m, column in columns.items() if m not in measures}
        for system, columns in results.scores.items()
    }
    return replace(results, scores=scores)


def rows(table):
    """Return the rows by their first cell, as heading -> cell."""
    return {
        row[0]: dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.rows
    }


FACTORS = ["chunker", "retriever", "rrf_k", "reranker"]


# all tables


@pytest.mark.parametrize("factor", FACTORS)
def test_rows_are_as_wide_as_the_heading(results, outcomes, factor):
    """Every row of every table has a cell per column."""
    tables = study_tables(results, outcomes[factor])
    widths = [{len(row) for row in (t.columns, *t.rows)} for t in tables]
    assert all(len(each) == 1 for each in widths)


@pytest.mark.parametrize("factor", FACTORS)
def test_rows_are_the_levels(results, outcomes, factor):
    """Every table has the levels of the study, in their order."""
    found = outcomes[factor]
    study = found.study
    levels = [
        [row[0].removesuffix(" ←") for row in table.rows]
        for table in study_tables(results, found)
    ]
    assert levels == [list(study.systems)] * len(levels)


@pytest.mark.parametrize(
    ("factor", "count"),
    [("chunker", 3), ("retriever", 3), ("rrf_k", 2), ("reranker", 3)],
)
def test_kinds_are_shown_for_retrievers_and_rerankers(results, outcomes, factor, count):
    """What lexical search and rerankers add depends on the kind of question.

    A comparison and what stands beside it; chunkers have a comparison per policy.
    """
    assert len(study_tables(results, outcomes[factor])) == count


@pytest.mark.parametrize("factor", FACTORS)
def test_every_factor_has_its_question_and_its_measures(factor):
    """No factor is without title, or without measures beside the primary one."""
    assert (factor in TITLES, factor in BESIDE) == (True, True)


# the comparison


def test_the_chosen_level_is_marked_once(results, outcomes):
    """The arrow is at the level that the rule uses."""
    table = comparison_table(results, outcomes["retriever"])
    assert [row[0] for row in table.rows if "←" in row[0]] == ["hybrid ←"]


def test_where_the_policy_decides_the_reference_is_marked(results, outcomes):
    """The union decision disagrees, so the arrow is at the reference."""
    found = outcomes["chunker"]
    study = found.study
    union = replace(found.union_decision, level=study.reference)
    table = comparison_table(results, replace(found, union_decision=union))
    assert [row[0] for row in table.rows if "←" in row[0]] == ["fixed-1000-150 ←"]


def test_a_chunker_is_compared_under_both_policies(results, outcomes):
    """The same columns, of the measure by one chunk and by the chunks read together."""
    single, union, _ = study_tables(results, outcomes["chunker"])
    assert (single.columns[1], union.columns[1]) == ("recall@5", "recall@5 (union)")


def test_the_union_table_has_its_own_numbers(results):
    """Of fixed 4 of 8 by union against 2 by one chunk: +.5 to 1, and +.75."""
    study, _ = of(results, "chunker")
    system = study.systems["fixed-1000-150"]
    columns = dict(results.scores[system])
    columns["recall@5[union]"] = {q: float(q < "q5") for q in columns["recall@5"]}
    results = replace(results, scores={**results.scores, system: columns})
    _, found = of(results, "chunker")
    shown = []
    for table in study_tables(results, found)[:2]:
        (_, mean, *_), (_, _, difference, *_) = table.rows
        shown.append((mean, difference.split(" ")[0]))
    assert shown == [("0.250", "+0.750"), ("0.500", "+0.500")]


@pytest.mark.parametrize(
    ("reference", "question"),
    [
        ("vector", "What does lexical search add to vector search?"),
        ("bm25", "What does another retriever add to bm25?"),
        ("hybrid", "What does another retriever add to hybrid?"),
    ],
)
def test_the_question_of_the_retrievers_follows_the_reference(
    results, reference, question
):
    """What lexical search adds is asked only where vector search is the reference."""
    study, _ = of(results, "retriever")
    assert title(results, replace(study, reference=reference)) == question


@pytest.mark.parametrize("factor", ["chunker", "rrf_k", "reranker"])
def test_other_questions_do_not_follow_the_reference(results, factor):
    """They are the same, whatever is compared with what."""
    study, _ = of(results, factor)
    assert title(results, study) == TITLES[factor]


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_stands_in_its_row(results, outcomes, verdict):
    """The last column is the verdict, in its own words."""
    found = outcomes["reranker"]
    [comparison] = found.comparisons
    found = replace(found, comparisons=(replace(comparison, verdict=verdict),))
    table = comparison_table(results, found)
    assert rows(table)["cross-encoder"]["verdict"] == verdict.value


def test_the_reference_has_no_verdict(results, outcomes):
    """Nothing is compared with itself."""
    table = comparison_table(results, outcomes["reranker"])
    assert table.rows[0] == ("none ←", "0.469", "(reference)", "", "", "")


def test_the_title_counts_questions_and_groups(results):
    """Eight questions of which two share a passage are seven groups."""
    infos = [
        info._replace(group="q1") if info.question == "q2" else info
        for info in results.questions
    ]
    grouped = replace(results, questions=tuple(infos))
    table = comparison_table(grouped, of(grouped, "rrf_k")[1])
    assert table.title == "recall@5 by rrf_k, n = 8 questions in 7 groups"


def test_nothing_in_a_table_is_bold(results, outcomes):
    """A "best" in bold would be a claim that a mean alone does not support."""
    tables = [t for f in FACTORS for t in study_tables(results, outcomes[f])]
    assert [c for t in tables for row in t.rows for c in row if "**" in c] == []


# beside it


def test_ragas_s_scores_say_whose_they_are(results, outcomes):
    """Two columns are named for ragas, and ours are not."""
    table = beside_table(results, outcomes["retriever"])
    assert [column for column in table.columns if "ragas" in column] == [
        "ragas ID recall@5",
        "ragas ID precision@5",
    ]


def test_no_ragas_no_columns(results):
    """Where ragas is not installed, the table has no place for it."""
    results = without(results, "ragas_id_recall@5", "ragas_id_precision@5")
    table = beside_table(results, of(results, "retriever")[1])
    assert [column for column in table.columns if "ragas" in column] == []


def test_a_measure_is_shown_where_all_levels_have_it(results):
    """A column with a hole would compare nothing."""
    study, _ = of(results, "reranker")
    system = study.systems["cross-encoder"]
    scores = dict(results.scores)
    scores[system] = {m: c for m, c in scores[system].items() if m != "recall@10"}
    results = replace(results, scores=scores)
    table = beside_table(results, of(results, "reranker")[1])
    assert "recall@10" not in table.columns


def test_the_primary_measure_is_not_repeated(results):
    """It has a table of its own."""
    study, _ = of(results, "rrf_k")
    study = replace(study, measure="rr@10")
    table = beside_table(results, outcome(results, study))
    assert table.columns == ("rrf_k", "recall@10")


def test_characters_are_whole_numbers(results, outcomes):
    """A mean of 4200 characters, (4 · 4000 + 4 · 4400) / 8, has no decimals."""
    table = rows(beside_table(results, outcomes["chunker"]))
    assert table["sentence-1000-150"]["characters@5"] == "4200"


LATENCY = ("p50 ms", "max ms (of 10)", "added ms")


def test_latency_by_hand(results, outcomes):
    """cross-encoder: 112 to 116 and 122 to 126; half of ten is (116 + 122) / 2."""
    table = rows(beside_table(results, outcomes["reranker"]))
    found = [table["cross-encoder"][column] for column in LATENCY]
    assert found == ["119", "126", "+100"]


def test_latency_of_the_reference_adds_nothing(results, outcomes):
    """The reference has its times, and no difference to itself."""
    table = rows(beside_table(results, outcomes["reranker"]))
    assert [table["none"][column] for column in LATENCY] == ["19", "26", ""]


@pytest.mark.parametrize("factor", ["chunker", "rrf_k"])
def test_no_latency_columns_unless_every_level_was_timed(results, outcomes, factor):
    """Of these studies only some levels were timed, as the hybrid of another."""
    table = beside_table(results, outcomes[factor])
    assert [column for column in table.columns if "ms" in column] == []


def test_no_latency_at_all(results):
    """Without timings the table does without them."""
    results = replace(results, timings=())
    table = beside_table(results, of(results, "reranker")[1])
    assert [column for column in table.columns if "ms" in column] == []


def timed(questions, repeats=1):
    """Time one system at 1, 2, 3 ... ms."""
    pairs = [(q, r) for r in range(repeats) for q in range(questions)]
    return Results(
        {},
        (),
        timings=tuple(Timing("s", str(q), r, i) for i, (q, r) in enumerate(pairs, 1)),
    )


@pytest.mark.parametrize(
    ("questions", "repeats", "top"),
    [
        (1, 1, 1),
        (199, 1, 199),
        (40, 5, 200),
        (200, 1, 190),
        (200, 5, 950),
        (201, 1, 191),
    ],
)
def test_p95_from_200_distinct_questions_on(questions, repeats, top):
    """Below, repeats or not, the maximum; else the ceil(.95 n)-th of n observations."""
    assert top_latency(timed(questions, repeats), "s") == top


def test_the_column_says_that_it_is_p95(results):
    """From 200 distinct questions on the heading is p95."""
    study, _ = of(results, "reranker")
    many = tuple(
        Timing(system, f"t{i}", 0, float(i))
        for system in study.systems.values()
        for i in range(200)
    )
    results = replace(results, timings=many)
    table = beside_table(results, of(results, "reranker")[1])
    assert table.columns[-3:] == ("p50 ms", "p95 ms", "added ms")


# by kind


def test_kinds_and_their_sizes_are_the_columns(results, outcomes):
    """Kinds in alphabetical order, each with its number of questions."""
    table = kind_table(results, outcomes["retriever"].study)
    assert table.columns == ("retriever", "code (n=4)", "text (n=4)")


def test_means_by_kind_by_hand(results, outcomes):
    """Vector finds none of the four codes and one of the four texts."""
    table = rows(kind_table(results, outcomes["retriever"].study))
    assert table["vector"] == {"code (n=4)": "0.000", "text (n=4)": "0.250"}


def test_gains_by_kind_by_hand(results, outcomes):
    """Hybrid on text: d = 1, 1, 1, 0; 3/6 ± 3.18245 · sqrt((4/6 - 9/36)/6)."""
    gain = kind_difference(
        results, outcomes["retriever"].study, "hybrid", ["q5", "q6", "q7", "q8"]
    )
    half = 3.182446 * math.sqrt((4 / 6 - 9 / 36) / 6)
    assert (gain.estimate, gain.low, gain.high) == pytest.approx(
        (3 / 4, 3 / 6 - half, 3 / 6 + half), abs=1e-6
    )


def test_one_kind_is_no_breakdown(results):
    """Where all questions are alike there is nothing to break down."""
    infos = tuple(QuestionInfo(i.question, "text", i.group) for i in results.questions)
    results = replace(results, questions=infos)
    assert kind_table(results, of(results, "retriever")[0]) is None


def test_a_kind_of_one_question_has_no_interval(results):
    """One question says nothing about its kind, and the cell says so."""
    infos = tuple(
        i._replace(kind="rare" if i.question == "q1" else "text")
        for i in results.questions
    )
    results = replace(results, questions=infos)
    table = rows(kind_table(results, of(results, "retriever")[0]))
    assert table["hybrid"]["rare (n=1)"] == "1.000 (+1.000 [unknown: one group])"


# how numbers are written


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "+0.250"),
        (-0.25, "-0.250"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (0.0004, "0.000"),
        (-0.0004, "0.000"),
        (0.0006, "+0.001"),
    ],
)
def test_a_difference_has_its_sign(value, text):
    """What rounds to nothing is neither more nor less."""
    assert signed(value) == text


@given(st.floats(-2, 2))
def test_a_difference_reads_back(value):
    """What is written is the difference, to half a thousandth."""
    assert float(signed(value)) == pytest.approx(value, abs=0.0005 + 1e-9)


def test_bounds_are_signed():
    """Both bounds have their sign."""
    assert bounds(Interval(0.0, -0.1, 0.2)) == "[-0.100, +0.200]"


def test_bounds_of_one_group_are_unknown():
    """Infinite bounds are said in words."""
    assert bounds(Interval(0.0, -math.inf, math.inf)) == "[unknown: one group]"


def test_a_score_has_three_places():
    """2/3 is 0.667."""
    assert number(2 / 3) == "0.667"


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        ("recall@5", "recall@5"),
        ("rr@10", "MRR (rr@10)"),
        ("rr@5", "rr@5"),
        ("recall@5[union]", "recall@5 (union)"),
        ("ragas_id_recall@5", "ragas ID recall@5"),
        ("ragas_id_precision@5", "ragas ID precision@5"),
    ],
)
def test_headings(measure, text):
    """Columns are named for readers."""
    assert heading(measure) == text

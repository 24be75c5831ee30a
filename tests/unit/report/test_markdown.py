"""The Markdown around the studies, and how a table is drawn."""

from dataclasses import replace

from scholar_rag_li.report.markdown import markdown, report
from scholar_rag_li.report.tables import Table


def with_manifest(results, **parts):
    """Change parts of the manifest."""
    return replace(results, manifest={**results.manifest, **parts})


# the report around them


def test_every_study_is_answered_in_short(results):
    """A line per study, and one for the cost."""
    short = report(results).split("## In short\n\n")[1].split("\n\n")[0]
    assert len(short.splitlines()) == 4 + 1


def test_without_latency_no_section_of_it(results):
    """What was not timed has no heading."""
    assert "## What a query costs" not in report(replace(results, timings=()))


def test_without_latency_the_cost_is_not_measured(results):
    """The question is answered all the same: with what would have to be set."""
    short = report(replace(results, timings=())).split("## In short\n\n")[1]
    assert short.split("\n\n")[0].splitlines()[-1] == (
        "- **What does it cost?** Not measured: no latency was timed in this run "
        "(latency_questions)."
    )


def test_without_a_model_nothing_is_cold(results):
    """Where no model was loaded, no first answer is spoken of."""
    latency = {"cold_ms": {}, "torch_threads": None}
    text = report(with_manifest(results, latency=latency))
    assert ("Cold" in text, "one at a time, no torch." in text) == (False, True)


def test_the_question_of_the_retrievers_follows_the_reference(results):
    """Compared with BM25 the study does not ask what lexical search adds."""
    studies = list(results.studies)
    studies[1] = replace(studies[1], reference="bm25")
    text = report(replace(results, studies=tuple(studies)))
    title = "What does another retriever add to bm25?"
    assert (f"- **{title}** " in text, f"## 2. {title}\n" in text) == (True, True)


def test_a_report_of_no_study_is_drawn(results):
    """Before the first study is done there is a report, without tables of it."""
    empty = replace(results, studies=(), timings=())
    assert "## 1." not in report(empty)


def test_questions_without_evidence_are_counted(results):
    """q9 has no evidence; without such questions nothing is said of them."""
    judged = with_manifest(results, unjudged=[])
    found = ["without evidence" in report(each) for each in (results, judged)]
    assert found == [True, False]


def test_documents_as_the_unit(results):
    """The unit and what the figures speak of are said."""
    results = with_manifest(results, unit="document")
    assert (
        "Unit of intervals and tests: the document, those that share a question together "
        "(8 groups); the figures speak of documents like these." in report(results)
    )


def test_documents_are_those_of_the_corpus(results):
    """Seven were searched, though only three hold evidence."""
    text = report(with_manifest(results, corpus={"documents": 7}))
    assert ("over 7 documents in `es`" in text, "on these 7 documents" in text) == (
        True,
        True,
    )


def test_an_embedding_without_prefixes(results):
    """An embedding of the user's own says nothing of prefixes."""
    embedding = {"name": "mine", "fingerprint": {"class": "a.B", "settings": "0"}}
    assert "Embedding model: mine" in report(
        with_manifest(results, embedding=embedding)
    )


def test_no_embedding_at_all(results):
    """A run without embedding says so, and nothing of vectors or prefixes."""
    text = report(with_manifest(results, embedding={"name": "none", "fingerprint": {}}))
    assert (
        "- No embedding model: nothing is searched by vectors. Depth of each leg: 20.\n"
        in text
    )


def test_no_reranker_at_all(results):
    """A run without reranker says so."""
    results = replace(
        with_manifest(results, rerankers={"none": None}), studies=results.studies[:3]
    )
    assert "- Rerankers: none." in report(results)


def test_a_kind_with_a_bar_does_not_break_its_table(results):
    """A | in a kind is escaped in the tables."""
    infos = tuple(
        each._replace(kind="a|b") if each.kind == "code" else each
        for each in results.questions
    )
    assert "| a\\|b (n=4) " in report(replace(results, questions=infos))


# Markdown


def test_markdown_is_padded():
    """Cells are as wide as the widest, so that the source reads as a table too."""
    table = Table("", ("a", "long"), (("bb", "c"),))
    assert markdown(table) == "| a  | long |\n|----|------|\n| bb | c    |"


def test_markdown_escapes_what_would_end_a_cell():
    """A | in a cell is escaped, in the heading as well."""
    table = Table("", ("a|b", "c"), (("d", "e|f"),))
    assert markdown(table) == ("| a\\|b | c    |\n|------|------|\n| d    | e\\|f |")


def test_markdown_without_rows_is_a_heading():
    """A table may be empty."""
    assert markdown(Table("", ("a",), ())) == "| a |\n|---|"

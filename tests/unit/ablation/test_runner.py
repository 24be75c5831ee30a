"""A run from study to study: what stands in the folder when each is done."""

import pytest
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import Document

from scholar_rag_li.ablation import Ablation
from scholar_rag_li.ablation.config import Settings
from scholar_rag_li.ablation.plan import PlannedStudy, System
from scholar_rag_li.ablation.runner import Runner
from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.judging import Evidence
from scholar_rag_li.report import report
from scholar_rag_li.results import read_results

TEXTS = {"a": "agua dura", "b": "suelo seco"}
CORPUS = Corpus(
    tuple(Document(id_=id_, text=text) for id_, text in TEXTS.items()),
    Gold((Question("q1", "¿agua?", ((Evidence("a", 0, 4, "agua"),),), "text"),)),
)


@pytest.fixture
def run(cache, tmp_path):
    """Run two studies without database; call a function after each."""

    def watched(on_study):
        ablation = Ablation(
            CORPUS,
            chunkers={"fixed": {"kind": "fixed"}, "sentence": {"kind": "sentence"}},
            retrievers={"bm25": {"kind": "bm25"}},
            rerankers={"own": SimilarityPostprocessor()},
            baseline=System("fixed", "bm25"),
            studies=[
                PlannedStudy("chunker", "recall@5"),
                PlannedStudy("reranker", "rr@10"),
            ],
            settings=Settings(latency_questions=0),
        )
        runner = Runner(ablation._inputs(), None, cache, tmp_path, lambda *_: None)
        return runner.run(on_study)

    return watched


def test_the_report_is_written_after_every_study(run, tmp_path):
    """A run that is stopped has a report of the studies that are done."""
    path, seen = tmp_path / "report.md", []
    run(lambda *_: seen.append(path.read_text("utf-8")))
    assert [[f"\n## {i}. " in text for i in (1, 2)] for text in seen] == [
        [True, False],
        [True, True],
    ]


def test_the_report_is_that_of_the_results(run, tmp_path):
    """In the folder stands what is drawn of the results that are returned."""
    results = run(lambda *_: None)
    assert (tmp_path / "report.md").read_text("utf-8") == report(results)


def test_the_report_can_be_drawn_again(run, tmp_path):
    """Of the tables in the folder the same report follows."""
    run(lambda *_: None)
    again = report(read_results(tmp_path))
    assert (tmp_path / "report.md").read_text("utf-8") == again


def test_the_manifest_knows_the_corpus(run):
    """Two documents were searched, of which one holds evidence."""
    manifest = run(lambda *_: None).manifest
    assert (manifest["corpus"]["documents"], manifest["n_documents"]) == (2, 1)

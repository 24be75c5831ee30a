"""The ablation on a real database: shared work, new levels, the user's own parts."""

import csv
from pathlib import Path

import ir_measures
import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore

from scholar_rag_li import (
    Ablation,
    FixedChunker,
    HybridRetriever,
    LanguageBM25Retriever,
    System,
    load_corpus,
    open_store,
    vector_retriever,
)
from scholar_rag_li.ablation import PlannedStudy, Settings
from scholar_rag_li.errors import ConfigError, RetrievalError
from scholar_rag_li.results import read_results

pytestmark = pytest.mark.integration

BASE = System("fixed-500", "hybrid", 60)
UNTIMED = Settings(latency_questions=0)


@pytest.fixture
def corpus(small):
    return load_corpus(small / "corpus", small / "gold.jsonl")


@pytest.fixture
def run(corpus, embedding, factors, database, tmp_path):
    """Run an ablation with some factors replaced, on the session's database."""

    def ablate(output=None, **changed):
        settings = {
            "embedding": embedding,
            "baseline": BASE,
            "settings": UNTIMED,
            **factors,
            **changed,
        }
        ablation = Ablation(settings.pop("corpus", corpus), **settings)
        folder = tmp_path / (output or "out")
        return ablation.run(folder, dsn=_dsn(database))

    return ablate


def _dsn(database):
    return database.url.render_as_string(hide_password=False)


def _rows(folder: Path):
    with (folder / "scores.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def salt(embedding):
    """Make this test's embedder a model of its own, with nothing known of it yet."""

    def other(name):
        return type(embedding)(prefix=f"{name} ", model_name=name)

    return other


def test_every_level_of_every_factor_is_scored(run):
    """One row per system, measure and question; systems named by their levels."""
    result = run()
    assert set(result.results.scores) == {
        "fixed-500+hybrid-rrf60",
        "sentence-500+hybrid-rrf60",
        "fixed-500+vector",
        "fixed-500+bm25",
        "fixed-500+hybrid-rrf10",
    }
    rows = [row for row in _rows(result.folder) if row["measure"] == "recall@5"]
    assert len(rows) == 5 * 30


def test_second_run_computes_nothing_and_writes_the_same_bytes(run, salt):
    """What is known is not computed again, and the scores are the same to the byte."""
    first = run("first", embedding=salt("twice"))
    second = run("second", embedding=salt("twice"))
    assert first.computed
    assert second.computed == {}
    assert (first.folder / "scores.csv").read_bytes() == (
        second.folder / "scores.csv"
    ).read_bytes()


def test_each_distinct_text_and_question_is_embedded_once(run, salt, corpus):
    """Chunkings share their equal texts; a question is embedded once for all of them."""
    same = {"kind": "fixed", "chunk_size": 700, "chunk_overlap": 0}
    result = run(
        embedding=salt("once"),
        chunkers={"fixed-500": same, "again": same},
    )
    windows = sum(len(range(0, len(doc.text), 700)) for doc in corpus.documents)
    assert result.computed["embedding texts"] == windows
    assert result.computed["embedding questions"] == 30


def test_rankings_are_stored_per_leg_and_fusions_are_arithmetic(run, salt):
    """More levels of rrf_k and of weights ask no leg again."""
    run(embedding=salt("legs"))
    weighted = {
        "vector": {"kind": "vector"},
        "bm25": {"kind": "bm25"},
        "hybrid": {"kind": "hybrid", "legs": ["vector", "bm25"]},
        "heavy": {"kind": "hybrid", "legs": ["vector", "bm25"], "weights": [3, 1]},
    }
    result = run(embedding=salt("legs"), rrf_k=[1, 10, 60, 200], retrievers=weighted)
    assert "ranking" not in result.computed
    assert "fixed-500+heavy-rrf60" in result.results.scores


def test_a_leg_is_asked_once_per_question_and_chunking(run, salt):
    """Two legs over two chunkings, thirty questions: so many rankings and no more."""
    chunkers = {
        "fixed-500": {"kind": "fixed", "chunk_size": 510, "chunk_overlap": 10},
        "other": {"kind": "fixed", "chunk_size": 520, "chunk_overlap": 10},
    }
    result = run(embedding=salt("count"), chunkers=chunkers)
    assert result.computed["ranking"] == 2 * 2 * 30


def test_ablation_ranks_as_the_live_hybrid_does(run, corpus, salt, database):
    """The measured ranking is that of a HybridRetriever made of the same parts."""
    model = salt("live")
    result = run(embedding=model)
    nodes = FixedChunker(500, 75).get_nodes_from_documents(list(corpus.documents))
    store = open_store(database=database, table="live_chunks", embed_dim=48)
    store.clear()
    for node in nodes:
        node.embedding = model.get_text_embedding(node.text)
    store.add(nodes)
    live = HybridRetriever(
        [vector_retriever(store, model), LanguageBM25Retriever(nodes, language="es")],
        similarity_top_k=5,
    )
    run_file = result.folder / "runs" / "fixed-500+hybrid-rrf60.trec"
    measured: dict[str, list[str]] = {}
    for line in run_file.read_text("utf-8").splitlines():
        question, _, chunk, *_ = line.split()
        measured.setdefault(question, []).append(chunk)
    for question in corpus.gold:
        ranked = [hit.node.node_id for hit in live.retrieve(question.question)]
        assert ranked == measured[question.id][:5]


def test_trec_files_give_the_same_success_and_reciprocal_rank(run):
    """trec_eval reads the written files and agrees where the definitions coincide."""
    result = run()
    for system in ("fixed-500+hybrid-rrf60", "fixed-500+vector", "fixed-500+bm25"):
        measures = [ir_measures.Success @ 5, ir_measures.RR @ 10]
        found = ir_measures.iter_calc(
            measures,
            ir_measures.read_trec_qrels(str(result.folder / "qrels/fixed-500.qrels")),
            ir_measures.read_trec_run(str(result.folder / f"runs/{system}.trec")),
        )
        names = {"Success@5": "success@5", "RR@10": "rr@10"}
        for value in found:
            ours = result.results.scores[system][names[str(value.measure)]]
            assert ours[value.query_id] == pytest.approx(value.value, abs=1e-9)


def test_results_folder_reads_back_as_it_was(run):
    """A report can be drawn from the folder alone: it holds the same results."""
    result = run()
    again = read_results(result.folder)
    assert again.scores == result.results.scores
    assert again.studies == result.results.studies
    assert again.questions == result.results.questions


class LastFirst(BaseNodePostprocessor):
    """Turns the order around."""

    @classmethod
    def class_name(cls):
        return "LastFirst"

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [
            NodeWithScore(node=hit.node, score=float(rank))
            for rank, hit in enumerate(reversed(nodes))
        ]


class Everything(BaseRetriever):
    """Returns the chunks of the document whose words the question names."""

    def __init__(self, nodes):
        self._nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle):
        words = {
            word for word in query_bundle.query_str.lower().split() if len(word) > 5
        }
        return [
            NodeWithScore(node=node, score=1.0)
            for node in self._nodes
            if words & set(node.text.lower().split())
        ]


def test_the_users_own_parts_take_part(run):
    """A stock NodeParser, a retriever function and a postprocessor are levels like ours."""
    result = run(
        chunkers={
            "fixed-500": {"kind": "fixed", "chunk_size": 500, "chunk_overlap": 75},
            "stock": SentenceSplitter(chunk_size=128, chunk_overlap=0),
        },
        retrievers={
            "vector": {"kind": "vector"},
            "mine": Everything,
            "hybrid": {"kind": "hybrid", "legs": ["vector", "mine"]},
        },
        rerankers={"turned": LastFirst()},
        studies=[
            PlannedStudy("chunker", "recall@5"),
            PlannedStudy("retriever", "recall@5", "vector"),
            PlannedStudy("reranker", "rr@10"),
        ],
    )
    scores = result.results.scores
    assert set(scores) >= {
        "stock+hybrid-rrf60",
        "fixed-500+mine",
        "fixed-500+hybrid-rrf60+turned",
    }
    assert 0 < result.results.mean("stock+hybrid-rrf60", "recall@5") <= 1
    plain = _first(result.folder / "runs/fixed-500+hybrid-rrf60.trec", 20)
    turned = _first(result.folder / "runs/fixed-500+hybrid-rrf60+turned.trec", 20)
    assert turned == {question: ids[::-1] for question, ids in plain.items()}


def _first(path, count):
    ranked: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        question, _, chunk, *_ = line.split()
        ranked.setdefault(question, []).append(chunk)
    return {question: ids[:count] for question, ids in ranked.items()}


class Broken(BaseRetriever):
    """Fails on every question."""

    def _retrieve(self, query_bundle):
        raise ZeroDivisionError(query_bundle.query_str)


def test_a_failing_retriever_is_named_with_its_question(run):
    """The error says which level failed, on which question, and with what."""
    with pytest.raises(
        RetrievalError, match=r"'broken' failed on question 'agua-01': Zero"
    ):
        run(
            retrievers={"broken": Broken(), "bm25": {"kind": "bm25"}},
            baseline=System("fixed-500", "bm25"),
            studies=[PlannedStudy("retriever", "recall@5")],
        )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("model", {"embedding texts", "embedding questions", "ranking"}),
        ("question", {"embedding questions", "ranking"}),
        ("language", {"ranking"}),
        ("depth", {"ranking"}),
        ("chunk size under the same name", {"embedding texts", "ranking"}),
        ("text of a document", {"embedding texts", "ranking"}),
    ],
)
def test_a_changed_setting_never_gives_an_old_value(
    run, salt, small, tmp_path, changed, expected
):
    """Whatever a value depends on, changing it has the value computed again."""
    name = changed.replace(" ", "-")
    model = salt(name)
    run(embedding=model, corpus=_copied(small, tmp_path / "before"))
    arguments = {"embedding": model}
    gold, text = {}, {}
    if changed == "model":
        arguments["embedding"] = salt(f"{name}-other")
    if changed == "question":
        gold = {"¿Qué significa": "¿Qué quiere decir"}
    if changed == "language":
        arguments["language"] = "en"
    if changed == "depth":
        arguments["settings"] = Settings(latency_questions=0, depth=21)
    if changed == "chunk size under the same name":
        arguments["chunkers"] = {
            "fixed-500": {"kind": "fixed", "chunk_size": 501, "chunk_overlap": 75},
            "sentence-500": {
                "kind": "sentence",
                "chunk_size": 500,
                "chunk_overlap": 75,
            },
        }
    if changed == "text of a document":
        text = {"Inés Calvo Prieto": "Inés Calvo Puerto"}
    result = run(corpus=_copied(small, tmp_path / "after", gold, text), **arguments)
    own = {"embedding texts", "embedding questions", "ranking"}
    assert set(result.computed) & own == expected


def _copied(small, folder, gold=None, text=None):
    """Copy the small corpus with some words replaced."""
    (folder / "corpus").mkdir(parents=True)
    for file in sorted((small / "corpus").iterdir()):
        content = file.read_text("utf-8")
        for old, new in (text or {}).items():
            content = content.replace(old, new)
        (folder / "corpus" / file.name).write_text(content, "utf-8")
    content = (small / "gold.jsonl").read_text("utf-8")
    for old, new in (gold or {}).items():
        assert old in content
        content = content.replace(old, new)
    (folder / "gold.jsonl").write_text(content, "utf-8")
    return load_corpus(folder / "corpus", folder / "gold.jsonl")


def test_plan_with_faults_is_refused_before_anything_is_computed(run):
    """All faults of a plan come in one message."""
    with pytest.raises(ConfigError) as caught:
        run(baseline=System("fixed-9", "hybrid", 61))
    assert "'fixed-9'" in str(caught.value)
    assert "61" in str(caught.value)


def test_chosen_chunker_is_carried_into_the_studies_that_follow(run):
    """With `carry`, later studies use the level that the rule chose."""
    result = run(
        settings=Settings(latency_questions=0, delta=0.001, alpha=0.49),
        chunkers={
            "fixed-500": {"kind": "fixed", "chunk_size": 60, "chunk_overlap": 0},
            "long": {"kind": "fixed", "chunk_size": 2000, "chunk_overlap": 500},
        },
        studies=[
            PlannedStudy("chunker", "recall@5", carry=True),
            PlannedStudy("retriever", "recall@5", "vector"),
        ],
    )
    assert result.outcome("chunker").chosen == "long"
    assert set(result.outcome("retriever").study.systems.values()) == {
        "long+vector",
        "long+bm25",
        "long+hybrid-rrf60",
    }


def test_latency_is_measured_once_and_kept_apart_from_the_scores(run, salt):
    """Timings stand in latency.csv, five rounds each, and a second run keeps them."""
    timed = Settings(latency_questions=2)
    studies = [PlannedStudy("retriever", "recall@5", "vector")]
    first = run("a", embedding=salt("timed"), settings=timed, studies=studies)
    second = run("b", embedding=salt("timed"), settings=timed, studies=studies)
    assert len(first.results.milliseconds("fixed-500+hybrid-rrf60")) == 2 * 5
    assert second.results.timings == first.results.timings
    assert "timing single questions" not in second.computed
    assert not any(row["measure"].endswith("ms") for row in _rows(first.folder))


def test_ragas_stands_beside_ours(run, corpus):
    """The ID-based recall of ragas is the retrieved share of the reaching chunks."""
    result = run()
    relevant: dict[str, set[str]] = {}
    qrels = (result.folder / "qrels/fixed-500.qrels").read_text("utf-8")
    for line in qrels.splitlines():
        question, _, chunk, _ = line.split()
        relevant.setdefault(question, set()).add(chunk)
    top = _first(result.folder / "runs/fixed-500+bm25.trec", 5)
    column = result.results.scores["fixed-500+bm25"]["ragas_id_recall@5"]
    for question in corpus.gold:
        wanted = relevant.get(question.id, set())
        found = wanted & set(top.get(question.id, []))
        share = len(found) / len(wanted) if wanted else 0.0
        assert column[question.id] == pytest.approx(share)

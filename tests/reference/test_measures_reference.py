"""Measures and TREC files against ir_measures, which asks trec_eval."""

import math
from urllib.parse import unquote

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, P, Qrel, R, ScoredDoc, Success

from scholar_rag_li.corpus import Question
from scholar_rag_li.evaluators import evaluate
from scholar_rag_li.judging import Evidence, Span, first_ranks, reaching_chunks
from scholar_rag_li.measures import Measure
from scholar_rag_li.results import write_qrels, write_run

pytestmark = pytest.mark.reference

PAIRS = {"recall": R, "rr": RR, "success": Success, "precision": P}
CUTOFFS = [1, 3, 5, 10]
ODD = [
    "tesis de agua",
    "año/ñandú",
    "C#/intro",
    "C#7",
    "a%20b",
    "100 %",
    "a+b",
    "-",
    "日本",
]


def random_case(seed, n=40):
    """Make questions with 1 to 4 relevant of 25 documents, and rankings of 0 to 15."""
    rng = np.random.default_rng(seed)
    documents = ODD + [f"d{i:02}" for i in range(25 - len(ODD))]
    relevant, run = {}, {}
    for i in range(n):
        shuffled = [str(each) for each in rng.permutation(documents)]
        relevant[f"q {i}"] = shuffled[: rng.integers(1, 5)]
        run[f"q {i}"] = [str(d) for d in rng.permutation(documents)][: rng.integers(16)]
    return relevant, run


def by_trec_eval(name, k, relevant, run):
    """Score by question; distinct scores keep the order.

    trec_eval's reciprocal rank has no cutoff, so that run is cut to k.
    """
    measure = RR if name == "rr" else PAIRS[name] @ k
    qrels = [Qrel(q, d, 1) for q, docs in relevant.items() for d in docs]
    ranked = [
        ScoredDoc(q, d, -float(rank))
        for q, docs in run.items()
        for rank, d in enumerate(docs[:k] if name == "rr" else docs, 1)
    ]
    found = ir_measures.pytrec_eval.iter_calc([measure], qrels, ranked)
    return {metric.query_id: metric.value for metric in found}


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("name", PAIRS)
def test_measures_are_those_of_trec_eval(name, k):
    """A fact a relevant document: per question to 1e-9, nothing retrieved included."""
    relevant, run = random_case(seed=k)
    ours = {
        q: Measure(name, k)(
            [run[q].index(d) + 1 if d in run[q] else None for d in documents]
        )
        for q, documents in relevant.items()
    }
    theirs = by_trec_eval(name, k, relevant, run)
    assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("name", PAIRS)
def test_whole_document_gold_is_scored_as_by_trec_eval(name, k):
    """Through evaluate(), by document ids with blanks, accents, '#' and '/'."""
    relevant, run = random_case(seed=10 + k)
    gold = [
        Question(q, q, tuple((Evidence(d),) for d in documents), "text")
        for q, documents in relevant.items()
    ]
    result = evaluate(gold, run.__getitem__, k=k)
    ours = {q: row[f"{name}@{k}"] for q, row in result.scores.items()}
    theirs = by_trec_eval(name, k, relevant, run)
    assert ours == pytest.approx(theirs, abs=1e-9)


def random_chunking(seed, n=60):
    """Make windows of 20/8 over three documents, evidence in them, and rankings.

    Some evidence is longer than any window, so that no chunk reaches it.
    """
    rng = np.random.default_rng(seed)
    chunks = {
        f"{doc_id}#{i}": Span(doc_id, start, start + 20)
        for doc_id in ("año/ñandú", "C# 7", "d")
        for i, start in enumerate(range(0, 200, 12))
    }
    facts, run = {}, {}
    for i in range(n):
        items = []
        for _ in range(rng.integers(1, 4)):
            start, length = int(rng.integers(0, 180)), int(rng.integers(1, 25))
            doc_id = str(rng.choice(["año/ñandú", "C# 7", "d"]))
            items.append((Evidence(doc_id, start, start + length, "x" * length),))
        facts[f"q {i}"] = tuple(items)
        run[f"q {i}"] = [str(c) for c in rng.permutation(list(chunks))][
            : rng.integers(30)
        ]
    return chunks, facts, run


@pytest.fixture(scope="module")
def trec(tmp_path_factory):
    """Chunks, facts, rankings; run and qrels as ir_measures reads them back."""
    chunks, facts, run = random_chunking(seed=3)
    folder = tmp_path_factory.mktemp("trec")
    relevant = {q: reaching_chunks(f, chunks.items()) for q, f in facts.items()}
    write_run(folder / "runs" / "a.trec", "a system", run)
    write_qrels(folder / "qrels" / "a.qrels", relevant)
    return {
        "chunks": chunks,
        "facts": facts,
        "run": run,
        "trec_run": list(ir_measures.read_trec_run(str(folder / "runs" / "a.trec"))),
        "qrels": list(ir_measures.read_trec_qrels(str(folder / "qrels" / "a.qrels"))),
    }


def our_scores(trec, measure):
    """Score each question from the spans."""
    scores = {}
    for q, facts in trec["facts"].items():
        spans = [trec["chunks"][id_] for id_ in trec["run"][q]]
        scores[q] = measure(first_ranks(facts, spans))
    return scores


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("name", ["success", "rr"])
def test_written_files_give_our_scores(trec, name, k):
    """Success and rr, question by question, unreachable evidence scoring 0."""
    measure = PAIRS[name] @ k
    found = ir_measures.iter_calc([measure], trec["qrels"], trec["trec_run"])
    theirs = {unquote(metric.query_id): metric.value for metric in found}
    assert our_scores(trec, Measure(name, k)) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("name", ["success", "rr"])
def test_written_files_give_our_means(trec, name):
    """Over the same questions: what no chunk reaches stays in the mean."""
    scores = our_scores(trec, Measure(name, 10))
    mean = math.fsum(scores.values()) / len(scores)
    measure = PAIRS[name] @ 10
    theirs = ir_measures.calc_aggregate([measure], trec["qrels"], trec["trec_run"])
    assert theirs[measure] == pytest.approx(mean, abs=1e-9)


def test_some_evidence_of_the_case_is_out_of_reach(trec):
    """Else the two tests above would not show what they say."""
    missing = [each.query_id for each in trec["qrels"] if each.relevance == 0]
    assert 0 < len(missing) < len(trec["facts"]) / 2


def test_a_written_run_keeps_ids_and_order(trec):
    """Sorted by falling score, as trec_eval reads it, the ids are those delivered."""
    order = {}
    for each in sorted(trec["trec_run"], key=lambda doc: -doc.score):
        order.setdefault(unquote(each.query_id), []).append(unquote(each.doc_id))
    assert order == {q: ids for q, ids in trec["run"].items() if ids}


def test_odd_ids_come_back(tmp_path):
    """Each id is one column, and no two ids become one."""
    write_run(tmp_path / "r.trec", "s", dict.fromkeys(ODD, ODD))
    read = list(ir_measures.read_trec_run(str(tmp_path / "r.trec")))
    pairs = [(unquote(each.query_id), unquote(each.doc_id)) for each in read]
    assert pairs == [(q, d) for q in ODD for d in ODD]

"""Made-up results, small enough to be checked by hand: eight questions, four studies."""

import pytest

from scholar_rag_li.results import QuestionInfo, Results, Study, Timing
from scholar_rag_li.studies import outcome

QUESTIONS = [f"q{i}" for i in range(1, 9)]

# Per system: recall@5, the same by union, rr@10, mean characters, ragas recall and
# precision, question by question.
FIXED = "fixed-1000-150+hybrid-rrf60"
HYBRID = "sentence-1000-150+hybrid-rrf60"
VECTOR = "sentence-1000-150+vector"
BM25 = "sentence-1000-150+bm25"
RRF10 = "sentence-1000-150+hybrid-rrf10"
RRF200 = "sentence-1000-150+hybrid-rrf200"
RERANKED = "sentence-1000-150+hybrid-rrf60+cross-encoder"
MEASURES = ("recall@5", "recall@5[union]", "rr@10", "characters@5")
RAGAS = ("ragas_id_recall@5", "ragas_id_precision@5")
ONES = [1] * 8
RANKED = [1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
SCORES = {
    FIXED: (
        [1, 0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0, 0, 0.5],
        [5000] * 8,
        [0.5] * 8,
        [0.2] * 8,
    ),
    HYBRID: (ONES, ONES, RANKED, [4000] * 4 + [4400] * 4, [0.5] * 8, [0.4] * 8),
    VECTOR: (
        [0] * 7 + [1],
        [0] * 7 + [1],
        [0] * 7 + [1],
        [4300] * 8,
        [0] * 7 + [1],
        [0] * 7 + [0.2],
    ),
    BM25: (
        [1] * 3 + [0] * 5,
        [1] * 3 + [0] * 5,
        [1] * 3 + [0] * 5,
        [4100] * 8,
        [0.5] * 3 + [0] * 5,
        [0.2] * 3 + [0] * 5,
    ),
    RRF10: (
        [1] * 6 + [0, 1],
        ONES,
        [1, 0.5, 0.5, 0.5, 0.5, 0.25, 0, 0.25],
        [4200] * 8,
        [0.5] * 8,
        [0.4] * 8,
    ),
    RRF200: (ONES, ONES, RANKED, [4200] * 8, [0.5] * 8, [0.4] * 8),
    RERANKED: (
        [1] * 7 + [0],
        ONES,
        [1, 1, 1, 1, 1, 0.25, 0.25, 0],
        [4200] * 8,
        [0.5] * 8,
        [0.4] * 8,
    ),
}
STUDIES = (
    Study(
        "chunker",
        {"fixed-1000-150": FIXED, "sentence-1000-150": HYBRID},
        "fixed-1000-150",
        "recall@5",
    ),
    Study(
        "retriever",
        {"vector": VECTOR, "bm25": BM25, "hybrid": HYBRID},
        "vector",
        "recall@5",
    ),
    Study("rrf_k", {"10": RRF10, "60": HYBRID, "200": RRF200}, "60", "recall@5"),
    Study("reranker", {"none": HYBRID, "cross-encoder": RERANKED}, "none", "rr@10"),
)
BASE_MS = {VECTOR: 10, BM25: 5, HYBRID: 12, RERANKED: 112}
MANIFEST = {
    "settings": {
        "depth": 20,
        "candidates": 20,
        "coverage": 1.0,
        "delta": 0.05,
        "alpha": 0.05,
        "budget_ms": None,
        "seed": 7,
    },
    "language": "es",
    "baseline": FIXED,
    "unit": "question",
    "corpus": {"documents": 5, "documents_digest": "d0", "gold_digest": "90"},
    "n_documents": 3,
    "unjudged": ["q9"],
    "embedding": {
        "name": "/models/multilingual-e5-small",
        "fingerprint": {
            "query_instruction": "query: ",
            "text_instruction": "passage: ",
        },
    },
    "legs": {
        "vector": {"leg": "vector"},
        "bm25": {"leg": "bm25"},
        "hybrid": {"kind": "hybrid", "legs": ["vector", "bm25"], "weights": None},
    },
    "rerankers": {
        "none": None,
        "cross-encoder": {
            "class": "CrossEncoderRerank",
            "model": "/models/ms-marco-MiniLM-L12-v2",
            "candidates": 20,
            "top_n": 5,
        },
    },
    "chunkings": {
        "fixed-1000-150": {
            "chunks": 40,
            "mean_characters": 990.4,
            "mean_overlap": 150.0,
            "embedding": {"window_tokens": 512, "max_tokens": 530, "cut_share": 0.025},
        },
        "sentence-1000-150": {
            "chunks": 45,
            "mean_characters": 900.2,
            "mean_overlap": 95.6,
        },
    },
    "versions": {"python": "3.11.0", "scholar-rag-li": "0.1.0"},
    "hardware": {"cpus": 2, "processor": "Made-up CPU"},
    "latency": {
        "cold_ms": {"embedding model": 9000.4, "cross-encoder": 800.0},
        "torch_threads": 2,
    },
}


def columns(system):
    """Score a system on all measures: question id -> value."""
    rows = dict(zip((*MEASURES, *RAGAS), SCORES[system], strict=True))
    recall = rows["recall@5"]
    rows |= {
        "success@5": recall,
        "precision@5": [value / 5 for value in recall],
        "recall@10": ONES,
        "recall@20": ONES,
        "success@20": ONES,
    }
    return {
        measure: dict(zip(QUESTIONS, map(float, values), strict=True))
        for measure, values in rows.items()
    }


def timings():
    """Time q1 and q5 five times: the base, plus the repeat, plus 10 for q5."""
    return tuple(
        Timing(system, question, repeat, float(base + repeat + more))
        for repeat in range(5)
        for question, more in (("q1", 0), ("q5", 10))
        for system, base in BASE_MS.items()
    )


@pytest.fixture(scope="session")
def results():
    """Results of the four studies; q1 to q4 are codes, q5 to q8 text, each a group."""
    kinds = ["code"] * 4 + ["text"] * 4
    return Results(
        MANIFEST,
        tuple(QuestionInfo(q, k, q) for q, k in zip(QUESTIONS, kinds, strict=True)),
        STUDIES,
        {system: columns(system) for system in SCORES},
        timings(),
    )


@pytest.fixture(scope="session")
def outcomes(results):
    """Factor -> outcome of its study."""
    return {study.factor: outcome(results, study) for study in results.studies}

"""What an ablation refuses before anything is spent, and what it says of its corpus."""

import re

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import Document

from scholar_rag_li.ablation import Ablation
from scholar_rag_li.ablation.config import Settings
from scholar_rag_li.ablation.models import NO_EMBEDDING
from scholar_rag_li.ablation.plan import PlannedStudy, System
from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.errors import ConfigError
from scholar_rag_li.judging import Evidence
from scholar_rag_li.rerank import CrossEncoderRerank

TEXTS = {"a": "agua dura", "b": "suelo seco", "c": "aire"}
BASELINE = System("fixed", "bm25")
RETRIEVERS = {"bm25": {"kind": "bm25"}}


def corpus(texts=TEXTS):
    """Make documents, with one question on `agua`."""
    documents = tuple(Document(id_=id_, text=text) for id_, text in texts.items())
    question = Question("q1", "¿agua?", ((Evidence("a", 0, 4, "agua"),),), "text")
    return Corpus(documents, Gold((question,)))


def ablation(*studies, baseline=BASELINE, retrievers=RETRIEVERS, **more):
    """Make an ablation of windows and BM25, unless told otherwise."""
    settings = Settings(**more.pop("settings", {}))
    return Ablation(
        more.pop("corpus", corpus()),
        chunkers={"fixed": {"kind": "fixed"}, "sentence": {"kind": "sentence"}},
        retrievers=retrievers,
        baseline=baseline,
        studies=studies,
        settings=settings,
        **more,
    )


def refused(*studies, **more):
    """Return the lines under the heading of the error."""
    with pytest.raises(ConfigError) as caught:
        ablation(*studies, **more)
    heading, *problems = str(caught.value).splitlines()
    assert heading == "more is read than is ranked:"
    return [problem.removeprefix("  - ") for problem in problems]


def reranker(candidates=None):
    """Make a cross-encoder whose model is never loaded."""
    return CrossEncoderRerank(model="org/ce", candidates=candidates)


# depth

DEEP = PlannedStudy("chunker", "recall@15")


def test_a_measure_deeper_than_the_legs():
    """Of legs that are asked for 10, rank 15 is not there."""
    assert refused(DEEP, settings={"depth": 10, "candidates": 10}) == [
        (
            "the measure recall@15 reads deeper than the 10 results that each leg is asked "
            "for; raise settings.depth"
        )
    ]


def test_a_measure_as_deep_as_the_legs():
    """Rank 15 of 15 is there."""
    assert ablation(DEEP, settings={"depth": 15}).corpus.documents


@pytest.mark.parametrize(
    ("own", "usual", "read"), [(21, 20, 21), (None, 30, 30)], ids=["own", "usual"]
)
def test_candidates_deeper_than_the_legs(own, usual, read):
    """A reranker's own number counts, and the settings' where it has none."""
    problems = refused(
        PlannedStudy("reranker", "rr@10"),
        rerankers={"ce": reranker(own)},
        settings={"candidates": usual},
    )
    assert problems == [
        (
            f"the reranker 'ce' reads {read} candidates of legs that are asked for 20; "
            "raise settings.depth"
        )
    ]


def test_a_postprocessor_reads_the_usual_candidates():
    """One of LlamaIndex's has no number of its own."""
    [problem] = refused(
        PlannedStudy("reranker", "rr@10"),
        rerankers={"mine": SimilarityPostprocessor()},
        settings={"candidates": 21},
    )
    assert problem.startswith("the reranker 'mine' reads 21 candidates")


def test_candidates_do_not_count_without_reranker():
    """Where nothing is reranked, candidates deeper than the legs do no harm."""
    assert ablation(DEEP, settings={"candidates": 50}).corpus.documents


CARRIED = PlannedStudy("reranker", "rr@3", carry=True)
TOO_DEEP = (
    "the measure {} reads deeper than the 5 candidates of the reranker 'ce'; raise its "
    "candidates"
)


@pytest.mark.parametrize(
    ("studies", "base", "measures"),
    [
        ([PlannedStudy("reranker", "rr@10")], "none", ["rr@10"]),
        ([DEEP], "ce", ["recall@15"]),
        ([CARRIED, DEEP], "none", ["recall@15"]),
        ([PlannedStudy("reranker", "rr@10"), DEEP], "ce", ["rr@10", "recall@15"]),
    ],
    ids=["its study", "in the baseline", "carried", "two studies"],
)
def test_a_measure_deeper_than_the_candidates(studies, base, measures):
    """Wherever a reranker of 5 may have a part, the sixth rank is not there."""
    found = refused(
        *studies,
        rerankers={"ce": reranker(5)},
        baseline=System("fixed", "bm25", None, base),
    )
    assert found == [TOO_DEEP.format(measure) for measure in measures]


@pytest.mark.parametrize(
    "studies",
    [[PlannedStudy("reranker", "rr@5")], [DEEP], [DEEP, CARRIED]],
    ids=["as deep", "elsewhere", "before it is carried"],
)
def test_a_measure_where_no_candidates_are_read(studies):
    """Five ranks of 5, and studies without the reranker, are as they should be."""
    assert ablation(*studies, rerankers={"ce": reranker(5)}).corpus.documents


# without an embedding model


def test_no_embedding_where_no_vectors_are_searched():
    """BM25 alone needs no model."""
    assert ablation(DEEP)._inputs().embedding is NO_EMBEDDING


def test_a_vector_retriever_needs_an_embedding():
    """The message names the retrievers, also those that are only legs."""
    levels = {
        "dense": {"kind": "vector"},
        "bm25": {"kind": "bm25"},
        "hybrid": {"kind": "hybrid", "legs": ["dense", "bm25"]},
    }
    with pytest.raises(ConfigError) as caught:
        ablation(DEEP, retrievers=levels)
    assert str(caught.value) == (
        "retriever dense needs an embedding model; give embedding"
    )


def test_an_embedding_may_be_given():
    """With one, the same retriever is accepted."""
    model = MockEmbedding(3)
    made = ablation(
        DEEP,
        retrievers={"dense": {"kind": "vector"}},
        baseline=System("fixed", "dense"),
        embedding=model,
    )
    assert made._inputs().embedding.load() is model


# from a file

CONFIG = """\
documents: texts
gold: gold.jsonl
language: es
chunkers: {fixed: {kind: fixed}}
retrievers:
  bm25: {kind: bm25}
  hybrid: {kind: hybrid, legs: [bm25]}
rrf_k: [10, 60, 0.5]
baseline: {chunker: fixed, retriever: hybrid, rrf_k: 60}
studies: [{factor: rrf_k, measure: recall@5, reference: REFERENCE}]
"""


@pytest.mark.parametrize(
    ("written", "level"),
    [("10", "10"), ("10.0", "10"), ("0.5", "0.5"), ("'10'", "10")],
)
def test_a_reference_may_be_a_number(tmp_path, written, level):
    """A level of rrf_k is known however its number is written."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("agua dura", "utf-8")
    (tmp_path / "gold.jsonl").write_text(
        '{"id": "q", "question": "¿?", "doc_id": "a", "evidence": [{"quote": "agua"}]}',
        "utf-8",
    )
    path = tmp_path / "ablation.yaml"
    path.write_text(CONFIG.replace("REFERENCE", written), "utf-8")
    plan = Ablation.from_config(path)._plan
    assert plan.reference(plan.studies[0]) == level


# the corpus


def facts(**more):
    """What a run is told of its corpus."""
    return ablation(DEEP, **more)._inputs().corpus


def test_all_documents_are_counted():
    """Three, though one alone holds evidence; with 32 bytes of digest each in hex."""
    found = facts()
    digests = [found["documents_digest"], found["gold_digest"]]
    assert (found["documents"], [len(each) for each in digests]) == (3, [64, 64])


def test_another_text_is_another_corpus():
    """One changed letter changes the digest of the documents, not of the gold."""
    before, after = facts(), facts(corpus=corpus(TEXTS | {"c": "aires"}))
    same = {name for name in before if before[name] == after[name]}
    assert same == {"documents", "gold_digest"}


def test_other_gold_is_another_corpus():
    """One question more changes the digest of the gold, not of the documents."""
    old = corpus()
    question = Question("q2", "¿suelo?", ((Evidence("b", 0, 5, "suelo"),),), "text")
    before = facts()
    after = facts(corpus=Corpus(old.documents, Gold((*old.gold, question))))
    same = {name for name in before if before[name] == after[name]}
    assert same == {"documents", "documents_digest"}


def test_the_digests_are_hexadecimal():
    """As the manifest keeps them."""
    assert re.fullmatch(r"[0-9a-f]{64}", facts()["documents_digest"])

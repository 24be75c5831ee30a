"""evaluate(): any retriever or function against gold, by nodes and by ids."""

from pathlib import Path

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import (
    Document,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from scholar_rag_li.chunkers import FixedChunker
from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.errors import ConfigError, CorpusError, RetrievalError
from scholar_rag_li.evaluators import evaluate
from scholar_rag_li.judging import Evidence

TEXT = "".join(f"Párrafo {i:04} de la tesis sobre el agua. " for i in range(100))
DOCUMENTS = [Document(id_="tesis", text=TEXT), Document(id_="otra", text=TEXT.upper())]


def question(id_, *quotes, doc_id="tesis"):
    """Ask for quotes that stand once in TEXT; each is a fact."""
    starts = [TEXT.index(quote) for quote in quotes]
    facts = tuple(
        (Evidence(doc_id, start, start + len(quote), quote),)
        for start, quote in zip(starts, quotes, strict=True)
    )
    return Question(id_, f"¿{id_}?", facts, "text")


def whole(id_, *doc_ids):
    """Ask for whole documents."""
    facts = tuple((Evidence(doc_id),) for doc_id in doc_ids)
    return Question(id_, f"¿{id_}?", facts, "text")


def node(start, end, doc_id="tesis"):
    """Make a chunk with its span."""
    return TextNode(
        id_=f"{start}:{end}",
        text=TEXT[start:end],
        start_char_idx=start,
        end_char_idx=end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=doc_id)},
    )


CUT = question("cut", TEXT[90:110])
HALVES = [node(0, 100), node(100, 200)]
GOLD = Gold((question("q1", "Párrafo 0003"), question("q2", "Párrafo 0050 de")))


def scores(*args, **kwargs):
    return dict(evaluate(*args, **kwargs).scores)


def test_a_cut_answer_is_not_found_by_single():
    """Neither half holds 90:110."""
    assert evaluate([CUT], lambda _: HALVES).recall == 0.0


def test_a_cut_answer_is_found_at_the_second_half_by_union():
    """1/2."""
    assert evaluate([CUT], lambda _: HALVES, policy="union").mrr == 1 / 2


def test_a_chunk_that_holds_the_answer_whole_finds_it():
    """Third, behind the halves: 1/3."""
    assert evaluate([CUT], lambda _: [*HALVES, node(80, 120)]).mrr == 1 / 3


@pytest.mark.parametrize(("coverage", "rr"), [(0.43, 1.0), (0.44, 0.5), (0.57, 0.0)])
def test_coverage_is_handed_on(coverage, rr):
    """The halves hold 7 and 9 of 16 non-blank characters: .4375 and .5625."""
    assert evaluate([CUT], lambda _: HALVES, coverage=coverage).mrr == rr


def test_a_loop_over_chunkings_works_as_it_reads():
    """Nodes from the function, one line a setting, scores out."""
    gold, found = GOLD, []
    for size, overlap in [(500, 75), (1000, 150)]:
        nodes = FixedChunker(size, overlap).get_nodes_from_documents(DOCUMENTS)

        def retrieve(text, nodes=nodes):
            wanted = {"¿q1?": "Párrafo 0003", "¿q2?": "Párrafo 0050 de"}[text]
            return [each for each in nodes if wanted in each.text]

        found.append((size, overlap, evaluate(gold, retrieve, k=5).recall))
    assert found == [(500, 75, 1.0), (1000, 150, 1.0)]


@pytest.mark.parametrize(("size", "overlap"), [(500, 75), (1000, 150)])
def test_the_loop_works_with_ids_and_nodes(size, overlap):
    """Ids give the scores that the nodes give."""
    nodes = FixedChunker(size, overlap)(DOCUMENTS)
    by_ids = scores(GOLD, lambda _: [n.node_id for n in nodes], nodes=nodes)
    assert by_ids == scores(GOLD, lambda _: nodes)


class Fixed(BaseRetriever):
    """A LlamaIndex retriever that always returns the same."""

    def __init__(self, hits):
        self.hits = hits
        super().__init__()

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=each, score=None) for each in self.hits]


def test_a_llama_index_retriever_is_asked():
    """Scores and all; here the answer is second."""
    hits = [node(100, 200), node(80, 120)]
    assert evaluate([CUT], Fixed(hits)).mrr == 1 / 2


def test_only_the_first_k_count():
    """Second, and k=1."""
    hits = [node(100, 200), node(80, 120)]
    assert evaluate([CUT], lambda _: hits, k=1).success == 0.0


def test_a_retriever_that_returns_a_generator_is_read():
    """Any iterable does."""
    assert evaluate([CUT], lambda _: iter([node(80, 120)])).recall == 1.0


def test_the_delivered_order_is_the_order():
    """Scores that rise with the rank change nothing."""
    hits = [
        NodeWithScore(node=node(100, 200), score=0.1),
        NodeWithScore(node=node(80, 120), score=0.9),
    ]
    assert evaluate([CUT], lambda _: hits).mrr == 1 / 2


def test_all_measures_of_a_question():
    """Two facts, one found at rank 2: recall 1/2, rr 1/2, success 1, precision 1/4."""
    asked = question("q", "Párrafo 0003", "Párrafo 0090")
    start = TEXT.index("Párrafo 0003")
    hits = [node(0, 10), node(start, start + 20)]
    assert scores([asked], lambda _: hits, k=4) == {
        "q": {"recall@4": 0.5, "success@4": 1.0, "rr@4": 0.5, "precision@4": 0.25}
    }


FULL = {"a": ["da"], "b": ["db"]}
PARTIAL = {"a": ["da"], "b": []}
EMPTY = {"a": [], "b": []}
TABLE = {
    # (gold, run): scores per judged question, unjudged questions
    ("full", "full"): ({"a": 1.0, "b": 1.0}, ()),
    ("full", "partial"): ({"a": 1.0, "b": 0.0}, ()),
    ("full", "empty"): ({"a": 0.0, "b": 0.0}, ()),
    ("partial", "full"): ({"a": 1.0}, ("b",)),
    ("partial", "partial"): ({"a": 1.0}, ("b",)),
    ("partial", "empty"): ({"a": 0.0}, ("b",)),
}
CASES = {"full": FULL, "partial": PARTIAL, "empty": EMPTY}


def case(gold, run):
    """Make questions a and b with gold `da`, `db` where there is some, and a run."""
    asked = [whole(id_, *docs) for id_, docs in CASES[gold].items()]
    return asked, lambda text: CASES[run][text.strip("¿?")]


@pytest.mark.parametrize(("gold", "run"), TABLE)
def test_what_is_not_retrieved_is_zero_and_what_is_not_judged_is_out(gold, run):
    """The mean is over the judged questions, found or not."""
    result = evaluate(*case(gold, run))
    recalls = {id_: row["recall@5"] for id_, row in result.scores.items()}
    mean = sum(recalls.values()) / len(recalls)
    assert (recalls, result.unjudged, result.recall) == (*TABLE[gold, run], mean)


@pytest.mark.parametrize("run", ["full", "partial", "empty"])
def test_empty_gold_is_refused(run):
    """There is nothing to average, whatever is retrieved."""
    with pytest.raises(
        ConfigError, match="no question with evidence; nothing to score"
    ):
        evaluate(*case("empty", run))


ODD = ["tesis de agua", "año/ñandú", "C#/intro", "C#7", "a%20b", "100 %"]


@pytest.mark.parametrize("doc_id", ODD)
def test_document_ids_may_hold_anything(doc_id):
    """Second of two documents, found by its own id."""
    result = evaluate([whole("q", doc_id)], lambda _: ["other", doc_id])
    assert result.mrr == 1 / 2


def test_a_whole_document_is_found_by_any_of_its_chunks():
    """Nodes and document ids give the same."""
    found = evaluate([whole("q", "tesis")], lambda _: [node(0, 9, "otra"), *HALVES])
    assert found.mrr == 1 / 2


def test_a_corpus_is_scored_by_its_gold():
    """With the ids of its documents known, also those that look like a chunk's."""
    documents = (Document(id_="C#7", text="x"), Document(id_="d", text="x"))
    corpus = Corpus(documents, Gold((whole("q", "d"),)))
    assert evaluate(corpus, lambda _: ["C#7", "d"]).mrr == 1 / 2


def test_means_are_over_questions():
    """1 and 1/2: mean 3/4."""
    result = evaluate([whole("a", "da"), whole("b", "db")], lambda _: ["da", "db"])
    assert result.mrr == (1 + 1 / 2) / 2


def test_the_line_states_policy_coverage_and_n():
    """Whatever is read off it can be read rightly."""
    line = str(evaluate([CUT], lambda _: HALVES, policy="union", coverage=0.9, k=3))
    assert line == (
        "recall@3 1.000  MRR@3 0.500  success@3 1.000  precision@3 0.333  "
        "(n=1, policy=union, coverage=0.9)"
    )


def test_nodes_without_span_are_found_among_the_chunks():
    """A store that lost the offsets gives ids all the same."""
    nodes = FixedChunker(500, 75)(DOCUMENTS)
    bare = [TextNode(id_=each.node_id, text=each.text) for each in nodes]
    assert scores(GOLD, lambda _: bare, nodes=nodes) == scores(GOLD, lambda _: nodes)


def test_a_node_without_span_is_refused():
    """The message says what is missing and where it comes from."""
    bare = TextNode(id_="n", text="x")
    with pytest.raises(RetrievalError, match=r"node 'n' does not say .* use a chunker"):
        evaluate([CUT], lambda _: [bare])


def test_an_id_that_is_no_chunk_is_refused():
    """It might be a chunk of another chunking."""
    with pytest.raises(
        RetrievalError, match="'x', which is none of the 2 chunks given"
    ):
        evaluate([CUT], lambda _: ["x"], nodes=HALVES)


def test_ids_of_chunks_need_the_nodes():
    """tesis#0 without nodes= is no document's id."""
    with pytest.raises(RetrievalError, match=r"'tesis#0'.* pass the chunks as nodes="):
        evaluate([whole("q", "tesis")], lambda _: ["tesis#0"])


@pytest.mark.parametrize("hit", ["tesis", "0b2e"])
def test_ids_without_nodes_cannot_answer_for_characters(hit):
    """A silent 0 would be read as a bad retriever."""
    with pytest.raises(RetrievalError, match=f"question 'cut' .* id '{hit}'.* nodes="):
        evaluate([CUT], lambda _: [hit])


def test_two_chunks_of_one_id_are_refused():
    """`doc#0` is another chunk in another chunking."""
    nodes = [*FixedChunker(500, 0)(DOCUMENTS), *FixedChunker(900, 0)(DOCUMENTS)]
    with pytest.raises(CorpusError, match="'tesis#0' stands for two chunks"):
        evaluate(GOLD, lambda _: [], nodes=nodes)


def test_two_questions_of_one_id_are_refused():
    """One would overwrite the other's scores."""
    with pytest.raises(CorpusError, match=r"(?s)more than once:.*- q$"):
        evaluate([whole("q", "a"), whole("q", "b")], lambda _: [])


def test_a_failing_retriever_is_named_by_the_question():
    """With the error's own class and text."""

    def fail(text):
        raise KeyError(text)

    with pytest.raises(RetrievalError, match=r"on question 'cut': KeyError: '¿cut\?'"):
        evaluate([CUT], fail)


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_a_cutoff_that_is_no_whole_number_from_one_is_refused(k):
    """Before any question is asked."""
    asked = []
    with pytest.raises(ConfigError, match=f"cutoff is {k}"):
        evaluate([CUT], asked.append, k=k)
    assert asked == []


def test_a_cutoff_of_another_type_is_refused():
    """Its text says what is wanted."""
    with pytest.raises(ConfigError, match="cutoff is '5'; give a whole number"):
        evaluate([CUT], lambda _: [], k="5")


def test_a_whole_cutoff_may_be_a_float():
    """5.0 is 5, in the names of the measures too."""
    assert scores(GOLD, lambda _: [], k=5.0) == scores(GOLD, lambda _: [], k=5)


@pytest.mark.parametrize("gold", [None, "gold.jsonl", Path("gold.jsonl"), ["q1"]])
def test_what_is_no_gold_is_refused(gold):
    """The message says what gives one."""
    with pytest.raises(ConfigError, match=r"give what load_corpus\(documents, gold\)"):
        evaluate(gold, lambda _: [])


@pytest.mark.parametrize("coverage", [0, 2])
def test_a_coverage_outside_its_range_is_refused(coverage):
    """The message says what is allowed."""
    with pytest.raises(ConfigError, match=rf"coverage is {coverage}; give a share in"):
        evaluate([CUT], lambda _: [], coverage=coverage)


def test_an_unknown_policy_is_refused():
    """The message lists the policies."""
    with pytest.raises(ConfigError, match="give one of single, union"):
        evaluate([CUT], lambda _: [], policy="any")


def test_hits_are_left_as_they_are():
    """Scoring writes nothing into what it is given."""
    hits = [NodeWithScore(node=each, score=0.5) for each in HALVES]
    before = [each.model_dump() for each in hits]
    evaluate([CUT], lambda _: hits)
    assert [each.model_dump() for each in hits] == before

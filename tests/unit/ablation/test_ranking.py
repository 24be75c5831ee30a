"""Tables that are filled, and whose fault it is when a part of the user's fails."""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import Document, NodeWithScore, TextNode

from scholar_rag_li.ablation import Ablation, ranking
from scholar_rag_li.ablation.plan import System
from scholar_rag_li.ablation.ranking import Bench, Ranker
from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.errors import ConfigError, RetrievalError, StoreError
from scholar_rag_li.judging import Evidence

TEXT = "agua dura"
CORPUS = Corpus(
    (Document(id_="a", text=TEXT),),
    Gold((Question("q1", "¿agua?", ((Evidence("a", 0, 4, "agua"),),), "text"),)),
)
FIXED = {"kind": "fixed", "chunk_size": 3, "chunk_overlap": 0}
"""Of nine characters three chunks: a#0, a#1 and a#2."""


class All(BaseRetriever):
    """Returns all nodes, or fails."""

    def __init__(self, nodes, error=None):
        self.nodes, self.error, self.similarity_top_k = nodes, error, 0
        super().__init__()

    def _retrieve(self, _):
        if self.error:
            raise self.error
        return [NodeWithScore(node=node, score=1.0) for node in self.nodes]


class Does(BaseNodePostprocessor):
    """Does with the nodes what a function does."""

    what: object

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return self.what(nodes)


@pytest.fixture
def run(cache):
    """Rank with a retriever function and a function as the reranker; the ids."""

    def ranked(retriever=All, reranker=None):
        inputs = Ablation(
            CORPUS,
            chunkers={"fixed": FIXED},
            retrievers={"mine": retriever},
            rerankers={"own": Does(what=reranker)} if reranker else {},
            baseline=System("fixed", "mine"),
        )._inputs()
        system = System("fixed", "mine", None, "own" if reranker else "none")
        found = Ranker(inputs, None, cache).run(system, inputs.chunk("fixed"))
        return [hit.id for hit in found["q1"]]

    return ranked


def raising(error):
    """Make a function that fails."""

    def fail(_):
        raise error

    return fail


# whose fault it is


def test_the_user_s_parts_are_used(run):
    """What the retriever finds is ordered and cut as the reranker says."""
    assert run(reranker=lambda nodes: nodes[:0:-1]) == ["a#2", "a#1"]


def test_a_retriever_that_can_t_be_made_is_named(run):
    """Level and chunking, and what went wrong."""
    with pytest.raises(RetrievalError) as caught:
        run(raising(OSError("no index")))
    assert str(caught.value) == (
        "the retriever 'mine' could not be made over 'fixed': OSError: no index"
    )


def test_a_retriever_that_fails_is_named(run):
    """Level and question, and what went wrong."""
    with pytest.raises(RetrievalError) as caught:
        run(lambda nodes: All(nodes, KeyError("x")))
    assert str(caught.value) == (
        "the retriever 'mine' failed on question 'q1': KeyError: 'x'"
    )


def test_a_reranker_that_fails_is_named(run):
    """Level and question, and what went wrong."""
    with pytest.raises(RetrievalError) as caught:
        run(reranker=raising(ZeroDivisionError("by 0")))
    assert str(caught.value) == (
        "the reranker 'own' failed on question 'q1': ZeroDivisionError: by 0"
    )


def test_the_error_keeps_its_cause(run):
    """The user's own error is there for who wants its traceback."""
    cause = OSError("no index")
    with pytest.raises(RetrievalError) as caught:
        run(raising(cause))
    assert caught.value.__cause__ is cause


def test_an_error_of_ours_says_enough_already(run):
    """A function that returns no retriever keeps its own words."""
    with pytest.raises(ConfigError, match="the retriever function returned NoneType"):
        run(lambda _: None)


def test_an_interrupt_is_nobody_s_fault(run):
    """Ctrl-C in a part of the user's stays Ctrl-C."""
    with pytest.raises(KeyboardInterrupt):
        run(raising(KeyboardInterrupt()))


def test_a_reranker_may_not_add_nodes(run):
    """A node that it was not given has no place to be judged by."""
    foreign = NodeWithScore(node=TextNode(id_="new", text="x"), score=9.0)
    with pytest.raises(RetrievalError) as caught:
        run(reranker=lambda nodes: [*nodes, foreign])
    assert str(caught.value) == (
        "the reranker 'own' returned the node 'new', which it was not given; a reranker "
        "may only order and drop"
    )


# tables


class Rows:
    """A table in memory that can't be emptied."""

    def __init__(self, *ids, deaf=False):
        self.ids, self.deaf, self.added = set(ids), deaf, []

    def count(self):
        return len(self.ids)

    def add(self, nodes):
        self.added.append([(node.node_id, node.embedding) for node in nodes])
        if not self.deaf:
            self.ids |= {node.node_id for node in nodes}


class Lengths:
    """Embeds a text as its length."""

    fingerprint = "lengths"

    def embed_texts(self, texts):
        return [[float(len(text))] for text in texts]


@pytest.fixture
def fill(monkeypatch):
    """Ask for the table of a chunking of three chunks, over some rows."""

    def filled(rows):
        monkeypatch.setattr(ranking, "open_store", lambda **_: rows)
        inputs = Ablation(
            CORPUS,
            chunkers={"fixed": FIXED},
            retrievers={"bm25": {"kind": "bm25"}},
            baseline=System("fixed", "bm25"),
        )._inputs()
        return Bench(None, Lengths(), None).store(inputs.chunk("fixed"))

    return filled


VECTORS = [("a#0", [3.0]), ("a#1", [3.0]), ("a#2", [3.0])]


@pytest.mark.parametrize(
    "there", [(), ("a#0",), ("a#1", "a#2")], ids=["empty", "one", "two"]
)
def test_a_table_is_filled(fill, there):
    """All chunks are written, over those that a stopped run has left; none is removed."""
    rows = Rows(*there)
    fill(rows)
    assert (rows.added, rows.ids) == ([VECTORS], {"a#0", "a#1", "a#2"})


def test_a_complete_table_is_not_written(fill):
    """Three rows of three: nothing to do."""
    rows = Rows("a#0", "a#1", "a#2")
    fill(rows)
    assert rows.added == []


@pytest.mark.parametrize(
    ("rows", "there"),
    [(Rows("else"), 4), (Rows("a#0", deaf=True), 1)],
    ids=["foreign rows", "rows lost"],
)
def test_a_table_that_does_not_hold_the_chunks(fill, rows, there):
    """The message says how many rows there are, and what to do."""
    with pytest.raises(StoreError) as caught:
        fill(rows)
    text = str(caught.value)
    assert f"holds {there} rows for 3 chunks; something else writes to it" in text
    assert "drop it, or use another database" in text

"""`evaluate`: score any retriever, or any function, against gold evidence."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore

from scholar_rag_li.corpus import Corpus, Gold, Question
from scholar_rag_li.errors import ConfigError, CorpusError, RetrievalError, listing
from scholar_rag_li.judging import Policy, Span, check_policy, first_ranks
from scholar_rag_li.measures import MEASURES, Measure

Hit = str | BaseNode | NodeWithScore
Retrieve = BaseRetriever | Callable[[str], Iterable[Hit]]
REMEDY = "pass the chunks as nodes=..., or return nodes instead of ids"


@dataclass(frozen=True)
class Evaluation:
    """Scores of one retriever, per question and on average.

    Args:
        scores: question id -> measure name (``recall@5``) -> score.
        k: the cutoff of every measure.
        policy: how evidence is reached, see `judging`.
        coverage: the share of an evidence that must be covered.
        unjudged: ids of questions without evidence, which are left out.
    """

    scores: Mapping[str, Mapping[str, float]]
    k: int
    policy: Policy
    coverage: float
    unjudged: tuple[str, ...] = ()

    def mean(self, name: str) -> float:
        """Average a measure, given by its name without cutoff, over all questions."""
        column = f"{name}@{self.k}"
        return sum(row[column] for row in self.scores.values()) / len(self.scores)

    @cached_property
    def recall(self) -> float:
        """Mean share of the facts reached within k."""
        return self.mean("recall")

    @cached_property
    def mrr(self) -> float:
        """Mean reciprocal rank of the first fact reached within k."""
        return self.mean("rr")

    @cached_property
    def success(self) -> float:
        """Share of the questions with any fact reached within k (hit rate)."""
        return self.mean("success")

    @cached_property
    def precision(self) -> float:
        """Mean share of the first k ranks that reach a new fact."""
        return self.mean("precision")

    def __str__(self) -> str:
        """Print as one line."""
        return (
            f"recall@{self.k} {self.recall:.3f}  MRR@{self.k} {self.mrr:.3f}  "
            f"success@{self.k} {self.success:.3f}  "
            f"precision@{self.k} {self.precision:.3f}  "
            f"(n={len(self.scores)}, policy={self.policy}, coverage={self.coverage:g})"
        )


def evaluate(  # what is judged, then how
    gold: Gold | Corpus | Sequence[Question],
    retrieve: Retrieve,
    k: int = 5,
    *,
    nodes: Sequence[BaseNode] | None = None,
    policy: Policy = "single",
    coverage: float = 1.0,
) -> Evaluation:
    """Ask every question and judge what comes back.

    Args:
        gold: questions with evidence.
        retrieve: a LlamaIndex retriever, or a function from the question's text to nodes
            or ids, best first. Only the first k count.
        k: cutoff of all measures, at least 1.
        nodes: the chunks; needed when `retrieve` gives ids that are not document ids, or
            nodes that do not carry their span.
        policy: ``single`` or ``union``, see `judging`.
        coverage: share of an evidence that must be covered, in (0, 1].

    Returns:
        Scores per question. Questions without evidence are left out and listed. A
        question that retrieves nothing scores 0 and stays in.

    Raises:
        ConfigError: settings out of range, no gold, or no question with evidence.
        CorpusError: a question id, or a chunk id, that occurs twice.
        RetrievalError: the retriever failed (the question is named), or returned
            something whose place in a document can't be known.

    >>> from scholar_rag_li.judging import Evidence
    >>> gold = [Question("q", "Where?", ((Evidence("thesis"),),), "text")]
    >>> evaluation = evaluate(gold, lambda question: ["other", "thesis"])
    >>> evaluation.recall, evaluation.mrr
    (1.0, 0.5)
    """
    check_policy(policy, coverage)
    if not isinstance(k, Real) or k < 1 or k % 1:
        raise ConfigError(f"cutoff is {k!r}; give a whole number from 1 on")
    k = int(k)  # 5.0 is one, but neither slices nor names a measure
    measures = [Measure(name, k) for name in MEASURES]
    questions = _questions(gold)
    counts = Counter(question.id for question in questions)
    if twice := sorted(id_ for id_, count in counts.items() if count > 1):
        raise CorpusError(listing("question ids that occur more than once:", twice))
    judged = [question for question in questions if question.facts]
    if not judged:
        raise ConfigError("the gold holds no question with evidence; nothing to score")
    places = SpanIndex(nodes or (), _documents(gold))
    scores = {}
    for question in judged:
        spans = _located(question, _ask(retrieve, question)[:k], places)
        ranks = first_ranks(question.facts, spans, policy=policy, coverage=coverage)
        scores[question.id] = {str(each): each(ranks) for each in measures}
    unjudged = tuple(question.id for question in questions if not question.facts)
    return Evaluation(scores, k, policy, coverage, unjudged)


def _questions(gold: Any) -> Sequence[Question]:
    """Return the questions of a gold; refuse what is none, such as its path."""
    questions = gold.gold if isinstance(gold, Corpus) else gold
    if isinstance(questions, Sequence) and all(
        isinstance(each, Question) for each in questions
    ):
        return questions
    raise ConfigError(
        f"the gold is {gold!r:.80}, a {type(gold).__name__}; give what "
        "load_corpus(documents, gold) returns, or its questions"
    )


def _ask(retrieve: Retrieve, question: Question) -> list[Hit]:
    try:
        if isinstance(retrieve, BaseRetriever):
            return list(retrieve.retrieve(question.question))
        return list(retrieve(question.question))
    except Exception as error:
        raise RetrievalError(
            f"the retriever failed on question {question.id!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _documents(gold: Gold | Corpus | Sequence[Question]) -> set[str]:
    if isinstance(gold, Corpus):
        return {document.id_ for document in gold.documents}
    facts = [fact for question in gold for fact in question.facts]
    return {evidence.doc_id for fact in facts for evidence in fact}


def _located(
    question: Question, hits: Sequence[Hit], places: "SpanIndex"
) -> list[Span]:
    spans = [places.span(hit) for hit in hits]
    if all(each.whole_document for fact in question.facts for each in fact):
        return spans
    for hit, span in zip(hits, spans, strict=True):
        if isinstance(hit, str) and span.start == span.end:
            raise RetrievalError(
                f"question {question.id!r} asks for characters of a document, and the "
                f"retriever returned the id {hit!r}, which does not say which they are; "
                f"{REMEDY}"
            )
    return spans


class SpanIndex:
    """Where ids and nodes stand in their documents.

    Args:
        nodes: the chunks whose ids may be asked for.
        documents: ids that stand for a whole document.

    Raises:
        CorpusError: one id twice among the nodes.
    """

    def __init__(
        self, nodes: Iterable[BaseNode], documents: Iterable[str] = ()
    ) -> None:
        """Read the spans of the nodes."""
        self._documents = frozenset(documents)
        self._spans: dict[str, Span] = {}
        for node in nodes:
            if node.node_id in self._spans:
                raise CorpusError(
                    f"the id {node.node_id!r} stands for two chunks; ids must be unique"
                )
            self._spans[node.node_id] = node_span(node)

    def span(self, hit: Hit) -> Span:
        """Find the span of a hit.

        Raises:
            RetrievalError: a node without span, or an id that is no chunk.
        """
        if isinstance(hit, str):
            if hit in self._spans:
                return self._spans[hit]
            chunk = self._spans or re.search(r"#\d+$", hit)  # as `chunk_id` names them
            if chunk and hit not in self._documents:
                raise RetrievalError(
                    f"the retriever returned the id {hit!r}, which is none of the "
                    f"{len(self._spans)} chunks given; {REMEDY}"
                )
            return Span(hit, 0, 0)  # a document's own id: whole-document gold
        node = hit.node if isinstance(hit, NodeWithScore) else hit
        own = getattr(node, "start_char_idx", None)
        if own is None and node.node_id in self._spans:
            return self._spans[node.node_id]
        return node_span(node)


def node_span(node: Any) -> Span:
    """Read the document and the character span that a node carries.

    Raises:
        RetrievalError: it carries none.
    """
    start = getattr(node, "start_char_idx", None)
    end = getattr(node, "end_char_idx", None)
    if node.ref_doc_id is None or start is None or end is None:
        raise RetrievalError(
            f"node {node.node_id!r} does not say which characters of which document it "
            "is (ref_doc_id, start_char_idx, end_char_idx); use a chunker of this "
            "package, or a NodeParser that keeps them"
        )
    return Span(node.ref_doc_id, start, end)

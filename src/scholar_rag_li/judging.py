"""Relevance from character spans: the first rank at which each fact is reached. Pure.

Gold is a list of facts; a fact is a set of alternative spans. Gold does not know the
chunker, so the same gold judges every chunking. Two policies:

- ``single``: a chunk reaches a span when it covers enough of it on its own;
- ``union``: a span is reached at the first rank r where chunks 1..r together do.

Coverage counts the non-blank characters of the evidence, compared as whole numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from scholar_rag_li.errors import ConfigError, CorpusError

Policy = Literal["single", "union"]
POLICIES: tuple[Policy, ...] = ("single", "union")


class Span(NamedTuple):
    """Characters `start` (included) to `end` (excluded) of a document."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Evidence:
    """A span of a document that answers a question, with its text.

    An evidence without quote stands for the whole document, which its first chunk
    reaches.

    Args:
        doc_id: the document.
        start: first character, counted from 0.
        end: one past the last character.
        quote: the document's text from start to end; empty for a whole document.

    Raises:
        CorpusError: an empty or reversed span, or one of blank characters only.
    """

    doc_id: str
    start: int = 0
    end: int = 0
    quote: str = ""

    def __post_init__(self) -> None:
        """Refuse a span that no chunk could reach."""
        if self.whole_document:
            return
        if not 0 <= self.start < self.end or len(self.quote) != self.end - self.start:
            raise CorpusError(
                f"evidence {self.start}:{self.end} of {self.doc_id!r} with a quote of "
                f"{len(self.quote)} characters; give 0 <= start < end and the text there"
            )
        if not self.quote.strip():
            raise CorpusError(
                f"evidence {self.start}:{self.end} of {self.doc_id!r} holds blank "
                "characters only; name a span with text"
            )

    @property
    def whole_document(self) -> bool:
        """Whether the evidence is the document as a whole."""
        return not self.quote and self.start == self.end == 0

    @property
    def span(self) -> Span:
        """Where the evidence stands."""
        return Span(self.doc_id, self.start, self.end)


Fact = tuple[Evidence, ...]
"""Alternative spans: any one of them establishes the fact."""


def first_ranks(
    facts: Sequence[Fact],
    chunks: Sequence[Span],
    *,
    policy: Policy = "single",
    coverage: float = 1.0,
) -> tuple[int | None, ...]:
    """Find the first rank that reaches each fact.

    Args:
        facts: what the question asks for.
        chunks: the spans of a ranking, best first, in delivered order.
        policy: ``single`` or ``union``, see the module.
        coverage: share of a span's non-blank characters that must be covered, in (0, 1].

    Returns:
        One entry per fact: a rank from 1, or None when no rank reaches it.

    >>> fact = (Evidence("d", 2, 6, "abcd"),)
    >>> first_ranks([fact], [Span("d", 0, 4), Span("d", 4, 9)])
    (None,)
    >>> first_ranks([fact], [Span("d", 0, 4), Span("d", 4, 9)], policy="union")
    (2,)
    """
    check_policy(policy, coverage)
    share = Fraction(str(coverage))
    return tuple(
        min(
            (
                rank
                for evidence in fact
                if (rank := _first_rank(evidence, chunks, policy, share)) is not None
            ),
            default=None,
        )
        for fact in facts
    )


def check_policy(policy: str, coverage: float) -> None:
    """Refuse a policy or a coverage that MEASURES does not define.

    Raises:
        ConfigError: what was given and what is allowed.
    """
    if policy not in POLICIES:
        raise ConfigError(f"policy is {policy!r}; give one of {', '.join(POLICIES)}")
    if not 0 < coverage <= 1:
        raise ConfigError(f"coverage is {coverage}; give a share in (0, 1]")


def reaching_chunks(
    facts: Sequence[Fact], chunks: Iterable[tuple[str, Span]], *, coverage: float = 1.0
) -> list[str]:
    """Name the chunks that reach some alternative on their own: qrels of a chunking.

    Args:
        facts: what the question asks for.
        chunks: id and span of every chunk of the chunking.
        coverage: as in `first_ranks`.

    Returns:
        Ids in the order of the chunks.
    """
    check_policy("single", coverage)
    share = Fraction(str(coverage))
    spans = [evidence for fact in facts for evidence in fact]
    return [
        id_
        for id_, chunk in chunks
        if any(_first_rank(each, [chunk], "single", share) for each in spans)
    ]


def _first_rank(
    evidence: Evidence, chunks: Sequence[Span], policy: Policy, share: Fraction
) -> int | None:
    wanted = share * sum(not character.isspace() for character in evidence.quote)
    covered: set[int] = set()
    for rank, chunk in enumerate(chunks, start=1):
        if chunk.doc_id != evidence.doc_id:
            continue
        if evidence.whole_document:
            return rank
        start, end = max(chunk.start, evidence.start), min(chunk.end, evidence.end)
        here = {
            place
            for place in range(start, end)
            if not evidence.quote[place - evidence.start].isspace()
        }
        covered = covered | here if policy == "union" else here
        if here and len(covered) >= wanted:
            return rank
    return None

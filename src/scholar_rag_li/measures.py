"""The measures, per question, from the first ranks that reach each fact. Pure.

A measure is a value: ``Measure("recall", 5)`` prints as ``recall@5`` and
``parse_measure`` reads that back, so one name serves as object, key, column heading and
setting. Nothing retrieved scores 0. Recall here is TREC's: facts reached over all facts
(some call success@k "recall" or "hit rate").
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scholar_rag_li.errors import ConfigError, UnknownComponentError

FirstRanks = Sequence[int | None]
"""Per fact, the first rank (from 1) that reaches it; None when none does."""


def recall(ranks: FirstRanks, k: int) -> float:
    """Facts reached within the first k, over all facts.

    >>> recall([1, None, 7], k=5) == 1 / 3
    True
    """
    return len(_within(ranks, k)) / len(ranks)


def success(ranks: FirstRanks, k: int) -> float:
    """1 if any fact is reached within the first k, else 0 (also called hit rate)."""
    return float(bool(_within(ranks, k)))


def reciprocal_rank(ranks: FirstRanks, k: int) -> float:
    """1 / the first rank that reaches any fact, 0 beyond k; its mean is MRR.

    >>> reciprocal_rank([None, 4], k=10)
    0.25
    """
    return 1 / min(_within(ranks, k), default=float("inf"))


def precision(ranks: FirstRanks, k: int) -> float:
    """Ranks within the first k that reach a new fact, over k (not over those returned).

    A chunk that repeats what an earlier one reached counts as not relevant.
    """
    return len(set(_within(ranks, k))) / k


def _within(ranks: FirstRanks, k: int) -> list[int]:
    return [rank for rank in ranks if rank is not None and rank <= k]


MEASURES: dict[str, Callable[[FirstRanks, int], float]] = {
    "recall": recall,
    "success": success,
    "rr": reciprocal_rank,
    "precision": precision,
}


@dataclass(frozen=True, order=True)
class Measure:
    """A named measure at a cutoff.

    Args:
        name: one of `MEASURES`.
        k: how many ranks are read, at least 1.

    >>> Measure("recall", 5)([2, None])
    0.5
    >>> str(Measure("rr", 10))
    'rr@10'
    """

    name: str
    k: int

    def __post_init__(self) -> None:
        """Refuse what no table could show."""
        if self.name not in MEASURES:
            raise UnknownComponentError(
                f"measure {self.name!r} is unknown; choose from {', '.join(MEASURES)}"
            )
        if self.k < 1 or self.k % 1:
            raise ConfigError(f"cutoff is {self.k}; give a whole number from 1 on")

    def __call__(self, ranks: FirstRanks) -> float:
        """Score one question.

        Raises:
            ConfigError: a question without facts, for which nothing is defined.
        """
        if not ranks:
            raise ConfigError("a question without facts has no score; leave it out")
        return MEASURES[self.name](ranks, self.k)

    def __str__(self) -> str:
        """Print as ``name@k``."""
        return f"{self.name}@{self.k}"


def parse_measure(text: str) -> Measure:
    """Read ``recall@5``.

    Raises:
        ConfigError: another form, an unknown name or a cutoff below 1.

    >>> parse_measure("recall@5") == Measure("recall", 5)
    True
    """
    match = re.fullmatch(r"([a-z]+)@(0|[1-9]\d*)", text)
    if match is None:
        raise ConfigError(f"measure {text!r}; write name@cutoff, as in recall@5")
    return Measure(match[1], int(match[2]))

"""Reciprocal rank fusion over ids. Pure: no framework, no input is changed.

A document's fused score is the sum over rankings of weight / (k + rank), with the rank
counted from 1. Source of formula and of k = 60: Cormack, Clarke and Buettcher,
"Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
SIGIR 2009. (llama-index-core counts ranks from 0, which makes its 60 another constant.)
"""

import math
from collections.abc import Sequence

from scholar_rag_li.errors import ConfigError

RRF_K = 60  # Cormack, Clarke and Buettcher, SIGIR 2009


def rrf_scores(
    rankings: Sequence[Sequence[str]],
    k: float = RRF_K,
    weights: Sequence[float] | None = None,
) -> dict[str, float]:
    """Fuse rankings of ids into one score per id.

    Args:
        rankings: one sequence of ids per leg, best first. A repeated id counts once, at
            its first place, and takes no rank from those behind it.
        k: the constant of the formula; the smaller, the more the first ranks weigh.
        weights: one factor per ranking, used as given; all 1 when not given. A ranking
            of weight 0 contributes no id.

    Returns:
        Scores by id, best first; equal scores in the order of the ids.

    Raises:
        ConfigError: negative k, or weights that are not one finite number >= 0 each.

    >>> fused = rrf_scores([["2", "7", "6"], ["6", "2", "7"]], k=1)
    >>> {id_: round(score, 3) for id_, score in fused.items()}
    {'2': 0.833, '6': 0.75, '7': 0.583}
    """
    check_fusion(len(rankings), k, weights)
    terms: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        if weight == 0:
            continue
        for rank, id_ in enumerate(dict.fromkeys(ranking), start=1):
            terms.setdefault(id_, []).append(weight / (k + rank))
    # fsum is exact, so the order of the legs can't move a score by a last bit
    scores = {id_: math.fsum(parts) for id_, parts in terms.items()}
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))


def rrf(
    rankings: Sequence[Sequence[str]], k: float = RRF_K, top: int | None = 5
) -> list[str]:
    """Fuse rankings of ids into one ranking of at most `top` ids (None: all of them).

    Raises:
        ConfigError: as `rrf_scores`, or `top` below 1.

    >>> rrf([["A", "B"], ["B", "C"]])
    ['B', 'A', 'C']
    """
    if top is not None and top < 1:
        raise ConfigError(
            f"top is {top}; give a whole number from 1 on, or None for all"
        )
    return list(rrf_scores(rankings, k))[:top]


def check_fusion(legs: int, k: float, weights: Sequence[float] | None) -> None:
    """Refuse a constant or weights that can't be meant.

    Raises:
        ConfigError: what was given and what is allowed.
    """
    if not (math.isfinite(k) and k >= 0):
        raise ConfigError(f"rrf_k is {k}; give a finite number >= 0 (60 is usual)")
    if weights is None:
        return
    if len(weights) != legs:
        raise ConfigError(
            f"{len(weights)} weights for {legs} rankings; give one weight per ranking"
        )
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise ConfigError(f"weights are {list(weights)}; give finite numbers >= 0")
    if weights and not any(weights):
        raise ConfigError("all weights are 0, so nothing would be returned; raise one")

"""ragas's ID-based context recall and precision, on the same rankings. Imported late.

ragas compares ids: recall is the share of the reference ids that were retrieved, and
precision the share of the retrieved ids that are references. The references here are the
chunks that reach some evidence on their own. Where overlapping chunks hold the same
evidence, ragas wants them all; our recall wants the evidence once. ragas gives no number
(NaN) where nothing was retrieved, or where no chunk reaches the evidence; here that is 0
and stays in the mean.
"""

import os
import warnings
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

INSTALL = "pip install 'scholar-rag-li[ragas]'"


class IdSample(NamedTuple):
    """What ragas is asked about one question.

    Args:
        retrieved: chunk ids, best first, cut to the cutoff.
        reference: ids of the chunks that reach the evidence.
    """

    retrieved: tuple[str, ...]
    reference: tuple[str, ...]


def ragas_version() -> str | None:
    """Return the installed version of ragas, None without it; imports nothing of it."""
    try:
        return version("ragas")
    except PackageNotFoundError:
        return None


def id_scores(samples: Sequence[IdSample]) -> list[tuple[float, float]]:
    """Score samples with ragas.

    Args:
        samples: one per question.

    Returns:
        (ID-based context recall, ID-based context precision) per sample, in order.

    Raises:
        ImportError: ragas is not installed; the message says how to.
    """
    # must be set before the import, or ragas reports its use to its makers
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    try:
        with warnings.catch_warnings():
            # the newer `collections` hold no metric that does without an LLM
            warnings.simplefilter("ignore", DeprecationWarning)
            from ragas import SingleTurnSample  # noqa: PLC0415  # 13 CPU seconds
            from ragas.metrics import (  # noqa: PLC0415
                IDBasedContextPrecision,
                IDBasedContextRecall,
            )
    except ImportError as error:
        raise ImportError(f"ragas can't be imported ({error}); {INSTALL}") from error
    metrics = (IDBasedContextRecall(), IDBasedContextPrecision())
    scores: list[tuple[float, float]] = []
    for sample in samples:
        if not sample.retrieved or not sample.reference:
            scores.append((0.0, 0.0))  # ragas: NaN and a warning each
            continue
        asked = SingleTurnSample(
            retrieved_context_ids=list(sample.retrieved),
            reference_context_ids=list(sample.reference),
        )
        recall, precision = (float(each.single_turn_score(asked)) for each in metrics)
        scores.append((recall, precision))
    return scores

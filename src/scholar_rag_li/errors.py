"""The exceptions of the package; a message says what was given, is allowed, to do."""

from collections.abc import Sequence


class ScholarRagError(Exception):
    """Base of every error that bad input or a missing part can cause."""


class CorpusError(ScholarRagError, ValueError):
    """Documents or gold can't be used as they are."""


class ConfigError(ScholarRagError, ValueError):
    """A setting, a plan or a configuration file is not valid."""


class UnknownComponentError(ConfigError):
    """A name that stands for no chunker, retriever, measure or model."""


class ModelError(ScholarRagError, ValueError):
    """A model can't be loaded, or is not of the kind that was asked for."""


class StoreError(ScholarRagError, RuntimeError):
    """The database can't be reached, or does not hold what is asked of it."""


class RetrievalError(ScholarRagError, RuntimeError):
    """A retriever or a reranker failed while answering a question."""


def listing(heading: str, problems: Sequence[str], limit: int = 20) -> str:
    """Join problems under a heading, one a line, the first `limit` in full.

    >>> print(listing("2 problems:", ["a", "b"]))
    2 problems:
      - a
      - b
    """
    shown = [f"  - {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        shown.append(f"  ... and {len(problems) - limit} more")
    return "\n".join([heading, *shown])

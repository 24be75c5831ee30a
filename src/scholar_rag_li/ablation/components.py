"""The levels of a factor: what a configuration names, and the user's own objects.

A level in a configuration is a mapping with a ``kind`` and that kind's settings; the
tables at the end say which kinds there are. From Python, a level may as well be a
LlamaIndex object of the user's. A new chunker, retriever or reranker is a new row here;
a new level of an existing one is a line of configuration.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from scholar_rag_li.ablation.cache import digest
from scholar_rag_li.ablation.plan import NO_RERANKER
from scholar_rag_li.chunkers import FixedChunker, SentenceChunker
from scholar_rag_li.errors import ConfigError, UnknownComponentError
from scholar_rag_li.evaluators import SpanIndex
from scholar_rag_li.fusion import check_fusion
from scholar_rag_li.language import language as known_language
from scholar_rag_li.rerank import CrossEncoderRerank
from scholar_rag_li.retrievers import LanguageBM25Retriever, vector_retriever


@dataclass(frozen=True)
class Chunking:
    """The chunks of one chunker over the corpus.

    Args:
        name: the level's name.
        nodes: in document order.
        settings: the chunker's own settings, for the manifest.
    """

    name: str
    nodes: tuple[TextNode, ...]
    settings: Mapping[str, Any]
    texts: dict[str, str] = field(init=False)
    """Node id -> the text that the embedder, BM25 and the reranker read."""
    spans: SpanIndex = field(init=False)
    digest: str = field(init=False)
    """Content of the chunking: equal for equal chunks, whatever the level is called."""

    def __post_init__(self) -> None:
        """Read texts and spans off the nodes."""
        spans = SpanIndex(self.nodes)
        texts = {
            node.node_id: node.get_content(metadata_mode=MetadataMode.EMBED)
            for node in self.nodes
        }
        content = [[id_, *spans.span(id_), text] for id_, text in texts.items()]
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "spans", spans)
        object.__setattr__(self, "digest", digest(content).hex())


class Services(Protocol):
    """What a leg may use."""

    embed_model: BaseEmbedding
    """Embeds the question; behind the cache, or the model itself to time it."""

    def store(self, chunking: Chunking) -> BasePydanticVectorStore:
        """Return the store that holds the chunking with its vectors."""

    def embedding_fingerprint(self) -> Mapping[str, Any]:
        """Return what identifies the embedding model."""


class Leg(Protocol):
    """A level of the factor retriever that ranks by itself."""

    def fingerprint(self, services: Services) -> Mapping[str, Any] | None:
        """Return what a ranking depends on beside chunking, question and depth.

        None when that can't be known: such a leg is run again each time.
        """

    def build(
        self, services: Services, chunking: Chunking, depth: int
    ) -> BaseRetriever:
        """Make the retriever over a chunking, asked for `depth` results."""


@dataclass(frozen=True)
class VectorLeg:
    """Nearest chunks by cosine similarity, by exact scan."""

    def fingerprint(self, services: Services) -> Mapping[str, Any]:
        """Return the embedding model's fingerprint."""
        model = services.embedding_fingerprint()
        return {"leg": "vector", "search": "exact cosine 1", "model": model}

    def build(
        self, services: Services, chunking: Chunking, depth: int
    ) -> BaseRetriever:
        """Make a VectorIndexRetriever over the chunking's table."""
        return vector_retriever(
            services.store(chunking), services.embed_model, similarity_top_k=depth
        )


@dataclass(frozen=True)
class BM25Leg:
    """BM25 in a language.

    Args:
        language: code or name, see `language`.
    """

    language: str

    def __post_init__(self) -> None:
        """Refuse an unknown language before the run."""
        known_language(str(self.language))

    def fingerprint(self, services: Services) -> Mapping[str, Any]:  # noqa: ARG002  # the protocol's
        """Return the fingerprint of analyzer and formula."""
        return {"leg": "bm25", "settings": self._over([]).fingerprint}

    def build(
        self,
        services: Services,  # noqa: ARG002  # the protocol's
        chunking: Chunking,
        depth: int,
    ) -> BaseRetriever:
        """Make a BM25Retriever over the chunking's nodes."""
        retriever = self._over(list(chunking.nodes))
        retriever.similarity_top_k = depth
        return retriever

    def _over(self, nodes: list[TextNode]) -> LanguageBM25Retriever:
        return LanguageBM25Retriever(nodes=nodes, language=self.language)


@dataclass(frozen=True)
class CustomLeg:
    """The user's own retriever, or a function from chunks to one.

    A function is called anew for each chunking. A retriever object is used as it is.
    """

    source: BaseRetriever | Callable[[list[TextNode]], BaseRetriever]

    def fingerprint(self, services: Services) -> None:  # the protocol's
        """Tell that nothing is known of what its rankings depend on."""

    def build(
        self,
        services: Services,  # noqa: ARG002  # the protocol's
        chunking: Chunking,
        depth: int,
    ) -> BaseRetriever:
        """Make the retriever; `depth` is set where it has a `similarity_top_k`."""
        if isinstance(self.source, BaseRetriever):
            return self.source
        retriever = self.source(list(chunking.nodes))
        if not isinstance(retriever, BaseRetriever):
            raise ConfigError(
                f"the retriever function returned {type(retriever).__name__}; it must "
                "return a LlamaIndex BaseRetriever"
            )
        if hasattr(retriever, "similarity_top_k"):
            retriever.similarity_top_k = depth
        return retriever


@dataclass(frozen=True)
class Hybrid:
    """Legs fused by reciprocal rank; the constant is the factor rrf_k.

    Args:
        legs: names of other levels of the factor retriever.
        weights: one factor per leg; all 1 when not given.
    """

    legs: tuple[str, ...]
    weights: tuple[float, ...] | None = None

    def __init__(
        self, legs: Sequence[str], weights: Sequence[float] | None = None
    ) -> None:
        """Check that there is a weight per leg."""
        listed = isinstance(legs, Sequence) and not isinstance(legs, str)
        if not listed or not legs or not all(isinstance(leg, str) for leg in legs):
            raise ConfigError("a hybrid needs legs: a list of other retriever levels")
        if len(set(legs)) < len(legs):
            raise ConfigError(f"a hybrid names a leg twice: {', '.join(legs)}")
        check_fusion(len(legs), 1, weights)
        object.__setattr__(self, "legs", tuple(legs))
        object.__setattr__(self, "weights", None if weights is None else tuple(weights))


CHUNKERS: dict[str, Callable[..., NodeParser]] = {
    "fixed": FixedChunker,
    "sentence": SentenceChunker,
}
RETRIEVERS: dict[str, Callable[..., Any]] = {
    "vector": VectorLeg,
    "bm25": BM25Leg,
    "hybrid": Hybrid,
}


def _cross_encoder(
    model: str, candidates: int | None = None, top_n: int = 5
) -> CrossEncoderRerank:
    return CrossEncoderRerank(model=model, candidates=candidates, top_n=top_n)


RERANKERS: dict[str, Callable[..., Any]] = {
    "none": lambda: None,
    "cross-encoder": _cross_encoder,
}


def build_chunker(name: str, level: Any) -> NodeParser:
    """Make a chunker from a level; the user's NodeParser is taken as it is."""
    if isinstance(level, NodeParser):
        return level
    made = _build("chunker", name, level, CHUNKERS)
    assert isinstance(made, NodeParser)  # noqa: S101  # tells mypy what CHUNKERS makes
    return made


def build_retriever(name: str, level: Any, language: str) -> Leg | Hybrid:
    """Make a leg or a hybrid from a level, a retriever or a function from nodes to one."""
    if isinstance(level, (VectorLeg, BM25Leg, CustomLeg, Hybrid)):
        return level
    if isinstance(level, BaseRetriever) or callable(level):
        return CustomLeg(level)
    if isinstance(level, Mapping) and level.get("kind") == "bm25":
        level = {"language": language, **level}
    made: Leg | Hybrid = _build("retriever", name, level, RETRIEVERS)
    return made


def build_reranker(name: str, level: Any) -> BaseNodePostprocessor | None:
    """Make a reranker from a level; the user's postprocessor is taken as it is."""
    if level is None or isinstance(level, BaseNodePostprocessor):
        made = level
    else:
        made = _build("reranker", name, level, RERANKERS)
    if name == NO_RERANKER and made is not None:
        raise ConfigError(
            f"reranker {NO_RERANKER!r} stands for none; give this level another name"
        )
    return made


def _build(
    factor: str, name: str, level: Any, kinds: Mapping[str, Callable[..., Any]]
) -> Any:
    where = f"{factor} {name!r}"
    if not isinstance(level, Mapping) or "kind" not in level:
        raise ConfigError(
            f"{where} is {level!r}; give a mapping with a kind "
            f"({', '.join(kinds)}), or from Python an object of LlamaIndex's"
        )
    settings = {key: value for key, value in level.items() if key != "kind"}
    if level["kind"] not in list(kinds):  # by comparison: YAML may give a list
        raise UnknownComponentError(
            f"{where} is of the kind {level['kind']!r}; choose from {', '.join(kinds)}"
        )
    make = kinds[level["kind"]]
    allowed = _settings(make)
    unknown = sorted(set(settings) - set(allowed))
    if unknown:
        raise ConfigError(
            f"{where} has the unknown setting {', '.join(unknown)}; the kind "
            f"{level['kind']!r} takes {', '.join(allowed) or 'none'}"
        )
    missing = [key for key, needed in allowed.items() if needed and key not in settings]
    if missing:
        raise ConfigError(
            f"{where} lacks {', '.join(missing)}; the kind {level['kind']!r} takes "
            f"{', '.join(allowed)}"
        )
    try:
        return make(**settings)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _settings(make: Callable[..., Any]) -> dict[str, bool]:
    """Return the settings of a kind, and whether each has to be given."""
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }

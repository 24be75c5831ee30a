"""The cross-encoder stage: question and chunk are read together and scored."""

import math
import threading
from collections.abc import Sequence
from copy import deepcopy
from numbers import Integral
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation import (  # type: ignore[attr-defined]
    get_dispatcher,  # public, but in no __all__
)
from llama_index.core.instrumentation.events.rerank import (
    ReRankEndEvent,
    ReRankStartEvent,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.utils import infer_torch_device
from llama_index.postprocessor.sbert_rerank import SentenceTransformerRerank

from scholar_rag_li.errors import ConfigError, ModelError
from scholar_rag_li.models import (
    HUB_CROSS_ENCODER,
    HUB_FILES,
    HUB_IGNORED,
    HUB_WEIGHTS,
    ResolvedModel,
    batch_size_on,
    expanded,
    loading,
    model_length,
    resolve_model,
)

RETRIEVAL_SCORE = "retrieval_score"  # the parent's metadata key
ACTIVATION = (
    "identity"  # scores are logits, whatever the model's own configuration says
)
MAX_LENGTH = 512  # tokens of question and chunk together: the parent's limit
OWN_ARGUMENTS = ("model", "device", "activation_fn")

_LOADING = threading.Lock()

dispatcher = get_dispatcher(__name__)


class CrossEncoderRerank(SentenceTransformerRerank):
    """`SentenceTransformerRerank` that leaves its input alone.

    It returns new nodes with the cross-encoder's logit as score and the first stage's
    score in `metadata["retrieval_score"]`, which neither embedder, reranker nor LLM
    reads. The model is loaded with the first question, not before.

    Args:
        model: Directory or hub name of a cross-encoder with one label.
        device: "cpu", "cuda" ...; by default the best there is.
        cache_folder: Where hub models are kept, if not in the hub's own cache.
        top_n: Results wanted, at least 1.
        keep_retrieval_score: Whether to keep the first stage's score.
        cross_encoder_kwargs: More arguments of `CrossEncoder`, such as `max_length`
            (tokens; lowered to what the model can read).
        candidates: Only so many nodes, from the first, are read and returned; by
            default all.

    Raises:
        ConfigError: No whole number from 1, or a keyword argument that is set elsewhere.

    >>> CrossEncoderRerank(top_n=0)
    Traceback (most recent call last):
    ...
    scholar_rag_li.errors.ConfigError: top_n is 0; give a whole number from 1.
    """

    keep_retrieval_score: bool = Field(
        default=True,
        description="Whether to keep the retrieval score in metadata.",
    )
    candidates: int | None = Field(
        default=None, description="Number of nodes that are read, from the first."
    )
    device: str | None = Field(default=None, description="Device of the model.")
    cache_folder: str | None = Field(
        default=None, description="Directory where hub models are kept."
    )
    _model: Any = PrivateAttr(default=None)
    _resolved: ResolvedModel | None = PrivateAttr(default=None)

    def __init__(  # noqa: PLR0913  the parent's arguments
        self,
        model: str = HUB_CROSS_ENCODER,
        device: str | None = None,
        cache_folder: str | Path | None = None,
        top_n: int = 2,
        keep_retrieval_score: bool = True,  # noqa: FBT001, FBT002  as in the parent
        cross_encoder_kwargs: dict[str, Any] | None = None,
        *,
        candidates: int | None = None,
    ) -> None:
        """Check the settings; nothing is loaded."""
        if own := sorted(set(OWN_ARGUMENTS) & set(cross_encoder_kwargs or {})):
            raise ConfigError(
                f"cross_encoder_kwargs holds {', '.join(own)}. model and device are "
                "arguments of their own; the activation is always the identity."
            )
        # Not the parent's __init__, which imports torch and loads the model.
        BaseNodePostprocessor.__init__(
            self,
            model=str(model),
            device=device,
            cache_folder=None if cache_folder is None else str(cache_folder),
            top_n=_count("top_n", top_n),
            keep_retrieval_score=keep_retrieval_score,
            cross_encoder_kwargs=cross_encoder_kwargs or {},
            candidates=None if candidates is None else _count("candidates", candidates),
        )

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises the class."""
        return "CrossEncoderRerank"

    @property
    def max_length(self) -> int:
        """Tokens of question and chunk together that are read; the rest is cut off."""
        wanted = int(self.cross_encoder_kwargs.get("max_length", MAX_LENGTH))
        return min(wanted, model_length(Path(self._resolve().path)) or MAX_LENGTH)

    @property
    def fingerprint(self) -> str:
        """Everything that a score depends on beside the texts. Loads no model."""
        others = dict(self.cross_encoder_kwargs)
        others.pop("max_length", None)
        return "-".join(
            [
                self._resolve().fingerprint,
                f"max_length{self.max_length}",
                ACTIVATION,
                *(f"{key}={value!r}" for key, value in sorted(others.items())),
            ]
        )

    def predict(
        self, pairs: Sequence[tuple[str, str]], batch_size: int | None = None
    ) -> list[float]:
        """Score pairs of question and text, of one question or of many.

        sentence-transformers sorts them by length, so that batches hold little padding.

        Args:
            pairs: (question, text), as many as there are.
            batch_size: Pairs read at once; by default 8 on a CPU, where a larger batch
                falls out of its caches, and 32 elsewhere.

        Returns:
            One logit a pair, in the order of the pairs.

        Raises:
            ModelError: The model is not there, is no cross-encoder, or gives NaN.
        """
        if not pairs:
            return []
        model = self._load()
        logits = model.predict(
            list(pairs),
            batch_size=batch_size or batch_size_on(model.device.type),
            activation_fn=_identity,
            show_progress_bar=False,
        )
        scores = [float(logit) for logit in logits]
        for pair, score in zip(pairs, scores, strict=True):
            if math.isnan(score):
                raise ModelError(
                    f"The cross-encoder gave NaN for {pair!r:.200}, which has no place "
                    "in a ranking. Its weights may be damaged, or too large for the "
                    "number type they were loaded with: try float32."
                )
        return scores

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        """Return at most `top_n` new nodes by falling logit; ties stay as they came."""
        if query_bundle is None:
            raise ValueError(
                "A cross-encoder needs the question: give query_bundle or query_str."
            )
        nodes = nodes[: self.candidates]
        if not nodes:
            return []
        question = query_bundle.query_str
        dispatcher.event(
            ReRankStartEvent(
                query=query_bundle,
                nodes=nodes,
                top_n=self.top_n,
                model_name=self.model,
            )
        )
        with self.callback_manager.event(
            CBEventType.RERANKING,
            payload={
                EventPayload.NODES: nodes,
                EventPayload.MODEL_NAME: self.model,
                EventPayload.QUERY_STR: question,
                EventPayload.TOP_K: self.top_n,
            },
        ) as event:
            texts = [hit.node.get_content(MetadataMode.EMBED) for hit in nodes]
            logits = self.predict([(question, text) for text in texts])
            order = sorted(range(len(nodes)), key=lambda i: -logits[i])[: self.top_n]
            ranked = [self._rescored(nodes[i], logits[i]) for i in order]
            event.on_end(payload={EventPayload.NODES: ranked})
        dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _rescored(self, hit: NodeWithScore, logit: float) -> NodeWithScore:
        """Copy a hit under its new score, with the first one beside it."""
        kept = hit.score if self.keep_retrieval_score else None
        return NodeWithScore(node=_copy(hit.node, kept), score=logit)

    def _resolve(self) -> ResolvedModel:
        """Find the model once."""
        if self._resolved is None:
            name = self.model
            if self.cache_folder and not expanded(name).is_dir():
                name = _download(name, self.cache_folder)
            self._resolved = resolve_model(name, kind="cross-encoder")
        return self._resolved

    def _load(self) -> Any:
        """Load the model once, also when several threads ask for it."""
        with _LOADING:
            if self._model is None:
                path = self._resolve().path  # refused before the slow import
                from sentence_transformers import CrossEncoder  # noqa: PLC0415  slow

                with loading(path):
                    self._model = CrossEncoder(
                        path,
                        device=self.device or infer_torch_device(),
                        **self.cross_encoder_kwargs | {"max_length": self.max_length},
                    )
        return self._model


def _count(name: str, value: Any) -> int:
    """Return a number of nodes, or refuse it."""
    if not isinstance(value, Integral) or value < 1:
        raise ConfigError(f"{name} is {value!r}; give a whole number from 1.")
    return int(value)


def _identity(logits: Any) -> Any:
    return logits


def _copy(node: BaseNode, retrieval_score: float | None) -> BaseNode:
    """Copy a node so that no change to it reaches the original, and note a score.

    The score of an earlier reranker does not replace the first stage's.
    """
    metadata = deepcopy(node.metadata)
    unread = []
    if retrieval_score is not None:
        metadata = {RETRIEVAL_SCORE: float(retrieval_score)} | metadata
        unread = [RETRIEVAL_SCORE]
    embed, llm = node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys
    return node.model_copy(
        update={
            "metadata": metadata,
            "relationships": dict(node.relationships),
            "excluded_embed_metadata_keys": list(dict.fromkeys(embed + unread)),
            "excluded_llm_metadata_keys": list(dict.fromkeys(llm + unread)),
        }
    )


def _download(name: str, cache_folder: str) -> str:
    """Return the directory of a hub model kept in a folder of the user's."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415  half a second

    try:
        return snapshot_download(
            name,
            cache_dir=cache_folder,
            allow_patterns=[*HUB_FILES, *HUB_WEIGHTS],
            ignore_patterns=list(HUB_IGNORED),
        )
    except (OSError, ValueError) as error:
        raise ModelError(
            f"There is no cross-encoder {name!r} in {cache_folder}, and the model hub "
            f"did not give it: {error}. Give the directory of one on this machine."
        ) from error

"""Embedding models as an ablation takes them: what identifies one, and how it loads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.utils import infer_torch_device

from scholar_rag_li.ablation.cache import digest
from scholar_rag_li.ablation.config import EmbeddingSettings
from scholar_rag_li.errors import ConfigError
from scholar_rag_li.models import (
    batch_size_on,
    loading,
    local_fingerprint,
    resolve_model,
)


@dataclass(frozen=True)
class EmbeddingSource:
    """An embedding model that may not have to be loaded.

    Args:
        name: as the user wrote it.
        fingerprint: what a vector depends on beside the text, JSON-like.
        load: makes the model.
        path: its directory, where it has one.
        description: one line for the report.
    """

    name: str
    fingerprint: Mapping[str, Any]
    load: Callable[[], BaseEmbedding]
    path: str | None
    description: str
    text_instruction: str = ""


def _no_model() -> BaseEmbedding:
    raise ConfigError("no embedding model is configured; give embedding")


NO_EMBEDDING = EmbeddingSource("none", {}, _no_model, None, "no embedding model")


def embedding_source(
    embedding: EmbeddingSettings | BaseEmbedding | None,
) -> EmbeddingSource:
    """Identify a model by its content or revision; the user's object by what it gives.

    An object of the user's is known by its class, its settings, its weights where they
    are on this machine, and the vectors it gives for two texts: settings that it keeps to
    itself show there. A model whose vectors vary from call to call is asked again in
    every run.

    Raises:
        ModelError: no such model, or one of another kind.
    """
    if embedding is None:
        return NO_EMBEDDING
    if isinstance(embedding, BaseEmbedding):
        settings = digest(_plain(embedding.to_dict())).hex()
        kind = f"{type(embedding).__module__}.{type(embedding).__qualname__}"
        weights = local_fingerprint(embedding.model_name)
        return EmbeddingSource(
            name=embedding.model_name,
            fingerprint={
                "class": kind,
                "settings": settings,
                "model": weights,
                "vectors": _probe(embedding),
            },
            load=lambda: embedding,
            path=None,
            description=f"{kind} {embedding.model_name}",
        )
    model = resolve_model(embedding.model, kind="bi-encoder")

    def load() -> BaseEmbedding:
        from llama_index.embeddings.huggingface import (  # noqa: PLC0415  # imports torch
            HuggingFaceEmbedding,
        )

        with loading(model.path):
            return HuggingFaceEmbedding(
                model_name=model.path,
                embed_batch_size=batch_size_on(infer_torch_device()),
                query_instruction=embedding.query_instruction,
                text_instruction=embedding.text_instruction,
            )

    return EmbeddingSource(
        name=embedding.model,
        fingerprint={
            "model": model.fingerprint,
            "query_instruction": embedding.query_instruction,
            "text_instruction": embedding.text_instruction,
        },
        load=load,
        path=model.path,
        description=model.description,
        text_instruction=embedding.text_instruction,
    )


def _probe(embedding: BaseEmbedding) -> str:
    """Hash the vectors of a text and of a question, rounded beyond a last bit's reach."""
    text = embedding.get_text_embedding("La sonda mide 12,5 mg/l.")
    question = embedding.get_query_embedding("¿Qué mide la sonda?")
    return digest([round(number, 5) for number in [*text, *question]]).hex()


def _plain(value: Any) -> Any:
    """Make a settings tree JSON-like; what has no such form counts by its class."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return f"{type(value).__module__}.{type(value).__qualname__}"

"""An embedding model whose texts and questions are embedded once, ever."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from scholar_rag_li.ablation.cache import VECTOR, Cache, Work

BATCH_SIZE = 32


class CachedEmbedding(BaseEmbedding):
    """A LlamaIndex embedding model behind the cache; loaded when something is missing.

    Args:
        load: makes the model; called at most once, and not at all when all is known.
        fingerprint: what identifies the model and its prefixes, JSON-like.
        cache: keeps the vectors.
    """

    _load: Callable[[], BaseEmbedding] = PrivateAttr()
    _fingerprint: Mapping[str, Any] = PrivateAttr()
    _cache: Cache = PrivateAttr()
    _model: BaseEmbedding | None = PrivateAttr(default=None)

    def __init__(
        self,
        load: Callable[[], BaseEmbedding],
        fingerprint: Mapping[str, Any],
        cache: Cache,
    ) -> None:
        """Load nothing yet."""
        super().__init__(model_name=str(fingerprint.get("model", "cached")))
        self._load, self._fingerprint, self._cache = load, fingerprint, cache

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What identifies the model and its prefixes."""
        return self._fingerprint

    @property
    def model(self) -> BaseEmbedding:
        """The model itself, loaded at first use."""
        if self._model is None:
            self._model = self._load()
        return self._model

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed chunk texts, in batches of similar length.

        Returns:
            One vector per text, in their order.
        """

        def compute(batch: Sequence[str]) -> list[list[float]]:
            return self.model.get_text_embedding_batch(list(batch))

        return self._cache.get(
            self._work("embedding texts", "text", compute), list(texts)
        )

    def embed_questions(self, questions: Sequence[str]) -> list[list[float]]:
        """Embed questions; one vector per question, in their order."""

        def compute(batch: Sequence[str]) -> list[list[float]]:
            return [self.model.get_query_embedding(each) for each in batch]

        return self._cache.get(
            self._work("embedding questions", "question", compute), list(questions)
        )

    def _work(
        self,
        kind: str,
        side: str,
        compute: Callable[[Sequence[str]], list[list[float]]],
    ) -> Work[str, list[float]]:
        return Work(
            kind=kind,
            key=lambda text: {"model": self._fingerprint, side: text},
            compute=compute,
            codec=VECTOR,
            batch_size=BATCH_SIZE,
            order=lambda text: (len(text), text),
        )

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.embed_texts([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self.embed_texts(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.embed_questions([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

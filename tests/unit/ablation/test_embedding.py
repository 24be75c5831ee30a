"""An embedding model behind the cache: same vectors, each asked for once."""

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from scholar_rag_li.ablation.cache import Cache
from scholar_rag_li.ablation.embedding import BATCH_SIZE, CachedEmbedding


class Counting(BaseEmbedding):
    """Embeds a text as (its length, 0) and a question as (its length, 1)."""

    _batches: list = PrivateAttr(default_factory=list)
    _questions: list = PrivateAttr(default_factory=list)

    def _get_text_embedding(self, text):
        return [float(len(text)), 0.0]

    def get_text_embedding_batch(self, texts, **_):
        self._batches.append(texts)
        return [self._get_text_embedding(text) for text in texts]

    def _get_query_embedding(self, query):
        self._questions.append(query)
        return [float(len(query)), 1.0]

    async def _aget_query_embedding(self, query):
        raise AssertionError(f"{query!r} asked past the cache")


FINGERPRINT = {"model": "counting", "text_instruction": "passage: "}


@pytest.fixture
def model():
    """The model itself."""
    return Counting()


@pytest.fixture
def embedding(model, cache):
    """The model behind a cache."""
    return CachedEmbedding(lambda: model, FINGERPRINT, cache)


def unloadable():
    """Stand for a model that must not be loaded."""
    raise AssertionError("the model was loaded")


def test_texts_in_their_order(embedding):
    """Vectors come in the order of the texts, repeated ones too."""
    assert embedding.embed_texts(["aaa", "a", "aaa"]) == [[3, 0], [1, 0], [3, 0]]


def test_texts_are_embedded_once_by_length(embedding, model):
    """The model gets each distinct text once, the shorter first, ties by the text."""
    embedding.embed_texts(["ccc", "b", "ccc", "a"])
    assert model._batches == [["a", "b", "ccc"]]


def test_texts_go_in_batches(embedding, model):
    """One text more than a batch holds makes two batches."""
    embedding.embed_texts(["a" * n for n in range(1, BATCH_SIZE + 2)])
    assert [len(batch) for batch in model._batches] == [BATCH_SIZE, 1]


def test_a_text_and_a_question_are_not_the_same(embedding):
    """The same words have a vector as a text and another as a question."""
    assert (embedding.embed_texts(["agua"]), embedding.embed_questions(["agua"])) == (
        [[4, 0]],
        [[4, 1]],
    )


def test_known_texts_load_no_model(embedding, memory):
    """A second run over known texts and questions never loads the model."""
    embedding.embed_texts(["a"])
    embedding.embed_questions(["b"])
    again = CachedEmbedding(unloadable, FINGERPRINT, Cache(memory))
    found = again.embed_texts(["a"]), again.embed_questions(["b"])
    assert found == ([[1, 0]], [[1, 1]])


def test_the_model_is_loaded_once(cache, model):
    """However much is missing, the model is loaded once."""
    loads = []
    embedding = CachedEmbedding(lambda: loads.append(1) or model, FINGERPRINT, cache)
    embedding.embed_texts(["a"])
    embedding.embed_questions(["b"])
    assert loads == [1]


@pytest.mark.parametrize("part", FINGERPRINT)
def test_another_fingerprint_is_another_model(embedding, memory, model, part):
    """Another model, or another prefix, embeds the same text again."""
    embedding.embed_texts(["a"])
    CachedEmbedding(
        lambda: model, FINGERPRINT | {part: "other"}, Cache(memory)
    ).embed_texts(["a"])
    assert model._batches == [["a"], ["a"]]


def test_llamaindex_text_calls_go_through_the_cache(embedding, model):
    """get_text_embedding and its batch ask the model once for the same text."""
    found = embedding.get_text_embedding("a"), embedding.get_text_embedding_batch(["a"])
    assert (found, model._batches) == (([1, 0], [[1, 0]]), [["a"]])


async def test_llamaindex_question_calls_go_through_the_cache(embedding, model):
    """get_query_embedding and its async form ask the model once for the same words."""
    found = (
        embedding.get_query_embedding("a"),
        await embedding.aget_query_embedding("a"),
    )
    assert (found, model._questions) == (([1, 1], [1, 1]), ["a"])


def test_named_by_its_model(embedding):
    """LlamaIndex's model name is the fingerprint's."""
    assert embedding.model_name == "counting"

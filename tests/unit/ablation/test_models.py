"""What an embedding is known by: settings, and the vectors that it gives."""

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from scholar_rag_li.ablation.models import NO_EMBEDDING, embedding_source
from scholar_rag_li.errors import ConfigError


class Secret(BaseEmbedding):
    """Keeps to itself what its vectors are made of."""

    _text: float = PrivateAttr()
    _query: float = PrivateAttr()

    def __init__(self, text=1.0, query=2.0, **settings):
        super().__init__(**settings)
        self._text, self._query = text, query

    def _get_text_embedding(self, text):
        return [self._text, float(len(text))]

    def _get_query_embedding(self, query):
        return [self._query, float(len(query))]

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


def fingerprint(*args, **settings):
    """What is known of an object."""
    return embedding_source(Secret(*args, **settings)).fingerprint


def test_no_embedding_is_none():
    """Without an embedding there is a source that has nothing."""
    assert embedding_source(None) is NO_EMBEDDING


def test_no_embedding_can_t_be_loaded():
    """What asks for a model all the same is told what to give."""
    with pytest.raises(ConfigError) as caught:
        NO_EMBEDDING.load()
    assert str(caught.value) == "no embedding model is configured; give embedding"


def test_equal_objects_are_one_model():
    """Two objects that give the same vectors share what was computed."""
    assert fingerprint() == fingerprint()


def test_a_private_attribute_shows_in_the_vectors_of_texts():
    """Settings alike, but for what is kept private: other vectors, another model."""
    one, other = fingerprint(text=1.0), fingerprint(text=1.5)
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {"vectors"}


def test_a_private_attribute_shows_in_the_vectors_of_questions():
    """A model may treat questions otherwise, so they are asked too."""
    one, other = fingerprint(query=2.0), fingerprint(query=2.5)
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {"vectors"}


def test_a_last_bit_makes_no_other_model():
    """What differs by a machine's last bit is rounded away at five decimals."""
    assert fingerprint(text=1.0) == fingerprint(text=1.0 + 1e-9)


def test_settings_count_though_the_vectors_are_the_same():
    """Another setting is another model: it may show on other texts."""
    one, other = fingerprint(), fingerprint(model_name="other")
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {"settings"}


def test_classes_count():
    """Another class is another model."""
    other = embedding_source(MockEmbedding(2)).fingerprint
    assert fingerprint()["class"] != other["class"]

"""The cross-encoder stage with real weights, against sentence-transformers itself."""

import math
import os
import shutil

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from torch.nn import Identity

from scholar_rag_li.demo import offline_models
from scholar_rag_li.errors import ModelError
from scholar_rag_li.rerank import CrossEncoderRerank

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # transformers, torch
]

QUESTION = "How much water does the city use?"
TEXTS = [
    "The museum opens at nine.",
    "The city uses 12 million litres of water a day.",
    "Water is wet.",
    "Litres are a unit of volume. " * 200,  # beyond the model's 512 tokens
]


@pytest.fixture(scope="module")
def models():
    return offline_models()


@pytest.fixture(scope="module")
def reranker(models):
    return CrossEncoderRerank(str(models[1]), device="cpu", top_n=len(TEXTS))


@pytest.fixture(scope="module")
def reference(models):
    """Score with the library alone, logits as they are."""
    from sentence_transformers import CrossEncoder  # noqa: PLC0415  slow

    model = CrossEncoder(str(models[1]), device="cpu", max_length=512)
    pairs = [(QUESTION, text) for text in TEXTS]
    return model.predict(pairs, activation_fn=Identity()).tolist()


def test_logits_are_those_of_the_library(reranker, reference):
    """The same model, the same pairs, no activation."""
    found = reranker.predict([(QUESTION, text) for text in TEXTS])
    assert found == pytest.approx(reference, abs=1e-4)


def test_the_order_is_that_of_the_library(reranker, reference):
    """By falling logit."""
    hits = [
        NodeWithScore(node=TextNode(id_=str(i), text=text), score=0.5)
        for i, text in enumerate(TEXTS)
    ]
    found = reranker.postprocess_nodes(hits, query_str=QUESTION)
    expected = sorted(range(len(TEXTS)), key=lambda i: -reference[i])
    assert [int(hit.node_id) for hit in found] == expected


def test_scores_do_not_depend_on_the_company(reranker, reference):
    """One pair a call gives what one call gives, up to the noise of padding."""
    found = [reranker.predict([(QUESTION, text)])[0] for text in TEXTS]
    assert found == pytest.approx(reference, abs=1e-4)


def test_the_bi_encoder_is_refused(models):
    """The demo's own embedder is no cross-encoder."""
    with pytest.raises(ModelError, match="no cross-encoder"):
        CrossEncoderRerank(str(models[0])).predict([(QUESTION, "text")])


def test_weights_cut_short_are_a_model_error(models, tmp_path):
    """As an interrupted copy leaves them: the directory is named."""
    copy = shutil.copytree(models[1], tmp_path / "m")
    os.truncate(copy / "model.safetensors", 100)
    with pytest.raises(ModelError, match=f"the model in {copy} can't be loaded"):
        CrossEncoderRerank(str(copy), device="cpu").predict([(QUESTION, "text")])


def test_a_short_model_reads_a_long_text(models, tmp_path):
    """128 positions and a text of some 1,400 tokens: cut off, not a crash."""
    from transformers import (  # noqa: PLC0415  slow
        AutoTokenizer,
        BertConfig,
        BertForSequenceClassification,
    )

    config = BertConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=128,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(models[1])
    tokenizer.model_max_length = 10**30
    tokenizer.save_pretrained(tmp_path)
    (logit,) = CrossEncoderRerank(str(tmp_path), device="cpu").predict(
        [(QUESTION, TEXTS[3])]
    )
    assert math.isfinite(logit)

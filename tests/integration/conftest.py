"""A small corpus, a quick embedder and an ablation over both."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding

EXAMPLES = Path(__file__).parents[2] / "examples"
THESES = (
    "tesis-agua-rio-almar",
    "tesis-parque-eolico-incidencias",
    "tesis-vinedo-riego-deficitario",
)
QUESTIONS = 30


class WordEmbedding(BaseEmbedding):
    """Counts of hashed words: quick, deterministic, similar for texts that share words."""

    model_name: str = "words"
    prefix: str = ""

    def _get_text_embedding(self, text):
        vector = [0.0] * 48
        for word in (self.prefix + text).lower().split():
            vector[hashlib.sha256(word.encode()).digest()[0] % 48] += 1
        return vector

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


@pytest.fixture
def embedding():
    return WordEmbedding()


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A folder with three of the bundled theses and thirty of their questions."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "corpus").mkdir()
    for name in THESES:
        shutil.copy(EXAMPLES / "tesis" / "corpus" / f"{name}.txt", folder / "corpus")
    lines = (EXAMPLES / "tesis" / "gold.jsonl").read_text("utf-8").splitlines()
    chosen = [line for line in lines if json.loads(line)["doc_id"] in THESES]
    (folder / "gold.jsonl").write_text("\n".join(chosen[:QUESTIONS]), "utf-8")
    return folder


@pytest.fixture
def factors():
    """Levels of every factor, small enough to run in a second."""
    return {
        "chunkers": {
            "fixed-500": {"kind": "fixed", "chunk_size": 500, "chunk_overlap": 75},
            "sentence-500": {
                "kind": "sentence",
                "chunk_size": 500,
                "chunk_overlap": 75,
            },
        },
        "retrievers": {
            "vector": {"kind": "vector"},
            "bm25": {"kind": "bm25"},
            "hybrid": {"kind": "hybrid", "legs": ["vector", "bm25"]},
        },
        "rrf_k": [10, 60],
    }


@pytest.fixture(scope="session")
def models():
    """The real bi-encoder and cross-encoder, built once by `make models`."""
    from scholar_rag_li.demo import offline_models  # noqa: PLC0415  # only if asked for

    return offline_models()

"""A run that was killed goes on where it was, and ends with the same bytes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

DRIVER = """
import sys, time
sys.path.insert(0, {tests!r})
from conftest import WordEmbedding
from scholar_rag_li import Ablation, System, load_corpus
from scholar_rag_li.ablation import Settings


class Slow(WordEmbedding):
    def _get_text_embeddings(self, texts):
        time.sleep(0.15)
        with open({log!r}, "a") as file:
            file.write("".join(f"{{hash_(text)}}\\n" for text in texts))
        return super()._get_text_embeddings(texts)


def hash_(text):
    import hashlib
    return hashlib.sha256(text.encode()).hexdigest()


corpus = load_corpus({corpus!r}, {gold!r})
Ablation(
    corpus,
    embedding=Slow(model_name={name!r}),
    chunkers={{
        "fixed-300": {{"kind": "fixed", "chunk_size": 300, "chunk_overlap": 0}},
        "fixed-500": {{"kind": "fixed", "chunk_size": 500, "chunk_overlap": 0}},
    }},
    retrievers={{
        "vector": {{"kind": "vector"}},
        "bm25": {{"kind": "bm25"}},
        "hybrid": {{"kind": "hybrid", "legs": ["vector", "bm25"]}},
    }},
    rrf_k=[10, 60],
    baseline=System("fixed-500", "hybrid", 60),
    settings=Settings(latency_questions=0),
).run({out!r}, dsn={dsn!r})
"""
BATCH = 32


@pytest.fixture
def start(small, database, tmp_path):
    """Start an ablation in a process of its own; each name is a cache of its own."""

    def started(name, out):
        script = DRIVER.format(
            tests=str(Path(__file__).parent),
            log=str(tmp_path / f"{name}.log"),
            corpus=str(small / "corpus"),
            gold=str(small / "gold.jsonl"),
            name=name,
            out=str(tmp_path / out),
            dsn=database.url.render_as_string(hide_password=False),
        )
        return subprocess.Popen([sys.executable, "-c", script])  # noqa: S603  # our own

    return started


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_run_goes_on_and_gives_the_same_bytes(start, tmp_path, seed):
    """After kill -9 at a random moment, at most one batch is embedded a second time."""
    whole = start(f"whole{seed}", "whole")
    assert whole.wait(120) == 0
    name = f"killed{seed}"
    process = start(name, "killed")
    log = tmp_path / f"{name}.log"
    _wait_for(log)
    time.sleep(random.Random(seed).uniform(0, 0.6))  # noqa: S311  # a moment, no secret
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    assert start(name, "killed").wait(120) == 0
    embedded = log.read_text().split()
    assert len(embedded) - len(set(embedded)) <= BATCH
    assert _scores(tmp_path / "killed") == _scores(tmp_path / "whole")


def _wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _scores(folder):
    return (folder / "scores.csv").read_bytes()

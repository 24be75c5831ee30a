"""Bad input on the command line: one clear message, exit code 2, nothing written."""

import shutil

import pytest
import yaml
from typer.testing import CliRunner

from scholar_rag_li.cli import app

pytestmark = pytest.mark.integration


@pytest.fixture
def write(small, tmp_path, models):
    """Write a configuration with some keys replaced; returns its path."""
    shutil.copytree(small, tmp_path / "data")
    embedding, cross_encoder = models

    def written(**changed):
        config = {
            "documents": "data/corpus",
            "gold": "data/gold.jsonl",
            "language": "es",
            "embedding": {"model": str(embedding)},
            "chunkers": {
                "base": {"kind": "fixed", "chunk_size": 500, "chunk_overlap": 75},
                "other": {"kind": "sentence", "chunk_size": 500, "chunk_overlap": 75},
            },
            "retrievers": {"bm25": {"kind": "bm25"}},
            "rerankers": {"ce": {"kind": "cross-encoder", "model": str(cross_encoder)}},
            "baseline": {"chunker": "base", "retriever": "bm25"},
            "studies": [{"factor": "chunker", "measure": "recall@5"}],
            **changed,
        }
        path = tmp_path / "ablation.yaml"
        path.write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")
        return path

    return written


def _fails(path, *arguments, tmp_path):
    """Run `ablate`; return what it says, having checked that it says just that."""
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["ablate", str(path), "-o", str(out), *arguments])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not out.exists() or not list(out.iterdir())
    return result.stderr


def _chunker(**settings):
    return {"base": {"kind": "fixed", **settings}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"documents": "nowhere"}, "there is no such file or folder"),
        ({"gold": "nowhere.jsonl"}, "there is no such file"),
        (
            {"chunkers": _chunker(chunk_size=0, chunk_overlap=0)},
            "chunker 'base': chunk_size is 0; give at least 1 character",
        ),
        (
            {"chunkers": _chunker(chunk_size=100, chunk_overlap=100)},
            "chunk_overlap is 100 with chunk_size 100",
        ),
        ({"chunkers": _chunker(size=100)}, "unknown setting size"),
        ({"embedding": {"model": "data"}}, "is no model"),
        (
            {"embeding": {"model": "x"}},
            "embeding: unknown key; allowed here: documents",
        ),
        ({"language": "klingon"}, "klingon"),
    ],
)
def test_a_faulty_configuration_is_told_in_one_message(write, tmp_path, changed, said):
    """The message says what was given, what is allowed and what to do."""
    assert said in _fails(write(**changed), tmp_path=tmp_path)


def test_a_bi_encoder_is_refused_as_cross_encoder(write, tmp_path, models):
    """It would load with a random head and rank at random."""
    level = {"ce": {"kind": "cross-encoder", "model": str(models[0])}}
    path = write(rerankers=level, studies=[{"factor": "reranker", "measure": "rr@10"}])
    assert "is no cross-encoder" in _fails(path, tmp_path=tmp_path)


def test_missing_configuration_is_told(tmp_path):
    """A path that is not there is named."""
    said = _fails(tmp_path / "none.yaml", tmp_path=tmp_path)
    assert "no configuration at" in said


def test_empty_corpus_is_told(write, tmp_path):
    """A folder without text says where was looked, and for what."""
    (tmp_path / "empty").mkdir()
    said = _fails(write(documents="empty"), tmp_path=tmp_path)
    assert "the corpus is empty" in said
    assert ".txt and .md" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            (
                '{"id": "x", "question": "¿Y?", "doc_id": "tesis-agua-rio-almar", '
                '"evidence": [{"quote": "no está en el texto"}]}'
            ),
            'line 1: the quote "no está en el texto" is not in the text of',
        ),
        ('{"id": "x", "question": "¿Y?"}', "give either evidence or doc_ids"),
    ],
)
def test_faulty_gold_is_told_with_its_line(write, tmp_path, line, said):
    """The line, the quote and the document are named."""
    (tmp_path / "gold.jsonl").write_text(line, "utf-8")
    assert said in _fails(write(gold="gold.jsonl"), tmp_path=tmp_path)


def test_duplicate_question_ids_are_told(write, tmp_path):
    """Two questions with one id would overwrite each other's scores."""
    first = (tmp_path / "data/gold.jsonl").read_text("utf-8").splitlines()[0]
    (tmp_path / "gold.jsonl").write_text(f"{first}\n{first}", "utf-8")
    said = _fails(write(gold="gold.jsonl"), tmp_path=tmp_path)
    assert "line 2: the id 'agua-01' occurs a second time" in said


def test_unreachable_server_is_told_without_the_password(write, tmp_path):
    """Host, port and what to check are named; the password is not."""
    dsn = "postgresql://me:secreto@127.0.0.1:1/db"
    said = _fails(write(), "--dsn", dsn, tmp_path=tmp_path)
    assert "127.0.0.1" in said
    assert "secreto" not in said

"""The command line from nothing to a report, with real weights, twice."""

import csv
import json
import shutil
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from scholar_rag_li.cli import app

pytestmark = [pytest.mark.integration, pytest.mark.model]

RUN = """
import sys
from scholar_rag_li.cli import app
app(sys.argv[1:], standalone_mode=False)
print("torch imported:", "torch" in sys.modules)
print("ragas imported:", "ragas" in sys.modules)
"""


@pytest.fixture(scope="module")
def config(small, models, tmp_path_factory):
    """Two chunkings, three retrievers and a reranker over six questions."""
    folder = tmp_path_factory.mktemp("run")
    shutil.copytree(small / "corpus", folder / "corpus")
    lines = (small / "gold.jsonl").read_text("utf-8").splitlines()[:6]
    (folder / "gold.jsonl").write_text("\n".join(lines), "utf-8")
    settings = {
        "documents": "corpus",
        "gold": "gold.jsonl",
        "language": "es",
        "embedding": {
            "model": str(models[0]),
            "query_instruction": "query: ",
            "text_instruction": "passage: ",
        },
        "chunkers": {
            "fixed-1000": {"kind": "fixed"},
            "sentence-1000": {"kind": "sentence"},
        },
        "retrievers": {
            "vector": {"kind": "vector"},
            "bm25": {"kind": "bm25"},
            "hybrid": {"kind": "hybrid", "legs": ["vector", "bm25"]},
        },
        "rrf_k": [10, 60],
        "rerankers": {
            "none": {"kind": "none"},
            "ce": {
                "kind": "cross-encoder",
                "model": str(models[1]),
                "candidates": 10,
            },
        },
        "baseline": {"chunker": "fixed-1000", "retriever": "hybrid", "rrf_k": 60},
        "studies": [
            {"factor": "chunker", "measure": "recall@5", "carry": True},
            {"factor": "retriever", "measure": "recall@5", "reference": "vector"},
            {"factor": "rrf_k", "measure": "recall@5"},
            {"factor": "reranker", "measure": "rr@10"},
        ],
        "settings": {"latency_questions": 1},
    }
    path = folder / "ablation.yaml"
    path.write_text(yaml.safe_dump(settings), "utf-8")
    return path


@pytest.fixture(scope="module")
def outputs(config, database):
    """Run twice into two folders; returns both folders and what was printed."""
    dsn = database.url.render_as_string(hide_password=False)
    found = []
    for name in ("first", "second"):
        folder = config.parent / name
        arguments = ["ablate", str(config), "-o", str(folder), "--dsn", dsn]
        done = subprocess.run(  # noqa: S603  # our own
            [sys.executable, "-c", RUN, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append((folder, done.stdout))
    return found


def test_every_file_is_written(outputs):
    """Scores, summary, latency, manifest, report and TREC files stand in the folder."""
    folder, printed = outputs[0]
    names = {"scores.csv", "summary.csv", "latency.csv", "manifest.json", "report.md"}
    assert names <= {file.name for file in folder.iterdir()}
    assert {file.name for file in (folder / "qrels").iterdir()} == {
        "fixed-1000.qrels",
        "sentence-1000.qrels",
    }
    assert str(folder / "report.md") in printed.replace("\n", "")


def test_four_tables_are_printed_with_their_decisions(outputs):
    """The terminal shows what the report holds."""
    _, printed = outputs[0]
    assert printed.count("Decision: ") == 4


def test_second_run_imports_no_torch_and_gives_the_same_bytes(outputs):
    """A run repeated with nothing changed loads no model."""
    (first, cold), (second, warm) = outputs
    assert "torch imported: True" in cold
    assert "torch imported: False" in warm
    assert "ragas imported: False" in warm
    assert (first / "scores.csv").read_bytes() == (second / "scores.csv").read_bytes()
    assert (first / "report.md").read_bytes() == (second / "report.md").read_bytes()


def test_manifest_names_versions_models_and_settings(outputs):
    """What a reader needs to repeat the run."""
    manifest = json.loads((outputs[0][0] / "manifest.json").read_text("utf-8"))
    assert manifest["settings"]["seed"] == 0
    assert manifest["versions"]["torch"].startswith("2.")
    assert manifest["chunkings"]["fixed-1000"]["embedding"]["window_tokens"] == 512
    assert len(manifest["embedding"]["fingerprint"]["model"]) == 64
    assert manifest["latency"]["cold_ms"].keys() == {"embedding model", "ce"}


def test_scores_have_four_columns_and_no_latency(outputs):
    """Latencies live in latency.csv, never in scores.csv."""
    with (outputs[0][0] / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["system", "question", "measure", "value"]
    assert not [row for row in rows if "ms" in row[2] or "latency" in row[2]]


def test_a_new_level_of_each_factor_is_a_line_of_configuration(
    config, outputs, database
):
    """One line a factor adds its systems, and leaves the scores of the others alone."""
    settings = yaml.safe_load(config.read_text("utf-8"))
    size = {"kind": "fixed", "chunk_size": 1500, "chunk_overlap": 200}
    weighted = {"kind": "hybrid", "legs": ["vector", "bm25"], "weights": [2, 1]}
    settings["chunkers"]["fixed-1500"] = size
    settings["retrievers"]["heavy"] = weighted
    settings["rrf_k"].append(200)
    settings["rerankers"]["ce-12"] = {**settings["rerankers"]["ce"], "candidates": 12}
    # so that the same level is carried on whatever the new one scores
    settings["studies"][0]["carry"] = False
    settings["settings"]["latency_questions"] = 0
    path = config.parent / "more.yaml"
    path.write_text(yaml.safe_dump(settings), "utf-8")
    folder = config.parent / "third"
    dsn = database.url.render_as_string(hide_password=False)
    done = CliRunner().invoke(
        app, ["ablate", str(path), "-o", str(folder), "--dsn", dsn]
    )
    assert done.exit_code == 0, done.output
    before, after = _scores(outputs[0][0]), _scores(folder)
    assert {system for system, _, _ in after} - {system for system, _, _ in before} == {
        "fixed-1500+hybrid-rrf60",
        "fixed-1000+heavy-rrf60",
        "fixed-1000+hybrid-rrf200",
        "fixed-1000+hybrid-rrf60+ce-12",
    }
    # the new reranker adds the measures at its own depth, which the first run had not
    assert {key: after[key] for key in before} == before


def _scores(folder):
    with (folder / "scores.csv").open(encoding="utf-8") as file:
        return {tuple(row[:3]): row[3] for row in list(csv.reader(file))[1:]}

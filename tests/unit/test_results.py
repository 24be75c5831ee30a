"""The result folder: written and read back, the same bytes, and files for trec_eval."""

import csv
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholar_rag_li.errors import ConfigError
from scholar_rag_li.results import (
    QuestionInfo,
    Results,
    Study,
    Timing,
    clear_results,
    read_results,
    write_qrels,
    write_results,
    write_run,
)

NAMES = ["fixed 1000/150", "ñandú, «x»", 'with "quotes"', "a/b#c"]
FILES = ["latency.csv", "manifest.json", "questions.csv", "scores.csv", "summary.csv"]


def results_of(values=(1.0, 0.0, 1 / 3, 0.1 + 0.2)):
    """Make results of two systems on four questions of three groups and two kinds."""
    questions = tuple(
        QuestionInfo(name, kind, group)
        for name, kind, group in zip(NAMES, "baba", "gghi", strict=True)
    )
    column = dict(zip(NAMES, values, strict=True))
    return Results(
        manifest={"settings": {"delta": 0.05}, "models": ["é"]},
        questions=questions,
        studies=(Study("rrf_k", {"10": "s, 1", "60": "s2"}, "60", "recall@5"),),
        scores={
            "s, 1": {"recall@5": column},
            "s2": {"recall@5": dict.fromkeys(NAMES, 0.5)},
        },
        timings=(Timing("s2", NAMES[0], 0, 12.5), Timing("s2", NAMES[1], 0, 3.25)),
    )


@pytest.fixture
def folder(tmp_path):
    """A folder that `write_results` has filled."""
    write_results(results_of(), tmp_path / "out")
    return tmp_path / "out"


def test_results_read_back_as_they_were(folder):
    """Names with commas, quotes and accents; scores to the last bit."""
    assert read_results(folder) == results_of()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_every_score_reads_back_to_the_last_bit(tmp_path_factory, values):
    """Scores are written by repr, not rounded."""
    results = results_of(values)
    folder = tmp_path_factory.mktemp("out")
    write_results(results, folder)
    assert read_results(folder).scores == results.scores


def test_the_same_results_give_the_same_bytes(folder, tmp_path):
    """In whatever order the scores were found, and written over what was there."""
    given_ = results_of()
    other = Results(
        given_.manifest,
        given_.questions,
        given_.studies,
        {
            system: {
                name: dict(reversed(column.items())) for name, column in rows.items()
            }
            for system, rows in reversed(given_.scores.items())
        },
        given_.timings,
    )
    write_results(results_of((0, 0, 0, 0)), tmp_path / "again")
    write_results(other, tmp_path / "again")
    assert {name: (tmp_path / "again" / name).read_bytes() for name in FILES} == {
        name: (folder / name).read_bytes() for name in FILES
    }


def test_the_folder_holds_the_files_it_promises(folder):
    """No more and no less before runs and qrels are written."""
    assert sorted(each.name for each in folder.iterdir()) == FILES


def test_lines_end_alike_everywhere(folder):
    """A newline, not the csv module's CR LF."""
    assert not [name for name in FILES if b"\r" in (folder / name).read_bytes()]


def test_scores_are_one_row_each(folder):
    """System, question, measure, value; two systems with four questions."""
    with (folder / "scores.csv").open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    assert (heading, len(rows)) == (["system", "question", "measure", "value"], 2 * 4)


def test_the_summary_states_n_and_mean(folder):
    """(1 + 0 + 1/3 + .3) / 4 = .408333, and .5 of s2 without spread."""
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = [row[:4] for row in csv.reader(file)][1:]
    assert rows == [
        ["s, 1", "recall@5", "4", f"{(1 + 1 / 3 + 0.3) / 4:.6f}"],
        ["s2", "recall@5", "4", "0.500000"],
    ]


def test_latency_is_no_score(folder):
    """Latencies live in latency.csv alone."""
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in FILES}
    assert [name for name in FILES if "12.500" in texts[name]] == ["latency.csv"]


def test_a_folder_without_results_is_refused(tmp_path):
    """The message says what is missing and what to name instead."""
    with pytest.raises(ConfigError, match=r"no manifest\.json.*that `ablate` wrote"):
        read_results(tmp_path)


def test_a_column_is_in_the_order_of_the_questions():
    """So that pairs of a paired test can't slip."""
    results = results_of()
    results.scores["s, 1"]["recall@5"] = dict(
        reversed(results.scores["s, 1"]["recall@5"].items())
    )
    assert list(results.column("s, 1", "recall@5")) == NAMES


def test_a_column_of_some_questions():
    """Those that are named, in their order."""
    assert results_of().column("s, 1", "recall@5", NAMES[1::-1]) == {
        NAMES[1]: 0.0,
        NAMES[0]: 1.0,
    }


def test_the_mean_of_some_questions():
    """(1 + 0) / 2."""
    assert results_of().mean("s, 1", "recall@5", NAMES[:2]) == 0.5


def test_a_system_that_was_not_run_names_those_that_were():
    """Both of them."""
    with pytest.raises(ConfigError, match="'s3'; there are: s, 1, s2"):
        results_of().column("s3", "recall@5")


def test_a_measure_that_was_not_run_names_those_that_were():
    """Of that system."""
    with pytest.raises(ConfigError, match="'rr@5' for 's2'; there are: recall@5"):
        results_of().column("s2", "rr@5")


def test_kinds_are_in_alphabetical_order():
    """Each with its questions in the order of the gold."""
    kinds = {"a": [NAMES[1], NAMES[3]], "b": [NAMES[0], NAMES[2]]}
    assert list(results_of().kinds.items()) == list(kinds.items())


def test_groups_are_by_question():
    """The unit of intervals and tests."""
    assert results_of().groups == dict(zip(NAMES, "gghi", strict=True))


def test_settings_are_read_from_the_manifest():
    """Delta of this run is .05."""
    assert results_of().setting("delta") == 0.05


def test_latencies_are_sorted():
    """Of one system, rising."""
    results = results_of()
    assert (results.milliseconds("s2"), results.milliseconds("s, 1")) == (
        [3.25, 12.5],
        [],
    )


def test_a_run_has_six_columns_and_minus_the_rank(tmp_path):
    """Ids are percent-encoded, so that blanks don't make columns."""
    write_run(tmp_path / "runs" / "s.trec", "my system", {"q 1": ["d#0", "d/é#1"]})
    assert (tmp_path / "runs" / "s.trec").read_text(encoding="utf-8") == (
        "q%201 Q0 d#0 1 -1 my%20system\nq%201 Q0 d%2F%C3%A9#1 2 -2 my%20system\n"
    )


def test_qrels_have_a_line_per_relevant_chunk(tmp_path):
    """And one of relevance 0 for a question that no chunk reaches."""
    write_qrels(tmp_path / "c.qrels", {"q 1": ["d#0", "d#1"], "q2": []})
    assert (tmp_path / "c.qrels").read_text(encoding="utf-8") == (
        "q%201 0 d#0 1\nq%201 0 d#1 1\nq2 0 - 0\n"
    )


# making a folder ready


def contents(folder):
    """Return the files of a folder, relative to it."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    return sorted(str(each.relative_to(folder)) for each in files)


def test_a_folder_is_made(tmp_path):
    """With those above it, and empty."""
    clear_results(tmp_path / "a" / "b")
    assert (contents(tmp_path), (tmp_path / "a" / "b").is_dir()) == ([], True)


def test_all_of_an_earlier_ablation_is_removed(folder):
    """Tables, report, runs and qrels: systems of another plan don't stay behind."""
    (folder / "report.md").write_text("old")
    write_run(folder / "runs" / "s.trec", "s", {"q": ["d"]})
    write_qrels(folder / "qrels" / "c.qrels", {"q": ["d"]})
    clear_results(folder)
    assert contents(folder) == []


def test_nothing_of_the_user_s_is_removed(folder):
    """Files that no ablation writes stay, whatever their folder."""
    mine = ["notes.md", "qrels/mine.txt", "runs/mine.csv", "runs/old/s.trec", "a.csv"]
    for name in mine:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    clear_results(folder)
    assert contents(folder) == sorted(mine)


def test_a_folder_of_no_ablation_is_left_alone(folder):
    """Without a manifest the files are somebody else's, though named alike."""
    (folder / "manifest.json").unlink()
    before = contents(folder)
    clear_results(folder)
    assert contents(folder) == before


def test_a_file_is_no_folder(tmp_path):
    """The message names it, and says what to do."""
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError) as caught:
        clear_results(tmp_path / "out")
    assert str(caught.value) == (
        f"no results can be written to {tmp_path / 'out'} (File exists); name a folder "
        "that can be written"
    )


def test_a_folder_that_can_t_be_written_is_refused(tmp_path, monkeypatch):
    """Before anything is computed a file is tried: what is refused is told."""

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(ConfigError, match=r"\(Permission denied\); name a folder"):
        clear_results(tmp_path)

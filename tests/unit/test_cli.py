"""The command line: what it shows, where it says it, and how it ends."""

import signal
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from scholar_rag_li import cli
from scholar_rag_li.demo import examples_dir
from scholar_rag_li.errors import ModelError
from scholar_rag_li.results import QuestionInfo, Results, Study

CONFIG = examples_dir() / "tesis" / "ablation.yaml"
COMMANDS = list(typer.main.get_command(cli.app).commands)


def call(*arguments):
    """Run the command line; what fails in another way than by an exit code is raised."""
    wide = {"COLUMNS": "200", "TERM": "dumb"}
    result = CliRunner(env=wide).invoke(cli.app, [str(each) for each in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def raising(error):
    """Make a function that fails."""

    def fail(*_, **__):
        raise error

    return fail


# help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_command(command):
    """Every command stands in the help, with a line of its own."""
    lines = [
        line.strip("│ ").split(" ")[0] for line in call("--help").stdout.splitlines()
    ]
    assert command in lines


def test_the_commands_are_there():
    """`ablate` and `demo` are what the package is started with."""
    assert {"ablate", "demo"} <= set(COMMANDS)


def test_no_command_shows_the_help():
    """Without a command the help is shown."""
    assert "Usage: " in call().output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command):
    """No argument or option is without help."""
    parameters = typer.main.get_command(cli.app).commands[command].params
    assert [each.name for each in parameters if not each.help] == []


def test_ablate_has_an_example():
    """The help shows a line to copy."""
    shown = call("ablate", "--help").stdout
    assert "scholar-rag-li ablate ablation.yaml --output report" in shown


# bad input


def test_a_missing_file_is_exit_code_2(tmp_path):
    """A file that is not there is the user's to mend."""
    assert call("ablate", tmp_path / "nothing.yaml").exit_code == 2


def test_a_missing_file_is_one_line(tmp_path):
    """One line, and no traceback."""
    path = tmp_path / "nothing.yaml"
    assert call("ablate", path).stderr == (
        f"Error: no configuration at {path}: there is no such file\n"
    )


def test_errors_go_to_stderr(tmp_path):
    """What is piped on holds no error."""
    assert call("ablate", tmp_path / "nothing.yaml").stdout == ""


def test_every_problem_of_a_file_is_told(tmp_path):
    """A heading and a line per problem: four keys are missing, one is unknown."""
    path = tmp_path / "ablation.yaml"
    path.write_text("documents: x\ngold: x\nextra: 1\n")
    heading, *problems = call("ablate", path).stderr.splitlines()
    assert (heading, len(problems)) == (f"Error: {path} can't be used:", 4 + 1)


def test_names_in_brackets_are_shown_as_they_are(tmp_path):
    """A file called [red] is named so, not coloured."""
    assert "[red].yaml" in call("ablate", tmp_path / "[red].yaml").stderr


def test_long_lines_are_not_broken(tmp_path):
    """A path longer than the terminal stays in one piece, to be copied."""
    path = tmp_path / ("long" * 60) / "a.yaml"
    assert str(path) in call("ablate", path).stderr


def test_a_missing_argument_is_exit_code_2():
    """A command that is not complete says what is missing."""
    result = call("ablate")
    assert (result.exit_code, "Missing argument" in result.stderr) == (2, True)


def test_an_unwritable_place_is_exit_code_2(monkeypatch):
    """What the operating system refuses is a message too."""
    refusal = PermissionError(13, "Permission denied", "/root/report")
    monkeypatch.setattr(cli, "read_config", raising(refusal))
    result = call("ablate", CONFIG)
    assert (result.exit_code, "Permission denied" in result.stderr) == (2, True)


def test_models_that_are_not_to_be_had(monkeypatch):
    """The demo says why it can't start."""
    monkeypatch.setattr(cli, "demo_models", raising(ModelError("no models")))
    result = call("demo")
    assert (result.exit_code, result.stderr) == (2, "Error: no models\n")


def test_a_fault_of_the_program_is_not_hidden(monkeypatch):
    """What the user can't mend keeps its traceback."""
    monkeypatch.setattr(cli, "read_config", raising(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        call("ablate", CONFIG)


def test_an_interrupt_says_that_work_is_kept(monkeypatch):
    """Ctrl-C ends with the shells' 130, and how to go on."""
    monkeypatch.setattr(cli, "read_config", raising(KeyboardInterrupt()))
    result = call("ablate", CONFIG)
    assert (result.exit_code, result.stderr) == (
        130,
        "Stopped. What is done is kept; run the same command to go on.\n",
    )


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_being_told_to_end_is_an_interrupt(monkeypatch, name):
    """SIGTERM and a closed terminal end as Ctrl-C does, servers stopped on the way."""

    def told(_):
        signal.raise_signal(getattr(signal, name))

    monkeypatch.setattr(cli, "read_config", told)
    result = call("ablate", CONFIG)
    assert (result.exit_code, result.stderr) == (
        130,
        "Stopped. What is done is kept; run the same command to go on.\n",
    )


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ModelError("no"), ZeroDivisionError("a bug")]
)
def test_signals_are_handled_as_before(monkeypatch, error):
    """However a command ends, a program that called it has its handlers back."""
    signals = signal.SIGTERM, signal.SIGHUP, signal.SIGINT
    before = [signal.getsignal(number) for number in signals]
    monkeypatch.setattr(cli, "read_config", raising(error))
    with suppress(ZeroDivisionError):
        call("ablate", CONFIG)
    assert [signal.getsignal(number) for number in signals] == before


def test_a_missing_extra_is_one_line(monkeypatch):
    """What has to be installed is said without traceback."""
    error = ImportError("onnx is missing; pip install 'scholar-rag-li[models]'")
    monkeypatch.setattr(cli, "demo_models", raising(error))
    result = call("demo")
    assert (result.exit_code, result.stderr) == (2, f"Error: {error}\n")


# a run, with an ablation that is done already

WHERE = {"dsn": None, "directory": None, "time_again": False}
STUDY = Study("rrf_k", {"10": "a", "60": "b"}, "60", "recall@5")
QUESTIONS = tuple(QuestionInfo(f"q{i}", "text", f"q{i}") for i in range(3))
RESULTS = Results(
    {
        "settings": {
            "alpha": 0.05,
            "delta": 0.05,
            "budget_ms": None,
            "seed": 0,
            "depth": 20,
            "coverage": 1,
        },
        "language": "es",
        "baseline": "b",
        "unit": "question",
        "corpus": {"documents": 1},
        "legs": {},
        "unjudged": [],
        "embedding": {"name": "e5", "fingerprint": {}},
        "rerankers": {"none": None},
        "chunkings": {},
        "versions": {},
        "hardware": {"cpus": 1, "processor": "none"},
    },
    QUESTIONS,
    (STUDY,),
    {
        system: {
            measure: {q.question: 1.0 for q in QUESTIONS}
            for measure in ("recall@5", "recall@10", "rr@10")
        }
        for system in "ab"
    },
)


@pytest.fixture
def started(monkeypatch):
    """Take the place of the ablation; what it was started with."""
    calls = SimpleNamespace(results=RESULTS, study=STUDY)

    class Done:
        @classmethod
        def from_config(cls, config):
            calls.config = config
            return cls()

        def run(self, output, *, progress, on_study, **where):
            calls.output, calls.where = output, where
            progress("embedding texts", 0, 2)
            progress("embedding texts", 2, 2)
            on_study(calls.results, calls.study)

    monkeypatch.setattr(cli, "Ablation", Done)
    return calls


def test_ablate_ends_well(started, tmp_path):  # noqa: ARG001  # the ablation's stand-in
    """A run that is done has exit code 0."""
    assert call("ablate", CONFIG, "-o", tmp_path).exit_code == 0


def test_ablate_reads_the_file_that_is_named(started, tmp_path):
    """The configuration is the file's."""
    call("ablate", CONFIG, "-o", tmp_path)
    assert started.config == cli.read_config(CONFIG)


def test_ablate_hands_on_the_folder(started, tmp_path):
    """The ablation writes its report into the folder that was named."""
    call("ablate", CONFIG, "--output", tmp_path)
    assert started.output == tmp_path


def test_ablate_says_where_the_report_is(started, tmp_path):  # noqa: ARG001  # as above
    """The last line is where to look, in full."""
    last = call("ablate", CONFIG, "-o", tmp_path).stdout.splitlines()[-1]
    assert last == f"Report: {tmp_path / 'report.md'}"


def test_ablate_shows_each_study(started, tmp_path):  # noqa: ARG001  # as above
    """The table of a study is on stdout as soon as it is done."""
    shown = call("ablate", CONFIG, "-o", tmp_path).stdout
    assert "recall@5 by rrf_k, n = 3 questions in 3 groups" in shown


def test_ablate_shows_what_follows(started, tmp_path):  # noqa: ARG001  # as above
    """The decision stands below its table."""
    shown = call("ablate", CONFIG, "-o", tmp_path).stdout
    assert "• Decision: use `60`" in shown


def test_progress_goes_to_stderr(started, tmp_path):  # noqa: ARG001  # as above
    """What is being computed does not mix with the tables; a line where no terminal is."""
    result = call("ablate", CONFIG, "-o", tmp_path)
    assert ("embedding texts: 2" in result.stderr, "embedding" in result.stdout) == (
        True,
        False,
    )


def test_ablate_hands_on_where_the_database_is(started, tmp_path):
    """DSN and data directory reach the run."""
    options = ("--dsn", "postgresql://h/d", "--data-directory", tmp_path / "pg")
    call("ablate", CONFIG, "-o", tmp_path, *options)
    assert started.where == WHERE | {
        "dsn": "postgresql://h/d",
        "directory": tmp_path / "pg",
    }


def test_the_database_is_embedded_unless_one_is_named(started, tmp_path):
    """Without options nothing has to be there before."""
    call("ablate", CONFIG, "-o", tmp_path)
    assert started.where == WHERE


@pytest.mark.parametrize("command", [["ablate", CONFIG], ["demo"]])
def test_latency_may_be_measured_anew(started, tmp_path, monkeypatch, command):
    """--time-again reaches the run of either command."""
    monkeypatch.setattr(cli, "demo_models", lambda log: ("bi", "cross"))  # noqa: ARG005
    call(*command, "-o", tmp_path, "--time-again")
    assert started.where == WHERE | {"time_again": True}


def test_names_in_a_table_are_shown_as_they_are(started, tmp_path):
    """A kind called [/x] or [red] is text, not markup to be read."""
    kinds = ["[/x]", "[/x]", "[red]"]
    questions = tuple(
        each._replace(kind=kind) for each, kind in zip(QUESTIONS, kinds, strict=True)
    )
    study = Study("reranker", {"none": "b", "ce": "a"}, "none", "recall@5")
    manifest = RESULTS.manifest | {"rerankers": {"none": None, "ce": None}}
    results = replace(RESULTS, questions=questions, manifest=manifest)
    started.results, started.study = results, study
    shown = call("ablate", CONFIG, "-o", tmp_path).stdout
    assert ("[/x] (n=2)" in shown, "[red] (n=1)" in shown) == (True, True)


def test_a_report_s_place_is_shown_as_it_is(started, tmp_path):  # noqa: ARG001  # as above
    """A folder called [red] is named so."""
    last = call("ablate", CONFIG, "-o", tmp_path / "[red]").stdout.splitlines()[-1]
    assert last == f"Report: {tmp_path / '[red]' / 'report.md'}"


def test_the_demo_takes_the_models_that_are_there(started, tmp_path, monkeypatch):
    """Both models are replaced; the level without a model stays."""
    monkeypatch.setattr(cli, "demo_models", lambda log: ("bi", "cross"))  # noqa: ARG005
    call("demo", "-o", tmp_path)
    models = {
        name: level.get("model") for name, level in started.config.rerankers.items()
    }
    assert (started.config.embedding.model, models) == (
        "bi",
        {"none": None, "cross-encoder": "cross"},
    )


def test_the_demo_is_the_example(started, tmp_path, monkeypatch):
    """But for the models, the demo runs the bundled configuration."""
    monkeypatch.setattr(cli, "demo_models", lambda log: ("bi", "cross"))  # noqa: ARG005
    call("demo", "-o", tmp_path)
    changed = ("embedding", "rerankers")
    assert started.config.model_dump(exclude=changed) == cli.read_config(
        CONFIG
    ).model_dump(exclude=changed)

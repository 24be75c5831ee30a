"""What a run found, as values and as a folder: the primary result is a score per question.

The folder holds everything a report needs, so it can be drawn again without models and
without a database:

- ``scores.csv``: system, question, measure, value;
- ``summary.csv``: system, measure, n, mean, low, high (95 % interval);
- ``latency.csv``: system, question, repeat, milliseconds;
- ``questions.csv``: question, kind, group;
- ``manifest.json``: studies, settings, versions, models;
- ``runs/<system>.trec`` and ``qrels/<chunker>.qrels``: TREC files.
"""

import csv
import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from scholar_rag_li.errors import ConfigError
from scholar_rag_li.stats import mean_interval

Scores = dict[str, dict[str, dict[str, float]]]
"""System -> measure -> question id -> score."""


@dataclass(frozen=True)
class Study:
    """One factor varied around a base, everything else equal.

    Args:
        factor: what is varied: chunker, retriever, rrf_k or reranker.
        systems: level -> name of the system that has it.
        reference: the level that the others are compared with.
        measure: the primary measure, fixed before the run.
    """

    factor: str
    systems: Mapping[str, str]
    reference: str
    measure: str


class Timing(NamedTuple):
    """One observation of a single question answered end to end."""

    system: str
    question: str
    repeat: int
    milliseconds: float


class QuestionInfo(NamedTuple):
    """What a table needs to know of a question."""

    question: str
    kind: str
    group: str


@dataclass(frozen=True)
class Results:
    """Everything that was measured, and the settings under which.

    Args:
        manifest: settings (alpha, delta, ...), versions, models, chunkings.
        questions: the judged questions, in the order of the gold.
        studies: the studies done so far, in their order.
        scores: one number per system, measure and question.
        timings: latency observations.
    """

    manifest: Mapping[str, Any]
    questions: tuple[QuestionInfo, ...]
    studies: tuple[Study, ...] = ()
    scores: Scores = field(default_factory=dict)
    timings: tuple[Timing, ...] = ()

    @property
    def groups(self) -> dict[str, str]:
        """Question id -> group, the unit of intervals and tests."""
        return {info.question: info.group for info in self.questions}

    @property
    def kinds(self) -> dict[str, list[str]]:
        """Kind -> its question ids, kinds in alphabetical order."""
        kinds: dict[str, list[str]] = {}
        for info in sorted(self.questions, key=lambda info: info.kind):
            kinds.setdefault(info.kind, []).append(info.question)
        return kinds

    def setting(self, name: str) -> Any:
        """Read a setting of the run, such as ``delta``."""
        return self.manifest["settings"][name]

    def column(
        self, system: str, measure: str, questions: Iterable[str] | None = None
    ) -> dict[str, float]:
        """Scores of a system on a measure by question, all questions unless some are named.

        Raises:
            ConfigError: the system or the measure was not run.
        """
        try:
            column = self.scores[system][measure]
        except KeyError:
            known = sorted(self.scores.get(system, self.scores))
            raise ConfigError(
                f"no scores of {measure!r} for {system!r}; there are: {', '.join(known)}"
            ) from None
        wanted = [info.question for info in self.questions]
        return {
            id_: column[id_] for id_ in (wanted if questions is None else questions)
        }

    def mean(
        self, system: str, measure: str, questions: Iterable[str] | None = None
    ) -> float:
        """Average a measure of a system."""
        column = self.column(system, measure, questions)
        return math.fsum(column.values()) / len(column)

    def milliseconds(self, system: str) -> list[float]:
        """Return the latency observations of a system, in ascending order."""
        return sorted(t.milliseconds for t in self.timings if t.system == system)


def write_results(results: Results, folder: Path) -> None:
    """Write the tables of the folder; the same results give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(
        folder / "scores.csv",
        ("system", "question", "measure", "value"),
        (
            (system, question, measure, repr(value))
            for system, measures in sorted(results.scores.items())
            for measure, column in sorted(measures.items())
            for question, value in sorted(column.items())
        ),
    )
    _write_csv(
        folder / "summary.csv",
        ("system", "measure", "n", "mean", "low", "high"),
        _summary(results),
    )
    _write_csv(
        folder / "latency.csv",
        Timing._fields,
        ((*timing[:3], f"{timing.milliseconds:.3f}") for timing in results.timings),
    )
    _write_csv(folder / "questions.csv", QuestionInfo._fields, results.questions)
    manifest = {**results.manifest, "studies": [asdict(s) for s in results.studies]}
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


WRITTEN = (
    "scores.csv",
    "summary.csv",
    "latency.csv",
    "questions.csv",
    "manifest.json",
    "report.md",
    "runs/*.trec",
    "qrels/*.qrels",
)
"""What an ablation writes into its folder."""


def clear_results(folder: Path) -> None:
    """Make a folder ready: it can be written, and nothing of an earlier ablation is left.

    Raises:
        ConfigError: the folder is a file, or can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "manifest.json").is_file():
            for file in [each for name in WRITTEN for each in folder.glob(name)]:
                file.unlink()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"no results can be written to {folder} ({error.strerror}); name a folder "
            "that can be written"
        ) from error


def read_results(folder: Path) -> Results:
    """Read what `write_results` wrote.

    Raises:
        ConfigError: the folder holds no results.
    """
    if not (folder / "manifest.json").is_file():
        raise ConfigError(
            f"{folder} holds no results (no manifest.json); name the folder that "
            "`ablate` wrote"
        )
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    studies = tuple(Study(**study) for study in manifest.pop("studies"))
    scores: Scores = {}
    for system, question, measure, value in _read_csv(folder / "scores.csv"):
        column = scores.setdefault(system, {}).setdefault(measure, {})
        column[question] = float(value)
    timings = tuple(
        Timing(system, question, int(repeat), float(milliseconds))
        for system, question, repeat, milliseconds in _read_csv(folder / "latency.csv")
    )
    rows = _read_csv(folder / "questions.csv")
    questions = tuple(QuestionInfo(*row) for row in rows)
    return Results(manifest, questions, studies, scores, timings)


def write_run(path: Path, system: str, run: Mapping[str, Sequence[str]]) -> None:
    """Write rankings as a TREC run: the score is minus the rank, ids percent-encoded.

    trec_eval orders by score and breaks ties by id; minus the rank keeps the delivered
    order.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{_trec(question)} Q0 {_trec(chunk)} {rank} {-rank} {_trec(system)}\n"
        for question, chunks in run.items()
        for rank, chunk in enumerate(chunks, start=1)
    ]
    path.write_text("".join(lines), encoding="utf-8")


def write_qrels(path: Path, relevant: Mapping[str, Sequence[str]]) -> None:
    """Write which chunks reach some evidence on their own, as TREC qrels.

    Only success and reciprocal rank mean the same there as here: recall over chunks
    counts a fact as often as overlapping chunks hold it. A question that no chunk
    reaches gets a line of relevance 0, or trec_eval would leave it out of the mean.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{_trec(question)} 0 {_trec(chunk)} {relevance}\n"
        for question, chunks in relevant.items()
        for chunk, relevance in [(id_, 1) for id_ in chunks] or [(NOTHING, 0)]
    ]
    path.write_text("".join(lines), encoding="utf-8")


NOTHING = "-"
"""Stands in qrels for the chunk of a question that no chunk reaches."""


def _trec(name: str) -> str:
    return quote(name, safe="+.-_#")


def _summary(results: Results) -> Iterable[tuple[Any, ...]]:
    for system, measures in sorted(results.scores.items()):
        for measure, column in sorted(measures.items()):
            interval = mean_interval(column, results.groups, confidence=0.95)
            bounds = (interval.estimate, interval.low, interval.high)
            yield system, measure, len(column), *(f"{each:.6f}" for each in bounds)


def _write_csv(
    path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows(rows)


def _read_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]

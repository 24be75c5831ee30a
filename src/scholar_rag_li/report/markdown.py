"""`report.md`, drawn from a result folder and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from scholar_rag_li.report.conclusions import conclusions, decision, model_name
from scholar_rag_li.report.tables import (
    Table,
    study_tables,
    title,
    top_latency,
)
from scholar_rag_li.results import Results
from scholar_rag_li.studies import Outcome, outcome

NOTES = """\
- A difference is level minus reference over the same questions, with the interval at \
1 - alpha/m for m other levels, in brackets. W/T/L counts the questions on which the level \
wins, ties and loses. ← marks the level that the rule uses.
- p is a sign-flip randomisation test over groups, corrected by Holm within the study. \
Only the primary measure of a study (the one beside its level) carries a verdict.
- recall@k: facts whose evidence one of the first k chunks covers, over all facts of the \
question. MRR is the mean of rr@10, 1 / the first rank that reaches a fact. \
`(union)`: covered by the first k chunks together. characters@5: mean length of what the \
first five chunks hold, overlap counted as often as it is read.
- `ragas ID recall@5` and `ragas ID precision@5` are ragas's ID-based context recall and \
precision on the same rankings; the rest is ours. ragas counts chunks, not evidence: \
where overlapping chunks hold the same evidence, its recall wants them all.
- All questions chose the levels and report them: with many levels, the chosen one \
looks better than it is.
"""


def write_report(results: Results, folder: Path) -> Path:
    """Draw `report.md` into a folder.

    Args:
        results: as they are, or as `read_results` reads them from a folder.
        folder: where the report goes.

    Returns:
        Where it was written.
    """
    path = folder / "report.md"
    path.write_text(report(results), encoding="utf-8")
    return path


def report(results: Results) -> str:
    """Draw the report of everything that was run so far."""
    outcomes = [outcome(results, study) for study in results.studies]
    parts = [
        "# Retrieval ablation",
        _first_lines(results),
        "## In short",
        _short(results, outcomes),
    ]
    for number_, each in enumerate(outcomes, start=1):
        parts.append(f"## {number_}. {title(results, each.study)}")
        parts.append(study_section(results, each))
    if results.timings:
        parts += ["## What a query costs", _costs(results)]
    parts += ["## How to read the tables", NOTES.rstrip()]
    parts += ["## What was measured, and on what", _setup(results)]
    return "\n\n".join(parts) + "\n"


def study_section(results: Results, outcome_: Outcome) -> str:
    """Draw a study: what is fixed, its tables, what follows."""
    tables = study_tables(results, outcome_)
    drawn = "\n\n".join(f"**{table.title}**\n\n{markdown(table)}" for table in tables)
    sentences = "\n".join(f"- {each}" for each in conclusions(results, outcome_))
    return f"{_base(outcome_)}\n\n{drawn}\n\n{sentences}"


def markdown(table: Table) -> str:
    """Draw a table; cells are padded so that the source reads as well."""
    rows = [table.columns, *table.rows]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _first_lines(results: Results) -> str:
    manifest = results.manifest
    kinds = ", ".join(f"{len(ids)} `{kind}`" for kind, ids in results.kinds.items())
    unjudged = len(manifest["unjudged"])
    left_out = f" {unjudged} without evidence were left out." if unjudged else ""
    documents, language = manifest["corpus"]["documents"], manifest["language"]
    return (
        f"{len(results.questions)} questions ({kinds}) over {documents} documents in "
        f"`{language}`; baseline `{manifest['baseline']}`. "
        f"A difference matters from delta = {results.setting('delta'):g} on; "
        f"alpha = {results.setting('alpha'):g}. Delta, alpha, the reference and the "
        f"primary measure of each study were fixed before the run.{left_out}"
    )


def _short(results: Results, outcomes: list[Outcome]) -> str:
    lines = []
    for each in outcomes:
        sentences = conclusions(results, each)
        chosen = decision(results, each).removeprefix("Decision: ")
        lines.append(f"- **{title(results, each.study)}** {sentences[0]} → {chosen}")
    lines.append(f"- **What does it cost?** {_cost_line(results)}")
    return "\n".join(lines)


def _cost_line(results: Results) -> str:
    if not results.timings:
        return "Not measured: no latency was timed in this run (latency_questions)."
    systems = sorted({timing.system for timing in results.timings})
    parts = [
        f"`{system}` {median(results.milliseconds(system)):.0f} ms"
        for system in systems
    ]
    return f"Median of a warm query, end to end: {', '.join(parts)}."


def _base(outcome_: Outcome) -> str:
    study = outcome_.study
    name = study.systems[study.reference]
    return (
        f"Varied: {study.factor}. Reference: `{study.reference}`, as the system `{name}`. "
        f"Primary measure: {study.measure}."
    )


def _costs(results: Results) -> str:
    latency = results.manifest["latency"]
    questions = {timing.question for timing in results.timings}
    repeats = {timing.repeat for timing in results.timings}
    rows = []
    for system in sorted({timing.system for timing in results.timings}):
        times = results.milliseconds(system)
        top = top_latency(results, system)
        rows.append((system, f"{median(times):.0f}", f"{top:.0f}", str(len(times))))
    columns = ("system", "p50 ms", "p95 or max ms", "observations")
    return (
        f"{markdown(Table('', columns, tuple(rows)))}\n\n"
        f"End to end for single questions: embedding, legs, fusion, reranking; uncached, "
        f"after warm-up, systems interleaved in random order, {len(questions)} questions "
        f"{len(repeats)} times, one at a time, {_threads(latency['torch_threads'])}. "
        "The maximum is shown below 200 distinct questions, p95 from there on."
        f"{_cold(latency['cold_ms'])}"
    )


def _cold(milliseconds: Mapping[str, float]) -> str:
    """Say what the first answer costs, where a model has to be loaded."""
    if not milliseconds:
        return ""
    times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in milliseconds.items())
    return (
        " Cold, from loading to the first answer, with the import of torch where it came "
        f"first: {times}."
    )


def _setup(results: Results) -> str:
    manifest = results.manifest
    settings = manifest["settings"]
    rows = []
    for name, chunking in manifest["chunkings"].items():
        cut = chunking.get("embedding")
        share = "unknown" if cut is None else f"{cut['cut_share']:.1%}"
        rows.append(
            (
                name,
                str(chunking["chunks"]),
                f"{chunking['mean_characters']:.0f}",
                f"{chunking['mean_overlap']:.0f}",
                share,
            )
        )
    columns = (
        "chunking",
        "chunks",
        "mean characters",
        "mean overlap",
        "chunks the embedder cuts",
    )
    rerankers = [
        f"`{name}` is {model_name(each['model'])} ({each['class']}) over the first "
        f"{each['candidates']}, all of them ordered"
        for name, each in manifest["rerankers"].items()
        if each is not None
    ]
    versions = ", ".join(
        f"{name} {each}" for name, each in manifest["versions"].items()
    )
    machine = manifest["hardware"]
    lines = [
        (
            f"- Judging: evidence covered by one chunk (policy single), coverage "
            f"{settings['coverage']:g}; columns marked (union) by the chunks read together."
        ),
        f"- Unit of intervals and tests: {_unit(results)}.",
        f"- {_embedding(manifest['embedding'])} Depth of each leg: {settings['depth']}.",
        f"- Rerankers: {'; '.join(rerankers) or 'none'}.",
        f"- Seed {settings['seed']}. Machine: {machine['cpus']} x {machine['processor']}.",
        f"- Versions: {versions}.",
    ]
    return f"{markdown(Table('', columns, tuple(rows)))}\n\n" + "\n".join(lines)


def _embedding(embedding: Mapping[str, Any]) -> str:
    """Say what embeds, where anything does."""
    if not embedding["fingerprint"]:
        return "No embedding model: nothing is searched by vectors."
    return (
        f"Embedding model: {model_name(embedding['name'])}, "
        f"{_prefixes(embedding['fingerprint'])}. Vector search is an exact scan by "
        "cosine similarity."
    )


def _prefixes(fingerprint: Mapping[str, Any]) -> str:
    """Quote the prefixes; a model object of the user's keeps its own to itself."""
    if "query_instruction" not in fingerprint:
        return "a model object of the user's, with its own prefixes"
    question, text = fingerprint["query_instruction"], fingerprint["text_instruction"]
    return f"prefixes {question!r} for questions and {text!r} for chunks"


def _threads(count: int | None) -> str:
    return "no torch" if count is None else f"torch threads: {count}"


def _unit(results: Results) -> str:
    count = len(set(results.groups.values()))
    if results.manifest["unit"] == "document":
        return (
            f"the document, those that share a question together ({count} groups); the "
            "figures speak of documents like these"
        )
    return (
        f"the question, those with overlapping evidence together ({count} groups); the "
        f"figures speak of questions like these on these "
        f"{results.manifest['corpus']['documents']} documents"
    )

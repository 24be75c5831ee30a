"""`Ablation`: the factors and their levels, checked before anything is spent, then run."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeRelationship, TextNode

from scholar_rag_li.ablation.cache import Cache, Progress, digest
from scholar_rag_li.ablation.components import (
    Chunking,
    Hybrid,
    Leg,
    VectorLeg,
    build_chunker,
    build_reranker,
    build_retriever,
)
from scholar_rag_li.ablation.config import (
    AblationConfig,
    EmbeddingSettings,
    Settings,
    StudySettings,
    read_config,
)
from scholar_rag_li.ablation.inputs import Inputs
from scholar_rag_li.ablation.models import embedding_source
from scholar_rag_li.ablation.plan import (
    DEFAULT_STUDIES,
    NO_RERANKER,
    Plan,
    PlannedStudy,
    System,
    level_name,
)
from scholar_rag_li.ablation.runner import OnStudy, Runner
from scholar_rag_li.chunkers import SpanParser
from scholar_rag_li.chunkers.spans import chunk_id
from scholar_rag_li.corpus import Corpus, load_corpus
from scholar_rag_li.errors import ConfigError, RetrievalError, listing
from scholar_rag_li.measures import parse_measure
from scholar_rag_li.results import Results, clear_results
from scholar_rag_li.store import ContentTable, open_database
from scholar_rag_li.studies import Outcome, outcome


@dataclass(frozen=True)
class AblationResult:
    """What an ablation found.

    Args:
        results: scores per question, and all that was measured beside them.
        folder: where they were written; None when they were not.
        computed: kind of expensive call -> how many were made; empty when everything was
            known already.
    """

    results: Results
    folder: Path | None
    computed: Mapping[str, int]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The studies' numbers and decisions, in their order."""
        return tuple(outcome(self.results, study) for study in self.results.studies)

    def outcome(self, factor: str) -> Outcome:
        """Return numbers and decision of a factor.

        Raises:
            ConfigError: the factor was not varied.
        """
        found = {each.study.factor: each for each in self.outcomes}
        if factor not in found:
            raise ConfigError(
                f"no study of {factor!r}; there are: {', '.join(found) or 'none'}"
            )
        return found[factor]


class Ablation:
    """A baseline, the levels of each factor, and the studies that vary them.

    Every level may be a mapping with a ``kind``, as in a configuration file, or an object
    of LlamaIndex's own kinds. What can't be known by its content (the user's retrievers
    and postprocessors) is run again each time; everything else is computed once.

    Args:
        corpus: documents and gold.
        embedding: settings of a sentence-transformers model, or a LlamaIndex embedding;
            needed by retrievers of the kind vector.
        chunkers: level -> NodeParser, or mapping.
        retrievers: level -> mapping, retriever, or function from the chunks' nodes to a
            retriever; a hybrid names other levels as its legs.
        rrf_k: levels of the fusion's constant.
        rerankers: level -> postprocessor, mapping, or None. ``none`` is always a level.
        baseline: levels of the baseline.
        studies: which factors are varied, in order; by default chunker, retriever, rrf_k
            and reranker, those with more than one level.
        language: of the corpus.
        settings: how systems are judged, tested and timed.

    Raises:
        ConfigError: what can't be run, in one message.
        ModelError: a model that is not there, or is of another kind.
    """

    def __init__(  # noqa: PLR0913  # the factors, by name
        self,
        corpus: Corpus,
        *,
        embedding: EmbeddingSettings | BaseEmbedding | None = None,
        chunkers: Mapping[str, NodeParser | Mapping[str, Any]],
        retrievers: Mapping[str, Any],
        rrf_k: Sequence[float] = (60,),
        rerankers: Mapping[str, Any] | None = None,
        baseline: System,
        studies: Sequence[PlannedStudy] | None = None,
        language: str = "es",
        settings: Settings | None = None,
    ) -> None:
        """Build and check every level."""
        self.corpus, self._settings = corpus, settings or Settings()
        self._language = language
        self._chunkers = {
            name: build_chunker(name, level) for name, level in chunkers.items()
        }
        self._legs = {
            name: build_retriever(name, level, language)
            for name, level in retrievers.items()
        }
        self._rerankers = {
            name: build_reranker(name, level)
            for name, level in {NO_RERANKER: None, **(rerankers or {})}.items()
        }
        _check_hybrids(self._legs)
        levels: dict[str, Sequence[str | float]] = {
            "chunker": list(self._chunkers),
            "retriever": list(self._legs),
            "rrf_k": list(rrf_k),
            "reranker": list(self._rerankers),
        }
        self._plan = Plan(
            levels,
            baseline,
            frozenset(
                name for name, leg in self._legs.items() if isinstance(leg, Hybrid)
            ),
            tuple(studies or _varied(levels)),
        )
        _check_depth(self._plan, self._rerankers, self._settings)
        if embedding is None:
            _check_no_vector(self._legs)
        self._embedding = embedding_source(embedding)

    @classmethod
    def from_config(cls, config: str | Path | AblationConfig) -> "Ablation":
        """Build an ablation from a configuration file, reading corpus and gold."""
        if not isinstance(config, AblationConfig):
            config = read_config(config)
        return cls(
            load_corpus(config.documents, config.gold),
            embedding=config.embedding,
            chunkers=config.chunkers,
            retrievers=config.retrievers,
            rrf_k=config.rrf_k,
            rerankers=config.rerankers,
            baseline=System(**config.baseline.model_dump()),
            studies=[_planned(study) for study in config.studies],
            language=config.language,
            settings=config.settings,
        )

    def run(
        self,
        output: str | Path | None = None,
        *,
        dsn: str | None = None,
        directory: str | Path | None = None,
        progress: Progress | None = None,
        on_study: OnStudy | None = None,
        time_again: bool = False,
    ) -> AblationResult:
        """Run the studies, going on from whatever an earlier run has computed.

        Args:
            output: folder for the results, written after every study.
            dsn: the user's PostgreSQL; an embedded one when not given.
            directory: where the embedded one keeps its data.
            progress: called with what is computed, how much is done, and of how much.
            on_study: called with the results so far and the study just done.
            time_again: measure the latency anew, as after a run on a busy machine.

        Returns:
            What was found; in `output` it stands as files, the report among them.

        Raises:
            ConfigError: `output` can't be written.
            StoreError: the database can't be reached.
            RetrievalError: a part of the user's failed; what was computed is kept.
        """
        progress = progress or _silent
        folder = None if output is None else Path(output)
        if folder is not None:
            clear_results(folder)
        place = None if directory is None else Path(directory)
        with open_database(dsn, directory=place) as database:
            cache = Cache(ContentTable(database), progress)
            runner = Runner(
                self._inputs(),
                database,
                cache,
                folder,
                progress,
                time_again=time_again,
            )
            results = runner.run(on_study or _unwatched)
            return AblationResult(results, folder, dict(cache.computed))

    def _inputs(self) -> Inputs:
        return Inputs(
            questions=self.corpus.gold.judged,
            unjudged=self.corpus.gold.unjudged,
            chunk=self._chunk,
            legs=self._legs,
            rerankers=self._rerankers,
            embedding=self._embedding,
            plan=self._plan,
            settings=self._settings,
            language=self._language,
            corpus=self._corpus_facts(),
        )

    def _corpus_facts(self) -> dict[str, Any]:
        """Count and hash what was read."""
        documents = [[each.id_, each.text] for each in self.corpus.documents]
        gold = [dataclasses.astuple(question) for question in self.corpus.gold]
        return {
            "documents": len(documents),
            "documents_digest": digest(documents).hex(),
            "gold_digest": digest(gold).hex(),
        }

    def _chunk(self, name: str) -> Chunking:
        parser = self._chunkers[name]
        documents = [
            document.model_copy(deep=True) for document in self.corpus.documents
        ]
        nodes = parser.get_nodes_from_documents(documents)
        if not isinstance(parser, SpanParser):
            nodes = _named(nodes)
        if not nodes:
            raise ConfigError(f"chunker {name!r} made no chunk of this corpus")
        settings = {"class": type(parser).__qualname__} | {
            key: value
            for key, value in parser.to_dict().items()
            if isinstance(value, (int, float, str)) and key != "class_name"
        }
        try:
            return Chunking(name, tuple(nodes), settings)  # type: ignore[arg-type]  # a parser gives TextNodes
        except RetrievalError as error:
            raise ConfigError(f"chunker {name!r}: {error}") from error


def _named(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    """Name another parser's nodes as ours are: most parsers name them at random."""
    counts: dict[str, int] = {}
    named: list[BaseNode] = []
    for node in nodes:
        document = node.ref_doc_id or ""
        ordinal = counts[document] = counts.get(document, -1) + 1
        # neighbours are known by their old names, so only the document is kept
        source = (
            {NodeRelationship.SOURCE: node.relationships[NodeRelationship.SOURCE]}
            if node.ref_doc_id
            else {}
        )
        id_ = chunk_id(ordinal, TextNode(id_=document))
        named.append(node.model_copy(update={"id_": id_, "relationships": source}))
    return named


def _check_hybrids(legs: Mapping[str, Any]) -> None:
    problems = []
    for name, level in legs.items():
        for leg in level.legs if isinstance(level, Hybrid) else ():
            known = [each for each in legs if not isinstance(legs[each], Hybrid)]
            if leg not in known:
                problems.append(
                    f"retriever {name!r}: its leg {leg!r} is no level that ranks by "
                    f"itself ({', '.join(known)})"
                )
    if problems:
        raise ConfigError(listing("hybrids that can't be built:", problems))


def _planned(study: StudySettings) -> PlannedStudy:
    """Read a study of a configuration, whose reference may be written as a number."""
    given = study.model_dump()
    if study.reference is not None:
        given["reference"] = level_name(study.reference)
    return PlannedStudy(**given)


def _check_no_vector(legs: Mapping[str, Leg | Hybrid]) -> None:
    vectors = [name for name, leg in legs.items() if isinstance(leg, VectorLeg)]
    if vectors:
        raise ConfigError(
            f"retriever {', '.join(vectors)} needs an embedding model; give embedding"
        )


def _check_depth(
    plan: Plan,
    rerankers: Mapping[str, BaseNodePostprocessor | None],
    settings: Settings,
) -> None:
    """Refuse to read deeper than was ranked: the ranks would not be there."""
    problems = []
    for name, reranker in rerankers.items():
        if reranker is None:
            continue
        own = getattr(reranker, "candidates", None)
        candidates = settings.candidates if own is None else own
        if candidates > settings.depth:
            problems.append(
                f"the reranker {name!r} reads {candidates} candidates of legs that are "
                f"asked for {settings.depth}; raise settings.depth"
            )
        problems += [
            f"the measure {study.measure} reads deeper than the {candidates} candidates "
            f"of the reranker {name!r}; raise its candidates"
            for study in _with_reranker(plan, name)
            if parse_measure(study.measure).k > candidates
        ]
    problems += [
        f"the measure {study.measure} reads deeper than the {settings.depth} results "
        "that each leg is asked for; raise settings.depth"
        for study in plan.studies
        if parse_measure(study.measure).k > settings.depth
    ]
    if problems:
        raise ConfigError(listing("more is read than is ranked:", problems))


def _with_reranker(plan: Plan, name: str) -> list[PlannedStudy]:
    """List the studies in which a reranker may have a part."""
    found, based = [], name == plan.baseline.reranker
    for study in plan.studies:
        if based or study.factor == "reranker":
            found.append(study)
        based |= study.factor == "reranker" and study.carry
    return found


def _varied(levels: Mapping[str, Sequence[str | float]]) -> list[PlannedStudy]:
    """Take the default studies of the factors that have something to compare."""
    return [study for study in DEFAULT_STUDIES if len(levels[study.factor]) > 1]


def _silent(_what: str, _done: int, _of: int) -> None:
    """Show nothing."""


def _unwatched(_results: Results, _study: Any) -> None:
    """Do nothing when a study is done."""

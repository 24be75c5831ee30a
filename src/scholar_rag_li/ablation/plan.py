"""Which systems an ablation runs: one factor varied at a time around a baseline."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scholar_rag_li.errors import ConfigError, listing
from scholar_rag_li.fusion import RRF_K
from scholar_rag_li.measures import parse_measure
from scholar_rag_li.results import Study

FACTORS = ("chunker", "retriever", "rrf_k", "reranker")
NO_RERANKER = "none"


@dataclass(frozen=True)
class System:
    """A choice of level for each factor.

    Args:
        chunker: a level of that factor.
        retriever: a level of that factor.
        rrf_k: constant of the fusion; None where the retriever fuses nothing, so that
            such a system is one system whatever the constant.
        reranker: a level of that factor; ``none`` for no reranker.
    """

    chunker: str
    retriever: str
    rrf_k: float | None = None
    reranker: str = NO_RERANKER

    @property
    def name(self) -> str:
        """Name the system by its levels, fit for a file name.

        >>> System("fixed-1000-150", "hybrid", 60).name
        'fixed-1000-150+hybrid-rrf60'
        """
        retriever = self.retriever
        if self.rrf_k is not None:
            retriever = fused_name(retriever, self.rrf_k)
        parts = [self.chunker, retriever]
        return "+".join(
            parts if self.reranker == NO_RERANKER else [*parts, self.reranker]
        )


def fused_name(retriever: str, rrf_k: float) -> str:
    """Name a retriever that fuses together with its constant."""
    return f"{retriever}-rrf{rrf_k:g}"


@dataclass(frozen=True)
class PlannedStudy:
    """One factor to vary.

    Args:
        factor: one of `FACTORS`.
        measure: the primary measure, fixed before the run.
        reference: the level the others are compared with: the simplest one, which is
            kept unless another earns its place. By default the baseline's own, and for
            retrievers the first level that fuses nothing.
        carry: whether the level that the rule chooses becomes the base of the studies
            that follow.
    """

    factor: str
    measure: str
    reference: str | None = None
    carry: bool = False


DEFAULT_STUDIES = (
    PlannedStudy("chunker", "recall@5", carry=True),
    PlannedStudy("retriever", "recall@5"),
    PlannedStudy("rrf_k", "recall@5"),
    PlannedStudy("reranker", "rr@10"),
)


@dataclass(frozen=True)
class Plan:
    """A baseline, the levels of each factor, and the studies in their order.

    Args:
        levels: factor -> names of its levels; those of rrf_k are numbers.
        baseline: the system around which a factor is varied.
        fusing: names of the retriever levels that fuse, for which rrf_k counts.
        studies: in order.

    Raises:
        ConfigError: everything that does not fit, in one message.
    """

    levels: Mapping[str, Sequence[str | float]]
    baseline: System
    fusing: frozenset[str]
    studies: Sequence[PlannedStudy] = DEFAULT_STUDIES

    def __post_init__(self) -> None:
        """Refuse a plan that could not be run to its end."""
        problems = [
            *_bad_names(self.levels),
            *self._bad_baseline(),
            *(problem for study in self.studies for problem in self._bad_study(study)),
            *_repeated(self.studies),
            *self._ambiguous(),
        ]
        if problems:
            raise ConfigError(listing("the plan can't be run:", problems))

    @property
    def base(self) -> System:
        """The baseline as it is run: without a constant where it fuses nothing."""
        return self._fit(self.baseline)

    def systems(self, factor: str, base: System) -> dict[str, System]:
        """Vary one factor around a base; level name -> system."""
        if factor == "rrf_k" and base.retriever not in self.fusing:
            # an earlier study carried on a retriever for which the constant is nothing
            base = replace(base, retriever=self.baseline.retriever)
        return {
            level_name(level): self._fit(
                replace(base, **{factor: level})  # type: ignore[arg-type]  # a level of that factor
            )
            for level in self.levels[factor]
        }

    def study(self, planned: PlannedStudy, systems: Mapping[str, System]) -> Study:
        """Describe a study for the results."""
        names = {level: system.name for level, system in systems.items()}
        return Study(planned.factor, names, self.reference(planned), planned.measure)

    def reference(self, planned: PlannedStudy) -> str:
        """Name the level that the others of a study are compared with."""
        single = [name for name in self.levels["retriever"] if name not in self.fusing]
        if planned.factor == "retriever" and single:
            return planned.reference or level_name(single[0])
        return planned.reference or level_name(getattr(self.baseline, planned.factor))

    def _fit(self, system: System) -> System:
        if system.retriever not in self.fusing:
            return replace(system, rrf_k=None)
        levels = [level for level in self.levels["rrf_k"] if not isinstance(level, str)]
        usual = RRF_K if RRF_K in levels else levels[0]
        given = (system.rrf_k, self.baseline.rrf_k, usual)
        return replace(system, rrf_k=next(k for k in given if k is not None))

    def _bad_baseline(self) -> list[str]:
        problems = []
        for factor in FACTORS:
            level = getattr(self.baseline, factor)
            if level is None and self.baseline.retriever not in self.fusing:
                continue  # the constant of what fuses nothing
            if level not in self.levels[factor]:
                known = ", ".join(map(str, self.levels[factor]))
                problems.append(
                    f"baseline.{factor} is {level!r}, which is no level of it ({known})"
                )
        return problems

    def _ambiguous(self) -> list[str]:
        """Refuse a retriever named as a fusion with its constant is named."""
        fused = {
            fused_name(name, level)
            for name in self.fusing
            for level in self.levels["rrf_k"]
            if not isinstance(level, str)
        }
        return [
            f"retriever level {name!r} is how a fusion with its rrf_k is named; "
            "give it another name"
            for name in self.levels["retriever"]
            if name in fused
        ]

    def _bad_study(self, study: PlannedStudy) -> list[str]:
        if study.factor not in FACTORS:
            allowed = ", ".join(FACTORS)
            return [f"study of {study.factor!r}; the factors are {allowed}"]
        problems = []
        try:
            parse_measure(study.measure)
        except ConfigError as error:
            problems.append(f"study of {study.factor}: {error}")
        if study.factor == "rrf_k" and self.baseline.retriever not in self.fusing:
            problems.append(
                f"study of rrf_k around the retriever {self.baseline.retriever!r}, which "
                "fuses nothing; make a hybrid the baseline or leave the study out"
            )
        levels = [level_name(level) for level in self.levels[study.factor]]
        if len(levels) == 1:
            problems.append(
                f"study of {study.factor}, which has the one level {levels[0]!r}; add a "
                "level to compare it with, or leave the study out"
            )
        if study.reference is not None and study.reference not in levels:
            problems.append(
                f"study of {study.factor}: the reference {study.reference!r} is no "
                f"level of it ({', '.join(levels)})"
            )
        return problems


def level_name(level: str | float) -> str:
    """Name a level; a number goes by its shortest form.

    >>> level_name(60.0), level_name("hybrid")
    ('60', 'hybrid')
    """
    return level if isinstance(level, str) else f"{level:g}"


def _repeated(studies: Sequence[PlannedStudy]) -> list[str]:
    factors = [study.factor for study in studies]
    return [
        f"{factors.count(factor)} studies of {factor}; give one, with all its levels"
        for factor in dict.fromkeys(factors)
        if factors.count(factor) > 1
    ]


def _bad_names(levels: Mapping[str, Sequence[str | float]]) -> list[str]:
    problems = []
    for factor, names in levels.items():
        if not names:
            problems.append(f"{factor} has no level; give at least one")
        problems += [
            f"{factor} level {name!r}: use letters, digits, dot, dash and underscore"
            for name in names
            if isinstance(name, str) and not re.fullmatch(r"[\w][\w.-]*", name)
        ]
        numbers = [name for name in names if not isinstance(name, str)]
        problems += [
            f"{factor} level {number!r}: give a number >= 0"
            for number in numbers
            if not 0 <= number < float("inf")
        ]
        shown = {name if isinstance(name, str) else f"{name:g}" for name in names}
        if len(shown) < len(names):
            problems.append(
                f"{factor} lists a level twice: {', '.join(map(str, names))}"
            )
    return problems

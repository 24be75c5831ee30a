"""Which systems a study has, and which plans are refused, with every reason."""

from dataclasses import replace

import pytest

from scholar_rag_li.ablation.plan import DEFAULT_STUDIES, Plan, PlannedStudy, System
from scholar_rag_li.errors import ConfigError
from scholar_rag_li.results import Study

LEVELS = {
    "chunker": ["fixed", "sentence"],
    "retriever": ["vector", "bm25", "hybrid"],
    "rrf_k": [10, 60, 200],
    "reranker": ["none", "ce"],
}
BASELINE = System("fixed", "hybrid", 60)


def plan(baseline=BASELINE, studies=DEFAULT_STUDIES, **levels):
    """Plan with some levels in place of those above."""
    return Plan(LEVELS | levels, baseline, frozenset({"hybrid"}), studies)


def refused(*args, **kwargs):
    """Return the lines under the heading of the error."""
    with pytest.raises(ConfigError) as caught:
        plan(*args, **kwargs)
    heading, *problems = str(caught.value).splitlines()
    assert heading == "the plan can't be run:"
    return [problem.removeprefix("  - ") for problem in problems]


def names(systems):
    """Return level -> name of the system."""
    return {level: system.name for level, system in systems.items()}


# names of systems


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (System("fixed", "vector"), "fixed+vector"),
        (System("fixed", "hybrid", 60), "fixed+hybrid-rrf60"),
        (System("fixed", "hybrid", 60.0), "fixed+hybrid-rrf60"),
        (System("fixed", "hybrid", 0.5), "fixed+hybrid-rrf0.5"),
        (System("fixed", "hybrid", 0), "fixed+hybrid-rrf0"),
        (System("fixed", "hybrid", 60, "ce"), "fixed+hybrid-rrf60+ce"),
        (System("fixed", "vector", None, "ce"), "fixed+vector+ce"),
    ],
)
def test_a_system_is_named_by_its_levels(system, name):
    """Levels are joined by +; no reranker and no constant leave no trace."""
    assert system.name == name


# systems


def test_chunkers_vary_around_the_base():
    """Each chunker with the base's retriever, constant and reranker."""
    assert names(plan().systems("chunker", BASELINE)) == {
        "fixed": "fixed+hybrid-rrf60",
        "sentence": "sentence+hybrid-rrf60",
    }


def test_a_constant_is_kept_only_where_something_is_fused():
    """Vector and BM25 alone have no rrf_k, so they are one system for every constant."""
    systems = plan().systems("retriever", BASELINE)
    assert {level: system.rrf_k for level, system in systems.items()} == {
        "vector": None,
        "bm25": None,
        "hybrid": 60,
    }


def test_a_leg_is_one_system_whatever_the_constant():
    """Around rrf_k 10 and rrf_k 200 vector is the same system, with one name."""
    small = plan().systems("retriever", replace(BASELINE, rrf_k=10))
    large = plan().systems("retriever", replace(BASELINE, rrf_k=200))
    assert small["vector"] == large["vector"]


def test_a_hybrid_gets_the_baseline_s_constant_back():
    """Around a base that fuses nothing, the hybrid has the baseline's constant."""
    base = plan().systems("retriever", BASELINE)["vector"]
    assert plan().systems("retriever", base)["hybrid"] == BASELINE


def test_a_hybrid_keeps_the_constant_of_its_base():
    """Around a carried constant of 10, the hybrid has 10, not the baseline's 60."""
    base = replace(BASELINE, rrf_k=10)
    assert plan().systems("chunker", base)["sentence"].rrf_k == 10


def test_constants_are_levels_by_their_shortest_form():
    """10, 60.0 and 0.5 are the levels 10, 60 and 0.5."""
    systems = plan(rrf_k=[10, 60.0, 0.5]).systems("rrf_k", BASELINE)
    assert names(systems) == {
        "10": "fixed+hybrid-rrf10",
        "60": "fixed+hybrid-rrf60",
        "0.5": "fixed+hybrid-rrf0.5",
    }


def test_a_constant_of_zero_is_a_level():
    """0 is a constant like any other: not missing, not replaced by the baseline's."""
    systems = plan(rrf_k=[0, 60]).systems("rrf_k", BASELINE)
    assert systems["0"] == System("fixed", "hybrid", 0)


def test_a_baseline_constant_of_zero_is_kept():
    """With 0 as the baseline's constant, a hybrid has 0 and the reference is 0."""
    zero = plan(replace(BASELINE, rrf_k=0), rrf_k=[0, 60])
    base = System("fixed", "vector")
    found = (
        zero.systems("retriever", base)["hybrid"].rrf_k,
        zero.reference(PlannedStudy("rrf_k", "recall@5")),
    )
    assert found == (0, "0")


def test_rerankers_vary_around_the_base():
    """The level none leaves the base as it is."""
    assert names(plan().systems("reranker", BASELINE)) == {
        "none": "fixed+hybrid-rrf60",
        "ce": "fixed+hybrid-rrf60+ce",
    }


def test_the_baseline_is_the_same_system_in_every_study():
    """The baseline's own level gives the same name, so it is run once."""
    own = {"chunker": "fixed", "retriever": "hybrid", "rrf_k": "60", "reranker": "none"}
    found = {plan().systems(factor, BASELINE)[level] for factor, level in own.items()}
    assert found == {BASELINE}


def test_the_baseline_is_run_without_what_does_not_count():
    """A vector baseline with a constant is the system that vector is in every study."""
    legs = plan(System("fixed", "vector", 60), studies=())
    assert legs.base == legs.systems("retriever", legs.baseline)["vector"]


def test_a_hybrid_has_the_usual_constant_where_the_baseline_has_none():
    """Around a vector baseline without rrf_k, the hybrid fuses with 60, and says so."""
    legs = plan(System("fixed", "vector"), [PlannedStudy("retriever", "recall@5")])
    systems = legs.systems("retriever", legs.baseline)
    assert systems["hybrid"].name == "fixed+hybrid-rrf60"


def test_a_hybrid_has_the_first_constant_where_60_is_no_level():
    """Around a vector baseline without rrf_k, of 200 and 10 the first is taken."""
    studies = [PlannedStudy("retriever", "recall@5")]
    legs = plan(System("fixed", "vector"), studies, rrf_k=[200, 10])
    systems = legs.systems("retriever", legs.baseline)
    assert systems["hybrid"].name == "fixed+hybrid-rrf200"


def test_constants_are_varied_where_something_is_fused():
    """After `vector` was carried, the study of rrf_k has the baseline's hybrid."""
    carried = replace(plan().systems("retriever", BASELINE)["vector"], reranker="ce")
    assert names(plan().systems("rrf_k", carried)) == {
        "10": "fixed+hybrid-rrf10+ce",
        "60": "fixed+hybrid-rrf60+ce",
        "200": "fixed+hybrid-rrf200+ce",
    }


# studies


@pytest.mark.parametrize(
    ("factor", "reference"),
    [("chunker", "fixed"), ("rrf_k", "60")],
)
def test_the_reference_is_the_baseline_s_level(factor, reference):
    """Where none is named, others are compared with the baseline."""
    assert plan().reference(PlannedStudy(factor, "recall@5")) == reference


@pytest.mark.parametrize(
    ("retrievers", "reference"),
    [
        (["vector", "bm25", "hybrid"], "vector"),
        (["hybrid", "bm25", "vector"], "bm25"),
    ],
)
def test_retrievers_are_compared_with_the_first_that_fuses_nothing(
    retrievers, reference
):
    """A hybrid has to earn its place, whatever the baseline is."""
    legs = plan(retriever=retrievers)
    assert legs.reference(PlannedStudy("retriever", "recall@5")) == reference


def test_hybrids_alone_are_compared_with_the_baseline_s():
    """Where every level fuses there is no simplest one."""
    both = Plan(
        LEVELS | {"retriever": ["mixed", "hybrid"]},
        BASELINE,
        frozenset({"mixed", "hybrid"}),
        (),
    )
    assert both.reference(PlannedStudy("retriever", "recall@5")) == "hybrid"


def test_no_reranker_is_the_reference_of_the_rerankers():
    """The baseline has no reranker unless it names one."""
    assert plan().reference(PlannedStudy("reranker", "rr@10")) == "none"


@pytest.mark.parametrize(
    ("factor", "own"), [("retriever", "bm25"), ("retriever", "hybrid"), ("rrf_k", "10")]
)
def test_a_reference_may_be_named(factor, own):
    """The level that is named is the reference, the baseline's or not."""
    assert plan().reference(PlannedStudy(factor, "recall@5", own)) == own


def test_a_study_names_its_systems():
    """A study holds factor, level -> system, reference and primary measure."""
    planned = PlannedStudy("reranker", "rr@10")
    found = plan().study(planned, plan().systems("reranker", BASELINE))
    systems = {"none": "fixed+hybrid-rrf60", "ce": "fixed+hybrid-rrf60+ce"}
    assert found == Study("reranker", systems, "none", "rr@10")


def test_a_reference_stays_when_a_level_is_carried():
    """After `sentence` was carried, constants are compared with the baseline's."""
    carried = plan().systems("chunker", BASELINE)["sentence"]
    planned = PlannedStudy("rrf_k", "recall@5")
    found = plan().study(planned, plan().systems("rrf_k", carried))
    assert found.systems[found.reference] == "sentence+hybrid-rrf60"


# what is refused


def test_a_sound_plan_is_accepted():
    """The plan that the others here are variations of has nothing wrong."""
    assert plan().studies == DEFAULT_STUDIES


@pytest.mark.parametrize(
    ("factor", "level", "known"),
    [
        ("chunker", "fixd", "fixed, sentence"),
        ("retriever", "mixed", "vector, bm25, hybrid"),
        ("rrf_k", 61, "10, 60, 200"),
        ("reranker", "cross", "none, ce"),
    ],
)
def test_a_baseline_of_unknown_levels(factor, level, known):
    """The message names the level that was given and those that there are."""
    baseline = replace(BASELINE, **{factor: level})
    problem = f"baseline.{factor} is {level!r}, which is no level of it ({known})"
    assert refused(baseline, studies=()) == [problem]


def test_a_hybrid_baseline_needs_a_constant():
    """Without rrf_k a hybrid is no complete system."""
    assert refused(replace(BASELINE, rrf_k=None)) == [
        "baseline.rrf_k is None, which is no level of it (10, 60, 200)"
    ]


def test_a_baseline_that_fuses_nothing_needs_no_constant():
    """A vector baseline is complete without rrf_k."""
    base = System("fixed", "vector")
    assert plan(base, studies=()).baseline == base


def test_a_constant_is_checked_where_the_baseline_fuses_nothing():
    """A vector baseline's rrf_k is that of the hybrids, so it has to be a level."""
    assert refused(System("fixed", "vector", -1), studies=()) == [
        "baseline.rrf_k is -1, which is no level of it (10, 60, 200)"
    ]


def test_every_problem_is_in_one_message():
    """Levels, baseline and studies are checked together."""
    studies = [PlannedStudy("colour", "recall@5"), PlannedStudy("chunker", "hits@5")]
    found = refused(System("a", "b"), studies, reranker=[])
    assert len(found) == 6  # reranker; chunker, retriever, reranker; two studies


@pytest.mark.parametrize("name", ["a b", "a/b", "a+b", "", ".a", "-a", "a|b", "a\n"])
def test_a_level_s_name_has_to_fit_a_file_name(name):
    """Blanks, slashes, + and what would hide a file are refused."""
    [problem] = refused(chunker=["fixed", name])
    assert problem == (
        f"chunker level {name!r}: use letters, digits, dot, dash and underscore"
    )


@pytest.mark.parametrize("name", ["fixed-1000-150", "v1.5", "_x", "ñandú", "200"])
def test_a_level_s_name_may_be(name):
    """Letters of any language, digits, dot, dash and underscore are a name."""
    assert name in plan(chunker=["fixed", name]).levels["chunker"]


@pytest.mark.parametrize("number", [-1, -0.5, float("nan"), float("inf")])
def test_a_constant_has_to_be_a_number_from_zero(number):
    """Negative and not finite constants are refused."""
    assert f"rrf_k level {number!r}: give a number >= 0" in refused(rrf_k=[60, number])


@pytest.mark.parametrize("factor", LEVELS)
def test_a_factor_needs_a_level(factor):
    """A factor without level is refused, whether it is varied or not."""
    found = refused(studies=(), **{factor: []})
    assert found[0] == f"{factor} has no level; give at least one"


def test_a_level_twice():
    """60 and 60.0 are one level."""
    assert refused(rrf_k=[60, 10, 60.0]) == ["rrf_k lists a level twice: 60, 10, 60.0"]


def test_levels_that_would_have_one_name():
    """1000001 and 1000002 would both be called 1e+06, and one of them not be run."""
    found = refused(rrf_k=[60, 1000001, 1000002])
    assert found == ["rrf_k lists a level twice: 60, 1000001, 1000002"]


def test_a_retriever_named_as_a_fusion_is():
    """`hybrid-rrf60` as a level would have the name of `hybrid` with 60."""
    assert refused(retriever=["vector", "hybrid", "hybrid-rrf60"]) == [
        (
            "retriever level 'hybrid-rrf60' is how a fusion with its rrf_k is named; give "
            "it another name"
        )
    ]


@pytest.mark.parametrize("name", ["hybrid-rrf61", "vector-rrf60", "hybrid-60"])
def test_a_retriever_named_nearly_as_a_fusion_is(name):
    """No level of rrf_k, no hybrid, another form: such names are free."""
    legs = plan(retriever=["vector", "hybrid", name])
    assert name in legs.levels["retriever"]


def test_a_study_of_an_unknown_factor():
    """The message lists the factors."""
    assert refused(studies=[PlannedStudy("k", "recall@5")]) == [
        "study of 'k'; the factors are chunker, retriever, rrf_k, reranker"
    ]


def test_a_study_of_an_unknown_measure():
    """The message names the study, and the measures that there are."""
    [problem] = refused(studies=[PlannedStudy("chunker", "hits@5")])
    assert problem == (
        "study of chunker: measure 'hits' is unknown; choose from recall, success, rr, "
        "precision"
    )


def test_a_study_of_a_measure_without_cutoff():
    """The message shows how a measure is written."""
    [problem] = refused(studies=[PlannedStudy("chunker", "recall")])
    assert problem == (
        "study of chunker: measure 'recall'; write name@cutoff, as in recall@5"
    )


def test_a_study_of_rrf_k_around_what_fuses_nothing():
    """The message says what to do."""
    studies = [PlannedStudy("rrf_k", "recall@5")]
    assert refused(System("fixed", "vector"), studies) == [
        (
            "study of rrf_k around the retriever 'vector', which fuses nothing; make a "
            "hybrid the baseline or leave the study out"
        )
    ]


@pytest.mark.parametrize(
    ("factor", "reference", "known"),
    [("retriever", "vectr", "vector, bm25, hybrid"), ("rrf_k", "61", "10, 60, 200")],
)
def test_an_unknown_reference(factor, reference, known):
    """The message names the reference, and the levels that there are."""
    studies = [PlannedStudy(factor, "recall@5", reference)]
    assert refused(studies=studies) == [
        f"study of {factor}: the reference {reference!r} is no level of it ({known})"
    ]

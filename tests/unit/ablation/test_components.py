"""Levels as objects: what each kind builds, and what is refused before the run."""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import SimilarityPostprocessor

from scholar_rag_li.ablation.components import (
    CHUNKERS,
    RERANKERS,
    RETRIEVERS,
    BM25Leg,
    CustomLeg,
    Hybrid,
    VectorLeg,
    build_chunker,
    build_reranker,
    build_retriever,
)
from scholar_rag_li.chunkers import FixedChunker, SentenceChunker
from scholar_rag_li.errors import ConfigError, UnknownComponentError
from scholar_rag_li.rerank import CrossEncoderRerank


class Nothing(BaseRetriever):
    """Finds nothing."""

    def __init__(self, similarity_top_k=2):
        self.similarity_top_k = similarity_top_k
        super().__init__()

    def _retrieve(self, _):
        return []


# chunkers


@pytest.mark.parametrize(
    ("kind", "made"), [("fixed", FixedChunker), ("sentence", SentenceChunker)]
)
def test_a_kind_of_chunker(kind, made):
    """A kind is a class, and its settings are the class's."""
    found = build_chunker("c", {"kind": kind, "chunk_size": 40, "chunk_overlap": 4})
    assert (type(found), found.chunk_size, found.chunk_overlap) == (made, 40, 4)


def test_a_chunker_of_the_user_s_is_taken_as_it_is():
    """A NodeParser is used itself, not a copy."""
    splitter = SentenceSplitter()
    assert build_chunker("c", splitter) is splitter


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"chunk_size": 0}, "chunk_size is 0; give at least 1 character"),
        ({"chunk_size": -5}, "chunk_size is -5; give at least 1 character"),
        (
            {"chunk_size": 100, "chunk_overlap": 100},
            (
                "chunk_overlap is 100 with chunk_size 100; give at least 0 and less than "
                "chunk_size"
            ),
        ),
        (
            {"chunk_size": 100, "chunk_overlap": 101},
            (
                "chunk_overlap is 101 with chunk_size 100; give at least 0 and less than "
                "chunk_size"
            ),
        ),
    ],
)
@pytest.mark.parametrize("kind", CHUNKERS)
def test_a_window_that_can_t_be_names_its_level(kind, settings, problem):
    """Of many levels, the message says which one it is."""
    with pytest.raises(ConfigError) as caught:
        build_chunker("large", {"kind": kind} | settings)
    assert str(caught.value) == f"chunker 'large': {problem}"


@pytest.mark.parametrize("size", ["500", None, 500.5, [500]])
def test_a_size_that_is_no_number_names_its_level(size):
    """A wrong type is an error of the configuration, not a traceback."""
    with pytest.raises(ConfigError, match="chunker 'large': "):
        build_chunker("large", {"kind": "fixed", "chunk_size": size})


# retrievers


@pytest.mark.parametrize(
    ("level", "made"),
    [
        ({"kind": "vector"}, VectorLeg()),
        ({"kind": "bm25"}, BM25Leg("es")),
        ({"kind": "bm25", "language": "en"}, BM25Leg("en")),
        ({"kind": "hybrid", "legs": ["a", "b"]}, Hybrid(("a", "b"))),
        (
            {"kind": "hybrid", "legs": ["a", "b"], "weights": [2, 1]},
            Hybrid(("a", "b"), (2, 1)),
        ),
    ],
    ids=["vector", "bm25", "bm25 in English", "hybrid", "weighted"],
)
def test_a_kind_of_retriever(level, made):
    """A kind is a class; BM25 is in the corpus's language unless it says another."""
    assert build_retriever("r", level, "es") == made


@pytest.mark.parametrize(
    "level", [VectorLeg(), BM25Leg("en"), CustomLeg(Nothing()), Hybrid(["a"])]
)
def test_a_leg_made_in_python_is_taken_as_it_is(level):
    """Objects of this module's own are levels already."""
    assert build_retriever("r", level, "es") is level


@pytest.mark.parametrize("level", [Nothing(), lambda _: Nothing()])
def test_a_retriever_or_a_function_is_a_leg(level):
    """The user's retriever, or function to one, is used itself."""
    assert build_retriever("r", level, "es").source is level


@pytest.mark.parametrize("language", ["xx", "", None, 3])
def test_an_unknown_language_names_its_level(language):
    """The message names level and language, and lists the languages there are."""
    with pytest.raises(ConfigError) as caught:
        build_retriever("words", {"kind": "bm25", "language": language}, "es")
    text = str(caught.value)
    assert text.startswith(f"retriever 'words': Unknown language '{language}'")
    assert "es (spanish)" in text


def test_an_unknown_language_of_the_corpus():
    """The corpus's language is checked where BM25 takes it."""
    with pytest.raises(ConfigError, match="retriever 'bm25': Unknown language 'xx'"):
        build_retriever("bm25", {"kind": "bm25"}, "xx")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"legs": []}, "a hybrid needs legs: a list of other retriever levels"),
        ({"legs": "vector"}, "a hybrid needs legs: a list of other retriever levels"),
        ({"legs": ["a", 3]}, "a hybrid needs legs: a list of other retriever levels"),
        ({"legs": [["a"]]}, "a hybrid needs legs: a list of other retriever levels"),
        ({"legs": None}, "a hybrid needs legs: a list of other retriever levels"),
        ({"legs": 3}, "a hybrid needs legs: a list of other retriever levels"),
        ({"legs": ["a", "b", "a"]}, "a hybrid names a leg twice: a, b, a"),
        (
            {"legs": ["a", "b"], "weights": [1]},
            "1 weights for 2 rankings; give one weight per ranking",
        ),
        (
            {"legs": ["a", "b"], "weights": [1, -1]},
            "weights are [1, -1]; give finite numbers >= 0",
        ),
        (
            {"legs": ["a", "b"], "weights": [0, 0]},
            "all weights are 0, so nothing would be returned; raise one",
        ),
    ],
)
def test_a_hybrid_that_can_t_be_names_its_level(settings, problem):
    """Legs and weights are checked before the run."""
    with pytest.raises(ConfigError) as caught:
        build_retriever("mixed", {"kind": "hybrid"} | settings, "es")
    assert str(caught.value) == f"retriever 'mixed': {problem}"


# rerankers


@pytest.mark.parametrize("level", [None, {"kind": "none"}])
def test_no_reranker(level):
    """None and the kind none are no reranker."""
    assert build_reranker("r", level) is None


@pytest.mark.parametrize(
    "level", [SimilarityPostprocessor(), {"kind": "cross-encoder", "model": "org/ce"}]
)
def test_the_name_none_is_for_no_reranker(level):
    """A reranker called none would be taken for its absence, and never run."""
    with pytest.raises(ConfigError) as caught:
        build_reranker("none", level)
    assert str(caught.value) == (
        "reranker 'none' stands for none; give this level another name"
    )


@pytest.mark.parametrize("level", [None, {"kind": "none"}])
def test_the_name_none_may_be_written(level):
    """No reranker may be listed under its own name."""
    assert build_reranker("none", level) is None


def test_a_cross_encoder():
    """The settings arrive; no model is looked for yet."""
    level = {"kind": "cross-encoder", "model": "org/ce", "candidates": 30, "top_n": 3}
    made = build_reranker("r", level)
    found = type(made), made.model, made.candidates, made.top_n
    assert found == (CrossEncoderRerank, "org/ce", 30, 3)


def test_a_cross_encoder_that_does_not_say_how_many_it_reads():
    """The setting `candidates` of the ablation is for such a one, so it has no own."""
    made = build_reranker("r", {"kind": "cross-encoder", "model": "org/ce"})
    assert made.candidates is None


def test_a_postprocessor_of_the_user_s_is_taken_as_it_is():
    """A LlamaIndex postprocessor is used itself."""
    postprocessor = SimilarityPostprocessor()
    assert build_reranker("r", postprocessor) is postprocessor


# what no kind of level may be

BUILD = {
    "chunker": (build_chunker, CHUNKERS),
    "retriever": (lambda name, level: build_retriever(name, level, "es"), RETRIEVERS),
    "reranker": (build_reranker, RERANKERS),
}


@pytest.mark.parametrize("kind", ["fixd", "", None, 3, ["fixed"]])
@pytest.mark.parametrize("factor", BUILD)
def test_an_unknown_kind_lists_the_kinds(factor, kind):
    """The message names level and kind, and the kinds that there are."""
    build, kinds = BUILD[factor]
    with pytest.raises(UnknownComponentError) as caught:
        build("mine", {"kind": kind})
    assert str(caught.value) == (
        f"{factor} 'mine' is of the kind {kind!r}; choose from {', '.join(kinds)}"
    )


@pytest.mark.parametrize("level", ["fixed", 3, {}, {"chunk_size": 3}])
@pytest.mark.parametrize("factor", BUILD)
def test_a_level_without_kind_lists_the_kinds(factor, level):
    """The message shows what was given, and what a level is."""
    build, kinds = BUILD[factor]
    with pytest.raises(ConfigError) as caught:
        build("mine", level)
    assert str(caught.value) == (
        f"{factor} 'mine' is {level!r}; give a mapping with a kind "
        f"({', '.join(kinds)}), or from Python an object of LlamaIndex's"
    )


@pytest.mark.parametrize(
    ("factor", "level", "takes"),
    [
        ("chunker", {"kind": "fixed", "size": 3}, "chunk_size, chunk_overlap"),
        ("retriever", {"kind": "vector", "k": 3}, "none"),
        ("retriever", {"kind": "bm25", "lang": "es"}, "language"),
        ("retriever", {"kind": "hybrid", "legs": ["a"], "k": 3}, "legs, weights"),
        ("reranker", {"kind": "none", "model": "m"}, "none"),
        (
            "reranker",
            {"kind": "cross-encoder", "model": "m", "candidate": 3},
            "model, candidates, top_n",
        ),
    ],
)
def test_an_unknown_setting_lists_the_settings(factor, level, takes):
    """The message names level and setting, and what the kind takes."""
    unknown = list(level)[-1]
    with pytest.raises(ConfigError) as caught:
        BUILD[factor][0]("mine", level)
    assert str(caught.value).startswith(
        f"{factor} 'mine' has the unknown setting {unknown}; the kind "
        f"{level['kind']!r} takes {takes}"
    )


@pytest.mark.parametrize(
    ("factor", "kind", "missing", "takes"),
    [
        ("retriever", "hybrid", "legs", "legs, weights"),
        ("reranker", "cross-encoder", "model", "model, candidates, top_n"),
    ],
)
def test_a_missing_setting_is_named(factor, kind, missing, takes):
    """The message names level and setting, and what the kind takes."""
    with pytest.raises(ConfigError) as caught:
        BUILD[factor][0]("mine", {"kind": kind})
    assert str(caught.value) == (
        f"{factor} 'mine' lacks {missing}; the kind {kind!r} takes {takes}"
    )

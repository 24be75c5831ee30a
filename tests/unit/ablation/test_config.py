"""The configuration file: what is read, what is refused and how it is said."""

from pathlib import Path

import pytest
import yaml

from scholar_rag_li.ablation.config import Settings, read_config
from scholar_rag_li.demo import examples_dir
from scholar_rag_li.errors import ConfigError

SMALLEST = {
    "documents": "corpus",
    "gold": "gold.jsonl",
    "language": "es",
    "embedding": {"model": "org/e5"},
    "chunkers": {"fixed": {"kind": "fixed"}},
    "retrievers": {"vector": {"kind": "vector"}},
    "baseline": {"chunker": "fixed", "retriever": "vector"},
}


@pytest.fixture
def read(tmp_path):
    """Write a configuration that differs from the smallest in some keys, and read it."""

    def write_and_read(text=None, **keys):
        path = tmp_path / "ablation.yaml"
        given = {k: v for k, v in (SMALLEST | keys).items() if v is not ...}
        path.write_text(yaml.safe_dump(given) if text is None else text, "utf-8")
        return read_config(path)

    return write_and_read


@pytest.fixture
def refused(read, tmp_path):
    """Read a configuration that is refused; the lines under the heading."""

    def lines(**keys):
        with pytest.raises(ConfigError) as caught:
            read(**keys)
        heading, *problems = str(caught.value).splitlines()
        assert heading == f"{tmp_path / 'ablation.yaml'} can't be used:"
        return [problem.removeprefix("  - ") for problem in problems]

    return lines


# what is read


def test_the_smallest_configuration_has_the_usual_settings(read):
    """What is not given is as the documentation says."""
    config = read()
    found = (config.rrf_k, config.rerankers, config.studies, config.settings)
    assert found == ([60], {"none": {"kind": "none"}}, [], Settings())


def test_paths_are_relative_to_the_file(read, tmp_path):
    """The folder that the command was started in does not count."""
    config = read()
    assert (config.documents, config.gold) == (
        tmp_path / "corpus",
        tmp_path / "gold.jsonl",
    )


def test_paths_of_a_file_named_relatively(read, tmp_path, monkeypatch):
    """A file that is named relatively gives absolute paths as well."""
    read()
    monkeypatch.chdir(tmp_path)
    assert read_config("ablation.yaml").documents == tmp_path / "corpus"


def test_absolute_paths_stay(read, tmp_path):
    """An absolute path is taken as it is."""
    gold = tmp_path.parent / "gold.jsonl"
    assert read(gold=str(gold)).gold == gold


def test_a_path_may_begin_at_home(read, tmp_path, monkeypatch):
    """~ is the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert read(documents="~/texts").documents == tmp_path / "home" / "texts"


def test_a_model_directory_is_relative_to_the_file(read, tmp_path):
    """A name that is a directory beside the file is that directory."""
    (tmp_path / "models" / "e5").mkdir(parents=True)
    config = read(embedding={"model": "models/e5"})
    assert config.embedding.model == str(tmp_path / "models" / "e5")


def test_a_hub_name_stays(read):
    """A name that is no directory is a hub name."""
    assert read(embedding={"model": "org/e5"}).embedding.model == "org/e5"


def test_a_reranker_s_directory_is_relative_to_the_file(read, tmp_path):
    """Rerankers name their models as the embedding does."""
    (tmp_path / "ce").mkdir()
    level = {"kind": "cross-encoder", "model": "ce", "candidates": 30}
    config = read(rerankers={"none": {"kind": "none"}, "ce": level})
    assert config.rerankers == {
        "none": {"kind": "none"},
        "ce": level | {"model": str(tmp_path / "ce")},
    }


def test_prefixes_are_kept_to_the_blank(read):
    """The blank after "query:" belongs to the prefix."""
    embedding = {"model": "m", "query_instruction": "query: "}
    assert read(embedding=embedding).embedding.query_instruction == "query: "


def test_no_embedding_is_needed(read):
    """Whether a retriever wants one is known only where they are built."""
    assert read(embedding=...).embedding is None


def test_a_study_s_reference_may_be_a_number(read):
    """A level of rrf_k is written as the number that it is."""
    studies = [{"factor": "rrf_k", "measure": "recall@5", "reference": 60}]
    assert read(studies=studies).studies[0].reference == 60


def test_a_key_that_is_merged_in_may_be_given_again(read):
    """YAML's << takes over what an anchor has, and a key beside it overrides."""
    text = yaml.safe_dump(SMALLEST).replace(
        "chunkers:\n  fixed:\n    kind: fixed\n",
        "chunkers:\n"
        "  fixed: &fixed {kind: fixed, chunk_size: 500}\n"
        "  large: {<<: *fixed, chunk_size: 900}\n",
    )
    assert read(text).chunkers == {
        "fixed": {"kind": "fixed", "chunk_size": 500},
        "large": {"kind": "fixed", "chunk_size": 900},
    }


def test_the_same_key_in_two_places_is_no_repetition(read):
    """Every level has its kind."""
    chunkers = {"a": {"kind": "fixed"}, "b": {"kind": "fixed"}}
    assert read(chunkers=chunkers).chunkers == chunkers


def test_a_depth_of_ten_is_read(read):
    """Ten results are what the tables read, so that is the least."""
    assert read(settings={"depth": 10}).settings.depth == 10


def test_a_budget_is_read_where_something_is_timed(read):
    """One question is enough to hold a budget against."""
    settings = read(settings={"budget_ms": 80, "latency_questions": 1}).settings
    assert settings.budget_ms == 80


def test_without_a_budget_nothing_has_to_be_timed(read):
    """latency_questions 0 alone is a choice."""
    settings = read(settings={"latency_questions": 0}).settings
    assert settings.latency_questions == 0


def test_the_example_is_read():
    """The bundled configuration has the factors of the five questions."""
    config = read_config(examples_dir() / "tesis" / "ablation.yaml")
    factors = [study.factor for study in config.studies]
    assert factors == ["chunker", "retriever", "rrf_k", "reranker"]


def test_the_example_s_files_are_there():
    """Corpus and gold of the bundled configuration exist."""
    config = read_config(examples_dir() / "tesis" / "ablation.yaml")
    assert (config.documents.is_dir(), config.gold.is_file()) == (True, True)


# what is refused


def test_a_missing_file(tmp_path):
    """One line that names the file."""
    path = tmp_path / "nothing.yaml"
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert str(caught.value) == f"no configuration at {path}: there is no such file"


def test_a_folder_is_no_file(tmp_path):
    """A folder is no configuration."""
    with pytest.raises(ConfigError, match="no configuration at"):
        read_config(tmp_path)


def test_not_yaml(read, tmp_path):
    """The message names the file and the line."""
    with pytest.raises(ConfigError) as caught:
        read("documents: [\ngold: x")
    text = str(caught.value)
    path = tmp_path / "ablation.yaml"
    assert text.startswith(f"{path} can't be read as YAML in UTF-8")
    assert "line 2" in text


def test_not_utf_8(tmp_path):
    """A file in Latin-1 is refused, not guessed at."""
    path = tmp_path / "latin.yaml"
    path.write_bytes("language: español".encode("latin-1"))
    with pytest.raises(ConfigError, match="can't be read as YAML in UTF-8"):
        read_config(path)


@pytest.mark.parametrize("text", ["", "# only a comment", "- documents", "documents"])
def test_not_a_mapping(read, text):
    """An empty file, a list and a word hold no settings."""
    with pytest.raises(ConfigError, match="holds no settings; write keys such as"):
        read(text)


def test_nothing_is_executed(read, tmp_path):
    """YAML's tags make no Python objects."""
    with pytest.raises(ConfigError, match="can't be read as YAML"):
        read(f"documents: !!python/object/apply:os.mkdir [{tmp_path / 'made'}]")


def test_an_unknown_key_at_the_top(refused):
    """The message lists the keys that may stand there."""
    assert refused(rerankes={}) == [
        (
            "rerankes: unknown key; allowed here: documents, gold, language, embedding, "
            "chunkers, retrievers, rrf_k, rerankers, baseline, studies, settings"
        )
    ]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (
            "embedding",
            {"model": "m", "prefix": "x"},
            (
                "embedding.prefix: unknown key; allowed here: model, query_instruction, "
                "text_instruction"
            ),
        ),
        (
            "baseline",
            {"chunker": "a", "retriever": "b", "rrfk": 60},
            (
                "baseline.rrfk: unknown key; allowed here: chunker, retriever, rrf_k, "
                "reranker"
            ),
        ),
        (
            "settings",
            {"depht": 20},
            "settings.depht: unknown key; allowed here: "
            + ", ".join(Settings.model_fields),
        ),
        (
            "studies",
            [
                {"factor": "chunker", "measure": "recall@5"},
                {"factor": "rrf_k", "measure": "recall@5", "carries": True},
            ],
            (
                "studies.1.carries: unknown key; allowed here: factor, measure, reference, "
                "carry"
            ),
        ),
    ],
    ids=["embedding", "baseline", "settings", "studies"],
)
def test_an_unknown_key_within(refused, key, value, problem):
    """The message says where it stands, and which keys may stand there."""
    assert refused(**{key: value}) == [problem]


@pytest.mark.parametrize("key", sorted(SMALLEST.keys() - {"embedding"}))
def test_a_missing_key(refused, key):
    """Each key of the smallest configuration is needed, but for the embedding."""
    assert refused(**{key: ...}) == [f"{key}: missing; it has to be given"]


def test_a_missing_key_within(refused):
    """The message says where it is missing."""
    studies = [{"factor": "chunker"}]
    assert refused(studies=studies) == [
        "studies.0.measure: missing; it has to be given"
    ]


@pytest.mark.parametrize(
    ("keys", "place", "given"),
    [
        ({"rrf_k": 60}, "rrf_k", "60"),
        ({"rrf_k": ["x"]}, "rrf_k.0", "'x'"),
        ({"language": False}, "language", "False"),
        ({"chunkers": ["fixed"]}, "chunkers", "['fixed']"),
        ({"chunkers": {"fixed": "fixed"}}, "chunkers.fixed", "'fixed'"),
        ({"settings": {"depth": 0}}, "settings.depth", "0"),
        ({"settings": {"depth": 9}}, "settings.depth", "9"),
        ({"settings": {"depth": 2.5}}, "settings.depth", "2.5"),
        ({"settings": {"coverage": 0}}, "settings.coverage", "0"),
        ({"settings": {"coverage": 1.1}}, "settings.coverage", "1.1"),
        ({"settings": {"delta": 0}}, "settings.delta", "0"),
        ({"settings": {"alpha": 0.5}}, "settings.alpha", "0.5"),
        ({"settings": {"budget_ms": 0}}, "settings.budget_ms", "0"),
        ({"settings": {"unit": "chunk"}}, "settings.unit", "'chunk'"),
        ({"settings": {"latency_repeats": 4}}, "settings.latency_repeats", "4"),
        ({"settings": {"latency_questions": -1}}, "settings.latency_questions", "-1"),
    ],
)
def test_a_value_that_is_not_allowed(refused, keys, place, given):
    """The message says where it stands and what was given."""
    [problem] = refused(**keys)
    assert (
        problem.startswith(f"{place}: "),
        problem.endswith(f"(given: {given})"),
    ) == (
        True,
        True,
    )


def test_a_budget_without_timing(refused):
    """A budget can't be kept to where nothing is timed."""
    [problem] = refused(settings={"budget_ms": 80, "latency_questions": 0})
    assert problem.startswith(
        "settings: Value error, budget_ms is 80 and latency_questions 0: a budget can't be "
        "judged where nothing is timed; give at least 1 question"
    )


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("language: es\nlanguage: en\n", "language", 1),
        ("chunkers:\n  a: {kind: fixed}\n  a: {kind: sentence}\n", "a", 2),
        ("settings: {depth: 20, depth: 30}\n", "depth", 1),
        ("x: [{b: 1, b: 1, a: 1, a: 2}]\n", "a, b", 1),
    ],
    ids=["at the top", "a level", "a setting", "two, in a list"],
)
def test_a_key_twice(read, text, key, line):
    """YAML would keep the last and say nothing; here it is named, with its place."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert f": {key} is given twice\n" in str(caught.value)
    assert f"line {line}, column" in str(caught.value)


@pytest.mark.parametrize(
    "keys",
    [
        {"documents": "~nosuchuser/texts"},
        {"gold": "~nosuchuser/gold.jsonl"},
        {"embedding": {"model": "~nosuchuser/e5"}},
        {"rerankers": {"ce": {"kind": "cross-encoder", "model": "~nosuchuser/ce"}}},
    ],
    ids=["documents", "gold", "embedding", "reranker"],
)
def test_the_home_of_nobody(read, keys):
    """The message names the path; a home that is not there is no traceback."""
    with pytest.raises(ConfigError, match=r"^~nosuchuser/.*home"):
        read(**keys)


def test_every_problem_is_in_one_message(refused):
    """An unknown key, a missing one and a wrong value are told together."""
    found = refused(gold=..., rrf_k=60, extra=1)
    places = {problem.split(":")[0] for problem in found}
    assert places == {"gold", "rrf_k", "extra"}


def test_a_key_that_is_no_word(read):
    """A number as a key is refused like any other unknown key."""
    with pytest.raises(ConfigError, match="1: Keys should be strings"):
        read(yaml.safe_dump(SMALLEST) + "1: x\n")


def test_a_model_that_is_no_word(read):
    """A number in place of a reranker's model is left to the reranker to refuse."""
    config = read(rerankers={"ce": {"kind": "cross-encoder", "model": 3}})
    assert config.rerankers["ce"]["model"] == 3


def test_a_configuration_is_not_changed_by_accident(read):
    """What was read can't be assigned to."""
    with pytest.raises(ValueError, match="frozen"):
        read().language = "en"


def test_documents_are_paths(read):
    """Paths are Path objects, for what reads them next."""
    assert isinstance(read().documents, Path)

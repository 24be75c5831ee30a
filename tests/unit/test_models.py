"""Models are found, checked for their kind and fingerprinted, without being loaded."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import IncompleteSnapshotError, LocalEntryNotFoundError

from scholar_rag_li import demo, models
from scholar_rag_li.errors import ModelError
from scholar_rag_li.models import resolve_model

BI_ENCODER = {"architectures": ["BertModel"]}
CROSS_ENCODER = {
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "LABEL_0"},
}
REVISION = "0123456789abcdef0123456789abcdef01234567"
CLOSED_PORT = "http://127.0.0.1:9"  # discard: nothing listens there


def make_model(directory: Path, config: object, *, modules: bool = False) -> Path:
    """Write a directory that looks like a model: four bytes of weights, no words."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").write_bytes(b"\0\1\2\3")
    (directory / "tokenizer.json").write_text("{}")
    if modules:
        (directory / "modules.json").write_text("[]")
    return directory


@pytest.fixture(autouse=True)
def hub_cache(monkeypatch, tmp_path):
    """Give an empty hub cache; the hub itself is switched off."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return cache


@pytest.fixture
def unreachable_hub(monkeypatch):
    """Switch the hub on, at an address where nothing answers."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", CLOSED_PORT)


def cache_hub_model(cache: Path, name: str, config: object) -> Path:
    """Put a model into the hub's cache, in the layout of huggingface_hub."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    return make_model(repository / "snapshots" / REVISION, config)


# --- directories


@pytest.mark.parametrize(
    ("config", "modules", "kind"),
    [
        (BI_ENCODER, False, "bi-encoder"),
        ({"architectures": ["XLMRobertaForMaskedLM"]}, False, "bi-encoder"),
        ({"architectures": ["Qwen3ForCausalLM"]}, True, "bi-encoder"),
        (CROSS_ENCODER, False, "cross-encoder"),
        (CROSS_ENCODER, True, "cross-encoder"),
        (
            {"architectures": ["DebertaV2ForSequenceClassification"], "num_labels": 1},
            False,
            "cross-encoder",
        ),
    ],
)
def test_directory_of_the_wanted_kind_is_its_own_path(tmp_path, config, modules, kind):
    """A directory with a model of the kind is handed on as it is."""
    directory = make_model(tmp_path / "m", config, modules=modules)
    assert str(directory) == resolve_model(directory, kind=kind).path


@pytest.mark.parametrize(
    ("config", "modules", "kind", "said"),
    [
        (BI_ENCODER, False, "cross-encoder", "says BertModel, but a cross-encoder"),
        (BI_ENCODER, True, "cross-encoder", "says BertModel, but a cross-encoder"),
        (
            CROSS_ENCODER | {"id2label": {"0": "no", "1": "maybe", "2": "yes"}},
            False,
            "cross-encoder",
            "with 3 labels",
        ),
        (
            {"architectures": ["BertForSequenceClassification"]},
            False,
            "cross-encoder",
            "with 2 labels",  # the default of transformers, which it doesn't write
        ),
        (CROSS_ENCODER, False, "bi-encoder", "ForSequenceClassification with 1 label"),
        (CROSS_ENCODER, True, "bi-encoder", "ForSequenceClassification with 1 label"),
        (
            {"architectures": ["LlamaForCausalLM"]},
            False,
            "bi-encoder",
            "says LlamaForCausalLM",
        ),
        ({"model_type": "bert"}, False, "bi-encoder", "says no architecture"),
    ],
)
def test_model_of_another_kind_is_refused(tmp_path, config, modules, kind, said):
    """The error says what the configuration says; a random head is never an option."""
    directory = make_model(tmp_path / "m", config, modules=modules)
    with pytest.raises(ModelError, match=said):
        resolve_model(directory, kind=kind)


def test_old_sentence_transformers_layout_is_a_bi_encoder(tmp_path):
    """modules.json is enough where the configuration is in a folder of its own."""
    directory = make_model(tmp_path / "m", BI_ENCODER, modules=True)
    (directory / "config.json").unlink()
    assert (
        "sentence-transformers modules"
        in resolve_model(directory, kind="bi-encoder").description
    )


def test_directory_without_a_model_is_refused(tmp_path):
    """The error says which files are not there."""
    with pytest.raises(ModelError, match=r"no config\.json and no modules\.json"):
        resolve_model(tmp_path, kind="bi-encoder")


def test_model_without_weights_is_refused(tmp_path):
    """An interrupted download is told before anything tries to load it."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    (directory / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has no weights"):
        resolve_model(directory, kind="bi-encoder")


def test_model_without_tokenizer_is_refused(tmp_path):
    """The library would make an empty one, and score all texts alike."""
    directory = make_model(tmp_path / "m", CROSS_ENCODER)
    (directory / "tokenizer.json").rename(directory / "tokenizer_config.json")
    with pytest.raises(ModelError, match=r"has no tokenizer \(tokenizer\.json, vocab"):
        resolve_model(directory, kind="cross-encoder")


@pytest.mark.parametrize(
    "name",
    ["vocab.txt", "vocab.json", "spiece.model", "whitespacetokenizer_config.json"],
)
def test_tokenizer_may_be_of_any_form_and_in_a_module_of_its_own(tmp_path, name):
    """sentence-transformers keeps each module in a folder."""
    directory = make_model(tmp_path / "m", BI_ENCODER, modules=True)
    (directory / "0_Transformer").mkdir()
    (directory / "tokenizer.json").rename(directory / "0_Transformer" / name)
    assert resolve_model(directory, kind="bi-encoder").path == str(directory)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not JSON"), ("[]", "no JSON obj")]
)
def test_damaged_configuration_is_refused(tmp_path, text, said):
    """A configuration that is no JSON object is a ModelError that names the file."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    (directory / "config.json").write_text(text)
    with pytest.raises(ModelError, match=rf"config\.json .*{said}"):
        resolve_model(directory, kind="bi-encoder")


@pytest.mark.parametrize(
    "name",
    [
        "./e5",
        "../e5",
        "~/no-such-folder/e5",
        "~nosuchuser/e5",
        "/models/e5",
        "a/b/e5",
        Path("e5"),
    ],
)
def test_path_that_is_not_there_is_a_missing_directory(name):
    """What can only be a path is not looked for on the hub."""
    with pytest.raises(ModelError, match=r"model directory .* does not exist"):
        resolve_model(name, kind="bi-encoder")


def test_file_is_not_a_model_directory(tmp_path, monkeypatch):
    """A file's name, even one that looks like a hub name, is told to be a file."""
    monkeypatch.chdir(tmp_path)
    Path("weights.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=r"'weights\.bin' is a file"):
        resolve_model("weights.bin", kind="bi-encoder")


def test_home_directory_is_expanded(tmp_path, monkeypatch):
    """~ stands for the user's home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    directory = make_model(tmp_path / "m", BI_ENCODER)
    assert str(directory) == resolve_model("~/m", kind="bi-encoder").path


# --- fingerprints


def test_fingerprint_is_the_hash_of_names_sizes_and_bytes(tmp_path):
    """The stream that is hashed is written out here by hand."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    config = b'{"architectures": ["BertModel"]}'  # 32 bytes
    stream = b"config.json\x0032\x00" + config
    stream += b"model.safetensors\x004\x00" + b"\0\1\2\3"
    stream += b"tokenizer.json\x002\x00" + b"{}"
    assert (
        hashlib.sha256(stream).hexdigest()
        == resolve_model(directory, kind="bi-encoder").fingerprint
    )


def test_fingerprint_does_not_depend_on_the_place(tmp_path):
    """A copied model is the same model."""
    first = make_model(tmp_path / "a" / "m", BI_ENCODER)
    second = make_model(tmp_path / "b", BI_ENCODER)
    assert models.content_fingerprint(first) == models.content_fingerprint(second)


def test_fingerprint_sees_one_changed_byte(tmp_path):
    """Other weights are another model, also when found in the same process."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    before = models.content_fingerprint(directory)
    weights = directory / "model.safetensors"
    weights.write_bytes(b"\0\1\2\4")
    os.utime(weights, ns=(1, 1))  # a coarse clock might not have moved on
    assert before != models.content_fingerprint(directory)


def test_fingerprint_sees_a_renamed_file(tmp_path):
    """The names of the files count, not their bytes alone."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    before = models.content_fingerprint(directory)
    (directory / "model.safetensors").rename(directory / "other.safetensors")
    assert before != models.content_fingerprint(directory)


def test_fingerprint_ignores_hidden_files(tmp_path):
    """What file managers and version control leave behind is no part of a model."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    before = models.content_fingerprint(directory)
    (directory / ".DS_Store").write_bytes(b"x")
    (directory / ".git").mkdir()
    (directory / ".git" / "HEAD").write_bytes(b"x")
    assert before == models.content_fingerprint(directory)


def test_unchanged_directory_is_read_once(tmp_path, monkeypatch):
    """A second look costs no reading of the weights: they could be gigabytes."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    before = models.content_fingerprint(directory)
    monkeypatch.setattr(hashlib, "sha256", None)
    assert before == models.content_fingerprint(directory)


def test_a_home_that_is_not_there_has_no_fingerprint():
    """No user of that name: no directory, and no name of a model either."""
    assert models.local_fingerprint("~nosuchuser/e5") is None


# --- how much a model reads

ROBERTA = {"model_type": "roberta", "pad_token_id": 1}


@pytest.mark.parametrize(
    ("transformer", "tokenizer", "config", "length"),
    [
        (128, 512, {"max_position_embeddings": 514}, 128),
        (512, 128, {"max_position_embeddings": 514}, 128),
        (None, 512, {"max_position_embeddings": 256}, 256),
        (None, None, ROBERTA | {"max_position_embeddings": 514}, 514 - 2),
        (None, 1e30, {"max_position_embeddings": 514}, 514),
        (None, 1e30, {"max_position_embeddings": -1}, None),  # XLNet: no limit
        (None, None, {}, None),
    ],
)
def test_length_is_the_smallest_limit(tmp_path, transformer, tokenizer, config, length):
    """RoBERTa's first position is pad_token_id + 1; 1e30 stands for no limit."""
    for name, content in {
        "sentence_bert_config.json": {"max_seq_length": transformer},
        "tokenizer_config.json": {"model_max_length": tokenizer},
        "config.json": config,
    }.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert models.model_length(tmp_path) == length


def test_a_directory_that_says_nothing_has_no_length(tmp_path):
    """None of the three files is there."""
    assert models.model_length(tmp_path) is None


# --- loading


def test_weights_that_do_not_load_are_a_model_error_in_one_line():
    """With the directory, and the reason in the library's words."""
    with (
        pytest.raises(
            ModelError,
            match=r"^the model in m can't be loaded \(OSError: cut off\); .*$",
        ),
        models.loading("m"),
    ):
        raise OSError("cut\noff.")


# --- the hub


def test_hub_model_has_its_revision_as_fingerprint(hub_cache):
    """A model in the hub's cache is used without a network."""
    snapshot = cache_hub_model(hub_cache, "org/e5", BI_ENCODER)
    found = resolve_model("org/e5", kind="bi-encoder")
    assert (str(snapshot), REVISION) == (found.path, found.fingerprint)


def test_hub_model_of_another_kind_is_refused(hub_cache):
    """Models of the hub are checked like directories."""
    cache_hub_model(hub_cache, "org/e5", BI_ENCODER)
    with pytest.raises(ModelError, match="is no cross-encoder"):
        resolve_model("org/e5", kind="cross-encoder")


def test_directory_comes_before_the_hub(tmp_path, hub_cache, monkeypatch):
    """A directory of the same name as a hub model is what the user can see."""
    cache_hub_model(hub_cache, "org/e5", BI_ENCODER)
    make_model(tmp_path / "org" / "e5", BI_ENCODER)
    monkeypatch.chdir(tmp_path)
    assert resolve_model("org/e5", kind="bi-encoder").path == str(Path("org", "e5"))


def test_hub_switched_off_is_said():
    """With HF_HUB_OFFLINE the error says so, and what to do."""
    with pytest.raises(ModelError, match=r"HF_HUB_OFFLINE is set.* Give the directory"):
        resolve_model("org/e5", kind="bi-encoder")


@pytest.mark.usefixtures("unreachable_hub")
def test_hub_that_does_not_answer_is_one_line():
    """An unreachable hub is one line, and no error of an HTTP library."""
    with pytest.raises(ModelError, match=r"no directory 'org/e5', .* hub") as error:
        resolve_model("org/e5", kind="bi-encoder")
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("unreachable_hub")
def test_name_that_no_hub_model_can_have_is_a_model_error():
    """huggingface_hub's own check of names is passed on."""
    with pytest.raises(ModelError, match="Repo id must use alphanumeric"):
        resolve_model("mi modelo", kind="bi-encoder")


def test_incomplete_copy_is_used_when_it_can_be_loaded(tmp_path, monkeypatch):
    """A copy may lack files that the hub lists and no loader has ever asked for."""
    directory = make_model(tmp_path / REVISION, BI_ENCODER)

    def incomplete(*_, **__):
        raise IncompleteSnapshotError("files are missing", str(directory))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", incomplete)
    assert resolve_model("org/e5", kind="bi-encoder").path == str(directory)


@pytest.fixture
def reachable_hub(monkeypatch, tmp_path):
    """A hub with one model, whose weights are a .bin; give the patterns asked for."""
    patterns = []

    def download(_name, *, allow_patterns, local_files_only, **_):
        if local_files_only:
            raise LocalEntryNotFoundError("not in the cache")
        patterns.append(allow_patterns[-1])
        directory = tmp_path / "download" / REVISION
        if not directory.exists():
            make_model(directory, BI_ENCODER)
            (directory / "model.safetensors").unlink()
        if allow_patterns[-1] == "*.bin":
            (directory / "pytorch_model.bin").write_bytes(b"")
        return str(directory)

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return patterns


def test_download_asks_for_one_format_of_weights_at_a_time(reachable_hub):
    """A repository may hold its weights twice: .bin only if there is no other."""
    resolve_model("org/e5", kind="bi-encoder")
    assert reachable_hub == ["*.safetensors", "*.bin"]


# --- the demo's models


def make_offline_pair(directory: Path) -> tuple[Path, Path]:
    """Write the two models that the build would make."""
    return (
        make_model(directory / "multilingual-e5-small", BI_ENCODER),
        make_model(directory / "ms-marco-MiniLM-L12-v2", CROSS_ENCODER),
    )


def use_build_script(monkeypatch, folder: Path, script: str) -> None:
    """Let `script` be the examples' build_models.py."""
    folder.mkdir()
    (folder / "build_models.py").write_text(script)
    monkeypatch.setattr(demo, "examples_dir", lambda: folder)


def test_built_models_are_not_built_again(tmp_path, monkeypatch):
    """The script is not even started: it would fail here."""
    use_build_script(monkeypatch, tmp_path / "examples", "raise SystemExit(1)")
    pair = make_offline_pair(tmp_path / "cache")
    assert pair == demo.offline_models(tmp_path / "cache")


def test_building_logs_each_line_of_the_script(tmp_path, monkeypatch):
    """The script gets the directory, and the user hears of its steps."""
    script = "import sys; print('one'); print(sys.argv[1])"
    use_build_script(monkeypatch, tmp_path / "examples", script)
    lines = []
    demo.offline_models(tmp_path / "cache", lines.append)
    assert ["one", str(tmp_path / "cache")] == lines


def test_failed_build_is_a_model_error_with_the_reason(tmp_path, monkeypatch):
    """What the script says last is why it failed."""
    script = "import sys; print('step'); sys.exit('error: onnx is missing')"
    use_build_script(monkeypatch, tmp_path / "examples", script)
    with pytest.raises(
        ModelError, match=r"not be built in .*cache: onnx is missing\. "
    ):
        demo.offline_models(tmp_path / "cache")


def test_models_are_kept_in_the_users_cache(tmp_path, monkeypatch):
    """Without a directory, the operating system's place for caches is taken."""
    monkeypatch.setattr(demo.platformdirs, "user_cache_path", tmp_path.joinpath)
    pair = make_offline_pair(tmp_path / "scholar_rag_li" / "models")
    assert pair == demo.offline_models()


def test_demo_takes_the_hub_models_from_its_cache(hub_cache):
    """Models that were once downloaded need no network."""
    cache_hub_model(hub_cache, models.HUB_BI_ENCODER, BI_ENCODER)
    cache_hub_model(hub_cache, models.HUB_CROSS_ENCODER, CROSS_ENCODER)
    assert demo.demo_models() == (
        "intfloat/multilingual-e5-small",
        "cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
    )


def test_demo_without_hub_takes_the_offline_pair(tmp_path):
    """HF_HUB_OFFLINE is respected: nothing is asked of the hub."""
    pair = make_offline_pair(tmp_path / "cache")
    assert demo.demo_models(tmp_path / "cache") == tuple(map(str, pair))


@pytest.mark.usefixtures("reachable_hub")
def test_demo_takes_the_hub_models_when_the_hub_answers():
    """The names are enough: who loads them downloads them."""
    assert demo.demo_models() == (models.HUB_BI_ENCODER, models.HUB_CROSS_ENCODER)


@pytest.mark.usefixtures("unreachable_hub")
def test_demo_says_that_the_hub_is_not_reached(tmp_path):
    """The user is told why other models than the hub's are taken."""
    make_offline_pair(tmp_path / "cache")
    lines = []
    demo.demo_models(tmp_path / "cache", lines.append)
    assert lines == ["the model hub is not reached (ConnectError)"]


def test_examples_hold_the_build_script():
    """The folder is found in a repository as in an installed package."""
    assert (demo.examples_dir() / "build_models.py").is_file()


def test_finding_a_model_imports_no_torch(tmp_path):
    """A repeated run that computes nothing must not pay seconds for torch."""
    directory = make_model(tmp_path / "m", BI_ENCODER)
    script = (
        "import sys; from scholar_rag_li.models import resolve_model; "
        f"resolve_model({str(directory)!r}, kind='bi-encoder'); "
        "print('torch' in sys.modules)"
    )
    out = subprocess.run(  # noqa: S603 -- our own text
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "False"

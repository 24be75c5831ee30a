"""From nodes to rows: checked first, then written in PostgreSQL's binary form."""

import json
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.utils import node_to_metadata_dict

from scholar_rag_li.errors import StoreError, listing

COPY_COLUMNS = ("node_id", "text", "metadata_", "embedding")
ROWS_A_COPY = 1000
# An entry of a B-tree index has at most 2704 bytes (a third of a page).
ID_BYTES = 2000

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """A node as it stands in the table."""

    node_id: str
    ref_doc_id: str | None
    text: str
    metadata: str  # JSON
    vector: Vector  # (embed_dim,)


def to_rows(
    nodes: Sequence[BaseNode], embed_dim: int, *, half: bool = False
) -> list[Row]:
    """Check nodes and turn them into rows.

    Args:
        nodes: With embeddings. Of several with the same id the last one counts.
        embed_dim: The table's number of dimensions.
        half: Whether the table holds half-precision vectors.

    Raises:
        StoreError: If any node can't be stored; it lists all of them by id.
    """
    rows: dict[str, Row] = {}
    problems: list[str] = []
    for node in nodes:
        try:
            rows[node.node_id] = _to_row(node, embed_dim, half=half)
        except StoreError as error:
            problems.append(f"{node.node_id!r}: {error}")
    if problems:
        count = f"{len(problems)} of {len(nodes)} nodes"
        heading = f"{count} can't be stored; nothing was written:"
        raise StoreError(listing(heading, problems))
    return list(rows.values())


def check_vector(
    values: Sequence[float], embed_dim: int, *, half: bool = False
) -> Vector:
    """Return a vector as pgvector will hold it, (embed_dim,).

    Raises:
        StoreError: If it has another dimension, or no cosine: pgvector computes it in
            single precision, where a length of 0 or beyond the range gives NaN.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (embed_dim,):
        raise StoreError(
            f"its embedding has {vector.size} dimensions, the table has {embed_dim}; "
            "use the model that the table was filled with"
        )
    if not np.isfinite(vector).all():
        raise StoreError("its embedding holds NaN or infinity; embed the text again")
    with np.errstate(over="ignore", under="ignore"):
        single = vector.astype(np.float16 if half else np.float32).astype(np.float32)
        length = np.dot(single, single)
    if not (np.isfinite(length) and length > 0):
        raise StoreError(
            f"its embedding has the squared length {length:g}, so no cosine; "
            "embed the text again"
        )
    return single


def binary_copies(rows: Sequence[Row], *, jsonb: bool, half: bool) -> Iterator[BytesIO]:
    """Yield the rows as input of `COPY ... FROM STDIN (FORMAT binary)`, 1000 at a time.

    The columns are `COPY_COLUMNS`. Binary, because it needs no escaping and keeps every
    bit of a vector (PostgreSQL manual, COPY, "Binary Format"; pgvector, `vector_recv`).
    """
    version = b"\x01" if jsonb else b""  # jsonb's own format number
    dtype = ">f2" if half else ">f4"
    for start in range(0, len(rows), ROWS_A_COPY):
        parts = [
            b"PGCOPY\n\xff\r\n\x00",
            struct.pack(">ii", 0, 0),
        ]  # no flags, no extension
        for row in rows[start : start + ROWS_A_COPY]:
            fields = (
                row.node_id.encode(),
                row.text.encode(),
                version + row.metadata.encode(),
                struct.pack(">hh", row.vector.size, 0)
                + row.vector.astype(dtype).tobytes(),
            )
            parts.append(struct.pack(">h", len(fields)))
            for field in fields:
                parts += (struct.pack(">i", len(field)), field)
        parts.append(struct.pack(">h", -1))
        yield BytesIO(b"".join(parts))


def _to_row(node: BaseNode, embed_dim: int, *, half: bool) -> Row:
    """Turn one node into a row; StoreError says what is wrong with it."""
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    _check_id("id", node.node_id)
    if node.ref_doc_id is not None:
        _check_id("document id", node.ref_doc_id)
        check_ref_doc_id(node.ref_doc_id)
    for where, value in (("text", text), ("metadata", node.metadata)):
        for leaf in _leaves(value):
            _check_leaf(where, leaf)
    if node.embedding is None:
        raise StoreError("it has no embedding; embed the nodes before adding them")
    try:
        vector = check_vector(node.embedding, embed_dim, half=half)
    except (TypeError, ValueError):
        raise StoreError("its embedding is not a list of numbers") from None
    try:
        fields = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
        metadata = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"its metadata is not JSON ({error}); use strings and numbers"
        ) from error
    return Row(node.node_id, node.ref_doc_id, text, metadata, vector)


def check_ref_doc_id(ref_doc_id: str) -> str:
    """Return a document id; refuse the ones that stand for "no document".

    Raises:
        StoreError: If it is empty or 'None', which is what LlamaIndex stores for a node
            without a source: deleting that would remove all of them.
    """
    if ref_doc_id in ("", "None"):
        raise StoreError(
            f"the document id {ref_doc_id!r} stands for nodes without a document; "
            "give the document another id, and delete such nodes with "
            "delete_nodes(node_ids)"
        )
    return ref_doc_id


def _check_id(what: str, value: str) -> None:
    """Refuse an id that has no place in an index."""
    _check_string(what, value)
    if len(value.encode()) > ID_BYTES:
        raise StoreError(
            f"its {what} is longer than {ID_BYTES} bytes; use a shorter one"
        )


def _check_string(where: str, value: str) -> None:
    """Refuse what PostgreSQL has no text for."""
    if "\x00" in value:
        raise StoreError(f"its {where} holds a NUL character; remove it from the text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise StoreError(
            f"its {where} holds half a surrogate pair at character {error.start}; "
            "decode the text again or replace that character"
        ) from None


def _check_leaf(where: str, leaf: object) -> None:
    """Refuse what JSON has no value for: LlamaIndex would write null for NaN."""
    if isinstance(leaf, str):
        _check_string(where, leaf)
    elif isinstance(leaf, float) and not math.isfinite(leaf):
        raise StoreError(f"its {where} holds {leaf}, which JSON has not; use None")


def _leaves(value: object) -> Iterator[object]:
    """Yield every key and value in nested lists and mappings."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, (list, tuple, set)):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value

"""What can't be stored is refused by name before anything is written."""

import struct

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.rows import binary_copies, check_ref_doc_id, to_rows


def _node(**fields):
    return TextNode(**{"id_": "d#0", "text": "a", "embedding": [1.0, 2.0], **fields})


def _source(doc_id):
    return {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=doc_id)}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"embedding": [1.0]}, "1 dimensions, the table has 2"),
        ({"embedding": None}, "no embedding"),
        ({"embedding": [0.0, 0.0]}, "no cosine"),
        ({"embedding": [float("nan"), 1.0]}, "NaN"),
        ({"embedding": [float("inf"), 1.0]}, "infinity"),
        ({"embedding": [1e30, 1.0]}, "no cosine"),
        ({"embedding": [1e-30, 0.0]}, "no cosine"),
        ({"text": "a\x00"}, "text holds a NUL"),
        ({"text": "a\ud800"}, "text holds half a surrogate pair at character 1"),
        ({"metadata": {"k": ["\x00"]}}, "metadata holds a NUL"),
        ({"metadata": {"\udfff": 1}}, "metadata holds half a surrogate"),
        ({"metadata": {"k": float("nan")}}, "metadata holds nan"),
        ({"metadata": {"k": object()}}, "metadata is not JSON"),
        ({"id_": "\x00"}, "id holds a NUL"),
        ({"id_": "x" * 2001}, "longer than 2000 bytes"),
        ({"relationships": _source("None")}, "stands for nodes without a document"),
        ({"relationships": _source("a\x00")}, "document id holds a NUL"),
    ],
)
def test_a_node_that_cannot_be_stored_says_why(fields, said):
    """Each kind of bad node has its own reason."""
    with pytest.raises(StoreError, match=said):
        to_rows([_node(**fields)], 2)


def test_all_bad_nodes_are_named_together():
    """One error lists both of three."""
    nodes = [_node(id_="x", text="\x00"), _node(), _node(id_="y", embedding=None)]
    with pytest.raises(StoreError, match=r"(?s)2 of 3 nodes.*'x'.*'y'"):
        to_rows(nodes, 2)


def test_of_two_nodes_with_one_id_the_last_counts():
    """As if they had been added one after the other."""
    rows = to_rows([_node(text="old"), _node(text="new")], 2)
    assert [row.text for row in rows] == ["new"]


def test_making_rows_leaves_the_node_alone():
    """The node is the caller's."""
    node = _node(metadata={"k": 1})
    before = node.model_dump()
    to_rows([node], 2)
    assert node.model_dump() == before


@pytest.mark.parametrize("ref_doc_id", ["", "None"])
def test_an_id_that_means_no_document_is_refused(ref_doc_id):
    """LlamaIndex writes 'None' for every node without a source."""
    with pytest.raises(StoreError, match="without a document"):
        check_ref_doc_id(ref_doc_id)


def test_half_precision_refuses_what_it_cannot_hold():
    """The greatest half-precision number is 65504."""
    with pytest.raises(StoreError, match="no cosine"):
        to_rows([_node(embedding=[70000.0, 1.0])], 2, half=True)


@pytest.mark.parametrize(("half", "form"), [(False, ">2f"), (True, ">2e")])
def test_the_vector_field_is_pgvectors_binary_form(half, form):
    """Two bytes of dimension, two unused, then the numbers, big-endian."""
    rows = to_rows([_node()], 2, half=half)
    (copy,) = binary_copies(rows, jsonb=True, half=half)
    field = struct.pack(">hh", 2, 0) + struct.pack(form, 1.0, 2.0)
    end = struct.pack(">h", -1)
    assert copy.getvalue().endswith(struct.pack(">i", len(field)) + field + end)


def test_rows_are_copied_a_thousand_at_a_time():
    """1001 rows take 2 copies, so that memory stays small."""
    rows = to_rows([_node(id_=str(at)) for at in range(1001)], 2)
    assert len(list(binary_copies(rows, jsonb=True, half=False))) == 2

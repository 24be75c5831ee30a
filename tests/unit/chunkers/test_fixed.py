"""Fixed windows are literally slices of the text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import Document

from scholar_rag_li.chunkers import FixedChunker

PIECES = [
    "Sí. ",
    "año\r\n",
    "an\u0303o",
    "👩‍🔬",
    "\t",
    " " * 30,
    "a" * 20,
    "| 7 | 7 |\n",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map(
    "".join
)


def texts_of(text, size, overlap):
    document = Document(id_="d", text=text)
    return [chunk.text for chunk in FixedChunker(size, overlap)([document])]


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 60), st.data())
def test_windows_are_slices_at_a_step(text, size, data):
    """text[i:i+size] for i in steps of size - overlap, blank ones dropped."""
    overlap = data.draw(st.integers(0, size - 1))
    windows = [text[i : i + size] for i in range(0, len(text), size - overlap)]
    assert texts_of(text, size, overlap) == [w for w in windows if w.strip()]


def test_blanks_at_the_ends_are_kept():
    """Nothing is stripped."""
    assert texts_of("  ab  cd", 4, 0) == ["  ab", "  cd"]


def test_the_tail_is_kept():
    """Also one that the window before holds whole: 'd' is in 'bcd'."""
    assert texts_of("abcd", 3, 2) == ["abc", "bcd", "cd", "d"]


def test_blank_windows_are_dropped_and_not_counted():
    """The window of four blanks takes no ordinal."""
    chunks = FixedChunker(4, 0)([Document(id_="d", text="abcd    efgh")])
    assert [(c.node_id, c.start_char_idx) for c in chunks] == [("d#0", 0), ("d#1", 8)]


@pytest.mark.parametrize(("length", "windows"), [(1, 1), (850, 1), (851, 2), (1000, 2)])
def test_the_default_is_that_of_the_first_corpus(length, windows):
    """1000 characters with 150 of overlap: a window starts at every 850th."""
    document = Document(id_="d", text="a" * length)
    assert len(FixedChunker()([document])) == windows


def test_size_counts_characters():
    """Five emoji are five, whatever they take in bytes or tokens."""
    assert texts_of("😀" * 10, 5, 0) == ["😀" * 5, "😀" * 5]

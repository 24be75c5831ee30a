"""Sentences packed as LlamaIndex's splitter packs them, with exact spans."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document

from scholar_rag_li.chunkers import SentenceChunker
from scholar_rag_li.errors import ConfigError

PIECES = [
    "Sí. ",
    "El agua, dulce; y la sal.",
    "Dijo el Sr. Pérez: «no».  ",
    "an\u0303o ",
    "👩‍🔬🇪🇸",
    "\r\n",
    "\n\n\n",
    "\t",
    "   ",
    "| 7 | 7 |\n",
    "sinespacios" * 5,
    "日本語。",
    "¿Qué? ¡Eso! ",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map(
    "".join
)
LONG = "".join(f"Párrafo {i} de la tesis sobre el agua. " for i in range(60))


def texts_of(parser, text):
    return [chunk.text for chunk in parser([Document(id_="d", text=text)])]


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 80), st.data())
def test_the_cuts_are_those_of_llama_index(text, size, data):
    """Against SentenceSplitter with one token a character."""
    overlap = data.draw(st.integers(0, size - 1))
    parent = SentenceSplitter(
        chunk_size=size, chunk_overlap=overlap, tokenizer=list
    ).split_text(text)
    expected = [chunk for chunk in parent if chunk]  # it makes '' of ''
    assert texts_of(SentenceChunker(size, overlap), text) == expected


@pytest.mark.parametrize(
    "settings_",
    [
        {"paragraph_separator": "\n"},
        {"separator": ","},
        {"secondary_chunking_regex": "[^;]+;?"},
        {"secondary_chunking_regex": None},
        {"chunking_tokenizer_fn": lambda text: text.splitlines(keepends=True)},
    ],
    ids=lambda settings_: next(iter(settings_)),
)
def test_the_parents_other_settings_work(settings_):
    """Each cuts as it does in SentenceSplitter."""
    text = "Uno, dos; tres y cuatro.\nCinco, seis; siete y ocho.\n\n" * 20
    common = {"chunk_size": 30, "chunk_overlap": 5} | settings_
    parent = SentenceSplitter(tokenizer=list, **common).split_text(text)
    assert texts_of(SentenceChunker(**common), text) == parent


def test_sentences_stay_whole_where_they_fit():
    """Two of 20 characters fit into 45, the third does not."""
    text = "Uno dos tres cuatro. Uno dos tres cuatro. Uno dos tres cuatro."
    assert texts_of(SentenceChunker(45, 0), text) == [
        "Uno dos tres cuatro. Uno dos tres cuatro.",
        "Uno dos tres cuatro.",
    ]


def test_overlap_takes_whole_sentences():
    """25 characters asked: the last sentence of 21 with its blank; 20: none."""
    text = "Uno dos tres cuatro. " * 4
    found = {o: texts_of(SentenceChunker(45, o), text) for o in (20, 25)}
    sentence = "Uno dos tres cuatro."
    pair = f"{sentence} {sentence}"
    assert found == {20: [pair, pair], 25: [pair, pair, pair]}


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(2, 80), st.data())
def test_the_overlap_is_at_most_what_was_asked(text, size, data):
    """Characters shared by a chunk and the next."""
    overlap = data.draw(st.integers(0, size - 1))
    spans = SentenceChunker(size, overlap).spans(text)
    shared = [a[1] - b[0] for a, b in pairwise(spans)]
    assert max(shared, default=0) <= overlap


def test_sizes_count_characters_also_by_from_defaults():
    """The parent's own constructor would count tokens of an OpenAI model."""
    parser = SentenceChunker.from_defaults(chunk_size=100, chunk_overlap=15)
    assert texts_of(parser, LONG) == texts_of(SentenceChunker(100, 15), LONG)


def test_ids_are_stable_also_by_from_defaults():
    """Random ids would make every run another one."""
    parser = SentenceChunker.from_defaults(chunk_size=100, chunk_overlap=15)
    assert parser([Document(id_="d", text=LONG)])[1].node_id == "d#1"


def test_one_word_answers_are_exact():
    """2000 times 'Sí. ' in chunks of 100: 25 of 4 characters, the last blank off."""
    spans = SentenceChunker(100, 0).spans("Sí. " * 2000)
    assert spans == [(start, start + 99) for start in range(0, 8000, 100)]


@pytest.mark.parametrize(
    "tokenizer",
    [
        str.split,
        lambda text: [text[:9].upper(), text[9:]],
        lambda text: [text[:9], text[10:]],
    ],
    ids=["blanks lost", "changed", "a character lost"],
)
def test_a_sentence_tokenizer_that_changes_the_text_is_refused(tokenizer):
    """Offsets could not be exact; the message says what is wanted."""
    parser = SentenceChunker(30, 5, chunking_tokenizer_fn=tokenizer)
    with pytest.raises(ConfigError, match="must return pieces that join to the text"):
        parser.spans("Una frase. Otra frase que sigue. Y otra más, la última.")

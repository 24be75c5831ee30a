"""What every chunker promises: exact spans, stable ids, untouched input."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import (
    Document,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)

from scholar_rag_li.chunkers import FixedChunker, SentenceChunker
from scholar_rag_li.chunkers.spans import SpanParser, trimmed
from scholar_rag_li.errors import ConfigError

CHUNKERS = [FixedChunker, SentenceChunker]
every_chunker = pytest.mark.parametrize("chunker", CHUNKERS)
many = settings(max_examples=100, deadline=None)

PIECES = [
    "Sí. ",
    "El agua, dulce; y la sal.",
    "an\u0303o ",  # NFD
    "👩‍🔬🇪🇸",
    "\r\n",
    "\n\n\n",
    "\t",
    "\u00a0 \u2003",
    "   ",
    "| 7 | 7 |\n",
    "sinespacios" * 5,
    "日本語。",
    "¿Qué? ¡Eso! (art. 87.3) ",
    "x",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map(
    "".join
)
SIZES = st.integers(1, 80).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(0, size - 1))
)
LONG = "".join(f"Párrafo {i} de la tesis sobre el agua. " for i in range(60))
ODD_TEXTS = {
    "one-word answers": "Sí. " * 2000,
    "equal table rows": "| 7,5 | 7,5 |\n" * 300,
    "one word": "palabra",
    "no blanks": "palabra" * 700,
    "decomposed accents, CRLF": "Can\u0303o\r\n\r\nan\u0303o\t" * 200,
    "emoji": "👩‍🔬 mide 🇪🇸. " * 200,
    "a blank middle": "Antes. " + " \n" * 1500 + "Después.",
}


def chunks_of(chunker, text, **document):
    return chunker([Document(id_="d", text=text, **document)])


def spans_of(chunks):
    return [(chunk.start_char_idx, chunk.end_char_idx) for chunk in chunks]


@pytest.mark.parametrize("chunker", CHUNKERS)
@many
@given(text=TEXTS, sizes=SIZES)
def test_a_chunk_is_its_span(chunker, text, sizes):
    """source[start:end] == chunk text, for any text and size."""
    chunks = chunks_of(chunker(*sizes), text)
    texts = [chunk.text for chunk in chunks]
    assert [text[start:end] for start, end in spans_of(chunks)] == texts


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
@every_chunker
def test_a_chunk_is_its_span_where_a_search_would_err(chunker, text):
    """Repeated text, equal rows, long blanks: not one offset is wrong."""
    chunks = chunks_of(chunker(100, 15), text)
    wrong = [c for c in chunks if text[c.start_char_idx : c.end_char_idx] != c.text]
    assert (wrong, len(chunks) > 0) == ([], True)


@every_chunker
def test_spans_of_repeated_text_move_on(chunker):
    """2000 times 'Sí. ': every chunk starts after the one before."""
    starts = [
        start for start, _ in spans_of(chunks_of(chunker(100, 15), "Sí. " * 2000))
    ]
    assert starts == sorted(set(starts))


@pytest.mark.parametrize("chunker", CHUNKERS)
@many
@given(text=TEXTS, sizes=SIZES)
def test_every_character_that_is_not_blank_is_in_a_chunk(chunker, text, sizes):
    """Nothing is lost between chunks."""
    spans = spans_of(chunks_of(chunker(*sizes), text))
    covered = {place for start, end in spans for place in range(start, end)}
    missing = [i for i, c in enumerate(text) if not c.isspace() and i not in covered]
    assert missing == []


@pytest.mark.parametrize("chunker", CHUNKERS)
@many
@given(text=TEXTS, sizes=SIZES)
def test_no_chunk_is_longer_than_asked_or_blank(chunker, text, sizes):
    """Counted in characters of the text itself."""
    texts = [chunk.text for chunk in chunks_of(chunker(*sizes), text)]
    assert [t for t in texts if len(t) > sizes[0] or not t.strip()] == []


@pytest.mark.parametrize("chunker", CHUNKERS)
@many
@given(text=TEXTS, sizes=SIZES)
def test_ids_are_the_document_and_the_ordinal(chunker, text, sizes):
    """d#0, d#1, ..., also where blank windows were dropped."""
    ids = [chunk.node_id for chunk in chunks_of(chunker(*sizes), text)]
    assert ids == [f"d#{i}" for i in range(len(ids))]


@every_chunker
def test_two_runs_give_the_same_nodes(chunker):
    """Ids, spans, relations and all, with new documents and a new chunker."""
    first, second = (chunks_of(chunker(100, 15), LONG) for _ in range(2))
    assert [a.to_dict() for a in first] == [b.to_dict() for b in second]


@every_chunker
def test_ids_are_unique_over_documents(chunker):
    """Two documents with the same text."""
    documents = [Document(id_=id_, text=LONG) for id_ in ("a", "b")]
    ids = [chunk.node_id for chunk in chunker(100, 15)(documents)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("text", ["", " ", "\n\t \r\n\u00a0" * 300])
@every_chunker
def test_blank_text_has_no_chunks(chunker, text):
    """No empty node is made of it."""
    assert chunks_of(chunker(100, 15), text) == []


@every_chunker
def test_no_documents_no_chunks(chunker):
    """An empty list is no error."""
    assert chunker()([]) == []


@every_chunker
def test_chunks_refer_to_their_document(chunker):
    """So that judging knows where they stand."""
    chunks = chunks_of(chunker(100, 15), LONG)
    assert {chunk.ref_doc_id for chunk in chunks} == {"d"}


@every_chunker
def test_chunks_know_their_neighbours(chunker):
    """Previous and next, as LlamaIndex's parsers give them."""
    first, second, third, *_ = chunks_of(chunker(100, 15), LONG)
    neighbours = (second.prev_node.node_id, second.next_node.node_id)
    assert neighbours == (first.node_id, third.node_id)


@every_chunker
def test_neighbours_are_not_taken_from_another_document(chunker):
    """The last chunk of one document has no next."""
    documents = [Document(id_=id_, text=LONG) for id_ in ("a", "b")]
    chunks = chunker(100, 15)(documents)
    last = [chunk for chunk in chunks if chunk.ref_doc_id == "a"][-1]
    assert last.next_node is None


@every_chunker
def test_metadata_is_inherited(chunker):
    """With the keys that are not to be read."""
    chunk = chunks_of(
        chunker(100, 15),
        LONG,
        metadata={"author": "Ñ", "file": "x"},
        excluded_embed_metadata_keys=["file"],
        excluded_llm_metadata_keys=["author"],
    )[5]
    assert (
        chunk.metadata,
        chunk.excluded_embed_metadata_keys,
        chunk.excluded_llm_metadata_keys,
    ) == ({"author": "Ñ", "file": "x"}, ["file"], ["author"])


@every_chunker
def test_metadata_does_not_eat_the_size(chunker):
    """500 characters of metadata, and chunks of 100 as without any."""
    with_metadata = chunks_of(chunker(100, 15), LONG, metadata={"abstract": "x" * 500})
    without = chunks_of(chunker(100, 15), LONG)
    assert spans_of(with_metadata) == spans_of(without)


@every_chunker
def test_metadata_can_be_left_out(chunker):
    """include_metadata is the parent's switch."""
    parser = chunker(100, 15, include_metadata=False)
    assert chunks_of(parser, LONG, metadata={"a": 1})[3].metadata == {}


@every_chunker
def test_documents_are_left_as_they_are(chunker):
    """Nothing is written into them, nor reaches them through a chunk."""
    document = Document(id_="d", text=LONG, metadata={"a": 1})
    before = document.to_dict()
    for chunk in chunker(100, 15)([document]):
        chunk.metadata["a"] = 2
        chunk.excluded_embed_metadata_keys.append("a")
        chunk.relationships.clear()
    assert document.to_dict() == before


@every_chunker
def test_nothing_is_printed(chunker, capsys):
    """The parent prints where metadata leaves less than 50."""
    chunks_of(chunker(100, 15), LONG, metadata={"abstract": "x" * 80})
    assert capsys.readouterr().out == ""


@every_chunker
def test_a_chunk_of_a_chunk_has_offsets_into_the_original(chunker):
    """Windows of 40 within windows of 200 with overlap: text[start:end] still."""
    outer = chunks_of(FixedChunker(200, 50), LONG)
    inner = chunker(40, 10)(outer)
    texts = [chunk.text for chunk in inner]
    assert [LONG[start:end] for start, end in spans_of(inner)] == texts


@every_chunker
def test_a_chunk_of_a_chunk_refers_to_the_original(chunker):
    """Judging asks for the document, not for the larger chunk."""
    inner = chunker(40, 10)(chunks_of(FixedChunker(200, 50), LONG))
    assert {chunk.ref_doc_id for chunk in inner} == {"d"}


@every_chunker
def test_a_chunk_of_a_chunk_has_an_id_of_its_own(chunker):
    """The larger chunk's id is part of it: d#0#0."""
    inner = chunker(40, 10)(chunks_of(FixedChunker(200, 50), LONG))
    ids = [chunk.node_id for chunk in inner]
    assert (ids[0], len(set(ids))) == ("d#0#0", len(ids))


@every_chunker
def test_a_chunk_of_a_chunk_without_offsets_has_none(chunker):
    """Offsets counted from nowhere would point at another text."""
    bare = TextNode(
        id_="n",
        text=LONG,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d")},
    )
    assert set(spans_of(chunker(100, 15)([bare]))) == {(None, None)}


@every_chunker
def test_a_node_without_source_counts_from_itself(chunker):
    """It is its own document."""
    chunks = chunker(100, 15)([TextNode(id_="n", text=LONG)])
    assert (chunks[0].start_char_idx, chunks[0].ref_doc_id) == (0, "n")


@every_chunker
def test_the_embedding_of_the_whole_is_not_that_of_a_part(chunker):
    """An index would take it for the chunk's own and embed nothing."""
    chunks = chunks_of(chunker(100, 15), LONG, embedding=[1.0, 0.0])
    assert {chunk.embedding for chunk in chunks} == {None}


@every_chunker
def test_async_gives_the_same(chunker):
    """aget_nodes_from_documents equals get_nodes_from_documents."""
    documents = [Document(id_="d", text=LONG, metadata={"a": 1})]
    parser = chunker(100, 15)
    found = asyncio.run(parser.aget_nodes_from_documents(documents))
    expected = parser.get_nodes_from_documents(documents)
    assert [a.to_dict() for a in found] == [b.to_dict() for b in expected]


@every_chunker
def test_an_ingestion_pipeline_runs_it(chunker):
    """As a transformation like any other, with the same nodes."""
    document = Document(id_="d", text=LONG)
    pipeline = IngestionPipeline(transformations=[chunker(100, 15)])
    found = pipeline.run(documents=[document])
    assert [a.to_dict() for a in found] == [
        b.to_dict() for b in chunker(100, 15)([document])
    ]


@every_chunker
def test_a_chunker_survives_to_dict_and_from_dict(chunker):
    """Settings and results are the same afterwards."""
    parser = chunker(90, 20, include_prev_next_rel=False)
    again = chunker.from_dict(parser.to_dict())
    assert (again.to_dict(), [c.to_dict() for c in chunks_of(again, LONG)]) == (
        parser.to_dict(),
        [c.to_dict() for c in chunks_of(parser, LONG)],
    )


@every_chunker
def test_the_class_name_is_its_own(chunker):
    """Under which LlamaIndex serialises it."""
    assert chunker().to_dict()["class_name"] == chunker.__name__


@every_chunker
def test_ids_can_be_named_otherwise(chunker):
    """id_func is the parent's argument."""
    parser = chunker(100, 15, id_func=lambda i, document: f"{document.id_}/{i:03}")
    assert chunks_of(parser, LONG)[1].node_id == "d/001"


@every_chunker
def test_a_chunk_reads_as_its_text_and_metadata(chunker):
    """The embedder reads what LlamaIndex makes of a node."""
    chunk = chunks_of(chunker(100, 15), LONG, metadata={"a": "b"})[0]
    assert chunk.get_content(MetadataMode.EMBED) == f"a: b\n\n{chunk.text}"


@pytest.mark.parametrize("size", [0, -5])
@every_chunker
def test_a_size_below_one_is_refused(chunker, size):
    """The message says what was given."""
    with pytest.raises(ConfigError, match=f"chunk_size is {size}; give at least 1"):
        chunker(size, 0)


@pytest.mark.parametrize("overlap", [100, 150, -1])
@every_chunker
def test_an_overlap_that_stands_still_is_refused(chunker, overlap):
    """A window must move forward."""
    message = f"chunk_overlap is {overlap} with chunk_size 100; give at least 0"
    with pytest.raises(ConfigError, match=message):
        chunker(100, overlap)


def test_a_span_parser_needs_only_its_spans():
    """The base makes ids, offsets and relations."""

    class Halves(SpanParser):
        def spans(self, text):
            return [(0, len(text) // 2), (len(text) // 2, len(text))]

    chunks = Halves()([Document(id_="d", text="aaaa")])
    assert [(c.node_id, c.text, c.start_char_idx) for c in chunks] == [
        ("d#0", "aa", 0),
        ("d#1", "aa", 2),
    ]


def test_the_base_cuts_nothing_itself():
    """A subclass without spans is found out at once."""
    with pytest.raises(NotImplementedError):
        SpanParser().spans("text")


@many
@given(TEXTS, st.data())
def test_trimmed_is_strip_with_its_place(text, data):
    """text[start:end] of the result is text[start:end].strip()."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    left, right = trimmed(text, start, end)
    assert text[left:right] == text[start:end].strip()

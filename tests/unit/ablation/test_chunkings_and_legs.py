"""Chunks by their content, and what a leg builds over them."""

from types import SimpleNamespace

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import Document, TextNode

from scholar_rag_li.ablation.components import BM25Leg, Chunking, CustomLeg, VectorLeg
from scholar_rag_li.chunkers import FixedChunker
from scholar_rag_li.errors import ConfigError
from scholar_rag_li.judging import Span
from scholar_rag_li.retrievers import LanguageBM25Retriever


class Nothing(BaseRetriever):
    """Finds nothing."""

    def __init__(self, similarity_top_k=2):
        self.similarity_top_k = similarity_top_k
        super().__init__()

    def _retrieve(self, _):
        return []


# chunkings


def chunk(name, size=4, text="abcdefgh", **metadata):
    """Cut a text into windows without overlap."""
    parser = FixedChunker(chunk_size=size, chunk_overlap=0)
    document = Document(id_="doc", text=text, metadata=metadata)
    return Chunking(name, tuple(parser.get_nodes_from_documents([document])), {})


def test_a_chunking_knows_its_texts():
    """Texts by node id, in the order of the document."""
    assert list(chunk("c").texts.items()) == [("doc#0", "abcd"), ("doc#1", "efgh")]


def test_a_chunking_knows_its_spans():
    """Each chunk's place in its document."""
    assert chunk("c").spans.span("doc#1") == Span("doc", 4, 8)


def test_texts_are_what_the_embedder_reads():
    """Metadata that the embedder reads belongs to the text."""
    assert chunk("c", title="T").texts["doc#0"] == "title: T\n\nabcd"


def test_the_same_chunks_under_another_name_are_the_same():
    """The digest is of the content: what was computed for one serves the other."""
    assert chunk("one").digest == chunk("other").digest


@pytest.mark.parametrize(
    "changes",
    [{"text": "abcdefgH"}, {"text": "abcdefg"}, {"size": 3}, {"title": "T"}],
    ids=["a character", "a character less", "the windows", "the metadata"],
)
def test_other_content_has_another_digest(changes):
    """One changed character, another cut or other metadata make another chunking."""
    assert chunk("c", **changes).digest != chunk("c").digest


def test_the_same_words_at_another_place_have_another_digest():
    """Places are judged, so they belong to the content."""
    chunking = chunk("c")
    first, second = chunking.nodes
    moved = second.model_copy(update={"start_char_idx": 3, "end_char_idx": 7})
    assert Chunking("c", (first, moved), {}).digest != chunking.digest


# legs


def services(fingerprint="e5"):
    """What a leg may ask for, without a store."""
    return SimpleNamespace(embedding_fingerprint=lambda: {"model": fingerprint})


def test_vector_rankings_depend_on_the_embedding_model():
    """Another model, another fingerprint."""
    assert VectorLeg().fingerprint(services("a")) != VectorLeg().fingerprint(
        services("b")
    )


def test_bm25_rankings_depend_on_the_language():
    """Another language, another fingerprint."""
    assert BM25Leg("es").fingerprint(services()) != BM25Leg("en").fingerprint(
        services()
    )


def test_bm25_rankings_do_not_depend_on_how_the_language_is_written():
    """Codes and names, es and spanish, are one language, and one fingerprint."""
    assert BM25Leg("es").fingerprint(services()) == BM25Leg("spanish").fingerprint(
        services()
    )


def test_legs_do_not_share_a_fingerprint():
    """What vector found is not given out for BM25."""
    assert VectorLeg().fingerprint(services()) != BM25Leg("es").fingerprint(services())


def test_a_leg_of_the_user_s_has_no_fingerprint():
    """Nothing is known of it, so that it is run again each time."""
    assert CustomLeg(Nothing()).fingerprint(services()) is None


def test_bm25_is_built_over_the_chunks():
    """LanguageBM25Retriever over the chunking's nodes, asked for the depth."""
    made = BM25Leg("es").build(services(), chunk("c", text="agua sola"), 7)
    found = type(made), made.similarity_top_k, made.retrieve("sola")[0].node_id
    assert found == (LanguageBM25Retriever, 7, "doc#1")


def test_a_function_gets_the_chunks():
    """The function is given the nodes of the chunking, as a list of its own."""
    given = []
    chunking = chunk("c")

    def make(nodes):
        given.extend(nodes)
        nodes.clear()
        return Nothing()

    CustomLeg(make).build(services(), chunking, 7)
    assert given == list(chunking.nodes)


def test_a_function_s_retriever_is_asked_for_the_depth():
    """Where it has a `similarity_top_k`, that is the depth."""
    made = CustomLeg(lambda _: Nothing()).build(services(), chunk("c"), 7)
    assert made.similarity_top_k == 7


def test_a_retriever_object_is_not_touched():
    """The user's object is used as it is, with its own `similarity_top_k`."""
    mine = Nothing(similarity_top_k=3)
    made = CustomLeg(mine).build(services(), chunk("c"), 7)
    assert (made is mine, mine.similarity_top_k) == (True, 3)


@pytest.mark.parametrize(
    ("returned", "name"), [(None, "NoneType"), ([TextNode(text="a")], "list")]
)
def test_a_function_that_returns_no_retriever_is_refused(returned, name):
    """The message says what came back and what is wanted."""
    with pytest.raises(ConfigError) as caught:
        CustomLeg(lambda _: returned).build(services(), chunk("c"), 7)
    assert str(caught.value) == (
        f"the retriever function returned {name}; it must return a LlamaIndex "
        "BaseRetriever"
    )

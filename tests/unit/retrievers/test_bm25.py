"""BM25 in one language on both sides; each trap of the stock retriever, done right."""

import asyncio
import contextlib
import io

import bm25s
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import IndexNode, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.retrievers.bm25 import BM25Retriever

from scholar_rag_li.errors import ConfigError, UnknownComponentError
from scholar_rag_li.language import Analyzer, language
from scholar_rag_li.retrievers.bm25 import LanguageBM25Retriever

TEXTS = {
    "t#0": "Las elecciones municipales se celebran cada cuatro años.",
    "t#1": "El agua potable se analiza cada semana.",
    "t#2": "La elección de la muestra sigue el protocolo municipal de agua.",
    "t#3": "Los plazos de entrega del agua.",
}


def nodes_of(texts):
    """Make chunks with spans and metadata that is not read."""
    return [
        TextNode(
            id_=id_,
            text=text,
            start_char_idx=10 * i,
            end_char_idx=10 * i + len(text),
            metadata={"year": 2020 + i},
            excluded_embed_metadata_keys=["year"],
        )
        for i, (id_, text) in enumerate(texts.items())
    ]


def ids(hits):
    return [hit.node_id for hit in hits]


def search(texts, question, **settings):
    return ids(LanguageBM25Retriever(nodes_of(texts), **settings).retrieve(question))


@pytest.fixture
def nodes():
    return nodes_of(TEXTS)


@pytest.mark.parametrize("question", ["¿Cuánta agua hay en la elección?", "agua agua"])
def test_scores_are_those_of_bm25s_on_the_same_tokens(nodes, question):
    """The reference: bm25s with its defaults, its own top-k, no metadata."""
    analyzer = Analyzer(language("es"))
    reference = bm25s.BM25()
    reference.index([analyzer(text) for text in TEXTS.values()], show_progress=False)
    found, scores = reference.retrieve([analyzer(question)], k=3, show_progress=False)
    names = list(TEXTS)
    expected = {
        names[i]: float(s) for i, s in zip(found[0], scores[0], strict=True) if s > 0
    }
    hits = LanguageBM25Retriever(nodes, similarity_top_k=3).retrieve(question)
    assert {hit.node_id: hit.score for hit in hits} == expected


def test_a_question_in_spanish_finds_the_other_number():
    """Elección finds elecciones; the question words find nothing."""
    texts = {
        "a": "La muestra municipal se repite cuando se puede.",
        "b": "Las elecciones municipales son en mayo.",
    }
    assert search(texts, "¿Cuándo es la elección municipal?") == ["b", "a"]


@pytest.mark.parametrize(
    ("texts", "question", "first"),
    [
        ({"a": "pieza AX-7/9", "b": "pieza AX-7/8"}, "AX-7/8", "b"),
        ({"a": "Anexo A", "b": "Anexo B", "c": "Anexo C"}, "Anexo B", "b"),
        ({"a": "Anexo B", "b": "Anexo A", "c": "va a casa"}, "Anexo A", "b"),
        ({"a": "la COVID-20", "b": "la COVID-19"}, "COVID 19", "b"),
        ({"a": "la COVID 20", "b": "la COVID 19"}, "COVID-19", "b"),
        ({"a": "el art. 87.2", "b": "el art. 87.3"}, "artículo 87.3", "b"),
        ({"a": "el art. 88", "b": "el art. 87.3"}, "artículo 87", "b"),
        ({"a": "Ley 40/2015", "b": "Ley 39/2015"}, "Ley 39/2015", "b"),
        ({"a": "INC-2023-Q4-012", "b": "INC-2023-Q4-011"}, "INC-2023-Q4-011", "b"),
        ({"a": "programa en C#", "b": "programa en C++"}, "programa C++", "b"),
        ({"a": "el ano", "b": "el año"}, "año", "b"),
    ],
)
def test_the_code_that_was_asked_for_comes_first(texts, question, first):
    """A neighbour that differs in one character ranks below or not at all."""
    assert search(texts, question)[0] == first


def test_a_question_in_capitals_finds_the_word():
    """LOS PLAZOS is plazos."""
    assert search(TEXTS, "LOS PLAZOS") == ["t#3"]


def test_a_question_without_accents_finds_the_word():
    """Investigacion finds investigación."""
    assert search({"a": "la investigación", "b": "el agua"}, "investigacion") == ["a"]


def test_english_is_one_setting_away():
    """The English stemmer meets "elections" and "election"."""
    texts = {"a": "The elections", "b": "The water"}
    assert search(texts, "when is the election", language="en") == ["a"]


@pytest.mark.parametrize("question", ["zapatos", "", "!!!", "de la que", "(("])
def test_no_match_is_an_empty_list(nodes, question):
    """Nodes of score 0 would be rewarded by a fusion."""
    assert LanguageBM25Retriever(nodes).retrieve(question) == []


def test_fewer_matches_are_fewer_results(nodes):
    """Agua is in three of four chunks."""
    hits = LanguageBM25Retriever(nodes, similarity_top_k=4).retrieve("agua")
    assert sorted(ids(hits)) == ["t#1", "t#2", "t#3"]


def test_k_beyond_the_corpus_keeps_the_setting(nodes):
    """The parent writes 4 into the user's setting."""
    retriever = LanguageBM25Retriever(nodes, similarity_top_k=50)
    retriever.retrieve("agua")
    assert retriever.similarity_top_k == 50


def test_k_can_be_changed_later(nodes):
    """The setting is read with each question, as in the parent."""
    retriever = LanguageBM25Retriever(nodes, similarity_top_k=3)
    retriever.similarity_top_k = 1
    assert len(retriever.retrieve("agua")) == 1


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(nodes, k):
    """A slice up to -1 would drop the last result in silence."""
    with pytest.raises(ConfigError, match=f"similarity_top_k is {k}"):
        LanguageBM25Retriever(nodes, similarity_top_k=k)


def test_ties_go_by_node_id():
    """Equal texts have equal scores, also where k cuts through them."""
    texts = dict.fromkeys(["c", "a", "d", "b"], "el mismo texto")
    assert search(texts, "texto", similarity_top_k=2) == ["a", "b"]


@pytest.mark.parametrize("texts", [{}, {"a": ""}, {"a": "¡!", "b": "de la"}])
def test_a_corpus_without_words_answers_nothing(texts):
    """No chunks, or none with a token, is no error."""
    assert search(texts, "agua") == []


def test_scores_are_plain_floats(nodes):
    """Numpy's numbers are not JSON."""
    hits = LanguageBM25Retriever(nodes).retrieve("agua")
    assert {type(hit.score) for hit in hits} == {float}


def test_a_returned_node_is_equal_to_the_one_given(nodes):
    """Id, text, metadata and span are as they were."""
    (hit,) = LanguageBM25Retriever(nodes).retrieve("plazos")
    assert hit.node == nodes[3]


def test_metadata_keeps_its_types():
    """The parent's way through JSON makes a list of a tuple."""
    node = TextNode(text="plazos", metadata={"pages": (3, 4)})
    (hit,) = LanguageBM25Retriever([node]).retrieve("plazos")
    assert hit.node.metadata["pages"] == (3, 4)


def test_changing_a_result_does_not_reach_the_index(nodes):
    """The same question has the same answer, whatever was done to the last one."""
    retriever = LanguageBM25Retriever(nodes)
    (hit,) = retriever.retrieve("plazos")
    hit.node.metadata["seen"] = True
    hit.node.excluded_llm_metadata_keys.append("seen")
    hit.node.set_content("otra cosa")
    assert retriever.retrieve("plazos")[0].node == nodes[3]


def test_changing_a_given_node_does_not_reach_the_index(nodes):
    """The index holds what was indexed."""
    retriever = LanguageBM25Retriever(nodes)
    nodes[3].metadata["year"] = 1900
    (hit,) = retriever.retrieve("plazos")
    assert hit.node.metadata == {"year": 2023}


def test_the_given_nodes_stay_as_they_are(nodes):
    """Neither indexing nor asking writes into them."""
    before = [node.model_dump() for node in nodes]
    LanguageBM25Retriever(nodes).retrieve("agua")
    assert [node.model_dump() for node in nodes] == before


def test_the_object_behind_a_node_is_followed():
    """Recursive retrieval works as in any LlamaIndex retriever."""
    target = TextNode(id_="target", text="otra cosa")
    node = IndexNode(id_="i", index_id="x", text="los plazos", obj=target)
    assert ids(LanguageBM25Retriever([node]).retrieve("plazos")) == ["target"]


def test_what_an_embedder_does_not_read_is_not_indexed():
    """A key excluded for the embedder is no text; the others are."""
    node = TextNode(
        text="agua",
        metadata={"file": "ruta", "title": "Presas"},
        excluded_embed_metadata_keys=["file"],
    )
    retriever = LanguageBM25Retriever([node])
    assert [len(retriever.retrieve(q)) for q in ("ruta", "presas")] == [0, 1]


def years_from(year):
    return MetadataFilters(
        filters=[MetadataFilter(key="year", value=year, operator=FilterOperator.GTE)]
    )


def test_a_filter_leaves_what_matches_both(nodes):
    """Agua is in chunks 1, 2 and 3; years from 2022 are chunks 2 and 3; k is 4."""
    retriever = LanguageBM25Retriever(
        nodes, similarity_top_k=4, filters=years_from(2022)
    )
    assert sorted(ids(retriever.retrieve("agua"))) == ["t#2", "t#3"]


def test_a_filter_that_leaves_nothing_is_the_parents_error(nodes):
    """As in LlamaIndex: refused when the retriever is made."""
    with pytest.raises(ValueError, match="filtered out"):
        LanguageBM25Retriever(nodes, filters=years_from(3000))


def test_async_gives_the_same(nodes):
    """Both doors lead to one ranking."""
    retriever = LanguageBM25Retriever(nodes)
    found = asyncio.run(retriever.aretrieve("agua"))
    assert found == retriever.retrieve("agua")


def test_nothing_is_printed(nodes, tmp_path):
    """bm25s draws progress bars unless it is told not to."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        LanguageBM25Retriever(nodes, verbose=True).persist(str(tmp_path))
        LanguageBM25Retriever.from_persist_dir(str(tmp_path)).retrieve("agua")
    assert out.getvalue() == ""


def test_an_unknown_language_is_refused(nodes):
    """Before anything is indexed."""
    with pytest.raises(UnknownComponentError):
        LanguageBM25Retriever(nodes, language="klingon")


def test_nodes_or_an_index_must_be_given():
    """An empty corpus is [], not nothing."""
    with pytest.raises(ConfigError, match="Give nodes"):
        LanguageBM25Retriever()


@pytest.mark.parametrize("source", ["nodes", "docstore", "index"])
def test_from_defaults_takes_any_source(nodes, source):
    """As in LlamaIndex: nodes, a docstore, or an index with one."""
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    sources = {
        "nodes": nodes,
        "docstore": docstore,
        "index": VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2)),
    }
    retriever = LanguageBM25Retriever.from_defaults(
        **{source: sources[source]}, language="es", similarity_top_k=1
    )
    assert ids(retriever.retrieve("plazos")) == ["t#3"]


def test_from_defaults_takes_an_empty_list_for_a_corpus():
    """It is a source with nothing in it."""
    assert LanguageBM25Retriever.from_defaults(nodes=[]).retrieve("agua") == []


@pytest.mark.parametrize(
    "given", [{}, {"nodes": [], "docstore": SimpleDocumentStore()}]
)
def test_from_defaults_wants_exactly_one_source(given):
    """None or two leave open what to index."""
    with pytest.raises(ConfigError, match="exactly one"):
        LanguageBM25Retriever.from_defaults(**given)


def test_an_index_without_text_of_its_own_is_refused(nodes):
    """With a store that keeps the text, the docstore is empty and so would be BM25."""
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2))
    index.vector_store.stores_text = True
    for id_ in list(index.docstore.docs):
        index.docstore.delete_document(id_)
    with pytest.raises(ConfigError, match="nodes="):
        LanguageBM25Retriever.from_defaults(index=index)


@pytest.fixture
def saved(nodes, tmp_path):
    """Make an English retriever over Spanish text, which ranks unlike a Spanish one."""
    retriever = LanguageBM25Retriever(
        nodes, language="en", similarity_top_k=7, filters=years_from(2021)
    )
    retriever.persist(str(tmp_path))
    return retriever, str(tmp_path)


def test_a_persisted_retriever_answers_the_same(saved):
    """Scores, nodes, filter and language survive."""
    retriever, path = saved
    loaded = LanguageBM25Retriever.from_persist_dir(path)
    question = "elecciones del agua y plazo"
    assert loaded.retrieve(question) == retriever.retrieve(question)


def test_a_persisted_retriever_keeps_its_settings(saved):
    """Language, k and mask are those it was saved with."""
    retriever, path = saved
    loaded = LanguageBM25Retriever.from_persist_dir(path)
    assert loaded.get_persist_args() == retriever.get_persist_args()


def test_an_index_of_other_rules_is_built_again(saved, monkeypatch):
    """Old tokens in the index and new ones in the question would not meet."""
    _, path = saved
    monkeypatch.setattr("scholar_rag_li.language.RULES", 999)
    monkeypatch.setattr(Analyzer, "_term", lambda _self, word, _stem: f"new:{word}")
    loaded = LanguageBM25Retriever.from_persist_dir(path)
    assert ids(loaded.retrieve("plazos")) == ["t#3"]


def test_an_empty_retriever_survives_the_disk(tmp_path):
    """No nodes in, none out."""
    LanguageBM25Retriever([]).persist(str(tmp_path))
    assert LanguageBM25Retriever.from_persist_dir(str(tmp_path)).retrieve("agua") == []


def test_a_directory_of_the_stock_retriever_is_refused(nodes, tmp_path):
    """It does not say which language its tokens are in."""
    BM25Retriever(nodes, similarity_top_k=2).persist(str(tmp_path), show_progress=False)
    with pytest.raises(ConfigError, match="names no language"):
        LanguageBM25Retriever.from_persist_dir(str(tmp_path))


def test_the_fingerprint_names_language_and_formula(nodes):
    """A cache key changes with anything that changes a score."""
    fingerprint = LanguageBM25Retriever(nodes).fingerprint
    expected = Analyzer(language("es")).fingerprint + (
        f"-lucene-k1=1.5-b=0.75-bm25s{bm25s.__version__}"
    )
    assert fingerprint == expected


def test_the_constants_are_those_of_bm25s():
    """The formula is bm25s's default one: k1, b and variant."""
    default = bm25s.BM25()
    ours = LanguageBM25Retriever([]).bm25
    assert (ours.k1, ours.b, ours.method, ours.idf_method) == (
        default.k1,
        default.b,
        default.method,
        default.idf_method,
    )

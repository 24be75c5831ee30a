"""The store is a PGVectorStore that replaces, checks, and answers exactly."""

import asyncio
import threading

import numpy as np
import pytest
import sqlalchemy as sa
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.postgres import PGVectorStore

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store import open_store

pytestmark = pytest.mark.integration

DIMENSIONS = 3


class LetterEmbedding(BaseEmbedding):
    """Counts of a, of e and of all letters: other words, another vector."""

    def _get_text_embedding(self, text):
        return [1.0 + text.count("a"), 1.0 + text.count("e"), 1.0 + len(text)]

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


def _node(node_id, vector=(1.0, 0.0, 0.0), **metadata):
    """A chunk of the document before the # of its id."""
    source = RelatedNodeInfo(node_id=node_id.split("#")[0])
    return TextNode(
        id_=node_id,
        text=f"texto de {node_id}",
        embedding=list(vector),
        metadata=metadata,
        relationships={NodeRelationship.SOURCE: source},
    )


def _query(vector=(1.0, 0.0, 0.0), k=10, **fields):
    return VectorStoreQuery(query_embedding=list(vector), similarity_top_k=k, **fields)


def _where(*filters, condition=FilterCondition.AND):
    return MetadataFilters(
        filters=[
            MetadataFilter(key=key, operator=operator, value=value)
            for key, operator, value in filters
        ],
        condition=condition,
    )


def _ids(nodes):
    return [node.node_id for node in nodes]


@pytest.fixture
def store(database, table):
    """A new store of three dimensions."""
    return open_store(database=database, table=table, embed_dim=DIMENSIONS)


# Adding


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_node_comes_back_as_it_was(store, way):
    """Text, metadata, source and single-precision vector survive."""
    node = _node("d#0", (0.25, -1.5, 3.0), título="Año 'O\\\t\n", año=2020, tags=["ñ"])
    if way == "sync":
        store.add([node])
    else:
        asyncio.run(store.async_add([node]))
    assert store.get_nodes(["d#0"]) == [node]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_adding_again_replaces(store, way):
    """The same two nodes twice are two rows."""
    for _ in range(2):
        if way == "sync":
            store.add([_node("d#0"), _node("d#1")])
        else:
            asyncio.run(store.async_add([_node("d#0"), _node("d#1")]))
    assert store.count() == 2


@pytest.mark.parametrize("way", ["sync", "async"])
def test_replace_removes_vanished_chunks(store, way):
    """A document of three chunks becomes one of two; another one stays."""
    store.add([_node("d#0"), _node("d#1"), _node("d#2"), _node("e#0")])
    shorter = [_node("d#0"), _node("d#1")]
    if way == "sync":
        store.replace(shorter)
    else:
        asyncio.run(store.areplace(shorter))
    assert _ids(store.nodes()) == ["d#0", "d#1", "e#0"]


def test_one_bad_node_keeps_all_out(store):
    """Nothing is half written, and the error names the node."""
    with pytest.raises(StoreError, match="d#1"):
        store.add([_node("d#0"), _node("d#1", (0.0, 0.0, 0.0))])
    assert store.count() == 0


def test_a_failed_replace_keeps_the_old_chunks(store):
    """A check that fails comes before the deletion."""
    store.add([_node("d#0")])
    with pytest.raises(StoreError):
        store.replace([_node("d#0", (1.0,))])
    assert store.count() == 1


def test_nothing_to_add_is_fine(store):
    """No node, no id."""
    assert store.add([]) == []


def test_more_than_one_copy_is_one_transaction(store):
    """1001 rows take two copies."""
    store.add([_node(f"d#{at}") for at in range(1001)])
    assert store.count() == 1001


def test_eight_threads_add_to_one_table_that_is_new(database, table):
    """A first use at the same time loses no row and doubles none."""
    errors = []

    def opening():
        try:
            opened = open_store(database=database, table=table, embed_dim=DIMENSIONS)
            opened.add([_node(f"d#{at}") for at in range(20)])
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=opening) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened = open_store(database=database, table=table, embed_dim=DIMENSIONS)
    assert (errors, opened.count()) == ([], 20)


# Reading and deleting


def test_no_ids_give_no_nodes(store):
    """An empty list is not the whole table."""
    store.add([_node("d#0")])
    assert store.get_nodes(node_ids=[]) == []


def test_nodes_come_in_the_order_of_the_ids_asked_for(store):
    """Unknown ids are left out."""
    store.add([_node("d#0"), _node("d#1")])
    assert _ids(store.get_nodes(["d#1", "no", "d#0"])) == ["d#1", "d#0"]


def test_nodes_stand_in_the_order_of_document_and_ordinal(store):
    """10 comes after 9, not after 1."""
    ids = ["a#0", "b#1", "b#9", "b#10"]
    store.add([_node(node_id) for node_id in reversed(ids)])
    assert _ids(store.nodes()) == ids


def test_delete_removes_one_document(store):
    """Its rows and no other's."""
    store.add([_node("d#0"), _node("d#1"), _node("e#0")])
    store.delete("d")
    assert _ids(store.nodes()) == ["e#0"]


@pytest.mark.parametrize("ref_doc_id", ["", "None"])
def test_nodes_without_a_document_are_not_deleted_by_accident(store, ref_doc_id):
    """'None' is what LlamaIndex stores for all of them."""
    store.add([TextNode(id_="x", text="x", embedding=[1.0, 0.0, 0.0])])
    with pytest.raises(StoreError, match="without a document"):
        store.delete(ref_doc_id)


def test_deleting_no_ids_deletes_nothing(store):
    """Also when a filter would match."""
    store.add([_node("d#0", kind="x")])
    store.delete_nodes([], _where(("kind", "==", "x")))
    assert store.count() == 1


def test_deleting_without_a_condition_is_refused(store):
    """An empty group of filters is not "all"."""
    with pytest.raises(StoreError, match=r"clear\(\)"):
        store.delete_nodes(filters=MetadataFilters(filters=[]))


def test_clear_empties_the_table(store):
    """Nothing is left."""
    store.add([_node("d#0")])
    store.clear()
    assert store.count() == 0


# Querying


def test_results_are_the_cosines_of_all_rows(store):
    """Numpy's cosines over 200 random vectors, best first, to six digits."""
    vectors = np.random.default_rng(7).normal(size=(200, DIMENSIONS))
    store.add([_node(f"d#{at}", row) for at, row in enumerate(vectors.tolist())])
    asked = np.array([0.3, -0.2, 0.9])
    cosines = vectors @ asked / np.linalg.norm(vectors, axis=1) / np.linalg.norm(asked)
    best = np.argsort(-cosines)[:50]
    result = store.query(_query(asked.tolist(), 50))
    assert (result.ids, result.similarities) == (
        [f"d#{at}" for at in best],
        pytest.approx(cosines[best].tolist(), abs=1e-6),
    )


def test_both_ways_of_asking_answer_alike(store):
    """Sync and async give the same ids and scores."""
    store.add([_node(f"d#{at}", (1.0, at, 2.0)) for at in range(9)])
    one = store.query(_query((1.0, 1.0, 1.0)))
    other = asyncio.run(store.aquery(_query((1.0, 1.0, 1.0))))
    assert (one.ids, one.similarities) == (other.ids, other.similarities)


def test_equal_similarities_stand_in_the_order_of_ids(store):
    """By code point: upper case, then lower case, then beyond ASCII."""
    ids = ["A", "B", "a", "b", "á"]
    store.add([_node(node_id) for node_id in ["b", "á", "A", "a", "B"]])
    assert store.query(_query()).ids == ids


@pytest.mark.parametrize(
    "mode", [VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR]
)
def test_similarities_are_plain_floats(store, mode):
    """Not numpy's, in any mode."""
    store.add([_node("d#0"), _node("d#1")])
    result = store.query(_query(k=2, mode=mode))
    assert {type(value) for value in result.similarities} == {float}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (_query((1.0, 0.0)), "2 dimensions"),
        (_query((0.0, 0.0, 0.0)), "no cosine"),
        (_query(k=0), "1 or more"),
        (_query(k=-1), "1 or more"),
        (_query(mode=VectorStoreQueryMode.HYBRID), "'hybrid' is not supported"),
        (VectorStoreQuery(query_str="x"), "no embedding"),
    ],
)
def test_a_query_without_an_answer_is_refused(store, query, said):
    """The reason is in the text."""
    with pytest.raises(StoreError, match=said):
        store.query(query)


# Filters


@pytest.fixture
def filtered(store):
    """Four nodes whose metadata differ in every way."""
    store.add(
        [
            _node("d#0", autor="O'Brien", año=2020),
            _node("d#1", autor='x" OR "1', año="2020"),
            _node("d#2", autor="Ñu", año=2021.5),
            _node("d#3"),
        ]
    )
    return store


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (_where(("autor", "==", "O'Brien")), {"d#0"}),
        (_where(("autor", "==", "x' OR '1'='1")), set()),
        (_where(("autor' OR '1'='1", "==", "x")), set()),
        (_where(("autor", "!=", "O'Brien")), {"d#1", "d#2", "d#3"}),
        (_where(("autor", "in", ["Ñu", 'x" OR "1'])), {"d#1", "d#2"}),
        (_where(("autor", "in", [])), set()),
        (_where(("autor", "nin", ["Ñu"])), {"d#0", "d#1", "d#3"}),
        (_where(("autor", "nin", [])), {"d#0", "d#1", "d#2", "d#3"}),
        (_where(("año", "==", 2020)), {"d#0"}),
        (_where(("año", "==", "2020")), {"d#1"}),
        (_where(("año", ">", 2020)), {"d#2"}),
        (_where(("año", ">=", 2020)), {"d#0", "d#2"}),
        (_where(("año", "<", 2021)), {"d#0"}),
        (_where(("año", "<=", "2021")), {"d#1"}),
        (_where(("autor", "==", "Ñu"), ("año", ">", 0)), {"d#2"}),
        (
            _where(
                ("autor", "==", "Ñu"),
                ("año", "==", 2020),
                condition=FilterCondition.OR,
            ),
            {"d#0", "d#2"},
        ),
        (
            _where(("autor", "==", "Ñu"), condition=FilterCondition.NOT),
            {"d#0", "d#1", "d#3"},
        ),
        (MetadataFilters(filters=[]), {"d#0", "d#1", "d#2", "d#3"}),
    ],
)
def test_a_filter_keeps_what_it_says(filtered, where, expected):
    """Typed comparison; a node without the key matches `!=`, `nin` and NOT only."""
    assert set(filtered.query(_query(filters=where)).ids) == expected


def test_a_filter_in_async_is_the_same(filtered):
    """Asyncpg binds the values as well."""
    result = asyncio.run(
        filtered.aquery(_query(filters=_where(("año", "in", [2020, 2021]))))
    )
    assert result.ids == ["d#0"]


def test_an_attack_deletes_nothing(filtered):
    """The stock store would have removed every row."""
    filtered.delete_nodes(filters=_where(("autor", "==", "x' OR '1'='1")))
    assert filtered.count() == 4


def test_nodes_can_be_got_by_filter(filtered):
    """In the order of document and ordinal."""
    found = filtered.get_nodes(filters=_where(("autor", "!=", "Ñu")))
    assert _ids(found) == ["d#0", "d#1", "d#3"]


# Opening


def test_a_store_is_a_pgvectorstore(store):
    """Wherever LlamaIndex takes one it takes ours."""
    assert isinstance(store, PGVectorStore)


def test_another_dimension_is_refused_at_opening(store, database):
    """What is there and what was asked are both in the text."""
    with pytest.raises(StoreError, match=r"vector\(3\), asked was vector\(4\)"):
        open_store(database=database, table=store.table_name, embed_dim=4)


@pytest.mark.parametrize("field", ["table", "schema"])
def test_an_unsafe_name_creates_nothing(database, field):
    """Refused before the database is asked."""
    with pytest.raises(StoreError, match="not allowed"):
        open_store(database=database, embed_dim=3, **{field: "x; DROP TABLE y"})


def test_a_schema_is_created_if_it_is_missing(database, table):
    """And its table lives there."""
    opened = open_store(database=database, schema="tesis", table=table, embed_dim=3)
    opened.add([_node("d#0")])
    assert opened.count() == 1


def test_a_table_of_the_stock_store_is_taken_as_it_is(database, table):
    """JSON instead of JSONB, no unique index: adding still replaces."""
    stock = PGVectorStore(
        engine=database.engine,
        async_engine=database.async_engine,
        table_name=table,
        embed_dim=DIMENSIONS,
    )
    stock.add([_node("d#0", kind="x")])
    opened = open_store(database=database, table=table, embed_dim=DIMENSIONS)
    opened.add([_node("d#0", kind="x")])
    found = opened.query(_query(filters=_where(("kind", "==", "x"))))
    assert found.ids == ["d#0"]


def test_a_half_precision_table_is_taken_as_it_is(database, table):
    """0.5 and 2 are exact in half precision."""
    stock = PGVectorStore(
        engine=database.engine,
        async_engine=database.async_engine,
        table_name=table,
        embed_dim=DIMENSIONS,
        use_halfvec=True,
    )
    stock.add([_node("d#0")])
    opened = open_store(database=database, table=table, embed_dim=DIMENSIONS)
    opened.add([_node("d#1", (0.5, 2.0, 0.0))])
    similarity = opened.query(_query((0.5, 2.0, 0.0), 1)).similarities
    assert similarity == pytest.approx([1.0])


def test_a_dsn_opens_what_the_embedded_server_holds(store, database):
    """And `close` closes what `open_store` opened."""
    store.add([_node("d#0")])
    dsn = database.url.set(drivername="postgres").render_as_string()
    opened = open_store(dsn, table=store.table_name, embed_dim=DIMENSIONS)
    assert opened.count() == 1
    asyncio.run(opened.close())


def test_a_password_is_not_shown(database, table):
    """Neither by repr() nor by to_json(); trust authentication takes any."""
    dsn = database.url.set(drivername="postgresql", password="s3cret")  # noqa: S106
    opened = open_store(
        dsn.render_as_string(hide_password=False), table=table, embed_dim=3
    )
    asyncio.run(opened.close())
    assert "s3cret" not in repr(opened) + opened.to_json()


def test_a_database_and_a_dsn_exclude_each_other(database):
    """One address is enough."""
    with pytest.raises(StoreError, match="pass one"):
        open_store("postgresql://db/tesis", database=database, embed_dim=3)


def test_a_lost_table_is_an_error_of_ours(store, database):
    """The driver's own error does not come through."""
    with database.engine.begin() as connection:
        connection.execute(sa.text(f"DROP TABLE data_{store.table_name}"))
    with pytest.raises(StoreError, match="does not exist"):
        store.query(_query())


# In LlamaIndex


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_index_over_the_store_finds_a_text_by_itself(store, way):
    """The nearest text to a text is the same text."""
    texts = ["becas de movilidad", "plazo de entrega", "tesis"]
    index = VectorStoreIndex.from_vector_store(store, embed_model=LetterEmbedding())
    for at, text in enumerate(texts):
        index.insert(Document(id_=str(at), text=text))
    retriever = index.as_retriever(similarity_top_k=1)
    if way == "sync":
        (found,) = retriever.retrieve(texts[1])
    else:
        (found,) = asyncio.run(retriever.aretrieve(texts[1]))
    assert found.text == texts[1]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_pipeline_fills_the_store(store, way):
    """One chunk for each of two documents, with the document as its source."""
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), LetterEmbedding()], vector_store=store
    )
    documents = [Document(id_="a", text="becas"), Document(id_="b", text="tesis")]
    if way == "sync":
        pipeline.run(documents=documents)
    else:
        asyncio.run(pipeline.arun(documents=documents))
    assert [node.ref_doc_id for node in store.nodes()] == ["a", "b"]


def test_an_index_deletes_a_document_from_the_store(store):
    """`delete_ref_doc` reaches the table."""
    index = VectorStoreIndex.from_vector_store(store, embed_model=LetterEmbedding())
    index.insert(Document(id_="a", text="becas"))
    index.delete_ref_doc("a")
    assert store.count() == 0

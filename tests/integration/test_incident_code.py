"""A question that names an incident code, with the real bi-encoder."""

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding

from scholar_rag_li import (
    HybridRetriever,
    LanguageBM25Retriever,
    open_store,
    vector_retriever,
)

pytestmark = [pytest.mark.integration, pytest.mark.model]

CODES = (
    "INC-2023-Q4-012",
    "INC-2023-Q3-011",
    "INC-2023-Q4-010",
    "INC-2022-Q4-011",
    "INC-2023-Q4-011",
    "INC-2023-Q4-111",
    "INC-2021-Q4-011",
    "INC-2023-Q1-011",
)
REPORTS = (
    (
        "El parte {} recoge la parada del aerogenerador por exceso de vibración en la "
        "multiplicadora; se cambió el rodamiento y la máquina volvió a producir a los dos "
        "días."
    ),
    (
        "El parte {} recoge la parada del aerogenerador por una alarma de temperatura del "
        "generador; se limpió el filtro y la máquina volvió a producir esa misma tarde."
    ),
    (
        "El parte {} describe un fallo del sistema de orientación; el equipo sustituyó el "
        "motor y comprobó la corona dentada antes de arrancar de nuevo."
    ),
)


def test_hybrid_puts_the_named_incident_first_where_vector_does_not(
    database, table, models
):
    """Near-equal reports under near-equal codes: the exact code decides in the hybrid."""
    embed_model = HuggingFaceEmbedding(
        model_name=str(models[0]),
        query_instruction="query: ",
        text_instruction="passage: ",
    )
    nodes = []
    for number, code in enumerate(CODES):
        text = REPORTS[number % len(REPORTS)].format(code)
        node = TextNode(id_=f"n{number}", text=text)
        source = RelatedNodeInfo(node_id=code)
        node.relationships[NodeRelationship.SOURCE] = source
        node.embedding = embed_model.get_text_embedding(text)
        nodes.append(node)
    store = open_store(database=database, table=table, embed_dim=384)
    store.add(nodes)
    vector = vector_retriever(store, embed_model, similarity_top_k=8)
    hybrid = HybridRetriever([vector, LanguageBM25Retriever(nodes, language="es")])
    question = "¿Qué pasó en INC-2023-Q4-011?"
    assert vector.retrieve(question)[0].node.ref_doc_id != "INC-2023-Q4-011"
    assert hybrid.retrieve(question)[0].node.ref_doc_id == "INC-2023-Q4-011"

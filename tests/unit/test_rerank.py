"""The cross-encoder stage with known logits: order, copies, settings. No weights."""

import asyncio
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from scholar_rag_li.errors import ConfigError, ModelError
from scholar_rag_li.rerank import CrossEncoderRerank

LOGITS = {"a": -8.0, "b": 3.0, "c": 0.0}


class Scripted(CrossEncoderRerank):
    """Scores a text with the logit listed for its first word; notes what it read."""

    def predict(self, pairs, batch_size=32):
        self._model = [*(self._model or []), *pairs]
        return [LOGITS.get(text.split()[-1], 1.0) for _, text in pairs]


def hits_of(*names):
    """Make hits with falling first-stage scores .9, .8, ..."""
    return [
        NodeWithScore(
            node=TextNode(id_=name, text=name, metadata={"title": "T"}),
            score=0.9 - i / 10,
        )
        for i, name in enumerate(names)
    ]


def rerank(hits, **settings):
    return Scripted(**settings).postprocess_nodes(hits, query_str="q")


def ids(hits):
    return [hit.node_id for hit in hits]


def test_the_highest_logit_comes_first():
    """[-8, 3, 0] is delivered as 3, 0, -8: raw logits, not probabilities."""
    assert [hit.score for hit in rerank(hits_of("a", "b", "c"), top_n=3)] == [3, 0, -8]


def test_top_n_are_kept():
    """Two of three, the best ones."""
    assert ids(rerank(hits_of("a", "b", "c"), top_n=2)) == ["b", "c"]


def test_top_n_beyond_the_hits_keeps_them_all():
    """There are no more than there are."""
    assert ids(rerank(hits_of("a", "b"), top_n=9)) == ["b", "a"]


def test_ties_stay_in_the_order_they_came():
    """Unlisted names all score 1.0, between b (3) and c (0)."""
    found = rerank(hits_of("z", "c", "x", "y", "b"), top_n=5)
    assert ids(found) == ["b", "z", "x", "y", "c"]


def test_the_input_stays_as_it_is():
    """Neither scores nor metadata nor order are written into what was given."""
    hits = hits_of("a", "b", "c")
    before = [hit.model_dump() for hit in hits]
    rerank(hits, top_n=3)
    assert [hit.model_dump() for hit in hits] == before


def test_changing_a_result_does_not_reach_the_input():
    """The nodes are copies."""
    hits = hits_of("a")
    (found,) = rerank(hits)
    found.node.metadata["title"] = "changed"
    found.node.set_content("changed")
    assert hits[0].node == hits_of("a")[0].node


def test_the_first_score_is_kept_beside_the_new_one():
    """The first hit of hits_of scores .9."""
    (found,) = rerank(hits_of("b"))
    assert (found.score, found.node.metadata["retrieval_score"]) == (3.0, 0.9)


@pytest.mark.parametrize("mode", [MetadataMode.EMBED, MetadataMode.LLM])
def test_the_kept_score_is_not_read(mode):
    """Neither the next reranker nor the LLM sees another text than before."""
    hits = hits_of("b")
    (found,) = rerank(hits)
    assert found.node.get_content(mode) == hits[0].node.get_content(mode)


def test_a_second_reranker_keeps_the_score_of_retrieval():
    """.9 is the retriever's; 3.0, the first reranker's, is not put in its place."""
    (found,) = rerank(rerank(hits_of("b")))
    assert found.node.metadata["retrieval_score"] == 0.9


def test_the_first_score_can_be_left_out():
    """keep_retrieval_score is the parent's switch."""
    (found,) = rerank(hits_of("b"), keep_retrieval_score=False)
    assert found.node.metadata == {"title": "T"}


def test_only_the_candidates_are_read():
    """The best one is third, and two candidates were asked for."""
    reranker = Scripted(top_n=3, candidates=2)
    reranker.postprocess_nodes(hits_of("a", "c", "b"), query_str="q")
    assert [text for _, text in reranker._model] == ["title: T\n\na", "title: T\n\nc"]


def test_no_more_than_the_candidates_come_back():
    """What was not read has no score to be ordered by."""
    found = rerank(hits_of("a", "c", "b"), top_n=3, candidates=2)
    assert ids(found) == ["c", "a"]


def test_no_hits_give_no_hits():
    """And no model is asked."""
    assert rerank([]) == []


def test_a_missing_question_is_an_error():
    """A cross-encoder reads pairs."""
    with pytest.raises(ValueError, match="needs the question"):
        Scripted().postprocess_nodes(hits_of("a"))


def test_async_gives_the_same():
    """Both doors lead to one ranking."""
    hits = hits_of("a", "b", "c")
    bundle = QueryBundle("q")
    found = asyncio.run(Scripted(top_n=3).apostprocess_nodes(hits, bundle))
    assert found == rerank(hits, top_n=3)


@pytest.mark.parametrize("name", ["top_n", "candidates"])
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_below_one_are_refused(name, value):
    """A slice up to -1 would drop the last hit in silence."""
    with pytest.raises(ConfigError, match=f"{name} is {value}"):
        CrossEncoderRerank(**{name: value})


@pytest.mark.parametrize("name", ["top_n", "candidates"])
@pytest.mark.parametrize("value", ["5", 2.5])
def test_numbers_of_another_type_are_refused(name, value):
    """Said as what it is, not as a comparison that failed."""
    with pytest.raises(ConfigError, match=f"{name} is {value!r}; give a whole number"):
        CrossEncoderRerank(**{name: value})


@pytest.mark.parametrize("name", ["model", "device", "activation_fn"])
def test_arguments_that_are_set_elsewhere_are_refused(name):
    """They would win over the visible ones, or lose to them in silence."""
    with pytest.raises(ConfigError, match=name):
        CrossEncoderRerank(cross_encoder_kwargs={name: None})


def test_settings_survive_serialisation():
    """LlamaIndex's round trip keeps every argument."""
    reranker = CrossEncoderRerank(
        model="m",
        device="cpu",
        cache_folder="cache",
        top_n=7,
        keep_retrieval_score=False,
        cross_encoder_kwargs={"max_length": 9},
        candidates=20,
    )
    copy = CrossEncoderRerank.from_dict(reranker.to_dict())
    assert copy.to_dict() == reranker.to_dict()


def test_the_callback_event_is_the_parents():
    """One RERANKING event, start and end."""
    handler = LlamaDebugHandler(print_trace_on_end=False)
    reranker = Scripted()
    reranker.callback_manager = CallbackManager([handler])
    reranker.postprocess_nodes(hits_of("a"), query_str="q")
    assert len(handler.get_event_pairs(CBEventType.RERANKING)) == 1


class Recorder(BaseEventHandler):
    """Keeps the names of the events it is given."""

    seen: list[str] = []  # noqa: RUF012  a pydantic field

    def handle(self, event, **_kwargs):
        self.seen.append(event.class_name())


def test_the_instrumentation_events_are_the_parents():
    """Start before, end after."""
    recorder = Recorder()
    dispatcher = get_dispatcher("scholar_rag_li.rerank")
    dispatcher.add_event_handler(recorder)
    try:
        rerank(hits_of("a"))
    finally:
        dispatcher.event_handlers.remove(recorder)
    assert recorder.seen == ["ReRankStartEvent", "ReRankEndEvent"]


class FakeModel:
    """In place of the library's CrossEncoder: gives back what it is told to."""

    def __init__(self, logits):
        self.logits = logits
        self.device = SimpleNamespace(type="cpu")

    def predict(self, pairs, *, activation_fn, **arguments):
        self.arguments = arguments | {"pairs": pairs}
        return activation_fn(self.logits)


def with_model(logits):
    reranker = CrossEncoderRerank()
    reranker._model = FakeModel(logits)
    return reranker


def test_nan_is_refused():
    """NaN is neither above nor below anything, so no order is right."""
    with pytest.raises(ModelError, match=r"NaN for \('q', 'two'\)"):
        with_model([1.0, math.nan]).predict([("q", "one"), ("q", "two")])


def test_many_questions_are_one_call():
    """The library gets all pairs at once, to sort them by length."""
    reranker = with_model([1.0, 2.0])
    reranker.predict([("q", "one"), ("r", "two")], batch_size=8)
    assert reranker._model.arguments == {
        "pairs": [("q", "one"), ("r", "two")],
        "batch_size": 8,
        "show_progress_bar": False,
    }


def test_no_pairs_need_no_model():
    """No model of that name exists."""
    assert CrossEncoderRerank("./nowhere").predict([]) == []


def save_model(directory, config=(), tokenizer=()):
    """Write what a cross-encoder's directory says about itself, with empty weights."""
    base = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "L"}}
    (directory / "config.json").write_text(json.dumps(base | dict(config)))
    (directory / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer)))
    (directory / "model.safetensors").write_bytes(b"")
    (directory / "tokenizer.json").write_text("{}")
    return str(directory)


ROBERTA = {"model_type": "roberta", "pad_token_id": 1}


@pytest.mark.parametrize(
    ("config", "tokenizer", "asked", "expected"),
    [
        ({"max_position_embeddings": 512}, {}, {}, 512),
        ({"max_position_embeddings": 128}, {}, {}, 128),
        ({"max_position_embeddings": 8192}, {}, {}, 512),  # the parent's default
        ({"max_position_embeddings": 8192}, {}, {"max_length": 1024}, 1024),
        ({"max_position_embeddings": 512}, {}, {"max_length": 1024}, 512),
        ({"max_position_embeddings": 512}, {"model_max_length": 256}, {}, 256),
        ({"max_position_embeddings": 128}, {"model_max_length": 1e30}, {}, 128),
        (ROBERTA | {"max_position_embeddings": 130}, {}, {}, 130 - 2),
        ({"max_position_embeddings": -1}, {}, {}, 512),  # XLNet: no limit
        ({}, {}, {"max_length": 64}, 64),
    ],
)
def test_no_more_is_read_than_the_model_can(
    tmp_path, config, tokenizer, asked, expected
):
    """The smallest of what was asked, the model's positions, the tokenizer's limit."""
    model = save_model(tmp_path, config, tokenizer)
    reranker = CrossEncoderRerank(model, cross_encoder_kwargs=asked)
    assert reranker.max_length == expected


def test_a_bi_encoder_is_refused(tmp_path):
    """sentence-transformers would give it a random head and only log it."""
    model = save_model(tmp_path, {"architectures": ["BertModel"]})
    with pytest.raises(ModelError, match="no cross-encoder"):
        CrossEncoderRerank(model).predict([("q", "text")])


def test_a_model_that_is_not_there_is_an_error():
    """Said when it is needed; making the object loads nothing."""
    with pytest.raises(ModelError, match="nowhere"):
        CrossEncoderRerank("./nowhere").predict([("q", "text")])


@pytest.mark.parametrize(
    "settings", [{"max_length": 64}, {"model_kwargs": {"dtype": "float16"}}]
)
def test_the_fingerprint_changes_with_what_changes_a_score(tmp_path, settings):
    """Less text or coarser numbers: other scores."""
    model = save_model(tmp_path)
    other = CrossEncoderRerank(model, cross_encoder_kwargs=settings)
    assert other.fingerprint != CrossEncoderRerank(model).fingerprint


def test_the_fingerprint_does_not_change_with_what_is_kept(tmp_path):
    """top_n and candidates choose among scores."""
    model = save_model(tmp_path)
    other = CrossEncoderRerank(model, top_n=9, candidates=50)
    assert other.fingerprint == CrossEncoderRerank(model).fingerprint


def test_the_cache_folder_is_where_hub_models_are_looked_for(tmp_path, monkeypatch):
    """The hub's client is asked for the model in that folder."""
    asked = {}

    def snapshot(name, *, cache_dir, **_patterns):
        asked.update(name=name, cache_dir=cache_dir)
        return save_model(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    reranker = CrossEncoderRerank("org/name", cache_folder="folder")
    assert reranker.max_length
    assert asked == {"name": "org/name", "cache_dir": "folder"}


def test_neither_import_nor_construction_nor_fingerprint_loads_torch(tmp_path):
    """A run repeated with nothing changed must not pay for it."""
    code = (
        "import sys; from scholar_rag_li.rerank import CrossEncoderRerank;"
        f"CrossEncoderRerank({save_model(tmp_path)!r}).fingerprint;"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)  # noqa: S603  ours
    assert done.returncode == 0

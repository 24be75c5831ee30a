"""What the manifest says of chunks, of what a model cuts, and of the machine."""

import json
import platform
from importlib.metadata import version

import pytest
from llama_index.core.schema import (
    Document,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from scholar_rag_li.ablation import manifest
from scholar_rag_li.ablation.cache import Cache
from scholar_rag_li.ablation.components import Chunking
from scholar_rag_li.ablation.manifest import (
    cut_share,
    describe_chunking,
    hardware,
    versions,
)
from scholar_rag_li.chunkers import FixedChunker

# chunkings


@pytest.fixture
def described():
    """Windows of 10 with overlap 4 over 16 characters and over 8.

    Of a: 0-10, 6-16, 12-16. Of b: 0-8, 6-8.
    """
    parser = FixedChunker(chunk_size=10, chunk_overlap=4)
    documents = [Document(id_="a", text="x" * 16), Document(id_="b", text="y" * 8)]
    nodes = tuple(parser.get_nodes_from_documents(documents))
    return describe_chunking(Chunking("c", nodes, {"chunk_size": 10}))


def test_chunks_are_counted(described):
    """3 of a and 2 of b."""
    assert described["chunks"] == 3 + 2


def test_mean_characters_by_hand(described):
    """(10 + 10 + 4 + 8 + 2) / 5 = 6.8."""
    assert described["mean_characters"] == 6.8


def test_max_characters_by_hand(described):
    """No window is longer than 10."""
    assert described["max_characters"] == 10


def test_mean_overlap_by_hand(described):
    """4 and 4 in a, 2 in b, and nothing from a to b: 10 / 3."""
    assert described["mean_overlap"] == 3.3


def test_settings_are_the_chunker_s(described):
    """What the chunker was asked for stands beside what came of it."""
    assert described["settings"] == {"chunk_size": 10}


def node(id_, start, end, document="a"):
    """Make a chunk by its place."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(
        id_=id_,
        text="x" * (end - start),
        start_char_idx=start,
        end_char_idx=end,
        relationships=source,
    )


@pytest.mark.parametrize(
    ("places", "overlap"),
    [
        ([(0, 10)], 0.0),
        ([(0, 10), (10, 20)], 0.0),
        ([(0, 10), (15, 20)], 0.0),
        ([(0, 10), (8, 20)], 2.0),
        ([(0, 10), (2, 5)], 3.0),
        ([(0, 10), (0, 10)], 10.0),
    ],
    ids=["alone", "touching", "apart", "shared", "within", "same"],
)
def test_overlap_is_what_two_chunks_share(places, overlap):
    """Characters in both a chunk and the one before it."""
    nodes = tuple(node(str(i), *place) for i, place in enumerate(places))
    assert describe_chunking(Chunking("c", nodes, {}))["mean_overlap"] == overlap


def test_the_description_is_json(described):
    """The manifest is written as JSON and has to come back the same."""
    assert json.loads(json.dumps(described)) == described


# what a model cuts


@pytest.fixture
def model(tmp_path):
    """A tokenizer of words that adds [CLS] and [SEP], for a window of four tokens."""
    words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "agua": 3}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))  # noqa: S106  # no secret
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    return tmp_path


TEXTS = ["agua", "agua agua", "agua agua agua"]
"""3, 4 and 5 tokens, [CLS] and [SEP] included."""


def test_cut_share_by_hand(cache, model):
    """Of 3, 4 and 5 tokens one is beyond the window of 4: 1 / 3."""
    assert cut_share(cache, str(model), "m", TEXTS) == {
        "window_tokens": 4,
        "max_tokens": 5,
        "cut_share": 0.3333,
    }


def test_a_repeated_text_counts_as_often_as_it_is_there(cache, model):
    """The share is of chunks: 3 of 4 are beyond the window."""
    found = cut_share(cache, str(model), "m", [TEXTS[2]] * 3 + [TEXTS[0]])
    assert found["cut_share"] == 3 / 4


def test_no_text_is_cut_of_none(cache, model):
    """Without texts nothing is cut."""
    assert cut_share(cache, str(model), "m", [])["cut_share"] == 0


def test_tokens_are_counted_once(cache, memory, model):
    """What was counted is kept: the tokenizer is not even read again."""
    first = cut_share(cache, str(model), "m", TEXTS)
    (model / "tokenizer.json").write_text("no tokenizer")
    assert cut_share(Cache(memory), str(model), "m", TEXTS) == first


def test_another_model_counts_again(cache, memory, model):
    """The counts of one model are not given out for another."""
    cut_share(cache, str(model), "m", TEXTS)
    again = Cache(memory)
    cut_share(again, str(model), "other", TEXTS)
    assert again.computed == {"counting tokens": 3}


def test_unknown_without_tokenizer(cache, tmp_path):
    """A directory without tokenizer.json can't be counted with."""
    assert cut_share(cache, str(tmp_path), "m", TEXTS) is None


def test_unknown_without_window(cache, model):
    """A model that names no limit reads texts of any length, as far as is known."""
    (model / "sentence_bert_config.json").unlink()
    assert cut_share(cache, str(model), "m", TEXTS) is None


# versions and machine


def test_versions_are_the_installed_ones():
    """Python's own and those of the packages, by their distribution's name."""
    found = versions()
    assert (found["python"], found["llama-index-core"]) == (
        platform.python_version(),
        version("llama-index-core"),
    )


def test_what_is_not_installed_says_so(monkeypatch):
    """A package that is not there is no error."""
    monkeypatch.setattr(manifest, "PACKAGES", ("no-such-package",))
    assert versions()["no-such-package"] == "not installed"


def test_the_machine_is_json():
    """What latency depends on is named, and can be written."""
    found = hardware()
    assert set(json.loads(json.dumps(found))) == {
        "machine",
        "processor",
        "cpus",
        "system",
    }

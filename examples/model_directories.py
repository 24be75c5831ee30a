"""Quantised weights saved as directories that sentence-transformers loads.

Weights are saved as float16: half of float32's size, and finer than the 4 or 8 bits
that they come from. The configuration says float32, so they are computed in that.
"""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import torch
import transformers
from quantized_weights import FormatError, Weights, read_e5, read_int8_onnx

WEIGHTS_FILE_MODE = 0o644  # transformers writes it for its owner alone
SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}


def save_bi_encoder(weights_file: Path, tokenizer_file: Path, target: Path) -> None:
    """Save an E5S1 file as a bi-encoder: mean pooling, vectors of unit length.

    Raises:
        FormatError: A file can't be read, or the two number their tokens differently.
    """
    source = read_e5(weights_file)
    vocabulary = json.loads(tokenizer_file.read_bytes())["model"]["vocab"]
    if [piece for piece, _score in vocabulary] != source.pieces:
        raise FormatError(
            f"{tokenizer_file.name} is not the tokenizer of {weights_file.name}"
        )
    header = source.header
    config = transformers.BertConfig(
        vocab_size=header.vocabulary,
        hidden_size=header.hidden,
        num_hidden_layers=header.layers,
        num_attention_heads=header.heads,
        intermediate_size=header.feed_forward,
        max_position_embeddings=header.positions,
        type_vocab_size=header.token_types,
        layer_norm_eps=round(header.epsilon, 15),  # 1e-12 without float32's tail
        pad_token_id=source.pad,
    )
    # Mean pooling has no use for BERT's own pooler, and the file leaves it out. With
    # zeros in its place transformers doesn't report it as missing at every load.
    pooler = {
        "pooler.dense.weight": np.zeros((header.hidden, header.hidden), np.float32),
        "pooler.dense.bias": np.zeros(header.hidden, np.float32),
    }
    _save(transformers.BertModel(config), source.weights | pooler, target)
    shutil.copyfile(tokenizer_file, target / "tokenizer.json")
    _write_bi_encoder_files(target, hidden=header.hidden, window=header.positions)


def save_cross_encoder(onnx_file: Path, target: Path) -> None:
    """Save an int8 ONNX file, and the tokenizer beside it, as a cross-encoder.

    Raises:
        FormatError: The file can't be read, or holds another model.
    """
    config = transformers.BertConfig.from_dict(
        {  # of microsoft/MiniLM-L12-H384-uncased, from which the model was trained
            "hidden_size": 384,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
            "num_labels": 1,
            # As the original: `CrossEncoder.predict` gives logits, not their sigmoid.
            "sentence_transformers": {
                "activation_fn": "torch.nn.modules.linear.Identity"
            },
        }
    )
    weights = read_int8_onnx(onnx_file)
    _save(transformers.BertForSequenceClassification(config), weights, target)
    for name in (
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
    ):
        shutil.copyfile(onnx_file.with_name(name), target / name)


def _save(model: transformers.PreTrainedModel, weights: Weights, target: Path) -> None:
    """Save weights as those of `model`; each parameter must be given, and no other.

    The configuration gets its type from `model` (float32), the file from the weights.

    Raises:
        FormatError: Names the parameters that are missing, unknown or of another size.
    """
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    wrong = sorted(shapes.keys() ^ weights.keys()) or [
        name for name, shape in shapes.items() if weights[name].size != math.prod(shape)
    ]
    if wrong:
        raise FormatError(
            "parameters that are missing, unknown or of another size: "
            + ", ".join(wrong)
        )
    halves = {
        name: torch.tensor(weights[name]).reshape(shape).half()
        for name, shape in shapes.items()
    }
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call] # theirs
    model.save_pretrained(target, state_dict=halves)
    (target / "model.safetensors").chmod(WEIGHTS_FILE_MODE)


def _write_bi_encoder_files(target: Path, *, hidden: int, window: int) -> None:
    """Write the tokenizer's settings and what sentence-transformers wants to know.

    Args:
        target: The model's directory.
        hidden: The dimension of a vector.
        window: The longest input, in tokens.
    """
    settings = {
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": window,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    _write_json(target / "tokenizer_config.json", SPECIAL_TOKENS | settings)
    modules = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    _write_json(
        target / "modules.json",
        [
            {
                "idx": idx,
                "name": str(idx),
                "path": path,
                "type": f"sentence_transformers.models.{module}",
            }
            for idx, (module, path) in enumerate(modules.items())
        ],
    )
    (target / "1_Pooling").mkdir()
    (target / "2_Normalize").mkdir()  # nothing to set, but it is looked for
    _write_json(
        target / "1_Pooling" / "config.json",
        {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True},
    )
    _write_json(target / "sentence_bert_config.json", {"max_seq_length": window})
    # The prefixes of the model card (Wang et al., Multilingual E5 Text Embeddings,
    # 2024). None is the default: the caller says what is a query and what a passage.
    prompts = {"query": "query: ", "passage": "passage: ", "document": "passage: "}
    _write_json(
        target / "config_sentence_transformers.json",
        {
            "prompts": prompts,
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )


def _write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON."""
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")

"""Where models come from: a directory, the model hub, or a build from wheels.

Nothing here loads a model or imports torch. A model is found, checked to be of the kind
that is wanted, and given a fingerprint under which to keep what was computed with it.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from scholar_rag_li.errors import ModelError

Kind = Literal["bi-encoder", "cross-encoder"]

HUB_BI_ENCODER = "intfloat/multilingual-e5-small"
HUB_CROSS_ENCODER = "cross-encoder/mmarco-mMiniLMv2-L12-H384-v1"

HUB_SECONDS = 5.0  # to wait for the hub's answer; when reachable it takes a tenth

# What of a hub repository a model needs. Its weights may be there in several formats:
# the first that is found is enough.
HUB_FILES = ("*.json", "*.txt", "*.model")
HUB_WEIGHTS = ("*.safetensors", "*.bin")
HUB_IGNORED = ("onnx/*", "openvino/*")

WEIGHTS_SUFFIXES = frozenset({".safetensors", ".bin", ".onnx"})
# A vocabulary in any of its forms: tokenizers, WordPiece, BPE, SentencePiece. The last is
# a word model's own (whitespacetokenizer_config.json); tokenizer_config.json holds none.
TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "*.model",
    "?*tokenizer_config.json",
)
ENCODER_ENDINGS = ("Model", "ForMaskedLM", "ForPreTraining")
CLASSIFIER_ENDING = "ForSequenceClassification"
DEFAULT_LABELS = 2  # what transformers takes a configuration without labels to mean
# Models in the manner of RoBERTa count positions from pad_token_id + 1.
OFFSET_POSITIONS = frozenset(
    {"camembert", "longformer", "mpnet", "roberta", "xlm-roberta"}
)
NO_LIMIT = 1e20  # transformers writes 1e30 for a tokenizer without one
WANTED = {
    "bi-encoder": "a bi-encoder has a modules.json or an encoder (…Model, "
    f"…ForMaskedLM); give a model such as {HUB_BI_ENCODER}",
    "cross-encoder": f"a cross-encoder is …{CLASSIFIER_ENDING} with one label; give a "
    f"model such as {HUB_CROSS_ENCODER}",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResolvedModel:
    """A model that was found and is of the kind asked for.

    Attributes:
        name: As the user wrote it.
        path: The directory to hand to sentence-transformers.
        fingerprint: The hub's revision, or the `content_fingerprint` of a directory of
            the user's. Equal fingerprints mean the same weights.
        description: One line for reports.
    """

    name: str
    path: str
    fingerprint: str
    description: str


def resolve_model(name: str | Path, *, kind: Kind) -> ResolvedModel:
    """Find a model by directory or hub name, and check that it is of the given kind.

    A directory comes first, then the hub: its local cache, then a download unless
    HF_HUB_OFFLINE is set.

    Args:
        name: A directory, or a hub name like "intfloat/multilingual-e5-small".
        kind: "cross-encoder" wants a sequence classifier with one label, "bi-encoder"
            the modules of sentence-transformers or a plain encoder of transformers.

    Raises:
        ModelError: There is no such directory, the hub is not reached or has no such
            model, or the model is of another kind.
    """
    directory = expanded(name)
    if directory.is_dir():
        architecture = check_kind(directory, kind)
        fingerprint, source = content_fingerprint(directory), "a directory"
    elif _is_path_like(name):
        problem = "is a file" if directory.exists() else "does not exist"
        raise ModelError(
            f"the model directory {str(name)!r} {problem}: give the directory of a "
            f"{kind}, or the name of one on the model hub"
        )
    else:
        directory = _find_on_hub(str(name))
        architecture = check_kind(directory, kind)
        fingerprint, source = directory.name, "the model hub"
    description = f"{kind} {name} ({architecture} from {source}, {fingerprint[:12]})"
    return ResolvedModel(str(name), str(directory), fingerprint, description)


def check_kind(directory: Path, kind: Kind) -> str:
    """Give a model's class, after checking that it is one of the given kind.

    Without the check a bi-encoder would be loaded as a cross-encoder with a random
    head, and only a log line would tell; without a vocabulary transformers makes an
    empty tokenizer, to which all texts are the same.

    Raises:
        ModelError: The directory holds no model, part of one, or one of another kind.
    """
    config = _read_config(directory / "config.json")
    has_modules = (directory / "modules.json").is_file()
    if not config and not has_modules:
        raise ModelError(
            f"{directory} is no model: there is no config.json and no modules.json in "
            f"it; give the directory of a {kind}"
        )
    for there, missing in (
        (_has_weights(directory), f"weights ({', '.join(sorted(WEIGHTS_SUFFIXES))})"),
        (_has_tokenizer(directory), f"tokenizer ({', '.join(TOKENIZER_FILES[:4])})"),
    ):
        if not there:
            raise ModelError(
                f"{directory} has no {missing}: it was saved or downloaded "
                "incompletely; save or download it again"
            )
    architecture = str((config.get("architectures") or ["no architecture"])[0])
    is_classifier = architecture.endswith(CLASSIFIER_ENDING)
    labels = len(config.get("id2label") or ()) or config.get("num_labels")
    if kind == "cross-encoder":
        fits = is_classifier and (labels or DEFAULT_LABELS) == 1
    else:
        fits = not is_classifier and (
            has_modules or architecture.endswith(ENCODER_ENDINGS)
        )
    if not fits:
        with_labels = (
            f" with {labels or DEFAULT_LABELS} labels" if is_classifier else ""
        )
        raise ModelError(
            f"{directory} is no {kind}: its config.json says "
            f"{architecture}{with_labels}, but {WANTED[kind]}"
        )
    return architecture if config else "sentence-transformers modules"


def _read_config(path: Path) -> dict[str, Any]:
    """Read a model's configuration: {} when there is none."""
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_bytes())
    except ValueError as error:
        raise ModelError(f"{path} is not JSON ({error}); save it again") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} holds no JSON object; save the model again")
    return config


def _has_weights(directory: Path) -> bool:
    """Tell whether there is a file of weights, at any depth."""
    return any(path.suffix in WEIGHTS_SUFFIXES for path in directory.rglob("*"))


def _has_tokenizer(directory: Path) -> bool:
    """Tell whether there is a vocabulary, at any depth."""
    return any(any(directory.rglob(pattern)) for pattern in TOKENIZER_FILES)


def model_length(directory: Path) -> int | None:
    """Read how many tokens a model reads at most, special tokens included.

    The smallest of sentence-transformers' limit, the tokenizer's, and the positions
    that the encoder has. None when the model names no limit.

    Raises:
        ModelError: One of the three files is damaged.
    """
    config = _read_config(directory / "config.json")
    positions = config.get("max_position_embeddings") or 0
    if config.get("model_type") in OFFSET_POSITIONS:
        positions -= (config.get("pad_token_id") or 0) + 1
    limits = (
        _read_config(directory / "sentence_bert_config.json").get("max_seq_length"),
        _read_config(directory / "tokenizer_config.json").get("model_max_length"),
        positions,
    )
    return min(
        (int(limit) for limit in limits if limit and 0 < limit < NO_LIMIT), default=None
    )


def expanded(name: str | Path) -> Path:
    """Put the home directory for ~; that of a user who is not there stays as it is.

    >>> expanded("~nosuchuser/e5").parts
    ('~nosuchuser', 'e5')
    """
    return Path(os.path.expanduser(name))  # noqa: PTH111  # Path's own raises RuntimeError


def local_fingerprint(name: str) -> str | None:
    """Identify the weights behind a name as far as this machine can; no network.

    Returns:
        The `content_fingerprint` of a directory, or the revision in the hub's local
        cache; None for a name that is neither, such as that of a model behind an API.
    """
    directory = expanded(name)
    if directory.is_dir():
        return content_fingerprint(directory)
    cached = cached_snapshot(name)
    return None if cached is None else cached.name


def batch_size_on(device: str) -> int:
    """Return how many texts a model best reads at once, by the type of its device.

    On two CPU cores batches of 8 were read a fifth faster than batches of 32 (7.7
    against 6.3 pairs of 350 tokens a second).

    >>> batch_size_on("cpu"), batch_size_on("cuda")
    (8, 32)
    """
    return 8 if device == "cpu" else 32


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Load weights without transformers' progress bar; it takes a second at most."""
    from transformers.utils import logging as bars  # noqa: PLC0415  slow

    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()  # type: ignore[no-untyped-call]  # theirs
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()  # type: ignore[no-untyped-call]  # theirs


@contextlib.contextmanager
def loading(directory: str | Path) -> Iterator[None]:
    """Load weights quietly, and say of which model they are when that fails.

    Raises:
        ModelError: Anything was raised meanwhile: damaged weights, a device that is not
            there, an argument that the library does not know.
    """
    with quiet_loading():
        try:
            yield
        except Exception as error:
            raise ModelError(
                f"the model in {directory} can't be loaded ({type(error).__name__}: "
                f"{_one_line(error)}); if its files are damaged, save or download it "
                "again, else check the device and the arguments"
            ) from error


def _one_line(error: Exception) -> str:
    """Give what an error says, without line ends and the last full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def content_fingerprint(directory: Path) -> str:
    """Give the SHA-256 over the names and bytes of a directory's files, in hex.

    Files are taken by relative name in code point order, each as name, NUL, size, NUL,
    bytes. Hidden files and folders don't count. While sizes and modification times
    stay as they are, a process reads the directory once.
    """
    files = []
    for path in directory.rglob("*"):
        name = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            stat = path.stat()
            files.append((name.as_posix(), stat.st_size, stat.st_mtime_ns))
    return _hash_files(directory.resolve(), tuple(sorted(files)))


@lru_cache(maxsize=32)
def _hash_files(directory: Path, files: tuple[tuple[str, int, int], ...]) -> str:
    """Hash the files (relative name, size in bytes, modification time in ns)."""
    digest = hashlib.sha256()
    for name, size, _modified in files:
        digest.update(f"{name}\0{size}\0".encode())
        with (directory / name).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _is_path_like(name: str | Path) -> bool:
    """Tell whether a name can only have been meant as a path; hub names are org/name.

    >>> [_is_path_like(n) for n in ("./e5", "~/e5", "/m/e5", "a/b/c", "org/e5", "e5")]
    [True, True, True, True, False, False]
    """
    text = os.fspath(name)
    return (
        isinstance(name, Path)
        or text.startswith((".", "~", os.sep))
        or text.count(os.sep) > 1
        or Path(text).exists()
    )


def _find_on_hub(name: str) -> Path:
    """Give the local copy of a hub's model, downloaded if there is none.

    Raises:
        ModelError: It is not in the local cache, and the hub does not give it.
    """
    from huggingface_hub import HfApi, constants  # noqa: PLC0415 -- half a second

    if cached := cached_snapshot(name):
        return cached
    reason = "HF_HUB_OFFLINE is set and the hub's local cache has no such model"
    if not constants.HF_HUB_OFFLINE:
        try:
            # The download itself would wait for an unreachable hub without a limit.
            HfApi().model_info(name, timeout=HUB_SECONDS)
            if downloaded := _snapshot(name, local_files_only=False):
                return downloaded
            reason = f"the hub's repository has no {' or '.join(HUB_WEIGHTS)}"
        except Exception as error:  # noqa: BLE001 -- it depends on the HTTP library
            reason = f"the model hub did not give it ({_one_line(error)})"
    raise ModelError(
        f"there is no directory {name!r}, and {reason}. Give the directory of a model "
        "on this machine, or a hub name that can be reached from it"
    )


def cached_snapshot(name: str) -> Path | None:
    """Give the snapshot in the hub's local cache; no network."""
    try:
        return _snapshot(name, local_files_only=True)
    except (OSError, ValueError) as error:  # not there; not a possible name
        # Or files are missing, perhaps only such as no loader ever asked for.
        if path := getattr(error, "snapshot_path", None):
            partial = Path(path)
            if _has_weights(partial) and _has_tokenizer(partial):
                return partial
        return None


def _snapshot(name: str, *, local_files_only: bool) -> Path | None:
    """Give a snapshot's directory, named by its revision; None if it has no weights."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415 -- half a second

    for weights in HUB_WEIGHTS:
        directory = Path(
            snapshot_download(
                name,
                allow_patterns=[*HUB_FILES, weights],
                ignore_patterns=list(HUB_IGNORED),
                local_files_only=local_files_only,
            )
        )
        if any(directory.rglob(weights)):
            return directory
    return None

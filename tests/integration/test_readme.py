"""The README's code runs as it reads."""

import re
import shutil
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.model]

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_readme_code_runs(block, small, models, tmp_path, monkeypatch, home, capsys):
    """Each block runs by itself in a folder with theses and a gold file, and prints."""
    shutil.copytree(small / "corpus", tmp_path / "theses")
    shutil.copy(small / "gold.jsonl", tmp_path / "gold.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    code = BLOCKS[block].replace("intfloat/multilingual-e5-small", str(models[0]))
    exec(compile(code, f"README block {block}", "exec"), {})  # noqa: S102  # our own
    assert capsys.readouterr().out.strip()


def test_readme_names_its_commands():
    """Both commands of the README are targets of the Makefile."""
    makefile = (README.parent / "Makefile").read_text("utf-8")
    for command in ("demo", "test"):
        assert f"make {command}" in README.read_text("utf-8")
        assert f"\n{command}:" in makefile

"""The names at the top of the package: all there, and cheap until they are used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import scholar_rag_li

HEAVY = ("torch", "transformers", "sentence_transformers", "ragas", "statsmodels")
FRAMEWORK = ("llama_index", "numpy", "sqlalchemy")


def loaded_by(statement, names):
    """Run a statement in a new process; which of the modules it has imported."""
    code = (
        f"{statement}\nimport sys\nprint(*(n for n in {names!r} if n in sys.modules))"
    )
    done = subprocess.run(  # noqa: S603  # the code above
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("name", scholar_rag_li.__all__)
def test_a_public_name_is_the_one_at_its_home(name):
    """The name at the top is the object of its module."""
    home = import_module(f"scholar_rag_li.{scholar_rag_li._HOMES[name]}")
    assert getattr(scholar_rag_li, name) is getattr(home, name)


@pytest.mark.parametrize("name", scholar_rag_li.__all__)
def test_a_public_name_is_documented(name):
    """help() has something to say of each name."""
    assert getattr(scholar_rag_li, name).__doc__


def test_type_checkers_see_the_same_names():
    """What is imported for type checkers is what is imported at first use."""
    tree = ast.parse(Path(scholar_rag_li.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module.removeprefix("scholar_rag_li.")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == scholar_rag_li._HOMES


def test_dir_lists_the_public_names():
    """Completion offers the public names."""
    assert dir(scholar_rag_li) == scholar_rag_li.__all__


def test_an_unknown_name_is_an_attribute_error():
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'evaluate_all'"):
        scholar_rag_li.evaluate_all  # noqa: B018  # looked up, to fail


def test_importing_the_package_imports_nothing_else():
    """Neither framework nor model library is read before a name is used."""
    assert loaded_by("import scholar_rag_li", HEAVY + FRAMEWORK) == []


def test_no_public_name_imports_a_model_library():
    """All names together load no torch and no ragas: models load when they are used."""
    assert loaded_by("from scholar_rag_li import *", HEAVY) == []


def test_fusion_needs_no_framework():
    """The arithmetic can be used without LlamaIndex."""
    assert (
        loaded_by("from scholar_rag_li import rrf, Evidence", HEAVY + FRAMEWORK) == []
    )


def test_the_command_line_starts_without_model_libraries():
    """--help and errors come before torch would be there."""
    assert loaded_by("import scholar_rag_li.cli", HEAVY) == []

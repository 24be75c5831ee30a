"""ragas's ID metrics, without an LLM: their values, the zeros, what stays unimported."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from scholar_rag_li.ragas_metrics import INSTALL, IdSample, id_scores, ragas_version

pytestmark = [
    pytest.mark.reference,
    # ragas's own imports
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize(
    ("retrieved", "reference", "expected"),
    [
        ("ab", "ab", (1.0, 1.0)),
        ("abcd", "ax", (1 / 2, 1 / 4)),
        ("abc", "abcxyz", (3 / 6, 3 / 3)),
        ("ab", "xy", (0.0, 0.0)),
    ],
)
def test_recall_and_precision_over_ids(retrieved, reference, expected):
    """References retrieved over references; references retrieved over retrieved."""
    sample = IdSample(tuple(retrieved), tuple(reference))
    assert id_scores([sample]) == [pytest.approx(expected)]


@pytest.mark.parametrize(("retrieved", "reference"), [("", "a"), ("a", ""), ("", "")])
def test_what_ragas_leaves_open_is_zero(retrieved, reference):
    """Nothing retrieved, or nothing to retrieve: 0, not NaN, and no warning."""
    assert id_scores([IdSample(tuple(retrieved), tuple(reference))]) == [(0.0, 0.0)]


def test_one_pair_per_sample_in_their_order():
    """The zeros keep their place."""
    samples = [IdSample(("a",), ("a",)), IdSample((), ("a",)), IdSample(("b",), ("a",))]
    assert id_scores(samples) == [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]


def test_scores_are_plain_floats():
    """As they go into a file by repr."""
    (scores,) = id_scores([IdSample(("a", "b"), ("a", "c", "d"))])
    assert [type(each) for each in scores] == [float, float]


def test_the_version_is_that_installed():
    """For the manifest."""
    assert ragas_version() == version("ragas")


def test_the_module_imports_without_ragas():
    """It takes 13 CPU seconds: neither the module nor its version needs it."""
    code = (
        "import sys; from scholar_rag_li.ragas_metrics import ragas_version; "
        "ragas_version(); print('ragas' in sys.modules)"
    )
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_without_ragas_the_error_says_how_to_install_it(monkeypatch):
    """A None in sys.modules is Python's own way to make an import fail."""
    monkeypatch.setitem(sys.modules, "ragas", None)
    with pytest.raises(ImportError) as caught:
        id_scores([])
    assert str(caught.value).endswith(INSTALL)


def test_ragas_is_told_not_to_report_home():
    """The switch is set before ragas is imported, whatever it was."""
    code = (
        "import os, sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Watch(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'ragas':\n"
        "            print(os.environ.get('RAGAS_DO_NOT_TRACK')); raise ImportError\n"
        "sys.meta_path.insert(0, Watch())\n"
        "from scholar_rag_li.ragas_metrics import id_scores\n"
        "try: id_scores([])\n"
        "except ImportError: pass\n"
    )
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-c", code],
        env=os.environ | {"RAGAS_DO_NOT_TRACK": "false"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "true"

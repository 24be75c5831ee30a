"""The report of made-up results, line by line.

Numbers of golden.md by hand, where n is 8 and every question is a group. An interval is
d~ ± t · SE with d~ = sum d/(n+2) and SE² = [(sum d² + 1)/(n+2) - d~²]/(n+2):

- chunker: d = six 1 and two 0; d~ = 6/10, SE² = (7/10 - .36)/10, t(7, .975) = 2.3646:
  .6 ± .436. p = 2/2^6. The same by union, whose scores are the same.
- hybrid: d = seven 1 and a 0; d~ = 7/10, SE² = (8/10 - .49)/10, t(7, .9875) = 2.8412:
  .7 ± .500. p = 2 · 2/2^7.
- bm25: d = three 1, four 0, a -1; d~ = 2/10, SE² = (5/10 - .04)/10: .2 ± .609. Of 2^4
  signs 2 sum to ±4 and 8 to ±2: p = 10/16.
- rrf_k 10: d = seven 0 and a -1; d~ = -1/10, SE² = (2/10 - .01)/10: -.1 ± .392.
- rrf_k 200: d = eight 0; SE² = (1/10)/10: 0 ± .284.
- cross-encoder: d = 0, four .5, two 0, -.25; d~ = 1.75/10,
  SE² = (2.0625/10 - .175²)/10: .175 ± .313. Of 2^5 signs 4 reach 1.75: p = 4/32.
- kinds, n = 4 and t(3, .975) = 3.1824: hybrid on code d = four 1, 4/6 ± .810; on text
  d = three 1 and a 0, 3/6 ± .839.
- detectable: at alpha' = .025 seven questions of 8 have to differ, at .05 six. Needed:
  8 · (3.0830 · .2145/.05)² = 1400 and 8 · (2.8016 · .1325/.05)² = 442.
- latency: base, + 0 to 4 by repeat, + 10 on q5; p50 of vector (14 + 20)/2 = 17, its
  maximum 10 + 4 + 10 = 24.
"""

from pathlib import Path

from scholar_rag_li.report import report, write_report
from scholar_rag_li.results import read_results, write_results

GOLDEN = Path(__file__).with_name("golden.md")


def test_the_report_is_the_golden_one(results):
    """Every line of the report, whose numbers are those above."""
    expected = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert report(results).splitlines() == expected


def test_a_report_from_the_folder_is_the_one_from_memory(results, tmp_path):
    """The folder holds all that the report needs."""
    write_results(results, tmp_path)
    assert report(read_results(tmp_path)) == report(results)


def test_a_report_is_written_into_its_folder(results, tmp_path):
    """`write_report` says where it wrote what `report` draws."""
    path = write_report(results, tmp_path)
    assert (path, path.read_text("utf-8")) == (tmp_path / "report.md", report(results))


def test_a_report_changes_nothing_else_in_its_folder(results, tmp_path):
    """Drawing is reading: the tables stay as they are."""
    write_results(results, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_report(results, tmp_path).unlink()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

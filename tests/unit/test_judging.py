"""From spans to the first rank that reaches each fact: policies, coverage, properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholar_rag_li.errors import ConfigError, CorpusError
from scholar_rag_li.judging import Evidence, Span, first_ranks, reaching_chunks

TEXT = "abcdefghij" * 10  # no blanks: a coverage is a share of the length
many = settings(max_examples=100, deadline=None)


def evidence(start, end, doc_id="d", text=TEXT):
    """Make an evidence with the text that stands there."""
    return Evidence(doc_id, start, end, text[start:end])


def chunk(start, end, doc_id="d"):
    return Span(doc_id, start, end)


ANSWER = (evidence(40, 60),)
LEFT, RIGHT, WHOLE = chunk(0, 50), chunk(50, 100), chunk(30, 70)


def test_an_answer_cut_in_two_is_not_found_by_single():
    """Neither half holds all of 40:60."""
    assert first_ranks([ANSWER], [LEFT, RIGHT]) == (None,)


def test_a_chunk_that_holds_the_answer_whole_finds_it():
    """Third, behind the two halves."""
    assert first_ranks([ANSWER], [LEFT, RIGHT, WHOLE]) == (3,)


def test_an_answer_cut_in_two_is_found_at_the_second_half_by_union():
    """Between the halves stands another document's chunk, so the second is third."""
    chunks = [RIGHT, chunk(0, 100, "other"), LEFT]
    assert first_ranks([ANSWER], chunks, policy="union") == (3,)


def test_union_does_not_count_overlap_twice():
    """40:55 twice covers 15 of 20 characters, not 30."""
    chunks = [chunk(40, 55), chunk(40, 55)]
    assert first_ranks([ANSWER], chunks, policy="union") == (None,)


@pytest.mark.parametrize(("end", "found"), [(59, None), (60, 1), (61, 1)])
def test_the_last_character_counts(end, found):
    """A span ends before its `end`: 40:60 needs a chunk to 60."""
    assert first_ranks([ANSWER], [chunk(40, end)]) == (found,)


@pytest.mark.parametrize(("coverage", "found"), [(0.5, 1), (0.75, 1), (0.8, None)])
def test_coverage_is_a_share_of_the_evidence(coverage, found):
    """40:55 is 15 of 20 characters: 0.75."""
    assert first_ranks([ANSWER], [chunk(0, 55)], coverage=coverage) == (found,)


def test_coverage_is_compared_exactly():
    """A tenth of 10 characters is 1, though the float 0.1 is a little more."""
    fact = (evidence(0, 10),)
    assert first_ranks([fact], [chunk(0, 1)], coverage=0.1) == (1,)


def test_blank_characters_of_the_evidence_need_no_cover():
    """Of 'ab', blanks, 'cd' 4 characters count: two halves without the blanks suffice."""
    text = "ab \n\t cd"
    fact = (evidence(0, 8, text=text),)
    assert first_ranks([fact], [chunk(0, 2), chunk(6, 8)], policy="union") == (2,)


def test_a_chunk_over_the_blanks_alone_reaches_nothing():
    """At any coverage, blanks are no evidence."""
    fact = (evidence(0, 8, text="ab \n\t cd"),)
    assert first_ranks([fact], [chunk(2, 6)], coverage=0.01) == (None,)


def test_the_same_place_of_another_document_is_no_evidence():
    """Offsets count within their document."""
    assert first_ranks([ANSWER], [chunk(0, 100, "other")]) == (None,)


def test_any_alternative_establishes_the_fact():
    """The second alternative, in another document, is reached first."""
    fact = (evidence(0, 5), evidence(10, 15, "e"))
    chunks = [chunk(20, 30), chunk(10, 20, "e"), chunk(0, 10)]
    assert first_ranks([fact], chunks) == (2,)


def test_alternatives_are_not_pieced_together():
    """Half of each of two alternatives is none of them, under union as well."""
    fact = (evidence(0, 10), evidence(50, 60))
    chunks = [chunk(0, 5), chunk(55, 60)]
    assert first_ranks([fact], chunks, policy="union") == (None,)


def test_every_fact_has_its_own_rank():
    """Three facts: at rank 2, never, at rank 1."""
    facts = [(evidence(0, 5),), (evidence(50, 55),), (evidence(20, 25),)]
    assert first_ranks(facts, [chunk(20, 30), chunk(0, 10)]) == (2, None, 1)


def test_a_fact_keeps_its_first_rank():
    """A second chunk with the same evidence changes nothing."""
    assert first_ranks([ANSWER], [WHOLE, WHOLE, WHOLE]) == (1,)


def test_one_chunk_may_reach_several_facts():
    """Both at rank 1."""
    facts = [(evidence(41, 45),), (evidence(50, 55),)]
    assert first_ranks(facts, [WHOLE]) == (1, 1)


def test_a_whole_document_is_reached_by_its_first_chunk():
    """Whatever part of the document it is."""
    fact = (Evidence("d"),)
    assert first_ranks([fact], [chunk(0, 5, "e"), chunk(70, 71), chunk(0, 100)]) == (2,)


@pytest.mark.parametrize("policy", ["single", "union"])
def test_nothing_retrieved_reaches_nothing(policy):
    """An empty ranking is no error."""
    assert first_ranks([ANSWER, ANSWER], [], policy=policy) == (None, None)


@pytest.mark.parametrize("coverage", [0, 2, -0.5, float("nan")])
def test_a_coverage_outside_its_range_is_refused(coverage):
    """The message says what was given and what is allowed."""
    message = rf"coverage is {coverage}; give a share in \(0, 1\]"
    with pytest.raises(ConfigError, match=message):
        first_ranks([ANSWER], [WHOLE], coverage=coverage)


def test_an_unknown_policy_is_refused():
    """The message lists the policies there are."""
    with pytest.raises(ConfigError, match="'both'; give one of single, union"):
        first_ranks([ANSWER], [WHOLE], policy="both")


@pytest.mark.parametrize(
    ("start", "end", "quote"),
    [(5, 5, "x"), (7, 5, "ab"), (-2, 0, "ab"), (0, 5, "abc"), (3, 5, "")],
)
def test_an_evidence_that_is_no_span_is_refused(start, end, quote):
    """Empty, reversed, negative, or with a quote of another length."""
    with pytest.raises(CorpusError, match=f"evidence {start}:{end} of 'd'"):
        Evidence("d", start, end, quote)


def test_an_evidence_of_blanks_is_refused():
    """No chunk could be asked to cover it."""
    with pytest.raises(CorpusError, match="blank characters only"):
        Evidence("d", 0, 3, " \n\t")


def test_reaching_chunks_are_all_that_hold_an_evidence_alone():
    """In the order of the chunks, overlapping ones both; halves do not."""
    chunks = [("a", RIGHT), ("b", WHOLE), ("c", chunk(39, 61)), ("d", LEFT)]
    assert reaching_chunks([ANSWER], chunks) == ["b", "c"]


def test_reaching_chunks_count_alternatives_of_every_fact():
    """One alternative of one of two facts is enough, and each chunk is named once."""
    facts = [(evidence(0, 5), evidence(20, 25)), (evidence(21, 24),)]
    chunks = [("x", chunk(20, 30)), ("y", chunk(30, 40)), ("z", chunk(0, 10))]
    assert reaching_chunks(facts, chunks) == ["x", "z"]


def test_reaching_chunks_refuse_a_coverage_outside_its_range():
    """2 would say that no chunk reaches anything."""
    with pytest.raises(ConfigError, match="coverage is 2"):
        reaching_chunks([ANSWER], [("a", WHOLE)], coverage=2)


def spans(doc_ids="de"):
    """Spans of 1 to 30 characters in TEXT."""
    return st.builds(
        lambda start, length, doc_id: Span(doc_id, start, min(start + length, 100)),
        st.integers(0, 99),
        st.integers(1, 30),
        st.sampled_from(doc_ids),
    )


FACTS = st.lists(
    st.lists(spans(), min_size=1, max_size=3).map(
        lambda found: tuple(evidence(s.start, s.end, s.doc_id) for s in found)
    ),
    min_size=1,
    max_size=4,
)
CHUNKS = st.lists(spans(), max_size=10)
COVERAGES = st.sampled_from([0.1, 0.5, 0.9, 1.0])


def ranks_as_numbers(ranks):
    return [float("inf") if rank is None else rank for rank in ranks]


@many
@given(FACTS, CHUNKS, COVERAGES)
def test_single_agrees_with_counting_characters(facts, chunks, coverage):
    """Against the definition: characters in both, over characters of the evidence."""

    def reaches(piece, wanted):
        both = set(range(*piece[1:])) & set(range(wanted.start, wanted.end))
        here = piece.doc_id == wanted.doc_id
        return here and len(both) * 10 >= round(coverage * 10) * len(wanted.quote)

    expected = [
        next(
            (r for r, c in enumerate(chunks, 1) if any(reaches(c, e) for e in f)), None
        )
        for f in facts
    ]
    assert list(first_ranks(facts, chunks, coverage=coverage)) == expected


@many
@given(FACTS, CHUNKS, COVERAGES)
def test_union_never_reaches_later_than_single(facts, chunks, coverage):
    """What one chunk covers, the chunks up to it cover."""
    single = first_ranks(facts, chunks, coverage=coverage)
    union = first_ranks(facts, chunks, policy="union", coverage=coverage)
    pairs = zip(ranks_as_numbers(union), ranks_as_numbers(single), strict=True)
    assert all(u <= s for u, s in pairs)


@many
@given(FACTS, CHUNKS, spans(), st.sampled_from(["single", "union"]))
def test_a_further_chunk_changes_nothing_above_it(facts, chunks, more, policy):
    """Found facts keep their rank; others can only be found at the new last rank."""
    before = first_ranks(facts, chunks, policy=policy)
    after = first_ranks(facts, [*chunks, more], policy=policy)
    last = len(chunks) + 1
    assert all(
        b == a if b is not None else a in (None, last)
        for b, a in zip(before, after, strict=True)
    )


@many
@given(FACTS, CHUNKS)
def test_some_fact_is_reached_where_a_reaching_chunk_stands(facts, chunks):
    """The first reaching chunk's rank is the smallest of the first ranks."""
    reaching = reaching_chunks(facts, list(enumerate(chunks, 1)))
    first = min(reaching, default=float("inf"))
    assert min(ranks_as_numbers(first_ranks(facts, chunks))) == first

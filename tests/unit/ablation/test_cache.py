"""What is computed, in which batches, and what is kept under which key."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholar_rag_li.ablation.cache import JSON, VECTOR, Cache, Work, digest


class Squares:
    """Squares numbers, and remembers the batches that it was given."""

    def __init__(self, fails_on=None):
        self.batches = []
        self.fails_on = fails_on

    def __call__(self, batch):
        self.batches.append(list(batch))
        if self.fails_on in batch:
            raise RuntimeError(f"killed at {self.fails_on}")
        return [number * number for number in batch]

    def work(self, **settings):
        """Make a kind of work of it, batches of two in ascending order."""
        settings = {
            "kind": "squaring",
            "key": lambda number: {"number": number},
            "batch_size": 2,
            "order": lambda number: number,
        } | settings
        return Work(compute=self, **settings)


def test_values_come_in_the_order_of_the_inputs(cache):
    """3, 1, 2, 1 give 9, 1, 4, 1, whatever the order they are computed in."""
    assert cache.get(Squares().work(), [3, 1, 2, 1]) == [9, 1, 4, 1]


def test_distinct_inputs_are_computed_once(cache):
    """Of 3, 1, 3, 2, 1 three are distinct; sorted, in batches of two."""
    squares = Squares()
    cache.get(squares.work(), [3, 1, 3, 2, 1])
    assert squares.batches == [[1, 2], [3]]


def test_known_values_are_not_computed_again(cache, memory):
    """A second process over the same table asks for nothing."""
    cache.get(Squares().work(), [1, 2, 3])
    squares = Squares()
    Cache(memory).get(squares.work(), [3, 2, 1])
    assert squares.batches == []


def test_known_values_are_given_back(cache, memory):
    """What a second process gets is what the first has computed."""
    cache.get(Squares().work(), [1, 2, 3])
    assert Cache(memory).get(Squares().work(), [3, 2, 1]) == [9, 4, 1]


def test_batches_do_not_depend_on_what_is_known(cache):
    """With 1 known, the batches of 1 to 4 are still {1, 2} and {3, 4}."""
    cache.get(Squares().work(), [1])
    squares = Squares()
    cache.get(squares.work(), [4, 3, 2, 1])
    assert squares.batches == [[2], [3, 4]]


def test_batches_without_order_follow_the_inputs(cache):
    """Where the work has no order, distinct inputs are taken as they come."""
    squares = Squares()
    cache.get(squares.work(order=None), [3, 1, 3, 2])
    assert squares.batches == [[3, 1], [2]]


def test_failure_keeps_the_batches_before(cache, memory):
    """Killed in the second batch, {3, 4}, the first is there and only 3, 4 are redone."""
    with pytest.raises(RuntimeError, match="killed at 4"):
        cache.get(Squares(fails_on=4).work(), [1, 2, 3, 4])
    squares = Squares()
    Cache(memory).get(squares.work(), [1, 2, 3, 4])
    assert squares.batches == [[3, 4]]


def test_a_batch_of_another_length_is_refused(cache):
    """A computation that loses a value is an error, not a shifted result."""
    work = Work("losing", key=lambda n: {"n": n}, compute=lambda batch: batch[1:])
    with pytest.raises(ValueError, match="shorter"):
        cache.get(work, [1, 2])


def test_a_batch_of_another_length_is_not_kept(cache, memory):
    """Nothing of a batch that lost a value is stored."""
    work = Work("losing", key=lambda n: {"n": n}, compute=lambda batch: batch[1:])
    with pytest.raises(ValueError, match="shorter"):
        cache.get(work, [1, 2])
    assert memory.values == {}


def test_no_input_no_value(cache):
    """Nothing asked, nothing computed."""
    assert cache.get(Squares().work(), []) == []


def test_kinds_do_not_share_values(cache):
    """The same key under another kind is another value."""
    cache.get(Squares().work(), [1])
    squares = Squares()
    cache.get(squares.work(kind="squaring elsewhere"), [1])
    assert squares.batches == [[1]]


def test_keys_of_two_kinds_differ(cache, memory):
    """The kind is part of the digest, not only a column of the table."""
    cache.get(Squares().work(), [1])
    cache.get(Squares().work(kind="squaring elsewhere"), [1])
    assert len({key for _, key in memory.values}) == 2


KEY = {"model": "e5", "side": "text", "text": "agua", "depth": 20}


@pytest.mark.parametrize("part", KEY)
def test_every_part_of_the_key_counts(cache, part):
    """A change of any one part of the key asks for the value again."""
    cache.get(Squares().work(key=lambda _: KEY), [1])
    squares = Squares()
    cache.get(squares.work(key=lambda _: KEY | {part: "other"}), [1])
    assert squares.batches == [[1]]


def test_order_of_the_key_does_not_count(cache):
    """A key is the same whatever the order in which it is written."""
    cache.get(Squares().work(key=lambda _: KEY), [1])
    squares = Squares()
    backwards = dict(reversed(KEY.items()))
    cache.get(squares.work(key=lambda _: backwards), [1])
    assert squares.batches == []


def test_computed_counts_by_kind(cache):
    """Three distinct squares and one of another kind; what is known adds nothing."""
    cache.get(Squares().work(), [1, 2, 2, 3])
    cache.get(Squares().work(kind="other"), [1])
    cache.get(Squares().work(), [1, 2, 3])
    assert cache.computed == {"squaring": 3, "other": 1}


def test_computed_counts_only_what_was_kept(cache):
    """Of 1 to 4, killed in the second batch of two, two count."""
    with pytest.raises(RuntimeError):
        cache.get(Squares(fails_on=3).work(), [1, 2, 3, 4])
    assert cache.computed == {"squaring": 2}


def test_forgotten_values_are_computed_again(cache):
    """Of 1, 2 and 3, 2 is forgotten and computed anew; the others are not."""
    cache.get(Squares().work(), [1, 2, 3])
    squares = Squares()
    cache.forget(squares.work(), [2])
    cache.get(squares.work(), [1, 2, 3])
    assert squares.batches == [[2]]


def test_another_kind_is_not_forgotten(cache, memory):
    """The same inputs of another kind stay."""
    cache.get(Squares().work(kind="other"), [1, 2])
    before = dict(memory.values)
    cache.get(Squares().work(), [1, 2])
    cache.forget(Squares().work(), [1, 2])
    assert memory.values == before


def test_what_is_not_known_can_be_forgotten(cache, memory):
    """Nothing to forget is no error."""
    cache.forget(Squares().work(), [1])
    assert memory.values == {}


def test_progress_before_and_after_each_batch(memory):
    """Three missing in batches of two: 0, 2, then 2, 3, always of 3."""
    told = []
    Cache(memory, lambda *args: told.append(args)).get(Squares().work(), [1, 2, 3, 3])
    assert told == [
        ("squaring", 0, 3),
        ("squaring", 2, 3),
        ("squaring", 2, 3),
        ("squaring", 3, 3),
    ]


def test_progress_counts_what_is_missing(cache, memory):
    """With 1 and 2 known of 1 to 5, three are missing: 3, 4 and 5."""
    cache.get(Squares().work(), [1, 2])
    told = []
    Cache(memory, lambda *args: told.append(args)).get(
        Squares().work(), [1, 2, 3, 4, 5]
    )
    assert (told[0], told[-1]) == (("squaring", 0, 3), ("squaring", 3, 3))


def test_no_progress_when_all_is_known(cache, memory):
    """A run that computes nothing shows no bar."""
    cache.get(Squares().work(), [1, 2])
    told = []
    Cache(memory, lambda *args: told.append(args)).get(Squares().work(), [1, 2])
    assert told == []


# codecs

FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(FLOAT32))
def test_vectors_come_back_as_they_were(vector):
    """Numbers of 32 bits are kept exactly."""
    assert VECTOR.decode(VECTOR.encode(vector)) == vector


def test_vectors_are_kept_in_32_bits():
    """0.1 comes back as the nearest float32, in four bytes."""
    encoded = VECTOR.encode([0.1])
    assert (len(encoded), VECTOR.decode(encoded)) == (4, [float(np.float32(0.1))])


def test_a_vector_is_the_same_computed_or_read(cache, memory):
    """The first run gets the rounded numbers too, or results would change by run."""
    work = Work("embedding", lambda n: {"n": n}, lambda b: [[n / 3] for n in b], VECTOR)
    first = cache.get(work, [1, 2])
    assert Cache(memory).get(work, [1, 2]) == first


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
        max_leaves=10,
    )
)
def test_json_comes_back_as_it_was(value):
    """JSON-like values are kept exactly, floats and non-ASCII text included."""
    assert JSON.decode(JSON.encode(value)) == value


# digest


def test_digest_is_sha256():
    """A digest has 32 bytes, as the table asks."""
    assert len(digest({"a": 1})) == 256 // 8


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": "1"}),
        (["ab", "c"], ["a", "bc"]),
        ([1, 2], [2, 1]),
        ({"a": None}, {}),
        ("año", "ano"),
    ],
)
def test_different_values_have_different_digests(one, other):
    """Names, types, borders, order and accents all count."""
    assert digest(one) != digest(other)


def test_digest_refuses_nan():
    """NaN has no JSON form, and is no key."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"a": float("nan")})

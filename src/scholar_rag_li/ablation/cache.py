"""Every expensive call goes through here: computed once, kept under what it depends on.

A value is stored under the SHA-256 of everything it depends on, so changing any of it
asks for another value and an old one is never given out for a new question. Values
are in PostgreSQL before the next batch begins: a run that was killed goes on from there.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from scholar_rag_li.store import ContentTable

T = TypeVar("T")
V = TypeVar("V")

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


def digest(value: Any) -> bytes:
    """Hash a JSON-like value, whatever the order of its keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class Codec(Generic[V]):
    """How values of a kind become bytes and back."""

    encode: Callable[[V], bytes]
    decode: Callable[[bytes], V]


JSON: Codec[Any] = Codec(
    encode=lambda value: json.dumps(value, ensure_ascii=False).encode(),
    decode=json.loads,
)
VECTOR: Codec[list[float]] = Codec(
    encode=lambda value: np.asarray(value, dtype="<f4").tobytes(),
    decode=lambda data: [float(x) for x in np.frombuffer(data, dtype="<f4")],
)


@dataclass(frozen=True)
class Work(Generic[T, V]):
    """One kind of expensive call.

    Args:
        kind: its name, which also is the progress bar's.
        key: everything that the value of an input depends on, JSON-like.
        compute: values of a batch of inputs, in their order.
        codec: how values are stored.
        batch_size: inputs per batch; what a kill loses is at most one batch.
        order: batches are laid out over the distinct inputs sorted by this, so that a
            run that was killed goes on with the batches it would have made.
    """

    kind: str
    key: Callable[[T], Mapping[str, Any]]
    compute: Callable[[Sequence[T]], Sequence[V]]
    codec: Codec[V] = JSON
    batch_size: int = 32
    order: Callable[[T], Any] | None = None


class Cache:
    """Values by content, kept in a table of the experiment's database.

    Args:
        table: where the values are.
        progress: told of every batch that had to be computed.
    """

    def __init__(self, table: ContentTable, progress: Progress | None = None) -> None:
        """Start with what the table holds."""
        self._table = table
        self._progress = progress or (lambda _what, _done, _of: None)
        self.computed: dict[str, int] = {}
        """Kind -> how many values had to be computed in this process."""

    def get(self, work: Work[T, V], inputs: Sequence[T]) -> list[V]:
        """Return the value of each input, computing each distinct missing one once.

        Args:
            work: what is computed, and what it depends on.
            inputs: may repeat.

        Returns:
            Values in the order of the inputs.
        """
        keys = [digest({"kind": work.kind, **work.key(each)}) for each in inputs]
        known = self._table.get_many(work.kind, list(dict.fromkeys(keys)))
        distinct = list(dict(zip(keys, inputs, strict=True)).items())
        if work.order is not None:
            distinct.sort(key=lambda item: work.order(item[1]))  # type: ignore[misc]  # checked a line above
        missing = sum(key not in known for key, _ in distinct)
        done = 0
        for start in range(0, len(distinct) if missing else 0, work.batch_size):
            batch = [
                item
                for item in distinct[start : start + work.batch_size]
                if item[0] not in known
            ]
            if batch:
                self._progress(work.kind, done, missing)
                known |= self._compute(work, batch)
                done += len(batch)
                self._progress(work.kind, done, missing)
        return [work.codec.decode(known[key]) for key in keys]

    def forget(self, work: Work[T, V], inputs: Sequence[T]) -> None:
        """Remove the values of inputs, for what has to be measured anew."""
        keys = [digest({"kind": work.kind, **work.key(each)}) for each in inputs]
        self._table.delete(work.kind, keys)

    def _compute(
        self, work: Work[T, V], batch: Sequence[tuple[bytes, T]]
    ) -> dict[bytes, bytes]:
        values = work.compute([each for _, each in batch])
        made = {
            key: work.codec.encode(value)
            for (key, _), value in zip(batch, values, strict=True)
        }
        self._table.put_many(work.kind, made)
        self.computed[work.kind] = self.computed.get(work.kind, 0) + len(made)
        return made

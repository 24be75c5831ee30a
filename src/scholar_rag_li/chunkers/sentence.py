"""Whole sentences packed up to a size in characters: SentenceSplitter with exact spans."""

from itertools import accumulate
from typing import Any

from llama_index.core.node_parser import SentenceSplitter

from scholar_rag_li.chunkers.fixed import CHUNK_OVERLAP, CHUNK_SIZE
from scholar_rag_li.chunkers.spans import SpanParser, check_window, chunk_id, trimmed
from scholar_rag_li.errors import ConfigError


class SentenceChunker(SpanParser, SentenceSplitter):
    """LlamaIndex's SentenceSplitter, sized in characters, with exact spans and stable ids.

    The cuts are the parent's own. Its overlap takes whole sentences, so the effective
    overlap is at most what was asked and often less. The body has the size asked for
    whatever the metadata (the parent takes the metadata's length off it).

    Args:
        chunk_size: most characters per chunk, at least 1.
        chunk_overlap: most characters shared with the chunk before; at least 0 and less
            than `chunk_size`.
        **kwargs: the parent's other arguments. A `chunking_tokenizer_fn` must return
            pieces that join to the text it was given.

    Raises:
        ConfigError: sizes outside these ranges.
    """

    def __init__(
        self,
        chunk_size: int = CHUNK_SIZE,
        chunk_overlap: int = CHUNK_OVERLAP,
        **kwargs: Any,
    ) -> None:
        """Check the sizes before anything is cut."""
        check_window(chunk_size, chunk_overlap)
        # `from_defaults` of the parent hands over None for what was not given
        kwargs["id_func"] = kwargs.get("id_func") or chunk_id
        kwargs["tokenizer"] = kwargs.get("tokenizer") or list  # a token a character
        SentenceSplitter.__init__(
            self, chunk_size=chunk_size, chunk_overlap=chunk_overlap, **kwargs
        )

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises the class."""
        return "SentenceChunker"

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Cut a text where the parent cuts it.

        The parent splits a text into pieces and merges runs of pieces into chunks. Here
        each piece is handed to the merging as its position instead of its text, so that
        a chunk comes back as the positions it is made of.

        Raises:
            ConfigError: a `chunking_tokenizer_fn` that loses or changes characters.
        """
        if not text.strip():
            return []
        pieces = self._split(text, self.chunk_size)
        if "".join(piece.text for piece in pieces) != text:
            raise ConfigError(
                "chunking_tokenizer_fn changed the text it was given; it must return "
                "pieces that join to the text, blanks included"
            )
        ends = list(accumulate(len(piece.text) for piece in pieces))
        starts = [0, *ends[:-1]]
        for piece, start, end in zip(pieces, starts, ends, strict=True):
            piece.text = f"{start}:{end} "
        chunks = self._merge(pieces, self.chunk_size)
        bounds = [_outer(chunk) for chunk in chunks]
        exact = [trimmed(text, start, end) for start, end in bounds]
        return [(start, end) for start, end in exact if start < end]


def _outer(positions: str) -> tuple[int, int]:
    """Read the first start and the last end of a run of ``start:end`` marks."""
    marks = positions.split()
    return int(marks[0].split(":")[0]), int(marks[-1].split(":")[1])

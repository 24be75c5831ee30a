"""Fixed windows of characters: the baseline that every other chunking has to beat."""

from typing import Any

from llama_index.core.bridge.pydantic import Field

from scholar_rag_li.chunkers.spans import SpanParser, check_window

CHUNK_SIZE = 1000  # characters; with CHUNK_OVERLAP the setting of the first corpus
CHUNK_OVERLAP = 150


class FixedChunker(SpanParser):
    """Windows ``text[i : i + chunk_size]`` for i in steps of chunk_size - chunk_overlap.

    Nothing is stripped, the tail is kept (also one that the window before holds whole),
    and windows of blank characters are dropped.

    Args:
        chunk_size: characters per window, at least 1.
        chunk_overlap: characters that a window shares with the one before; at least 0
            and less than `chunk_size`.

    Raises:
        ConfigError: sizes outside these ranges.

    >>> FixedChunker(chunk_size=4, chunk_overlap=1).spans("abcdefgh")
    [(0, 4), (3, 7), (6, 8)]
    """

    chunk_size: int = Field(default=CHUNK_SIZE, description="Characters per window.")
    chunk_overlap: int = Field(
        default=CHUNK_OVERLAP, description="Characters shared with the window before."
    )

    def __init__(
        self,
        chunk_size: int = CHUNK_SIZE,
        chunk_overlap: int = CHUNK_OVERLAP,
        **kwargs: Any,
    ) -> None:
        """Check the sizes before anything is cut."""
        check_window(chunk_size, chunk_overlap)
        super().__init__(chunk_size=chunk_size, chunk_overlap=chunk_overlap, **kwargs)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises the class."""
        return "FixedChunker"

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Cut a text into windows."""
        step = self.chunk_size - self.chunk_overlap
        windows = [
            (i, min(i + self.chunk_size, len(text))) for i in range(0, len(text), step)
        ]
        return [(i, j) for i, j in windows if text[i:j].strip()]

"""What all chunkers share: chunks as exact spans of their document, with stable ids."""

from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.node_parser.interface import NodeParser
from llama_index.core.node_parser.node_utils import build_nodes_from_splits
from llama_index.core.schema import BaseNode, MetadataMode, TextNode

from scholar_rag_li.errors import ConfigError


def chunk_id(ordinal: int, document: BaseNode) -> str:
    """Name a chunk ``<doc_id>#<ordinal>``, ordinals from 0, the same in every run."""
    return f"{document.node_id}#{ordinal}"


class SpanParser(NodeParser):
    """A NodeParser whose chunks satisfy ``source[start:end] == chunk text``, always.

    A subclass says where the chunks are (`spans`); this class makes the nodes. Offsets
    are counted, never searched for in the text, so repeated text can't mislead them. A
    chunk of a chunk counts from the start of the original document.
    """

    id_func: Callable[[int, BaseNode], str] = Field(
        default=chunk_id,
        exclude=True,
        description="Names a chunk from its ordinal and document.",
    )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Cut a text.

        Args:
            text: the document's text.

        Returns:
            (start, end) of each chunk in characters, in order of start; none of them
            blank.
        """
        raise NotImplementedError

    def _parse_nodes(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,  # noqa: ARG002, FBT001, FBT002  # the base's own
        **_: Any,
    ) -> list[BaseNode]:
        return [chunk for node in nodes for chunk in self._cut(node)]

    def _cut(self, node: BaseNode) -> list[TextNode]:
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        spans = self.spans(text)
        chunks = build_nodes_from_splits(
            [text[start:end] for start, end in spans],
            node,
            id_func=self.id_func,  # type: ignore[arg-type]  # typed as a model field there
        )
        offset: int | None = 0
        if node.source_node is not None and isinstance(node, TextNode):
            offset = node.start_char_idx  # None: where it stands is not known
        for chunk, (start, end) in zip(chunks, spans, strict=True):
            if offset is not None:
                chunk.start_char_idx, chunk.end_char_idx = offset + start, offset + end
            chunk.embedding = None  # the parser copies that of the whole
        return chunks

    def _postprocess_parsed_nodes(
        self, nodes: list[BaseNode], parent_doc_map: dict[str, Any]
    ) -> list[BaseNode]:
        exact = [(node.start_char_idx, node.end_char_idx) for node in nodes]  # type: ignore[attr-defined]  # TextNodes, made above
        nodes = super()._postprocess_parsed_nodes(nodes, parent_doc_map)
        for node, (start, end) in zip(nodes, exact, strict=True):
            node.start_char_idx, node.end_char_idx = start, end  # type: ignore[attr-defined]  # as above
        return nodes


def check_window(chunk_size: int, chunk_overlap: int) -> None:
    """Refuse a window that can't move forward.

    Raises:
        ConfigError: what was given and what is allowed.
    """
    sizes = (chunk_size, chunk_overlap)
    if not all(isinstance(size, int) for size in sizes):
        raise ConfigError(
            f"chunk_size is {chunk_size!r} and chunk_overlap {chunk_overlap!r}; give "
            "whole numbers"
        )
    if chunk_size < 1:
        raise ConfigError(f"chunk_size is {chunk_size}; give at least 1 character")
    if not 0 <= chunk_overlap < chunk_size:
        raise ConfigError(
            f"chunk_overlap is {chunk_overlap} with chunk_size {chunk_size}; give at "
            "least 0 and less than chunk_size"
        )


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Narrow a span to its first and last non-blank character; empty when there is none.

    >>> trimmed("  ab  ", 0, 6)
    (2, 4)
    """
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    return start, max(start, start + len(body.strip()))

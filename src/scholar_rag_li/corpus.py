"""Documents and gold: read, located in the text, and checked against each other.

Gold is JSON Lines, a question a line::

    {"id": "q1", "question": "...", "doc_id": "tesis-agua", "kind": "identificador",
     "evidence": [{"start": 1988, "end": 2081, "quote": "E-17 significa ..."}]}

Offsets are characters of the text as read. A quote without offsets is located, and must
then occur exactly once. Several items are all wanted unless ``"evidence_mode": "any"``;
an item may list ``alternatives``. ``"doc_ids": [...]`` in place of evidence names whole
documents. Every fault of a file is reported in one error.
"""

import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from llama_index.core.schema import Document
from pydantic import BaseModel, ConfigDict, ValidationError

from scholar_rag_li.errors import CorpusError, listing
from scholar_rag_li.judging import Evidence, Fact

SUFFIXES = (".txt", ".md")
SIMILAR = 0.8  # of two keys' letters in common: a slip of the pen, not another word


@dataclass(frozen=True)
class Question:
    """One information need and what answers it.

    Args:
        id: unique within the gold.
        question: the text that is asked.
        facts: what is wanted; empty when the gold says that nothing answers it.
        kind: a free label by which scores are broken down.
    """

    id: str
    question: str
    facts: tuple[Fact, ...]
    kind: str


@dataclass(frozen=True)
class Gold(Sequence[Question]):
    """Questions with evidence, in the order of the file."""

    questions: tuple[Question, ...]

    def __len__(self) -> int:
        """Count the questions."""
        return len(self.questions)

    def __getitem__(self, index: int) -> Question:  # type: ignore[override]  # as above
        """Return the question at a position."""
        return self.questions[index]

    def __iter__(self) -> Iterator[Question]:
        """Walk the questions in the order of the file."""
        return iter(self.questions)

    @property
    def judged(self) -> tuple[Question, ...]:
        """The questions that have evidence; the others can't be scored."""
        return tuple(question for question in self.questions if question.facts)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Ids of the questions whose evidence is an empty list."""
        return tuple(question.id for question in self.questions if not question.facts)


@dataclass(frozen=True)
class Corpus:
    """Documents and the gold that refers to them."""

    documents: tuple[Document, ...]
    gold: Gold


def load_corpus(documents: str | Path | Sequence[Document], gold: str | Path) -> Corpus:
    """Read a folder of documents and a gold file, and check that they fit together.

    Args:
        documents: a folder (searched with its subfolders for .txt and .md in UTF-8, the
            id being the relative path without suffix; hidden ones are passed over), a
            single file, or LlamaIndex documents, whose ``id_`` the gold then names.
        gold: a .jsonl file, see the module.

    Returns:
        The corpus; documents in the order of their ids.

    Raises:
        CorpusError: one message that lists everything found wrong.
    """
    if isinstance(documents, (str, Path)):
        read = read_documents(documents)
    else:
        read = _checked_documents(documents)
    texts = {document.id_: document.text for document in read}
    return Corpus(read, read_gold(gold, texts))


def read_documents(path: str | Path) -> tuple[Document, ...]:
    """Read the .txt and .md files of a folder as LlamaIndex documents without metadata.

    Raises:
        CorpusError: no such folder, no such files, ids that clash, not UTF-8, or a NUL.
    """
    root = _expanded(path)
    if not root.exists():
        raise CorpusError(f"no documents at {root}: there is no such file or folder")
    files = (
        [root]
        if root.is_file()
        else sorted(
            each
            for each in root.rglob("*")
            if each.suffix.lower() in SUFFIXES
            and not any(part.startswith(".") for part in each.relative_to(root).parts)
            and each.is_file()
        )
    )
    base = root.parent if root.is_file() else root
    documents, problems = [], []
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            problems.append(f"{file}: not UTF-8 ({error.reason} at byte {error.start})")
            continue
        if "\0" in text:
            problems.append(f"{file}: {_nul(text)}")
            continue
        id_ = file.relative_to(base).with_suffix("").as_posix()
        documents.append(Document(id_=id_, text=text))
    if problems:
        raise CorpusError(listing("these files can't be read:", problems))
    return _checked_documents(documents, where=f" in {root} (looked for .txt and .md)")


def _checked_documents(
    documents: Sequence[Document], where: str = ""
) -> tuple[Document, ...]:
    if not isinstance(documents, Sequence) or not all(
        isinstance(document, Document) for document in documents
    ):
        raise CorpusError(
            f"the documents are a {type(documents).__name__}; give a path, or a list of "
            "LlamaIndex documents"
        )
    if not any(document.text.strip() for document in documents):
        raise CorpusError(f"the corpus is empty: no document with text{where}")
    for document in documents:
        if "\0" in document.text:
            raise CorpusError(f"document {document.id_!r}: {_nul(document.text)}")
    counts = Counter(document.id_ for document in documents)
    twice = sorted(id_ for id_, count in counts.items() if count > 1)
    if twice:
        raise CorpusError(listing("document ids that occur more than once:", twice))
    return tuple(sorted(documents, key=lambda document: document.id_))


def _nul(text: str) -> str:
    return (
        f"a NUL character at {text.index(chr(0))}, which no database stores; "
        "take it out, or convert the text again"
    )


def _expanded(path: str | Path) -> Path:
    """Put the home directory for ~; that of a user who is not there stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path's own raises RuntimeError


def read_gold(path: str | Path, texts: Mapping[str, str]) -> Gold:
    """Read a gold file and locate its evidence.

    Args:
        path: a .jsonl file.
        texts: the documents' texts by id.

    Returns:
        The gold, in the order of the file.

    Raises:
        CorpusError: one message with the line of every fault.
    """
    if not isinstance(path, (str, Path)):
        raise CorpusError(
            f"the gold is a {type(path).__name__}; give the path of a .jsonl file"
        )
    file = _expanded(path)
    if not file.is_file():
        raise CorpusError(f"no gold file at {file}: there is no such file")
    try:
        text = file.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{file}: not UTF-8 (byte {error.start})") from None
    questions: list[Question] = []
    problems: list[str] = []
    ids: set[str] = set()
    # not splitlines: a JSON string may hold U+2028 and its like as they are
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        found = _read_line(line, texts, ids)
        if isinstance(found, Question):
            questions.append(found)
        else:
            problems += [f"line {number}: {problem}" for problem in found]
    if problems:
        raise CorpusError(
            listing(f"{file}: {len(problems)} fault(s) in the gold:", problems)
        )
    if not any(question.facts for question in questions):
        raise CorpusError(f"{file}: no question with evidence, so nothing to measure")
    return Gold(tuple(questions))


class _EvidenceLine(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    start: int | None = None
    end: int | None = None
    quote: str | None = None
    doc_id: str | None = None
    alternatives: list["_EvidenceLine"] = []


class _GoldLine(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    id: str
    question: str
    doc_id: str | None = None
    kind: str | None = None
    evidence: list[_EvidenceLine] | None = None
    evidence_mode: Literal["all", "any"] = "all"
    doc_ids: list[str] | None = None


def _read_line(
    line: str, texts: Mapping[str, str], ids: set[str]
) -> Question | list[str]:
    try:
        row = _GoldLine.model_validate_json(line)
    except ValidationError as error:
        return [_explain(each) for each in error.errors()]
    problems = _misspelt(row)
    if row.id in ids:
        problems.append(f"the id {row.id!r} occurs a second time")
    ids.add(row.id)
    if not (row.id.strip() and row.question.strip()):
        problems.append(f"question {row.id!r}: neither id nor text may be blank")
    facts: list[Fact] = []
    if (row.evidence is None) == (row.doc_ids is None):
        problems.append(f"question {row.id!r}: give either evidence or doc_ids")
    for doc_id in row.doc_ids or []:
        if doc_id not in texts:
            problems.append(_unknown_document(doc_id, texts))
        facts.append((Evidence(doc_id),))
    for item in row.evidence or []:
        spans = (item, *item.alternatives)
        problems += [problem for each in spans for problem in _misspelt(each)]
        located = [
            _locate(each, each.doc_id or item.doc_id or row.doc_id, texts)
            for each in spans
        ]
        problems += [each for each in located if isinstance(each, str)]
        facts.append(tuple(each for each in located if isinstance(each, Evidence)))
    if problems:
        return problems
    if row.evidence_mode == "any" and facts:
        facts = [tuple(evidence for fact in facts for evidence in fact)]
    kind = row.kind or assigned_kind(row.question)
    return Question(row.id, row.question, tuple(facts), kind)


def _misspelt(line: BaseModel) -> list[str]:
    """Name the unknown keys that nearly are known ones; other extra keys are welcome."""
    problems = []
    for key in line.model_extra or ():
        known = get_close_matches(
            key.lower(), type(line).model_fields, n=1, cutoff=SIMILAR
        )
        if known and not key.startswith(f"{known[0]}_"):  # question_es is another word
            problems.append(f"unknown key {key!r}; did you mean {known[0]}?")
    return problems


def assigned_kind(question: str) -> str:
    """Label a question that the gold does not label.

    ``identifier`` when it holds a token with a digit, or with two upper-case letters in a
    row (an acronym or a code); ``text`` otherwise.

    >>> assigned_kind("What does E-17 mean?"), assigned_kind("Who is the author?")
    ('identifier', 'text')
    """
    upper = "".join("A" if each.isupper() else each for each in question)
    return "identifier" if re.search(r"\d|AA", upper) else "text"


def _locate(
    item: _EvidenceLine, doc_id: str | None, texts: Mapping[str, str]
) -> Evidence | str:
    """Return the evidence, or what is wrong with it."""
    if doc_id is None:
        return "evidence without a doc_id, on the question or on the item"
    if doc_id not in texts:
        return _unknown_document(doc_id, texts)
    text, start, end, quote = texts[doc_id], item.start, item.end, item.quote
    if start is None and end is None:
        if not quote:
            return "evidence needs start and end, or a quote"
        places = _places(text, quote)
        if len(places) != 1:
            return f"the quote {_short(quote)} {_where(quote, places, text, doc_id)}"
        start, end = places[0], places[0] + len(quote)
    if start is None or end is None or not 0 <= start < end <= len(text):
        return (
            f"evidence {start}:{end} is no span of {doc_id!r}, "
            f"which has {len(text)} characters"
        )
    there = text[start:end]
    if quote is not None and quote != there:
        return (
            f"at {start}:{end} of {doc_id!r} stands {_short(there)}, not the quote "
            f"{_short(quote)}, which "
            f"{_where(quote, _places(text, quote), text, doc_id)}"
        )
    if not there.strip():
        return f"evidence {start}:{end} of {doc_id!r} holds blank characters only"
    return Evidence(doc_id, start, end, there)


def _places(text: str, quote: str) -> list[int]:
    """Every place of the quote, overlapping ones included."""
    return [match.start() for match in re.finditer(f"(?={re.escape(quote)})", text)]


def _where(quote: str, places: Sequence[int], text: str, doc_id: str) -> str:
    if not places and _loose(quote) and _loose(quote) in _loose(text):
        return (
            f"is not in the text of {doc_id!r} as written; it is there with other line "
            "ends, blanks or Unicode form: copy it from the text"
        )
    if not places:
        return f"is not in the text of {doc_id!r}"
    shown = ", ".join(str(place) for place in places[:5])
    many = "" if len(places) == 1 else "; give start and end to say which is meant"
    return f"is in {doc_id!r} at {shown}{many}"


def _loose(text: str) -> str:
    """Return a text so that what looks the same is the same."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _unknown_document(doc_id: str, texts: Mapping[str, str]) -> str:
    if _loose(doc_id) in map(_loose, texts):
        return (
            f"the document {doc_id!r} is not in the corpus as written; it is there in "
            "another Unicode form: copy its id from the file's name"
        )
    known = ", ".join(sorted(texts)[:5]) + (", ..." if len(texts) > 5 else "")  # noqa: PLR2004  # shown, not meant
    return f"the document {doc_id!r} is not in the corpus (which has {known})"


def _short(text: str, limit: int = 60) -> str:
    return json.dumps(
        text if len(text) <= limit else text[: limit - 3] + "...", ensure_ascii=False
    )


def _explain(error: Mapping[str, object]) -> str:
    place = ".".join(str(part) for part in error["loc"])  # type: ignore[attr-defined]  # pydantic's own tuple
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message

"""Reading documents and gold: what is located, what is refused and with which words."""

import json
import re

import pytest
from llama_index.core.schema import Document

from scholar_rag_li.corpus import (
    Gold,
    Question,
    assigned_kind,
    load_corpus,
    read_documents,
    read_gold,
)
from scholar_rag_li.errors import CorpusError
from scholar_rag_li.judging import Evidence

TEXTS = {
    "agua": "El código E-17 significa agua dura. El pozo 3 está seco. Fin. Fin.",
    "suelo": "El suelo es árido. Fin.",
}
QUOTE = "E-17 significa agua dura"
START = TEXTS["agua"].index(QUOTE)
END = START + len(QUOTE)


@pytest.fixture
def gold_of(tmp_path):
    """Write lines (mappings or text) as a gold file and read it."""

    def read(*lines):
        file = tmp_path / "gold.jsonl"
        rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        file.write_bytes("\n".join(rows).encode())
        return read_gold(file, TEXTS)

    return read


def row(id_="q1", **changes):
    """Make a gold line that is right, with changes; None takes a key away."""
    right = {
        "id": id_,
        "question": "¿Qué es?",
        "doc_id": "agua",
        "evidence": [{"quote": QUOTE}],
    }
    return {key: each for key, each in (right | changes).items() if each is not None}


def fault(**item):
    """Make a gold line with this one evidence."""
    return row(evidence=[item])


def test_a_quote_is_located(gold_of):
    """Its start and end are found in the text."""
    (question,) = gold_of(row())
    assert question.facts == ((Evidence("agua", START, END, QUOTE),),)


def test_offsets_bring_their_text(gold_of):
    """The quote is text[start:end]."""
    (question,) = gold_of(fault(start=START, end=END))
    assert question.facts[0][0].quote == QUOTE


def test_offsets_say_which_of_two_places_is_meant(gold_of):
    """'Fin.' stands twice; the second is asked for."""
    place = TEXTS["agua"].rindex("Fin.")
    (question,) = gold_of(fault(start=place, end=place + 4, quote="Fin."))
    assert question.facts[0][0].start == place


def test_an_item_may_name_its_own_document(gold_of):
    """The item's doc_id goes before the question's."""
    (question,) = gold_of(fault(quote="árido", doc_id="suelo"))
    assert question.facts[0][0].span == ("suelo", 12, 17)


def test_several_items_are_all_wanted(gold_of):
    """Each is a fact."""
    items = [{"quote": "agua dura"}, {"quote": "seco"}]
    (question,) = gold_of(row(evidence=items))
    assert [len(fact) for fact in question.facts] == [1, 1]


def test_several_items_in_mode_any_are_one_fact(gold_of):
    """They become alternatives."""
    items = [{"quote": "agua dura"}, {"quote": "seco"}]
    (question,) = gold_of(row(evidence=items, evidence_mode="any"))
    assert [[e.quote for e in fact] for fact in question.facts] == [
        ["agua dura", "seco"]
    ]


def test_alternatives_belong_to_their_item(gold_of):
    """Two facts, the first with two alternatives, one of them in another document."""
    items = [
        {"quote": "seco", "alternatives": [{"quote": "árido", "doc_id": "suelo"}]},
        {"quote": "agua dura"},
    ]
    (question,) = gold_of(row(evidence=items))
    assert [[e.doc_id for e in fact] for fact in question.facts] == [
        ["agua", "suelo"],
        ["agua"],
    ]


def test_an_alternative_is_in_the_document_of_its_item(gold_of):
    """Without a doc_id of its own, the item's goes before the question's."""
    item = {"quote": "árido", "doc_id": "suelo", "alternatives": [{"quote": "suelo"}]}
    (question,) = gold_of(row(evidence=[item]))
    assert [each.doc_id for each in question.facts[0]] == ["suelo", "suelo"]


def test_whole_documents_in_place_of_evidence(gold_of):
    """Each is a fact without a span."""
    (question,) = gold_of(row(evidence=None, doc_ids=["agua", "suelo"]))
    assert question.facts == ((Evidence("agua"),), (Evidence("suelo"),))


def test_an_empty_list_of_evidence_is_unjudged(gold_of):
    """Such a question stays in the gold and out of the scores."""
    gold = gold_of(row("q1"), row("q2", evidence=[]))
    assert (gold.unjudged, [each.id for each in gold.judged]) == (("q2",), ["q1"])


def test_gold_is_a_sequence(gold_of):
    """In the order of the file."""
    gold = gold_of(row("b"), row("a"))
    assert (len(gold), gold[1].id, [each.id for each in gold]) == (2, "a", ["b", "a"])


def test_a_label_is_kept(gold_of):
    """`kind` is free."""
    assert gold_of(row(kind="paráfrasis"))[0].kind == "paráfrasis"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("¿Qué significa E-17?", "identifier"),
        ("¿En 2023?", "identifier"),
        ("¿Qué es la UNESCO?", "identifier"),
        ("¿Qué es la ÑÚ?", "identifier"),
        ("¿Quién es Ana?", "text"),
        ("¿Œuvre d'été, Straße?", "text"),
        ("Где вода?", "text"),
        ("Τι είναι το νερό;", "text"),  # noqa: RUF001  # Greek it is
        ("Gdzie są źródła?", "text"),
    ],
)
def test_a_question_without_a_label_gets_one(question, kind):
    """A digit, or two upper-case letters in a row, in any alphabet, make a code."""
    assert assigned_kind(question) == kind


def test_blank_lines_are_no_questions(gold_of):
    """Nor is the end of the file."""
    assert len(gold_of(row("a"), "", "  ", row("b"), "")) == 2


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path):
    """As editors on Windows write them."""
    lines = [json.dumps(row("a")), json.dumps(row("b"))]
    (tmp_path / "gold.jsonl").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert len(read_gold(tmp_path / "gold.jsonl", TEXTS)) == 2


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\u2029"])
def test_a_unicode_line_separator_does_not_end_a_line(gold_of, separator):
    """JSON strings may hold it; JSON Lines end at a newline."""
    text = f"¿Qué{separator}es?"
    gold = gold_of(json.dumps(row(question=text), ensure_ascii=False))
    assert gold[0].question == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (fault(quote="agua blanda"), "\"agua blanda\" is not in the text of 'agua'"),
        (
            fault(quote="Fin."),
            "\"Fin.\" is in 'agua' at 57, 62; give start and end to say which is meant",
        ),
        (
            fault(start=0, end=9, quote="El código"[:-1] + "x"),
            'at 0:9 of \'agua\' stands "El código", not the quote "El códigx"',
        ),
        (
            fault(start=0, end=4, quote="seco"),
            "not the quote \"seco\", which is in 'agua' at 51",
        ),
        (
            fault(start=60, end=67),
            "60:67 is no span of 'agua', which has 66 characters",
        ),
        (fault(start=5, end=5), "evidence 5:5 is no span"),
        (fault(start=-1, end=5), "evidence -1:5 is no span"),
        (fault(start=5), "evidence 5:None is no span"),
        (fault(start=9, end=10), "evidence 9:10 of 'agua' holds blank characters only"),
        (fault(), "evidence needs start and end, or a quote"),
        (fault(quote=""), "evidence needs start and end, or a quote"),
        (row(doc_id=None), "evidence without a doc_id, on the question or on the item"),
        (
            row(doc_id="aire"),
            "the document 'aire' is not in the corpus (which has agua,",
        ),
        (
            row(evidence=None, doc_ids=["aire"]),
            "the document 'aire' is not in the corpus",
        ),
        (
            fault(quote="E-17\n significa"),
            "\"E-17\\n significa\" is not in the text of 'agua' as written; it is there",
        ),
        (
            fault(quote="a\u0301rido", doc_id="suelo"),
            "it is there with other line ends, blanks or Unicode form: copy it from the",
        ),
        (
            row(evidenceMode="any"),
            "unknown key 'evidenceMode'; did you mean evidence_mode?",
        ),
        (row(docs_ids=["agua"]), "unknown key 'docs_ids'; did you mean doc_ids?"),
        (row(evidence=None, evidences=[]), "'evidences'; did you mean evidence?"),
        (
            fault(quote=QUOTE, docId="suelo"),
            "unknown key 'docId'; did you mean doc_id?",
        ),
        (row(evidence=None), "question 'q1': give either evidence or doc_ids"),
        (row(doc_ids=["agua"]), "question 'q1': give either evidence or doc_ids"),
        (row(question=" \t"), "question 'q1': neither id nor text may be blank"),
        (row(id_=" "), "question ' ': neither id nor text may be blank"),
        (row(question=None), "question: Field required"),
        (row(id_=7), "id: Input should be a valid string"),
        (row(evidence_mode="some"), "evidence_mode: Input should be 'all' or 'any'"),
        (fault(start="5", end=9), "evidence.0.start: Input should be a valid integer"),
        ('{"id": "q1", "question": ', "line 1: Invalid JSON"),
        ("[1, 2]", "line 1: Input should be an object"),
    ],
)
def test_a_fault_is_explained(gold_of, line, message):
    """One message with what was given and what is there."""
    with pytest.raises(CorpusError, match=re.escape(message)):
        gold_of(line)


def test_other_keys_are_allowed(gold_of):
    """Answers, figures and translations travel with the gold."""
    item = {"quote": QUOTE, "overlap": 0.5}
    line = row(evidence=[item], answers=["x"], question_es="¿Qué?", answer_start=3)
    assert gold_of(line)[0].id == "q1"


def test_an_id_in_another_unicode_form_is_said_to_be_so(tmp_path):
    """The file system's i + accent against the keyboard's í."""
    file = tmp_path / "gold.jsonl"
    file.write_text(json.dumps(row(doc_id="ri\u0301o")))
    with pytest.raises(CorpusError, match="as written; it is there in another Unicode"):
        read_gold(file, {"r\u00edo": QUOTE})


def test_overlapping_places_of_a_quote_are_all_named(tmp_path):
    """'anan' stands in 'ananan' at 0 and at 2."""
    file = tmp_path / "gold.jsonl"
    file.write_text(json.dumps(row(doc_id="d", evidence=[{"quote": "anan"}])))
    with pytest.raises(CorpusError, match="at 0, 2; give start and end"):
        read_gold(file, {"d": "ananan"})


def test_a_fault_in_an_alternative_is_a_fault(gold_of):
    """Not one that is silently left out."""
    item = {"quote": "seco", "alternatives": [{"quote": "húmedo"}]}
    with pytest.raises(CorpusError, match='"húmedo" is not in the text'):
        gold_of(row(evidence=[item]))


def test_all_faults_come_in_one_message_with_their_lines(gold_of):
    """Lines 1, 3 and 4 (blank lines count); line 3 has two faults, line 2 none."""
    with pytest.raises(CorpusError) as caught:
        gold_of(
            fault(quote="agua blanda"),
            row("q2"),
            row("q3", question="", doc_id="aire"),
            "{",
        )
    heading, *faults = str(caught.value).splitlines()
    assert heading.endswith("gold.jsonl: 4 fault(s) in the gold:")
    assert [line[:10] for line in faults] == [
        "  - line 1",
        *["  - line 3"] * 2,
        "  - line 4",
    ]


def test_a_second_question_of_the_same_id_is_refused(gold_of):
    """The line of the second is named."""
    with pytest.raises(CorpusError, match="line 2: the id 'q1' occurs a second time"):
        gold_of(row("q1"), row("q1"))


def test_a_second_question_is_seen_though_the_first_is_faulty(gold_of):
    """Or a corrected file would fail again."""
    with pytest.raises(CorpusError, match="line 2: the id 'q1' occurs a second time"):
        gold_of(row("q1", question=""), row("q1"))


@pytest.mark.parametrize("lines", [(), (row(evidence=[]),)])
def test_gold_without_any_evidence_is_refused(gold_of, lines):
    """An empty file, or unjudged questions only."""
    with pytest.raises(CorpusError, match="no question with evidence"):
        gold_of(*lines)


def test_a_missing_gold_file_is_named(tmp_path):
    """With its path."""
    with pytest.raises(CorpusError, match=r"no gold file at .*none\.jsonl"):
        read_gold(tmp_path / "none.jsonl", TEXTS)


@pytest.mark.parametrize("read", [read_documents, lambda p: read_gold(p, TEXTS)])
def test_the_home_of_nobody_is_not_there(read):
    """No user of that name."""
    with pytest.raises(CorpusError, match="~nosuchuser/x: there is no such"):
        read("~nosuchuser/x")


def test_the_home_directory_is_expanded(folder, monkeypatch):
    """~ stands for it."""
    monkeypatch.setenv("HOME", str(folder))
    assert len(read_documents("~/tesis")) == 1


def test_gold_that_is_no_path_is_refused(folder):
    """A list of questions, say."""
    with pytest.raises(CorpusError, match=r"is a list; give the path of a \.jsonl"):
        load_corpus(folder, [])


@pytest.mark.parametrize("documents", [None, ["a text"]])
def test_documents_that_are_none_are_refused(documents):
    """Neither a path nor LlamaIndex's."""
    with pytest.raises(CorpusError, match="give a path, or a list of LlamaIndex doc"):
        load_corpus(documents, "gold.jsonl")


def test_gold_that_is_not_utf8_is_refused(tmp_path):
    """The message has the byte: 0xe9 after three letters."""
    (tmp_path / "gold.jsonl").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"gold\.jsonl: not UTF-8 \(byte 3\)"):
        read_gold(tmp_path / "gold.jsonl", TEXTS)


@pytest.fixture
def folder(tmp_path):
    """A folder with two documents, one of them in a subfolder, and a file to ignore."""
    (tmp_path / "tesis").mkdir()
    (tmp_path / "tesis" / "agua.md").write_text("agua", encoding="utf-8")
    (tmp_path / "suelo.txt").write_bytes("uno\r\ndos\u0301".encode())
    (tmp_path / "notas.json").write_text("{}")
    return tmp_path


def test_documents_are_named_by_their_path(folder):
    """Relative, without suffix, in the order of the ids; other suffixes are not read."""
    assert [each.id_ for each in read_documents(folder)] == ["suelo", "tesis/agua"]


def test_text_is_read_as_it_is(folder):
    """Line ends and decomposed accents count as the characters they are."""
    assert read_documents(folder)[0].text == "uno\r\ndos\u0301"


def test_suffixes_are_of_either_case(folder):
    """As Windows has them."""
    (folder / "VIENTO.TXT").write_text("viento")
    assert "VIENTO" in [each.id_ for each in read_documents(folder)]


def test_hidden_files_and_folders_are_passed_over(folder):
    """What an editor, a notebook or version control leaves there."""
    (folder / ".git").mkdir()
    (folder / ".git" / "notas.txt").write_text("x")
    (folder / "tesis" / ".agua.md").write_text("x")
    assert [each.id_ for each in read_documents(folder)] == ["suelo", "tesis/agua"]


def test_a_folder_may_lie_in_a_hidden_one(tmp_path):
    """Only what is below the folder that was named is looked at."""
    (tmp_path / ".datos").mkdir()
    (tmp_path / ".datos" / "a.txt").write_text("texto")
    assert [each.id_ for each in read_documents(tmp_path / ".datos")] == ["a"]


def test_a_nul_in_a_file_is_refused(folder):
    """A database can't store it; here it is the third character."""
    (folder / "a.txt").write_bytes(b"ab\0")
    with pytest.raises(CorpusError, match=r"a\.txt: a NUL character at 2"):
        read_documents(folder)


def test_a_nul_in_a_document_is_refused():
    """LlamaIndex documents are checked as files are."""
    with pytest.raises(CorpusError, match="document 'd': a NUL character at 1"):
        load_corpus([Document(id_="d", text="a\0")], "gold.jsonl")


def test_a_single_file_is_a_corpus(folder):
    """Its id is its name without suffix."""
    assert [each.id_ for each in read_documents(folder / "suelo.txt")] == ["suelo"]


def test_a_folder_named_like_a_document_is_walked(folder):
    """It is not read as a file."""
    (folder / "anexos.txt").mkdir()
    (folder / "anexos.txt" / "a.txt").write_text("anexo")
    ids = [each.id_ for each in read_documents(folder)]
    assert ids == ["anexos.txt/a", "suelo", "tesis/agua"]


def test_a_missing_folder_is_named(tmp_path):
    """With its path."""
    with pytest.raises(
        CorpusError, match=r"no documents at .*nowhere: there is no such"
    ):
        read_documents(tmp_path / "nowhere")


def test_an_empty_folder_says_what_was_looked_for(tmp_path):
    """With the suffixes."""
    with pytest.raises(CorpusError, match=r"is empty.*looked for \.txt and \.md"):
        read_documents(tmp_path)


def test_blank_documents_are_an_empty_corpus(tmp_path):
    """No document with text."""
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(CorpusError, match="no document with text"):
        read_documents(tmp_path)


def test_files_that_are_not_utf8_are_all_named(folder):
    """Two of them in one message, each with its byte."""
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes(b"ab\xff")
    with pytest.raises(CorpusError) as caught:
        read_documents(folder)
    found = re.findall(r"(\w)\.txt: not UTF-8 \(.* at byte 2\)", str(caught.value))
    assert found == ["a", "b"]


def test_files_of_the_same_id_are_refused(folder):
    """suelo.txt and suelo.md."""
    (folder / "suelo.md").write_text("otro")
    with pytest.raises(CorpusError, match=r"(?s)occur more than once:.*- suelo$"):
        read_documents(folder)


def test_documents_of_the_same_id_are_refused(tmp_path):
    """LlamaIndex documents are checked as files are."""
    documents = [Document(id_="agua", text="a"), Document(id_="agua", text="b")]
    with pytest.raises(CorpusError, match=r"(?s)more than once:.*- agua$"):
        load_corpus(documents, tmp_path / "gold.jsonl")


def test_no_documents_are_an_empty_corpus(tmp_path):
    """An empty list."""
    with pytest.raises(CorpusError, match="the corpus is empty"):
        load_corpus([], tmp_path / "gold.jsonl")


def test_a_corpus_has_documents_and_gold(tmp_path):
    """From LlamaIndex documents, sorted by id, and a path given as text."""
    (tmp_path / "gold.jsonl").write_text(json.dumps(row()), encoding="utf-8")
    documents = [Document(id_=id_, text=text) for id_, text in TEXTS.items()]
    corpus = load_corpus(documents[::-1], str(tmp_path / "gold.jsonl"))
    assert [each.id_ for each in corpus.documents] == ["agua", "suelo"]
    assert corpus.gold == Gold(
        (
            Question(
                "q1", "¿Qué es?", ((Evidence("agua", START, END, QUOTE),),), kind="text"
            ),
        )
    )


def test_a_corpus_is_read_from_a_folder(folder):
    """Gold beside the documents, and naming a document by its path."""
    line = row(doc_id="tesis/agua", evidence=[{"quote": "agua"}])
    (folder / "gold.jsonl").write_text(json.dumps(line), encoding="utf-8")
    corpus = load_corpus(folder, folder / "gold.jsonl")
    assert corpus.gold[0].facts == ((Evidence("tesis/agua", 0, 4, "agua"),),)

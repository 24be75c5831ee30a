"""Languages and tokens: what a lexical search can tell apart and what it can't."""

import dataclasses
import unicodedata

import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_SPANISH
from hypothesis import given
from hypothesis import strategies as st

from scholar_rag_li.errors import UnknownComponentError
from scholar_rag_li.language import Analyzer, language

SPANISH = Analyzer(language("es"))
ENGLISH = Analyzer(language("en"))


@pytest.mark.parametrize("code", ["es", "ES", "spanish", "Spanish", "es-MX", "es_ES"])
def test_a_language_is_found_by_code_name_or_locale(code):
    """All the usual ways to write a language name the same one."""
    assert language(code) == language("es")


def test_spanish_is_spanish_everywhere():
    """One code gives stemmer, stop words and PostgreSQL configuration."""
    found = language("es")
    assert (found.stemmer, found.text_search, found.stop_words) == (
        "spanish",
        "spanish",
        frozenset(STOPWORDS_SPANISH),
    )


def test_every_snowball_language_is_known():
    """Each of PyStemmer's is one setting away ("porter" is English again)."""
    names = set(Stemmer.algorithms()) - {"porter"}
    assert {language(name).stemmer for name in names} == names


def test_a_language_without_a_list_has_no_stop_words():
    """bm25s ships none for Catalan, which is stated as an empty set."""
    assert language("ca").stop_words == frozenset()


def test_an_unknown_language_is_refused_with_what_is_allowed():
    """The error names what was given and the languages there are."""
    with pytest.raises(UnknownComponentError, match=r"'klingon'.*es \(spanish\)"):
        language("klingon")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("investigacion", "investigación"),
        ("investigación", "investigaciones"),
        ("elección", "elecciones"),
        ("eleccion", "elección"),
        ("energia", "energía"),
        ("metodologia", "metodologías"),
        ("numero", "número"),
        ("pais", "países"),
        ("interes", "interés"),
        ("pinguino", "pingüino"),
        ("LOS PLAZOS", "plazo"),
        ("COVID\u201119", "COVID-19"),  # non-breaking hyphen
        ("investi\u00adgación", "investigación"),  # soft hyphen
        ("ﬁnanciación", "financiación"),  # ligature
    ],
)
def test_spellings_of_a_word_are_one_token(one, other):
    """Neither accent, number, case nor typography keeps a word from being found."""
    assert SPANISH(one) == SPANISH(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("año", "ano"), ("C", "C++"), ("C++", "C#"), ("AX-7/8", "AX-7/9"), ("87", "87.3")],
)
def test_different_things_stay_different(one, other):
    """A mark, a sign or a digit that makes another thing makes another token."""
    assert set(SPANISH(one)) != set(SPANISH(other))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("art. 87.3.", ["art", "87.3", "87", "3"]),
        ("AX-7/8,", ["ax-7/8", "ax", "7", "8"]),
        ("INC-2023-Q4-011", ["inc-2023-q4-011", "inc", "2023", "q4", "011"]),
        ("Ley 39/2015", ["ley", "39/2015", "39", "2015"]),
        ("UNE-EN", ["une-en", "une"]),  # "en" is a stop word
        ("ana@b.es", ["ana@b.es", "ana", "b"]),
        ("http://x.org/y", ["http://x.org/y", "http", "x", "org"]),
        ("var_1", ["var-1", "var", "1"]),
        ("0,85", ["0,85", "0", "85"]),
        ("C++11", ["c++11", "c++", "11"]),
        ("A/B", ["a/b", "a", "b"]),
        ("y/o", ["y/o"]),  # "y" and "o" are stop words
    ],
)
def test_a_code_is_itself_and_its_parts(text, tokens):
    """The whole tells codes apart, the parts find it when it is written otherwise."""
    assert SPANISH(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Anexo A", ["anex", "a"]),
        ("Anexo B", ["anex", "b"]),
        ("¿qué dice el anexo a?", ["dic", "anex", "a"]),
        ("A casa", ["cas"]),
        ("voy a casa", ["voy", "cas"]),
    ],
)
def test_a_single_letter_counts_where_it_is_a_name(text, tokens):
    """The A of "Anexo A" is a token; the preposition "a" is not."""
    assert SPANISH(text) == tokens


def test_question_words_are_stop_words_with_their_accent():
    """The list has "cuando" and "como", not "cuándo" and "cómo"."""
    assert SPANISH("¿Cuándo, cómo, quién, cuál?") == []


def test_an_accent_keeps_a_short_word_from_being_a_stop_word():
    """Tea, "té", is content though "te" is not."""
    assert SPANISH("té") == ["te"]


def test_english_is_stemmed_and_stopped_in_english():
    """Snowball's English stems: elections and election are both elect."""
    assert ENGLISH("When are the elections?") == ["elect"]


def test_words_with_combining_marks_stay_whole():
    """Hindi vowel signs are part of the word: two words, two tokens."""
    assert len(Analyzer(language("hi"))("हिन्दी किताब")) == 2


@pytest.mark.parametrize("text", ["", "   ", "!!!", "(((", "\u0301", "y de la que"])
def test_nothing_to_say_gives_no_tokens(text):
    """Blank text, signs, and stop words have no tokens."""
    assert SPANISH(text) == []


def test_the_fingerprint_tells_languages_apart():
    """Other tokens, other fingerprint."""
    assert SPANISH.fingerprint != ENGLISH.fingerprint


def test_the_fingerprint_knows_the_stop_words():
    """The same language without its stop words gives other tokens."""
    bare = dataclasses.replace(language("es"), stop_words=frozenset())
    assert Analyzer(bare).fingerprint != SPANISH.fingerprint


@given(st.text())
def test_any_text_gives_tokens_that_are_not_empty(text):
    """Nothing raises, and no token is empty, which would match blank chunks."""
    assert "" not in SPANISH(text)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_composed_and_decomposed_text_have_the_same_tokens(text):
    """NFC and NFD are ways to store a text, not other texts."""
    composed = unicodedata.normalize("NFC", text)
    assert SPANISH(composed) == SPANISH(unicodedata.normalize("NFD", text))


# Words of two letters or more: a single capital may be a name, see above.
WORDS = st.lists(st.text("abdñáéíóúü01", min_size=2), min_size=1)


@given(WORDS, st.sampled_from([" ", "-", "/", ".", "_", ", "]))
def test_case_does_not_matter(words, joint):
    """Headings in capitals hold the same words."""
    text = joint.join(words)
    assert SPANISH(text.upper()) == SPANISH(text)

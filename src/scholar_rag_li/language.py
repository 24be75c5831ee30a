"""One language code decides stemmer, stop words, PostgreSQL configuration and tokens.

`language("es")` looks a code up, `Analyzer(language("es"))` turns text into the tokens
that both sides of a lexical search use: the indexed chunk and the question.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import Stemmer
from bm25s import stopwords

from scholar_rag_li.errors import UnknownComponentError

RULES = 1
"""Version of the rules below; raise it with any change that changes a token."""

SHORT_WORD = 3
"""Characters up to which an accent may be all that tells a word from a stop word."""


@dataclass(frozen=True)
class Language:
    """What the lexical parts need to know about a language.

    Attributes:
        code: ISO 639-1, "es".
        stemmer: Name of the Snowball stemmer, "spanish".
        stop_words: Words that carry no content; empty where bm25s ships no list.
        text_search: Name of the text search configuration that PostgreSQL ships.
        letters: Marked letters that are letters of their own and keep their mark when
            accents are folded: "ñ" in Spanish, so that "año" and "ano" stay different.
        ending: An ending without its accent and with it, where spelling leaves no
            choice: every Spanish word in -ion has its accent there.
    """

    code: str
    stemmer: str
    stop_words: frozenset[str]
    text_search: str
    letters: str = ""
    ending: tuple[str, str] | None = None


# ISO code -> English name, which is both Snowball's and PostgreSQL's (14 or later);
# stop words as bm25s ships them, those of NLTK (for English the long list, which has
# "what" and "when", as the other lists have); letters of their own.
_TABLE: dict[str, tuple[str, tuple[str, ...], str]] = {
    "ar": ("arabic", (), ""),
    "hy": ("armenian", (), ""),
    "eu": ("basque", (), "ñ"),
    "ca": ("catalan", (), ""),
    "da": ("danish", stopwords.STOPWORDS_DANISH, "å"),
    "nl": ("dutch", stopwords.STOPWORDS_DUTCH, ""),
    "en": ("english", stopwords.STOPWORDS_EN_PLUS, ""),
    "fi": ("finnish", (), "åäö"),
    "fr": ("french", stopwords.STOPWORDS_FRENCH, ""),
    "de": ("german", stopwords.STOPWORDS_GERMAN, "äöü"),
    "el": ("greek", (), ""),
    "hi": ("hindi", (), ""),
    "hu": ("hungarian", (), "öőüű"),
    "id": ("indonesian", (), ""),
    "ga": ("irish", (), ""),
    "it": ("italian", stopwords.STOPWORDS_ITALIAN, ""),
    "lt": ("lithuanian", (), ""),
    "ne": ("nepali", (), ""),
    "no": ("norwegian", stopwords.STOPWORDS_NORWEGIAN, "å"),
    "pt": ("portuguese", stopwords.STOPWORDS_PORTUGUESE, ""),
    "ro": ("romanian", (), ""),
    "ru": ("russian", stopwords.STOPWORDS_RUSSIAN, "й"),
    "sr": ("serbian", (), ""),
    "es": ("spanish", stopwords.STOPWORDS_SPANISH, "ñ"),
    "sv": ("swedish", stopwords.STOPWORDS_SWEDISH, "åäö"),
    "ta": ("tamil", (), ""),
    "tr": ("turkish", stopwords.STOPWORDS_TURKISH, "çğöşü"),
    "yi": ("yiddish", (), ""),
}
_ENDINGS = {"es": ("ion", "ión")}
_CODES = {name: code for code, (name, _, _) in _TABLE.items()}


def language(code: str) -> Language:
    """Look a language up.

    Args:
        code: ISO 639-1 code or English name in any case; a region is ignored ("es-MX").

    Raises:
        UnknownComponentError: Snowball or PostgreSQL does not know the language.

    >>> language("es").stemmer, language("Spanish").code, language("en_GB").text_search
    ('spanish', 'es', 'english')
    """
    asked = re.split("[-_]", code.strip().casefold())[0]
    iso = _CODES.get(asked, asked)
    if iso not in _TABLE:
        allowed = ", ".join(f"{known} ({row[0]})" for known, row in _TABLE.items())
        raise UnknownComponentError(
            f"Unknown language {code!r}. Give a code or an English name of: {allowed}."
        )
    name, words, letters = _TABLE[iso]
    stop_words = frozenset(_caseless(word) for word in words)
    return Language(iso, name, stop_words, name, letters, _ENDINGS.get(iso))


# Hyphens that word processors write for "-", and "_", which joins words as "-" does;
# soft hyphens and zero-width characters are layout inside a word.
_TRANSLATION = str.maketrans(
    dict.fromkeys("_\u2010\u2011\u2012\u2013\u2212", "-")
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\ufeff")
)
# `\w` leaves combining marks out, without which Hindi or Tamil words fall to pieces.
_MARKS = "".join(
    char
    for char in map(chr, range(0x300, 0x10000))
    if unicodedata.category(char).startswith("M")
)
_WORD = rf"\w[\w{_MARKS}]*"
# A comma joins digits only ("0,85"); "C++" and "C#" end in their signs.
_JOIN = r"(?:://|\+\+|[-/.:@+#]|(?<=\d),(?=\d))"
_RUN = re.compile(rf"{_WORD}(?:{_JOIN}{_WORD})*(?:\+\+|#)?")
_PART = re.compile(rf"{_WORD}(?:\+\+|#(?!\w))?")
_CLOSED = re.compile(r"\s*(?:[.?!;:)\]}»”\"]|$)")


def _caseless(text: str) -> str:
    return unicodedata.normalize("NFKC", text.casefold())


def _is_label(text: str, start: int, end: int) -> bool:
    """Whether the single letter at `text[start:end]` names something ("Anexo A").

    So it does as a capital after a word, and where a preposition or an article can't
    stand: before closing punctuation or the end ("¿qué dice el anexo a?").
    """
    if end - start != 1:
        return False
    after_word = (
        text[max(start - 1, 0) : start] == " " and text[start - 2 : start - 1].isalnum()
    )
    return (after_word and text[start].isupper()) or bool(_CLOSED.match(text, end))


@dataclass(frozen=True)
class Analyzer:
    """Text to tokens, the same for a chunk and for a question.

    - Unicode NFKC, no case.
    - Stop words are left out; other words are stemmed and lose their accents. In
      Spanish they lose them first: "investigacion" and "investigación" are one token.
      (-ión gets its accent back for the stemmer, which without it would not see that
      "investigaciones" belongs there too.)
    - Words joined by - / . _ : @ + # are a code ("INC-2023-Q4-011", "39/2015",
      "a@b.es"): the whole is a token, not stemmed, and its parts are tokens too.
    - What holds a digit or ends in ++ or # ("Q4", "C++") is not stemmed.
    - A single letter that names something ("Anexo A") is a token, stop word or not.

    >>> analyzer = Analyzer(language("es"))
    >>> analyzer("Las elecciones municipales, art. 87.3 del Anexo A")
    ['eleccion', 'municipal', 'art', '87.3', '87', '3', 'anex', 'a']
    """

    language: Language

    def __call__(self, text: str) -> list[str]:
        """Return the tokens in the order of the text, as often as they occur there."""
        text = unicodedata.normalize("NFKC", text).translate(_TRANSLATION)
        # One stemmer a call: PyStemmer's are not safe to share between threads.
        stem = Stemmer.Stemmer(self.language.stemmer).stemWord
        tokens: list[str] = []
        for run in _RUN.finditer(text):
            parts = _PART.findall(run[0])
            is_code = len(parts) > 1
            if is_code:
                tokens.append(self._fold(_caseless(run[0])))
            is_label = _is_label(text, run.start(), run.end())
            for part in parts:
                word = _caseless(part)
                keep = is_label or (is_code and len(part) == 1 and part.isupper())
                if keep or not self._is_stop(word):
                    tokens.append(self._term(word, stem))
        return tokens

    @cached_property
    def fingerprint(self) -> str:
        """Everything that the tokens depend on; another fingerprint, other tokens."""
        words = "\n".join(sorted(self.language.stop_words))
        return "-".join(
            [
                self.language.code,
                self.language.stemmer,
                f"rules{RULES}",
                f"pystemmer{version('PyStemmer')}",
                f"unicode{unicodedata.unidata_version}",
                f"stop{hashlib.sha256(words.encode()).hexdigest()[:12]}",
                f"letters{self.language.letters}",
            ]
        )

    def _term(self, word: str, stem: Callable[[str], str]) -> str:
        """Return the token of a word in lower case that is not a stop word."""
        plain = self._fold(word)
        if word.endswith(("+", "#")) or any(map(str.isdigit, word)):
            return plain
        if self.language.ending is None:
            return self._fold(stem(word))
        bare, accented = self.language.ending
        if plain.endswith(bare):
            plain = plain.removesuffix(bare) + accented
        return self._fold(stem(plain))

    def _is_stop(self, word: str) -> bool:
        """Whether the word is in the list, or a longer word's unaccented form is.

        The list has "cuando" without "cuándo"; but "té" is not "te".
        """
        stops = self.language.stop_words
        return word in stops or (len(word) > SHORT_WORD and self._fold(word) in stops)

    def _fold(self, word: str) -> str:
        """Take the accents off, but for the letters that are letters of their own."""
        if word.isascii():
            return word
        own = self.language.letters
        folded = "".join(char if char in own else _unmarked(char) for char in word)
        return unicodedata.normalize("NFC", folded)


def _unmarked(char: str) -> str:
    """Take the diacritics of Latin, Greek and Cyrillic off (U+0300 to U+036F)."""
    decomposed = unicodedata.normalize("NFD", char)
    return "".join(mark for mark in decomposed if not "\u0300" <= mark <= "\u036f")

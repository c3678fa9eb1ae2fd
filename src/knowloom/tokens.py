"""Token counts for a model: exact where its tokenizer is at hand, else a bound that the true number cannot pass. Never online.

No counter counts what a model wraps around a text: special tokens, roles, the space SentencePiece may put in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from string import ascii_letters
from threading import Lock

import tiktoken

from knowloom.caching import MemoDict, cached, register
from knowloom.errors import Invalid
from knowloom.ports import TokenCounter

FILES = Path(__file__).parent / "token_files"
UPPER_BOUND = "upper-bound (1 token per UTF-8 byte)"
MAX_MODEL_NAME = 200

# How each encoding cuts a text into pieces, as in tiktoken_ext.openai_public, whose functions would go online.
PIECES = {
    "cl100k_base": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k_base": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
ALIASES = {name: name for name in PIECES} | {
    "cl100k": "cl100k_base",
    "o200k": "o200k_base",
    "o200k_harmony": "o200k_base",
}

# Where a piece of either encoding always ends, whatever stands around: after a newline before a visible character ("/" can
# belong to the piece before, in o200k), and after a visible character before a space. A cut here changes no count.
SEAM = re.compile(r"(?<=\n)(?=[^\s/])|(?<=\S)(?= )")
CHUNK = 100_000
LONGEST_CHUNK = 500_000  # characters; tiktoken panics at a run of a million spaces

MEMO_LENGTH = 2_000  # characters of the longest text remembered
# Words that are empty, begin with a line break or hold white space that is none: a text with such a word is encoded as a whole.
UNEVEN = re.compile(r"\A\Z|\A\n|[^\S\n]")
# A word that is one piece in either encoding: o200k cuts where a capital follows a small letter.
PLAIN = re.compile(r"[A-Za-z]?[a-z]+|[A-Z]+")
# Such a word with a number behind it, as ids have: digits are counted by threes, and signs apart.
NUMBERED = re.compile(rf"({PLAIN.pattern})([-_:.#]?)([0-9]+)([,.;:)]?\n?)")
# What stands before the first word of a line while a text is cut into words, and before that of one indented by two blanks, as those of plain
# and YAML blocks are: a token for the first blank, and the other belongs to the word.
LINE, INDENTED = "\0", "\1"
NEXT_LINE, NEXT_INDENTED, INDENTED_LINE, EMPTY_LINE = (
    f"\n {LINE}",
    f"\n {LINE}  ",
    f"\n {INDENTED}",
    f"\n {LINE}\n",
)
MOST_BREAKS = 4
LETTERS = frozenset(ascii_letters)
UNKNOWN = 1 << 60  # tokens of such a word: more than any text can have
MEMO_WORDS = 200_000  # about 20 MB
LONGEST_WORD = 40
MEMO_TEXTS = 65_536  # per counter; about 30 MB with blocks of 300 characters, 140 MB if all are of the longest kind (ASCII)

Encode = Callable[[str], list[int]]
_loading = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """A TokenCounter, made once for each encoding and file. `additive`: if A ends in a newline and B begins with a visible character other than "/", then
    count(A + B) == count(A) + count(B). The exception is for o200k: "!\\n/home" has one token more than "!\\n" and "/home".
    Half a million characters without a seam are bounded, not counted: then the sum can be the smaller, but never too small."""

    name: str
    additive: bool
    tokens: Callable[[str], int] = field(repr=False)

    def count(self, text: str) -> int:
        """Special tokens in the text are plain text. A text that UTF-8 cannot hold is Invalid."""
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise Invalid(
                    f"the text is not Unicode: lone surrogate {text[error.start]!r} at character {error.start}"
                ) from error
        return self.tokens(text)


def counter(model: str) -> TokenCounter:
    """For an OpenAI model or encoding and for a Hugging Face tokenizer file (`….json`) exact, for any other name the bound.
    The counter's name says which. The first call for an encoding loads it: 0.1 s for cl100k, 0.23 s for o200k."""
    if not isinstance(model, str) or not model.strip() or not model.isprintable():
        raise Invalid(
            f"no model {str(model)[:40]!r}; known: OpenAI models, a path to a tokenizer.json, any printable name for a bound"
        )
    with _loading:
        if model.endswith(".json"):
            return _from_file(Path(model))
        if len(model) > MAX_MODEL_NAME:
            raise Invalid(
                f"model name {model[:40]!r}… has {len(model)} characters; at most {MAX_MODEL_NAME}"
            )
        encoding = _encoding_of(model)
        return _exact(encoding) if encoding else _BOUND


def _encoding_of(model: str) -> str:
    """Empty for a model without one of ours. A fine-tuned `ft:<model>:…` counts like its model: tiktoken takes ft:gpt-4.1 for a gpt-4."""
    base = model.split(":")[1] if model.startswith("ft:") else model
    try:
        return ALIASES.get(tiktoken.encoding_name_for_model(base), "")
    except KeyError:
        return ALIASES.get(model, "")


def _bytes(text: str) -> int:
    """The bound. Byte-level BPE starts from single bytes and only merges, and byte fallback gives at most one token per byte, so
    neither can have more tokens than bytes. Nothing tighter holds for every vocabulary; English has about four bytes to a token.
    Not covered: a tokenizer that first rewrites the text to something longer (NFKC turns "½" into three characters)."""
    return len(text.encode())


_BOUND = Counter(UPPER_BOUND, True, _bytes)


class Remembered(dict[str, int]):
    """Tokens of a word with what stands before it, counted once. Texts are made of the same words again and again. The line breaks at the end of a word
    are part of it: what comes behind them is marked as the beginning of a line."""

    def __init__(
        self, before: str, lines: Remembered | None, encode: Encode, of_piece: Callable[[str], int]
    ) -> None:
        super().__init__()
        register("token counts of words", MEMO_WORDS, self)
        self._before, self._encode, self._of_piece = before, encode, of_piece
        self._lines = self if lines is None else lines  # for words at the beginning of a line
        self._ends = {
            end: len(encode(end))
            for end in ("", "\n", *",.;:)", *(f"{sign}\n" for sign in ",.;:)"))
        }

    def __missing__(self, word: str) -> int:
        if word.isalpha():
            found = (
                self._of_piece(self._before + word)
                if PLAIN.fullmatch(word)
                else len(self._encode(self._before + word))
            )
        elif numbered := NUMBERED.fullmatch(word):
            name, sign, digits, end = numbered.groups()
            return self[name] + len(sign) + (len(digits) + 2) // 3 + self._ends[end]
        elif word[:1] == LINE:
            found = (
                UNKNOWN if word[1:2] == "/" else self._lines[word[1:]]
            )  # a slash may belong to the line before
        elif word[:1] == INDENTED:
            found = 1 + self[word[1:]]
        else:
            uneven = not word or (not word.isprintable() and UNEVEN.search(word))
            found = UNKNOWN if uneven else len(self._encode(self._before + word))
        if len(word) <= LONGEST_WORD:
            if len(self) >= MEMO_WORDS:
                self.clear()
            self[word] = found
        return found


@cached("token counters", 16)
def _exact(encoding: str) -> Counter:
    known = _ranks(encoding)
    ranks = tiktoken.Encoding(
        encoding, pat_str=PIECES[encoding], mergeable_ranks=known, special_tokens={}
    )
    # What is known to be one piece need not be cut: a quarter of the time. Not documented, so we can do without.
    encode_piece: Encode = getattr(ranks, "_encode_single_piece", ranks.encode_ordinary)
    by_words = _by_words(
        ranks.encode_ordinary,
        lambda piece: 1 if piece.encode() in known else len(encode_piece(piece)),
    )

    def tokens(text: str) -> int:
        if " " in text and len(text) <= CHUNK and (found := by_words(text)) < UNKNOWN:
            return found
        chunks = _chunks(text) if len(text) > CHUNK else (text,)
        return sum(
            len(ranks.encode_ordinary(chunk)) if len(chunk) <= LONGEST_CHUNK else _bytes(chunk)
            for chunk in chunks
        )

    return Counter(encoding, True, tokens)


def _by_words(encode: Encode, of_piece: Callable[[str], int]) -> Callable[[str], int]:
    """Counts a text with blanks in it by its words: UNKNOWN or more when they do not tell. No token spans a visible character and the blank
    behind it, nor the end of a line and the visible character behind that, nor a letter and the line break behind it. Five times as fast as encoding
    the whole, and as looking the whole text up among those counted before."""
    first = Remembered("", None, encode, of_piece)
    others = Remembered(" ", first, encode, of_piece)
    breaks = [len(encode("\n" * many)) for many in range(MOST_BREAKS + 1)]

    def count(text: str) -> int:
        if LINE in text or INDENTED in text:
            return UNKNOWN
        visible = text.rstrip("\n")
        ending = len(text) - len(visible)
        lines = (
            visible.replace("\n", NEXT_LINE)
            .replace(NEXT_INDENTED, INDENTED_LINE)
            .replace(EMPTY_LINE, "\n\n")
            if "\n" in visible
            else visible
        )
        apart = (
            ending <= MOST_BREAKS and visible[-1:] in LETTERS
        )  # nearly every text has an end of its own
        words = iter((lines if apart else lines + text[len(visible) :]).split(" "))
        return (
            first[next(words)]
            + sum(map(others.__getitem__, words))
            + (breaks[ending] if apart else 0)
        )

    return count


def _ranks(encoding: str) -> dict[bytes, int]:
    """The number of tokens, the length of each, then the tokens by rank: tools/build_token_files.py. Read in 0.03 s (o200k 0.07);
    OpenAI's own base64 lines take three times as long."""
    raw = (FILES / f"{encoding}.ranks").read_bytes()
    first = 4 + int.from_bytes(raw[:4], "little")
    ends = accumulate(raw[4:first], initial=first)
    return {raw[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}


def _chunks(text: str) -> Iterator[str]:
    """Cut at the first seam behind every 100,000 characters."""
    start = 0
    while seam := SEAM.search(text, start + CHUNK):
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


def _from_file(path: Path) -> Counter:
    try:
        state = path.stat()
    except OSError as error:
        raise Invalid(f"no tokenizer file {str(path)!r}: {error.strerror}") from error
    return _tokenizer(path, state.st_mtime_ns, state.st_size)


@cached("tokenizer files", 8)
def _tokenizer(path: Path, mtime_ns: int, size: int) -> Counter:
    """A changed file is read anew. Its special tokens in a text count as plain text, like everywhere here."""
    from tokenizers import (
        Tokenizer,
    )  # here, for it takes 30 ms that only users of such a file should pay

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise Invalid(f"{str(path)!r} is not a Hugging Face tokenizer file: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    tokens = _remembering(lambda text: len(tokenizer.encode(text, add_special_tokens=False)))
    return Counter(f"tokenizer.json:{path.name}", False, tokens)


def _remembering(tokens: Callable[[str], int]) -> Callable[[str], int]:
    """The same blocks are counted again and again."""
    memo = MemoDict("token counts of texts", tokens, MEMO_TEXTS)
    return lambda text: memo[text] if len(text) <= MEMO_LENGTH else tokens(text)

"""Token counts for a model: exact with its tokenizer, else an estimate or a bound. Never online.

Tokens that a model adds around a text are not counted: special tokens, roles, the space that
SentencePiece may put in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from string import ascii_letters
from threading import Lock

import tiktoken

from knowloom.caching import MemoDict, cached, register
from knowloom.errors import Invalid
from knowloom.model import Problem

FILES = Path(__file__).parent / "token_files"
UPPER_BOUND = "upper-bound (1 token per UTF-8 byte)"
# For models without a known tokenizer: docs/decisions/035-token-estimate.md has the measurements.
ESTIMATE = "estimate (1.2 x cl100k_base)"
STRICT = "strict:"  # the prefix of a model without a known tokenizer that is to be bounded
MAX_MODEL_NAME = 200

# The pre-tokenizer of each encoding, as in tiktoken_ext.openai_public, whose functions would go
# online.
PIECES = {
    "cl100k_base": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k_base": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
ALIASES = {name: name for name in PIECES} | {
    "cl100k": "cl100k_base",
    "o200k": "o200k_base",
    "o200k_harmony": "o200k_base",
}

# A piece of either encoding always ends after a newline before a visible character ("/" can belong
# to the piece before, in o200k), and after a visible character before a space. A cut at such a seam
# changes no count.
SEAM = re.compile(r"(?<=\n)(?=[^\s/])|(?<=\S)(?= )")
CHUNK_CHARS = 100_000
MAX_CHUNK_CHARS = 500_000  # tiktoken panics at a run of a million spaces

# A word that is empty, begins with a newline or has other white space: its text is encoded whole.
UNEVEN = re.compile(r"\A\Z|\A\n|[^\S\n]")
# A word that is one piece in either encoding: o200k cuts between a small letter and a capital.
PLAIN = re.compile(r"[A-Za-z]?[a-z]+|[A-Z]+")
# Such a word with a number, as in ids: digits are counted in threes, and punctuation apart.
NUMBERED = re.compile(rf"({PLAIN.pattern})([-_:.#]?)([0-9]+)([,.;:)]?\n?)")
# Markers of the first word of a line, and of a line indented by two spaces as in plain and YAML
# blocks: a token for the first space, while the other one belongs to the word.
LINE, INDENTED = "\0", "\1"
NEXT_LINE, NEXT_INDENTED = f"\n {LINE}", f"\n {LINE}  "
INDENTED_LINE, EMPTY_LINE = f"\n {INDENTED}", f"\n {LINE}\n"
MAX_BREAKS = 4
LETTERS = frozenset(ascii_letters)
UNKNOWN = 1 << 60  # the tokens of an uneven word: more than any text can have
MAX_WORD_CHARS = 40  # of a cached word
CACHED_WORDS = 200_000  # about 20 MB
MAX_TEXT_CHARS = 2_000  # of a cached text
CACHED_TEXTS = 65_536  # per counter; about 30 MB with blocks of 300 characters, at most 140 MB

Encode = Callable[[str], list[int]]
Decode = Callable[[Sequence[int]], str]
_loading = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """A TokenCounter, one per encoding and file.

    `additive`: if A ends in a newline and B begins with a visible character other than "/", then
    count(A + B) == count(A) + count(B). The exception is for o200k: "!\\n/home" has one token more
    than "!\\n" and "/home". Half a million characters without a seam are bounded, not counted: then
    the sum can be the smaller one, but never too small.
    """

    name: str
    additive: bool
    tokens: Callable[[str], int] = field(repr=False)
    _encode: Encode | None = field(default=None, repr=False)  # None: there is no tokenizer
    _decode: Decode | None = field(default=None, repr=False)

    @property
    def is_exact(self) -> bool:
        """True if the tokens are those of a tokenizer; False for the estimate and the bound."""
        return self._encode is not None

    def count(self, text: str) -> int:
        """Return the number of tokens; special tokens in the text are plain text."""
        if not text.isascii():
            _check_unicode(text)
        return self.tokens(text)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; special tokens in it are plain text."""
        if self._encode is None:
            raise self._no_tokenizer()
        _check_unicode(text)
        return self._encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; bytes that are no UTF-8 become U+FFFD."""
        if self._decode is None:
            raise self._no_tokenizer()
        try:
            return self._decode(list(tokens))
        except (KeyError, OverflowError, TypeError) as error:
            rule = f"a list of integers that {self.name} has"
            raise Invalid(f"tokens must be {rule}, got {str(tokens)[:40]!r}") from error

    def _no_tokenizer(self) -> Invalid:
        encodings = ", ".join(sorted(PIECES))
        return Invalid(
            f"{self.name} has no tokens to encode or decode: pass an OpenAI model, "
            f"an encoding ({encodings}) or a tokenizer.json"
        )


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate = f"lone surrogate {text[error.start]!r} at character {error.start}"
        raise Invalid(f"text must be Unicode, got a {surrogate}") from error


def get_counter(model: str, strict: bool = False) -> Counter:
    """Return the counter of a model; its name is that of the encoding, the estimate or the bound.

    It is exact for an OpenAI model or encoding and for a Hugging Face tokenizer file (`….json`).
    The tokens of any other model are estimated; if `strict`, or with the prefix "strict:", they
    are bounded. The first call for an encoding loads it: 0.1 s for cl100k, 0.23 s for o200k.
    """
    if not isinstance(model, str) or not model.strip() or not model.isprintable():
        rule = "an OpenAI model, a path to a tokenizer.json, or any printable name for an estimate"
        raise Invalid(f"model must be {rule}, got {str(model)[:40]!r}")
    if model.startswith(STRICT):
        return get_counter(model.removeprefix(STRICT), strict=True)
    with _loading:
        if model.endswith(".json"):
            return _load_file(Path(model))
        if len(model) > MAX_MODEL_NAME:
            length = f"{len(model)} characters: {model[:40]!r}…"
            raise Invalid(f"model must have at most {MAX_MODEL_NAME} characters, got {length}")
        encoding = _encoding_name(model)
        if encoding or not strict:
            return _load_encoding(encoding) if encoding else _load_estimate()
        return _BOUND


def strict_model(model: str, strict: bool) -> str:
    """Return the name of the model, with the prefix "strict:" if its tokens are to be bounded."""
    if not strict:
        return model
    get_counter(model, strict)  # raises Invalid for an unusable name
    return model if model.startswith(STRICT) else f"{STRICT}{model}"


def estimate_notices(model: str, part: str = "tokens") -> tuple[Problem, ...]:
    """Return a notice if the tokens of a model are estimated, else nothing."""
    if get_counter(model).name != ESTIMATE:
        return ()
    reason = (
        f"no tokenizer for model {model!r}: its tokens are estimated as 1.2 times those of "
        "cl100k_base, so the model may count more; strict counts an upper bound instead"
    )
    return (Problem(part, reason, "estimated_tokens"),)


def _encoding_name(model: str) -> str:
    """Return the encoding of a model; "" for one that is not ours.

    A fine-tuned `ft:<model>:…` counts like its model: tiktoken takes ft:gpt-4.1 for a gpt-4.
    """
    base = model.split(":")[1] if model.startswith("ft:") else model
    try:
        return ALIASES.get(tiktoken.encoding_name_for_model(base), "")
    except KeyError:
        return ALIASES.get(model, "")


def _count_bytes(text: str) -> int:
    """Return the upper bound.

    Byte-level BPE starts from single bytes and only merges, and byte fallback gives at most one
    token per byte, so neither can have more tokens than bytes. Nothing tighter holds for every
    vocabulary; English has about four bytes per token. Not covered: a tokenizer that first rewrites
    the text to something longer (NFKC turns "½" into three characters).
    """
    return len(text.encode())


_BOUND = Counter(UPPER_BOUND, True, _count_bytes)


@cached("token estimates", 1)
def _load_estimate() -> Counter:
    """Return the estimate: 1.2 times the tokens of cl100k_base, rounded up."""
    exact = _load_encoding("cl100k_base").tokens
    return Counter(ESTIMATE, False, lambda text: (exact(text) * 6 + 4) // 5)


class WordCountMemo(dict[str, int]):
    """The cached number of tokens of words that follow `prefix`.

    The newlines at the end of a word are part of it: the word behind them has the marker LINE.
    """

    def __init__(
        self,
        prefix: str,
        line_starts: WordCountMemo | None,
        encode: Encode,
        count_piece: Callable[[str], int],
    ) -> None:
        super().__init__()
        register("token counts of words", CACHED_WORDS, self)
        self._prefix, self._encode, self._count_piece = prefix, encode, count_piece
        self._line_starts = self if line_starts is None else line_starts
        endings = ("", "\n", *",.;:)", *(f"{sign}\n" for sign in ",.;:)"))
        self._ending_counts = {ending: len(encode(ending)) for ending in endings}

    def __missing__(self, word: str) -> int:
        if word.isalpha():
            text = self._prefix + word
            is_piece = PLAIN.fullmatch(word)
            count = self._count_piece(text) if is_piece else len(self._encode(text))
        elif numbered := NUMBERED.fullmatch(word):
            name, sign, digits, ending = numbered.groups()
            numbers = len(sign) + (len(digits) + 2) // 3
            return self[name] + numbers + self._ending_counts[ending]
        elif word[:1] == LINE:
            # A slash may belong to the line before.
            count = UNKNOWN if word[1:2] == "/" else self._line_starts[word[1:]]
        elif word[:1] == INDENTED:
            count = 1 + self[word[1:]]
        else:
            is_uneven = not word or (not word.isprintable() and UNEVEN.search(word))
            count = UNKNOWN if is_uneven else len(self._encode(self._prefix + word))
        if len(word) <= MAX_WORD_CHARS:
            if len(self) >= CACHED_WORDS:
                self.clear()
            self[word] = count
        return count


@cached("token counters", 16)
def _load_encoding(encoding: str) -> Counter:
    ranks = _ranks(encoding)
    bpe = tiktoken.Encoding(
        encoding, pat_str=PIECES[encoding], mergeable_ranks=ranks, special_tokens={}
    )
    # Encoding a single piece without the pre-tokenizer takes a quarter of the time; undocumented,
    # so there is a fallback.
    encode_piece: Encode = getattr(bpe, "_encode_single_piece", bpe.encode_ordinary)
    count_words = _word_counter(
        bpe.encode_ordinary,
        lambda piece: 1 if piece.encode() in ranks else len(encode_piece(piece)),
    )

    def count_chunk(chunk: str) -> int:
        is_safe = len(chunk) <= MAX_CHUNK_CHARS
        return len(bpe.encode_ordinary(chunk)) if is_safe else _count_bytes(chunk)

    def count_tokens(text: str) -> int:
        if " " in text and len(text) <= CHUNK_CHARS and (count := count_words(text)) < UNKNOWN:
            return count
        return sum(map(count_chunk, _chunks(text) if len(text) > CHUNK_CHARS else (text,)))

    def encode(text: str) -> list[int]:
        chunks = list(_chunks(text))
        if any(len(chunk) > MAX_CHUNK_CHARS for chunk in chunks):
            run = f"a run of more than {MAX_CHUNK_CHARS:,} characters"
            raise Invalid(f"text must not have {run} without a seam to cut at")
        return [token for chunk in chunks for token in bpe.encode_ordinary(chunk)]

    return Counter(encoding, True, count_tokens, encode, bpe.decode)


def _word_counter(encode: Encode, count_piece: Callable[[str], int]) -> Callable[[str], int]:
    """Return a function that counts a text with spaces by its words; UNKNOWN or more if it cannot.

    No token spans a visible character and the space behind it, nor a newline and the visible
    character behind it, nor a letter and the newline behind it. It is five times as fast as
    encoding the text, and as looking the whole text up in a cache.
    """
    first = WordCountMemo("", None, encode, count_piece)
    others = WordCountMemo(" ", first, encode, count_piece)
    break_counts = [len(encode("\n" * breaks)) for breaks in range(MAX_BREAKS + 1)]

    def count(text: str) -> int:
        if LINE in text or INDENTED in text:
            return UNKNOWN
        visible = lines = text.rstrip("\n")
        breaks = len(text) - len(visible)
        if "\n" in visible:
            lines = visible.replace("\n", NEXT_LINE).replace(NEXT_INDENTED, INDENTED_LINE)
            lines = lines.replace(EMPTY_LINE, "\n\n")
        # Final newlines are counted apart, as nearly every text ends in another word.
        has_plain_end = breaks <= MAX_BREAKS and visible[-1:] in LETTERS
        words = iter((lines if has_plain_end else lines + text[len(visible) :]).split(" "))
        tail = break_counts[breaks] if has_plain_end else 0
        return first[next(words)] + sum(map(others.__getitem__, words)) + tail

    return count


def _ranks(encoding: str) -> dict[bytes, int]:
    """Read the tokens of an encoding and their ranks.

    The file has the number of tokens, the length of each, then the tokens by rank
    (tools/build_token_files.py). It is read in 0.03 s (o200k 0.07); OpenAI's base64 lines take
    three times as long.
    """
    data = (FILES / f"{encoding}.ranks").read_bytes()
    first = 4 + int.from_bytes(data[:4], "little")
    ends = accumulate(data[4:first], initial=first)
    return {data[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}


def _chunks(text: str) -> Iterator[str]:
    """Cut the text at the first seam behind every CHUNK_CHARS characters."""
    start = 0
    while seam := SEAM.search(text, start + CHUNK_CHARS):
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


def _load_file(path: Path) -> Counter:
    try:
        state = path.stat()
    except OSError as error:
        raise Invalid(f"no tokenizer file {str(path)!r}: {error.strerror}") from error
    return _load_tokenizer(path, state.st_mtime_ns, state.st_size)


@cached("tokenizer files", 8)
def _load_tokenizer(path: Path, mtime_ns: int, size: int) -> Counter:
    """Load a tokenizer file; a changed one is loaded again. Special tokens are plain text."""
    from tokenizers import Tokenizer  # takes 30 ms that only users of such a file should pay

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise Invalid(f"{str(path)!r} is not a Hugging Face tokenizer file: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(ids: Sequence[int]) -> str:
        for id in ids:
            if tokenizer.id_to_token(id) is None:
                raise KeyError(id)
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    # The same blocks are counted again and again.
    memo = MemoDict("token counts of texts", count_tokens, CACHED_TEXTS)

    def count_cached(text: str) -> int:
        return memo[text] if len(text) <= MAX_TEXT_CHARS else count_tokens(text)

    return Counter(f"tokenizer.json:{path.name}", False, count_cached, encode, decode)

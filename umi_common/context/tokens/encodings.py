"""tiktoken's encodings, built from files on this machine.

`tiktoken.get_encoding` downloads a missing file without a timeout and deletes a cached file with a wrong checksum. Here
an encoding is built from a file that is only read: from tiktoken's cache folder, else from the copies inside an
installed llama-index-core. The SHA-256 of every file is checked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
import time
from base64 import b64decode
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from umi_common.errors import ConfigError

if TYPE_CHECKING:
    import tiktoken

URL = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
"""As tiktoken reads them; an empty value turns its cache off."""
BUNDLED = Path("core") / "_static" / "tiktoken_cache"
"""Where llama-index-core keeps its copies, inside the package `llama_index`."""


class Published(NamedTuple):
    """What OpenAI publishes of an encoding."""

    sha256: str
    """Of the file with the ranks of the tokens."""
    pattern: str
    """Splits a text into the words that are encoded one by one."""


GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
ENCODINGS = {
    "r50k_base": Published("306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", GPT2_PATTERN),
    "p50k_base": Published("94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069", GPT2_PATTERN),
    "cl100k_base": Published(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "o200k_base": Published(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
SAME_TOKENS = {"gpt2": "r50k_base", "p50k_edit": "p50k_base", "o200k_harmony": "o200k_base"}
"""Encodings that differ from another one in their special tokens alone, which are counted as plain text."""


class EncodingUnavailable(Exception):
    """No file for the encoding on this machine."""


def encoding_name(spec: str) -> str:
    """The encoding that a model or encoding name means: "gpt-4o" -> "o200k_base".

    Raises:
        ConfigError: If tiktoken knows neither.
        ImportError: If tiktoken is not installed.
    """
    import tiktoken

    if spec in tiktoken.list_encoding_names():
        return spec
    try:
        return tiktoken.encoding_name_for_model(spec)
    except KeyError as error:
        raise ConfigError(
            f"token counter {spec!r}: tiktoken knows no such model or encoding; give the model's tokenizer, a function "
            "from text to a number of tokens, or an encoding name such as 'cl100k_base'"
        ) from error


def encoding_folders() -> tuple[Path, ...]:
    """The folders that may hold encoding files, best first: tiktoken's cache, then llama-index-core's copies."""
    cache = _cache_folder()
    # `llama_index` is a namespace package: finding it imports nothing of LlamaIndex.
    spec = importlib.util.find_spec("llama_index")
    roots = spec.submodule_search_locations or () if spec is not None else ()
    return (*(() if cache is None else (cache,)), *(Path(root) / BUNDLED for root in roots))


@lru_cache(maxsize=16)
def load_encoding(name: str, folders: tuple[Path, ...], *, download_seconds: float | None = None) -> tiktoken.Encoding:
    """The encoding of that name, without special tokens.

    Args:
        name: A key of `ENCODINGS` or `SAME_TOKENS`.
        folders: Where its file is looked for, in order; files are named as tiktoken names them.
        download_seconds: None: never use the network. Else how long a download may take in all; the file is kept in
            tiktoken's cache folder.

    Raises:
        EncodingUnavailable: If there is no file with the published content, or the download failed or took too long.
    """
    import tiktoken

    base = SAME_TOKENS.get(name, name)
    if base not in ENCODINGS:
        raise EncodingUnavailable(f"the files of tiktoken's {name} are not known here")
    url, published = URL.format(name=base), ENCODINGS[base]
    files = (_sound_file(folder / cache_key(url), published.sha256) for folder in folders)
    content = next((file for file in files if file is not None), None)
    if content is None:
        if download_seconds is None:
            raise EncodingUnavailable(f"no file of tiktoken's {name} in {[str(folder) for folder in folders]}")
        content = _downloaded(url, published.sha256, download_seconds)
    pairs = (line.split() for line in content.splitlines() if line)
    ranks = {b64decode(token): int(rank) for token, rank in pairs}
    return tiktoken.Encoding(name, pat_str=published.pattern, mergeable_ranks=ranks, special_tokens={})


def cache_key(url: str) -> str:
    """The file name under which tiktoken caches what it read from `url`."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _cache_folder() -> Path | None:
    for variable in CACHE_VARIABLES:
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _sound_file(path: Path, sha256: str) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def _downloaded(url: str, sha256: str, seconds: float) -> bytes:
    import urllib.request  # imports http and ssl

    deadline = time.monotonic() + seconds
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=seconds) as reply:
            while block := reply.read(1 << 16):
                content += block
                if time.monotonic() > deadline:
                    raise EncodingUnavailable(f"the download took longer than {seconds:g} s")
    except OSError as error:
        raise EncodingUnavailable(f"the download failed with {type(error).__name__}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EncodingUnavailable("the download does not have the published content")
    folder = _cache_folder()
    if folder is not None:
        _keep(bytes(content), folder / cache_key(url))
    return bytes(content)


def _keep(content: bytes, path: Path) -> None:
    """Write the file at once, or not at all: without it the next process downloads again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)
    except OSError:
        return

"""tiktoken's encodings, from the files in tiktoken's cache.

`tiktoken.get_encoding` downloads a missing or damaged file without a timeout, and deletes a damaged one. Unless a
download is allowed, it is therefore called only if the file has the expected SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from umi_common.errors import ConfigError, optional_module
from umi_common.runtime.guards import DeadlineExceeded, ThreadLimiter, TooManyCalls

if TYPE_CHECKING:
    import tiktoken

URL = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
"""Environment variables that name tiktoken's cache folder, in tiktoken's order; an empty value turns the cache off."""
SHA256 = {
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
"""SHA-256 of the published file of each encoding."""
SAME_TOKENS = {"gpt2": "r50k_base", "p50k_edit": "p50k_base", "o200k_harmony": "o200k_base"}
"""Encodings that differ only in special tokens from another encoding. Special tokens are counted as plain text."""
_downloads = ThreadLimiter()


class EncodingUnavailable(Exception):
    """tiktoken is not installed, its cache has no undamaged file of the encoding, or the download failed."""


def encoding_name(spec: str) -> str:
    """The encoding of a model or encoding name: "gpt-4o" -> "o200k_base".

    Raises:
        ConfigError: If tiktoken knows no such model or encoding.
        MissingExtra: If tiktoken is not installed.
    """
    tiktoken = optional_module("tiktoken", "tiktoken", "tiktoken")
    if spec in tiktoken.list_encoding_names():
        return spec
    try:
        return str(tiktoken.encoding_name_for_model(spec))
    except KeyError as error:
        raise ConfigError(
            f"token counter {spec!r}: tiktoken knows no such model or encoding; give the model's tokenizer, a function "
            "from text to a number of tokens, or an encoding name such as 'cl100k_base'"
        ) from error


def cached_encoding(name: str) -> tiktoken.Encoding:
    """The encoding of that name; the network is not used.

    Raises:
        EncodingUnavailable: If tiktoken is not installed, or its cache has no file with the published content.
    """
    return _from_cache(SAME_TOKENS.get(name, name), _cache_folder())


@lru_cache(maxsize=16)
def _from_cache(name: str, folder: Path | None) -> tiktoken.Encoding:
    content = b""
    if folder is not None:
        with suppress(OSError):
            content = (folder / cache_key(URL.format(name=name))).read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256.get(name):
        raise EncodingUnavailable(f"tiktoken's cache has no file of {name}")
    try:
        import tiktoken
    except ModuleNotFoundError as error:
        raise EncodingUnavailable("tiktoken is not installed") from error
    return tiktoken.get_encoding(name)


def downloaded_encoding(name: str, seconds: float) -> tiktoken.Encoding:
    """The encoding of that name; a file that tiktoken's cache lacks is downloaded by tiktoken.

    Raises:
        EncodingUnavailable: If the download fails or takes longer than `seconds`. In the latter case it continues in
            its thread, and a later call finds the file.
        MissingExtra: If tiktoken is not installed.
    """
    get_encoding: Callable[[str], tiktoken.Encoding] = optional_module("tiktoken", "tiktoken", "tiktoken").get_encoding
    try:
        return _downloads.call(partial(get_encoding, SAME_TOKENS.get(name, name)), seconds)
    except (DeadlineExceeded, TooManyCalls) as error:
        raise EncodingUnavailable(f"the download took longer than {seconds:g} s") from error
    except (OSError, ValueError) as error:  # requests raises OSError, a wrong checksum ValueError
        raise EncodingUnavailable(f"the download failed with {type(error).__name__}") from error


def cache_key(url: str) -> str:
    """The name of the file in tiktoken's cache for a URL."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _cache_folder() -> Path | None:
    for variable in CACHE_VARIABLES:
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    try:
        return Path(tempfile.gettempdir()) / "data-gym-cache"
    except FileNotFoundError:  # no folder can be written, as in a container with a read-only file system
        return None

"""Token counters: the caller's tokenizer, tiktoken where its files are on this machine, else an estimate.

Counting never uses the network, unless asked to, and changes no environment variable.
"""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from umi_common.context.tokens.encodings import EncodingUnavailable, encoding_folders, encoding_name, load_encoding
from umi_common.context.tokens.tokenizers import counter_name, tokens_by
from umi_common.errors import ConfigError
from umi_common.runtime.forks import give_lock

DEFAULT_ENCODING = "cl100k_base"
"""Counts at least as many tokens as newer encodings on nearly every text, so a budget holds under them, too."""
CACHE_SIZE = 16_384
"""Counts that one counter caches; the oldest is evicted first."""
_RUNS = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|\n+|[ \t]{2,}|[^\sA-Za-z0-9]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class Counter:
    """Counts the tokens of texts and caches the counts. Thread-safe.

    Args:
        tokens: A text's tokens; must be a pure function.
        name: Shown in `ContextStats.counter`.
        approximate: Whether it only estimates.
        exceeds: A cheap test whether a text surely has more than so many tokens; None: there is none.
    """

    _lock: threading.Lock

    def __init__(
        self,
        tokens: Callable[[str], int],
        name: str,
        *,
        approximate: bool = False,
        exceeds: Callable[[str, int], bool] | None = None,
    ) -> None:
        self.name = name
        self.approximate = approximate
        self._tokens = tokens
        self._exceeds = exceeds
        give_lock(self)
        self._counts: dict[bytes, int] = {}

    def count(self, text: str) -> int:
        """The tokens of `text`, from the cache where it was counted before; 0 for the empty text.

        Raises:
            ConfigError: If the counting function returns anything but a whole number >= 0.
        """
        if not text:
            return 0
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._counts.get(key)
        if known is not None:
            return known
        tokens = self.measure(text)
        with self._lock:
            while len(self._counts) >= CACHE_SIZE:
                del self._counts[next(iter(self._counts))]
            self._counts[key] = tokens
        return tokens

    def measure(self, text: str) -> int:
        """`count` without the cache: for texts that are not counted again."""
        tokens = self._tokens(text) if text else 0
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise ConfigError(f"the token counter {self.name} gave {tokens!r:.80}; expected a whole number, 0 or more")
        return tokens

    def surely_exceeds(self, text: str, tokens: int) -> bool:
        """Whether `text` surely has more than so many tokens, without counting; False also where it is not known."""
        return self._exceeds is not None and self._exceeds(text, tokens)

    def __repr__(self) -> str:
        return f"Counter({self.name!r})"


def counter_for(spec: Any = None, *, allow_download: bool = False, timeout_seconds: float = 10.0) -> Counter:
    """A counter from a name, a tokenizer or a function.

    Args:
        spec: None: `DEFAULT_ENCODING`. A str: a model ("gpt-4o") or encoding ("o200k_base") that tiktoken knows.
            A `TokenCounter` (an object with `.count(text)`), a tiktoken `Encoding`, a Hugging Face tokenizer, a
            LangChain model (`.get_num_tokens`), or a function from a text to its tokens or their number, such as
            LlamaIndex's `Settings.tokenizer`. Special tokens inside a text count as plain text.
        allow_download: Whether tiktoken's file may be downloaded where it is not on this machine.
        timeout_seconds: How long the download may take in all.

    Returns:
        A counter. Keep it, or pass a name, to keep its cache from call to call. Where an encoding's file is missing,
        an estimating counter (`approximate`); a warning says so once per process, encoding and reason.

    Raises:
        ConfigError: If the spec is none of these, or tiktoken knows no model of that name.
    """
    if isinstance(spec, Counter):
        return spec
    if spec is None or isinstance(spec, str):
        return _by_name(DEFAULT_ENCODING if spec is None else spec, timeout_seconds if allow_download else None)
    return Counter(tokens_by(spec), counter_name(spec))


def approximate_tokens(text: str) -> int:
    """About how many tokens a text has: >= 0, 0 for the empty text, never fewer for a longer text.

    tokens = runs of 1..6 Latin letters + runs of 1..3 digits + line breaks + runs of 2 or more blanks
           + all other visible characters
           + (UTF-8 bytes - characters) // 4 + 2 * characters outside the Basic Multilingual Plane

    It gives 1.09 to 1.22 times cl100k_base's tokens of English prose and chat and 1.4 times those of code, and
    undercounts by at most about a tenth in the worst of eleven other languages; `docs/context.md` has the table.
    """
    tokens = len(_RUNS.findall(text))
    if not text.isascii():
        tokens += (len(text.encode("utf-8", "replace")) - len(text)) // 4 + 2 * len(_ASTRAL.findall(text))
    return tokens


def _by_name(spec: str, download_seconds: float | None) -> Counter:
    try:
        return _exact(encoding_name(spec), encoding_folders(), download_seconds)
    except (EncodingUnavailable, ImportError) as error:
        return _estimate(spec, str(error))


@lru_cache(maxsize=16)
def _exact(name: str, folders: tuple[Path, ...], download_seconds: float | None) -> Counter:
    encoding = load_encoding(name, folders, download_seconds=download_seconds)
    return Counter(tokens_by(encoding), f"tiktoken:{name}", exceeds=_has_more_words)


@lru_cache(maxsize=64)
def _estimate(name: str, reason: str) -> Counter:
    """An estimating counter; warns when it is made, so once per name and reason."""
    warnings.warn(
        f"tokens are estimated, not counted: {reason}. Pass a tokenizer as the counter, install llama-index-core "
        "(it ships two encodings), or call counter_for(name, allow_download=True) once",
        UserWarning,
        stacklevel=4,
    )
    return Counter(approximate_tokens, f"approximation of {name}", approximate=True)


def _has_more_words(text: str, tokens: int) -> bool:
    """Whether `text` surely has more than so many tokens, seen from its blanks.

    tiktoken's patterns never put letters from both sides of a blank into one token. Counting blanks is ten times as
    fast as splitting. A run of an even number of blanks counts as none, of an odd number as one, so the sum is at most
    the number of words and one more.
    """
    return text.count(" ") - 2 * text.count("  ") - 1 > tokens

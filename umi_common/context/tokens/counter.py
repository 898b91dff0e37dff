"""What counts the tokens: the caller's tokenizer, tiktoken where its files are on this machine, else an estimate.

Counting never waits for a network and changes no environment.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from umi_common.context.tokens.approximate import APPROXIMATION, approximate_tokens
from umi_common.context.tokens.encodings import EncodingUnavailable, encoding_name, load_encoding
from umi_common.context.tokens.tokenizers import named, tokens_by
from umi_common.errors import ConfigError
from umi_common.runtime.forks import give_lock

DEFAULT_ENCODING = "cl100k_base"
"""Counts at least as many tokens as newer encodings on nearly every text, so its budgets hold for them too."""
CACHE_SIZE = 16_384
"""Counts kept by one counter, oldest out first."""


class Counter:
    """Tokens of texts, each text counted once. Thread-safe.

    Args:
        tokens: A text's tokens; must be a pure function.
        name: What it is, for the account.
        approximate: Whether it only estimates.
        exceeds: A cheap test whether a text surely has more than so many tokens, where there is one.
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
        """Tokens of `text`, from memory where it was counted before; 0 for the empty text.

        Raises:
            ConfigError: If the function behind it gives anything but a whole number >= 0.
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
        """`count` without remembering: for texts that will not come again."""
        tokens = self._tokens(text) if text else 0
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise ConfigError(f"the token counter {self.name} gave {tokens!r:.80}; expected a whole number, 0 or more")
        return tokens

    def surely_exceeds(self, text: str, tokens: int) -> bool:
        """Whether `text` has more than so many tokens, seen without counting; False may mean that nothing is known."""
        return self._exceeds is not None and self._exceeds(text, tokens)

    def __repr__(self) -> str:
        return f"Counter({self.name!r})"


def counter_for(spec: Any = None, *, allow_download: bool = False, timeout_seconds: float = 10.0) -> Counter:
    """A counter from whatever counts.

    Args:
        spec: None: `DEFAULT_ENCODING`. A str: a model ("gpt-4o") or encoding ("o200k_base") that tiktoken knows.
            A `TokenCounter` (an object with `.count(text)`), a tiktoken `Encoding`, a Hugging Face tokenizer, a
            LangChain model (`.get_num_tokens`), or a function from a text to its tokens or their number, such as
            LlamaIndex's `Settings.tokenizer`. Special tokens inside a text count as plain text.
        allow_download: Whether tiktoken's file may be fetched where it is not on this machine.
        timeout_seconds: How long that may take in all.

    Returns:
        A counter; keep it, or pass a name, to keep its memory of counts from call to call. If an encoding cannot be
        had, an estimate that says so (`approximate`), with one warning a process and encoding.

    Raises:
        ConfigError: If the spec is none of these, or tiktoken knows no model of that name.
    """
    if isinstance(spec, Counter):
        return spec
    if spec is None or isinstance(spec, str):
        return _by_name(DEFAULT_ENCODING if spec is None else spec, timeout_seconds if allow_download else None)
    return Counter(tokens_by(spec), named(spec))


def _by_name(spec: str, download_seconds: float | None) -> Counter:
    try:
        return _exact(encoding_name(spec), download_seconds)
    except (EncodingUnavailable, ImportError) as error:
        counter = _estimate(spec)
        _warn_once(spec, str(error))
        return counter


@lru_cache(maxsize=16)
def _exact(name: str, download_seconds: float | None) -> Counter:
    encoding = load_encoding(name, download_seconds=download_seconds)
    return Counter(tokens_by(encoding), f"tiktoken:{name}", exceeds=_has_more_words)


@lru_cache(maxsize=16)
def _estimate(name: str) -> Counter:
    return Counter(approximate_tokens, f"{APPROXIMATION} of {name}", approximate=True)


def _has_more_words(text: str, tokens: int) -> bool:
    """tiktoken's patterns never put letters from both sides of a blank into one token.

    Counting blanks is ten times as fast as splitting. A run of an even number of them counts as none, of an odd
    number as one, so that what is counted is at most the words and one more.
    """
    return text.count(" ") - 2 * text.count("  ") - 1 > tokens


_warned: set[str] = set()


def _warn_once(name: str, reason: str) -> None:
    if name in _warned:
        return
    _warned.add(name)
    warnings.warn(
        f"tokens are estimated, not counted: {reason}. Pass a tokenizer as the counter, install llama-index-core "
        "(it ships two encodings), or call counter_for(name, allow_download=True) once",
        UserWarning,
        stacklevel=4,
    )

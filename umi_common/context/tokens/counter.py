"""Token counters: the caller's tokenizer, tiktoken where its cache has the file, else the built-in model's tokenizer.

Counting uses the network only if `allow_download` is True, and changes no environment variable.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sized
from functools import lru_cache
from operator import index
from typing import Any, SupportsIndex, cast

from umi_common.context.tokens.encodings import EncodingUnavailable, cached_encoding, downloaded_encoding, encoding_name
from umi_common.embedders.cache import LruCache
from umi_common.embedders.default import embedded_tokenizer
from umi_common.errors import ConfigError, UmiError
from umi_common.types import utf8_text

DEFAULT_ENCODING = "cl100k_base"
"""It counts at least as many tokens as newer encodings in nearly every text, so a budget that holds under this encoding
also holds under newer ones."""
CACHE_SIZE = 16_384
"""Largest number of counts that one counter caches; the least recently used is dropped first."""


class Counter:
    """Counts the tokens of texts and caches the counts. Thread-safe.

    Args:
        tokens: Returns the tokens of a text (a list, or a dict or object with `input_ids`) or their number; must be a
            pure function.
        name: Shown in `ContextStats.counter`.
        approximate: Whether the count is an estimate.
        exceeds: A fast test that is True only if a text has more than a given number of tokens; None: there is none.
    """

    def __init__(
        self,
        tokens: Callable[[str], Any],
        name: str,
        *,
        approximate: bool = False,
        exceeds: Callable[[str, int], bool] | None = None,
    ) -> None:
        self.name = name
        self.approximate = approximate
        self._tokens = tokens
        self._exceeds = exceeds
        self._counts: LruCache[bytes, int] = LruCache(CACHE_SIZE)
        """Number of tokens by the hash of a text, so that texts are not kept in memory."""

    def count(self, text: str) -> int:
        """The number of tokens of `text`, from the cache if the text was counted before; 0 for the empty text.

        Raises:
            ConfigError: If the counting function raises, or returns neither tokens nor a whole number >= 0.
        """
        if not text:
            return 0
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        counts = self._counts.get([key])
        if not counts:
            counts = {key: self.measure(text)}
            self._counts.put(counts)
        return counts[key]

    def measure(self, text: str) -> int:
        """`count` without the cache, for texts that are not counted again."""
        try:
            tokens = self._tokens(text) if text else 0
            tokens = tokens["input_ids"] if isinstance(tokens, dict) else getattr(tokens, "input_ids", tokens)
        except UmiError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the token counter {self.name} failed with {type(error).__name__} on {len(text)} characters; "
                "expected a function from a text to its tokens or their number"
            ) from error
        if isinstance(tokens, Sized) and not isinstance(tokens, (str, bytes)):
            return len(tokens)
        if isinstance(tokens, bool) or not isinstance(tokens, SupportsIndex) or index(tokens) < 0:
            raise ConfigError(
                f"the token counter {self.name} gave {tokens!r:.80}; expected a list of tokens or a whole number >= 0"
            )
        return index(tokens)

    def surely_exceeds(self, text: str, tokens: int) -> bool:
        """A fast test: True only if `text` has more than `tokens` tokens; False if it has not, or if that is
        unknown."""
        return self._exceeds is not None and self._exceeds(text, tokens)


def counter_for(spec: Any = None, *, allow_download: bool = False, timeout_seconds: float = 10.0) -> Counter:
    """A counter from a name, a tokenizer or a function.

    Args:
        spec: None: `DEFAULT_ENCODING`. A str: a model ("gpt-4o") or encoding ("o200k_base") that tiktoken knows.
            A `TokenCounter` (an object with `.count(text)`), a tiktoken `Encoding`, a Hugging Face tokenizer, a
            LangChain model (`.get_num_tokens`), or a function from a text to its tokens or their number, such as
            LlamaIndex's `Settings.tokenizer`. With tiktoken, special tokens inside a text count as plain text.
        allow_download: Whether tiktoken may download a file that its cache lacks.
        timeout_seconds: How long the download may take in all.

    Returns:
        A counter. Keep it, or pass a name, to keep its cache from call to call. If tiktoken's cache lacks the file, the
        built-in model's tokenizer counts instead, and the counter is `approximate`. Its counts are 1.00 to 1.5 times
        those of o200k_base for English and code, and 0.6 to 1.5 times those of cl100k_base in every language measured;
        `docs/context.md` has the table. A warning says so once per process, encoding and reason, if an encoding was
        named or a download was allowed.

    Raises:
        ConfigError: If the spec is none of these, or tiktoken knows no model of that name.
        MissingExtra: If a name is given, or a download allowed, and tiktoken is not installed.
    """
    if isinstance(spec, Counter):
        return spec
    if spec is not None and not isinstance(spec, str):
        return Counter(_counting_function(spec), _counter_name(spec))
    name = DEFAULT_ENCODING if spec is None else encoding_name(spec)
    try:
        return _exact(cached_encoding(name))
    except EncodingUnavailable as error:
        reason = str(error)
    if allow_download:
        try:
            return _exact(downloaded_encoding(name, timeout_seconds))
        except EncodingUnavailable as error:
            reason = str(error)
    if spec is not None or allow_download:
        _warn_once(name, reason)
    return _embedded(name)


@lru_cache(maxsize=16)
def _exact(encoding: Any) -> Counter:
    return Counter(_counting_function(encoding), f"tiktoken:{encoding.name}", exceeds=_has_more_words)


@lru_cache(maxsize=16)
def _embedded(name: str) -> Counter:
    """A counter with the built-in model's tokenizer, loaded at the first text."""

    def tokens(text: str) -> int:
        valid = utf8_text(text)  # the tokenizer refuses lone surrogates
        return len(embedded_tokenizer().encode(valid, add_special_tokens=False))

    return Counter(tokens, f"embedded tokenizer for {name}", approximate=True, exceeds=_has_more_words)


@lru_cache(maxsize=64)
def _warn_once(name: str, reason: str) -> None:
    warnings.warn(
        f"{name}: {reason}; the embedded tokenizer counts instead. Pass a tokenizer as the counter, or call "
        "counter_for(name, allow_download=True) once",
        UserWarning,
        stacklevel=3,
    )


def _has_more_words(text: str, tokens: int) -> bool:
    """Whether `text` has so many blanks that it must have more than `tokens` tokens.

    No token of tiktoken or of the embedded tokenizer holds letters from both sides of a blank, so there are at least
    as many tokens as words. Counting blanks is ten times as fast as splitting. `count("  ")` finds pairs, so a
    run of blanks counts as 1 if its length is odd and as 0 if it is even: never as more than one gap between words.
    """
    return text.count(" ") - 2 * text.count("  ") - 1 > tokens


def _counting_function(spec: Any) -> Callable[[str], Any]:
    """The counting function of an object.

    The first of these that the object has: tiktoken's `encode_ordinary`, also if the object is its method `encode`;
    LangChain's `get_num_tokens`; a `TokenCounter`'s `count`; the `encode` of `tokenizers` and `transformers`, without
    the special tokens that they add; the object itself, if it is a function.

    Raises:
        ConfigError: If the object has none of these.
    """
    owner = getattr(spec, "__self__", None)  # the encoding of `encoding.encode`, which raises at a special token
    spec = owner if callable(getattr(owner, "encode_ordinary", None)) else spec
    for name in ("encode_ordinary", "get_num_tokens", "count"):
        method: Callable[[str], Any] | None = getattr(spec, name, None)
        if callable(method) and not isinstance(spec, (bytes, list, tuple)):
            return method
    if callable(getattr(spec, "encode", None)):
        tokenizer = _without_truncation(spec)
        return lambda text: tokenizer.encode(text, add_special_tokens=False)
    if callable(spec):
        return cast(Callable[[str], Any], spec)
    raise ConfigError(
        f"a token counter of type {type(spec).__name__}; expected a model or encoding name, a tokenizer, an object "
        "with .count(text), or a function from a text to its tokens or their number"
    )


def _counter_name(spec: Any) -> str:
    """A short name for `ContextStats.counter`: the name that the object states, else the name of its type."""
    for attribute in ("name", "name_or_path", "__qualname__"):
        name = getattr(spec, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(spec).__name__


def _without_truncation(tokenizer: Any) -> Any:
    """The tokenizer; of a `tokenizers.Tokenizer` that truncates or pads, a copy that does neither."""
    if getattr(tokenizer, "truncation", None) is None and getattr(tokenizer, "padding", None) is None:
        return tokenizer
    if not callable(getattr(tokenizer, "to_str", None)) or not callable(getattr(type(tokenizer), "from_str", None)):
        return tokenizer
    copy = type(tokenizer).from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy

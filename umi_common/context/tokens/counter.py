"""Count tokens with the caller's tokenizer; else with tiktoken; else, as an estimate, with the built-in tokenizer.

The built-in tokenizer is that of the default embedding model. tiktoken is used if its cache has the file of the
encoding. Nothing is downloaded unless `allow_download` is True.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sized
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from umi_common.context.tokens.encodings import EncodingUnavailable, cached_encoding, downloaded_encoding, encoding_name
from umi_common.embedders.cache import LruCache
from umi_common.embedders.default import embedded_tokenizer
from umi_common.errors import ConfigError, UmiError
from umi_common.types import utf8_text

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING = "cl100k_base"
"""Newer encodings have fewer tokens in nearly every text, so a text within a budget under this one fits there, too."""
CACHE_SIZE = 16_384
"""Largest number of counts that one counter caches; the least recently used is dropped first."""


class Counter:
    """Counts the tokens of texts and caches the counts. Thread-safe.

    Args:
        tokens: Pure function from a text to its tokens (a list, or a dict or object with `input_ids`) or to their
            number.
        name: Shown in `ContextStats.counter`.
        approximate: Whether the count is an estimate.
        splits_at_spaces: Whether each token belongs to one word, so that a text has at least as many tokens as words.
    """

    def __init__(
        self, tokens: Callable[[str], Any], name: str, *, approximate: bool = False, splits_at_spaces: bool = False
    ) -> None:
        self.name = name
        self.approximate = approximate
        self._tokens = tokens
        self._splits_at_spaces = splits_at_spaces
        self._counts: LruCache[bytes, int] = LruCache(CACHE_SIZE)
        """Number of tokens by a hash of the text; the hash is shorter than the text."""

    def count(self, text: str) -> int:
        """The number of tokens of `text`, from the cache if the text was counted before.

        Raises:
            ConfigError: If the counting function raises, or returns neither tokens nor a whole number >= 0.
        """
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        counts = self._counts.get([key])
        if not counts:
            counts = {key: self.measure(text)}
            self._counts.put(counts)
        return counts[key]

    def measure(self, text: str) -> int:
        """`count` without the cache, for a text that is counted once."""
        try:
            tokens = self._tokens(text) if text else 0
            tokens = tokens["input_ids"] if isinstance(tokens, dict) else getattr(tokens, "input_ids", tokens)
            if isinstance(tokens, Sized) and not isinstance(tokens, (str, bytes)):
                return len(tokens)
        except UmiError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the token counter {self.name} failed with {type(error).__name__} on {len(text)} characters; "
                "expected a function from a text to its tokens or their number"
            ) from error
        if isinstance(tokens, bool) or not isinstance(tokens, SupportsIndex) or index(tokens) < 0:
            raise ConfigError(
                f"the token counter {self.name} gave {tokens!r:.80}; expected a list of tokens or a whole number >= 0"
            )
        return index(tokens)

    def surely_exceeds(self, text: str, tokens: int) -> bool:
        """True only if the text has more than `tokens` tokens, because it has more words; much faster than `count`.

        A text with fewer words may have more tokens, too, but gives False.
        """
        return self._splits_at_spaces and len(text.split(maxsplit=tokens)) > tokens


def counter_for(spec: Any = None, *, allow_download: bool = False, timeout_seconds: float = 10.0) -> Counter:
    """A counter from a name, a tokenizer or a function.

    If tiktoken's cache lacks the file of the encoding, the built-in tokenizer counts, and the counter is `approximate`.
    It counts 1.00 to 1.5 times as many tokens as o200k_base in English and code, and 0.6 to 1.5 times as many as
    cl100k_base in every language measured (`docs/context.md`). A warning says so once per encoding and reason, if an
    encoding was named or a download allowed.

    Args:
        spec: A model ("gpt-4o") or an encoding ("o200k_base") that tiktoken knows; a tiktoken `Encoding`, a Hugging
            Face tokenizer, a LangChain model, or an object with `.count(text)`; or a function from a text to its tokens
            or their number, such as LlamaIndex's `Settings.tokenizer`. None: `DEFAULT_ENCODING`.
        allow_download: Whether tiktoken may download a file that its cache lacks.
        timeout_seconds: Longest time for the download, in seconds.

    Returns:
        The counter. A name gives the same counter at each call, until a file that tiktoken's cache lacked is there. A
        counter from any other spec is new, with an empty cache.

    Raises:
        ConfigError: If the spec is none of these, or tiktoken does not know the name.
        MissingExtra: If a name is given, or a download allowed, and tiktoken is not installed.
    """
    if isinstance(spec, Counter):
        return spec
    if spec is not None and not isinstance(spec, str):
        return Counter(_counting_function(spec), _counter_name(spec))
    name = DEFAULT_ENCODING if spec is None else encoding_name(spec)
    try:
        try:
            return _exact(cached_encoding(name))
        except EncodingUnavailable:
            if not allow_download:
                raise
            return _exact(downloaded_encoding(name, timeout_seconds))
    except EncodingUnavailable as error:
        if spec is not None or allow_download:
            _warn_once(name, str(error))
        return _embedded(name)


@lru_cache(maxsize=16)
def _exact(encoding: tiktoken.Encoding) -> Counter:
    return Counter(_counting_function(encoding), f"tiktoken:{encoding.name}", splits_at_spaces=True)


@lru_cache(maxsize=16)
def _embedded(name: str) -> Counter:
    """A counter with the built-in tokenizer, which is loaded at the first text."""

    def tokens(text: str) -> int:
        valid = utf8_text(text)  # the tokenizer refuses lone surrogates
        return len(embedded_tokenizer().encode(valid, add_special_tokens=False))

    return Counter(tokens, f"embedded tokenizer for {name}", approximate=True, splits_at_spaces=True)


@lru_cache(maxsize=64)
def _warn_once(name: str, reason: str) -> None:
    warnings.warn(
        f"{name}: {reason}; the embedded tokenizer counts instead. Pass a tokenizer as the counter, or call "
        "counter_for(name, allow_download=True) once",
        UserWarning,
        stacklevel=3,
    )


def _counting_function(spec: Any) -> Callable[[str], Any]:
    """A function from a text to its tokens or their number: the first of these methods that the object has.

        encode_ordinary   of a tiktoken `Encoding`; it takes special tokens in a text for plain text
        get_num_tokens    of a LangChain model
        count             of a `TokenCounter`
        encode            of `tokenizers` and `transformers`, without truncation and without adding special tokens
        __call__          of a function

    tiktoken's bound method `encode`, which raises at a special token, is replaced by `encode_ordinary`.
    """
    owner = getattr(spec, "__self__", None)
    spec = owner if callable(getattr(owner, "encode_ordinary", None)) else spec
    for name in ("encode_ordinary", "get_num_tokens", "count"):
        method: Callable[[str], Any] | None = getattr(spec, name, None)
        if callable(method) and not isinstance(spec, (bytes, list, tuple)):  # their `count` counts items
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
    """A short name for `ContextStats.counter`: the object's own name, else the name of its type."""
    names = (getattr(spec, attribute, None) for attribute in ("name", "name_or_path", "__qualname__"))
    return next((name for name in names if isinstance(name, str) and name), type(spec).__name__)


def _without_truncation(tokenizer: Any) -> Any:
    """The tokenizer; for a `tokenizers.Tokenizer` that truncates or pads, a copy that does neither."""
    cuts_or_pads = any(getattr(tokenizer, name, None) is not None for name in ("truncation", "padding"))
    can_be_copied = callable(getattr(tokenizer, "to_str", None)) and callable(getattr(tokenizer, "from_str", None))
    if not cuts_or_pads or not can_be_copied:
        return tokenizer
    copy = type(tokenizer).from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy

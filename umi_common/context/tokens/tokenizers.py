"""Tokenizers of several libraries, recognised by their methods, as functions from a text to its number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sized
from operator import index
from typing import Any, SupportsIndex

from umi_common.errors import ConfigError


def counting_function(spec: Any) -> Callable[[str], int]:
    """The counting function of an object.

    In this order: tiktoken's `encode_ordinary`; LangChain's `get_num_tokens`; a `TokenCounter`'s `count`; the
    `encode` of `tokenizers` and `transformers`, without the special tokens they add; a function.

    Raises:
        ConfigError: If it is none of these.
    """
    if callable(getattr(spec, "encode_ordinary", None)):
        return lambda text: len(spec.encode_ordinary(text))
    for name in ("get_num_tokens", "count"):
        method = getattr(spec, name, None)
        if callable(method) and not isinstance(spec, (str, bytes, list, tuple)):
            return lambda text: _number(method(text))
    if callable(getattr(spec, "encode", None)) and not isinstance(spec, str):
        tokenizer = _without_truncation(spec)
        return lambda text: _number(tokenizer.encode(text, add_special_tokens=False))
    if callable(spec):
        return lambda text: _number(spec(text))
    raise ConfigError(
        f"a token counter of type {type(spec).__name__}; expected a model or encoding name, a tokenizer, an object "
        "with .count(text), or a function from a text to its tokens or their number"
    )


def counter_name(spec: Any) -> str:
    """A short name for `ContextStats.counter`: the object's own, else that of its type or function."""
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


def _number(tokens: Any) -> int:
    """The number of tokens: the number itself, or the length of a list of tokens, an Encoding, or `input_ids`."""
    tokens = tokens["input_ids"] if isinstance(tokens, dict) else getattr(tokens, "input_ids", tokens)
    if isinstance(tokens, Sized) and not isinstance(tokens, (str, bytes)):
        return len(tokens)
    if isinstance(tokens, SupportsIndex) and not isinstance(tokens, bool):
        return index(tokens)
    raise ConfigError(f"a token counter gave {type(tokens).__name__}; expected a whole number or a list of tokens")

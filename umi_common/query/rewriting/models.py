"""Make a `Rewriter` of any LLM. The LLM is recognised by its methods, so no framework is imported.

| the LLM has | examples | text of its reply |
|---|---|---|
| `complete(prompt)` or `acomplete` | umi's own protocol, LlamaIndex LLMs | str, or `.text` |
| `invoke(prompt)` or `ainvoke` | LangChain chat models, LLMs, runnables | str, or `.content`: str or a list of blocks |
| neither, but is a function, sync or async | a lambda, a bound method | any of the above |
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from umi_common.errors import ConfigError, InputError
from umi_common.protocols import Rewriter
from umi_common.runtime.loop_thread import LoopThread

NOT_STREAMED = {"tags": ["nostream"]}
"""Config of a call of a LangChain model. LangGraph's `stream_mode="messages"` leaves out the tokens of calls with this
tag; else the variations would appear in the agent's answer."""


class Model:
    """A `Rewriter` around an LLM; the attribute `acomplete` is None if the LLM has no async method.

    Args:
        name: Part of the cache's key: with `keep_replies`, LLMs of one name share their replies.
        complete: The LLM's blocking method, which may return an awaitable. If it is None or raises NotImplementedError,
            `acomplete` is called instead, on an event loop in a thread of its own.
        acomplete: The LLM's async method. At most one of the two methods is None.
    """

    def __init__(
        self, name: str, complete: Callable[[str], Any] | None, acomplete: Callable[[str], Awaitable[Any]] | None
    ) -> None:
        self.name = name
        self._complete = complete
        self._loop_thread = LoopThread("umi-async-llm")
        self.acomplete = None if acomplete is None else functools.partial(_text_returned, acomplete)

    def complete(self, prompt: str) -> str:
        """The reply's text; blocks until the model has returned it.

        Raises:
            InputError: If the model returned something without text.
        """
        return text_of(self._loop_thread.call(self._complete, self.acomplete, prompt))

    def close(self) -> None:
        """End the thread with the event loop, if there is one. A later call starts a new one."""
        self._loop_thread.close()


def as_rewriter(llm: Rewriter | Callable[[str], Any] | Any) -> Model:
    """A `Rewriter` made from an LLM that is in the table at the top of this file.

    Raises:
        ConfigError: If the LLM is not in the table.
    """
    if isinstance(llm, Model):
        return llm
    for sync_name, async_name in (("complete", "acomplete"), ("invoke", "ainvoke")):
        complete, acomplete = _method(llm, sync_name), _method(llm, async_name)
        if complete is not None or acomplete is not None:
            return Model(model_name(llm), complete, acomplete)
    is_embed_model = hasattr(llm, "get_text_embedding")  # of LlamaIndex, whose embed models are callable
    if inspect.isclass(llm) or not callable(llm) or is_embed_model:
        raise ConfigError(
            f"rewriter is {llm!r:.80}; expected an object with complete(prompt) or invoke(prompt), "
            "or a function from prompt to reply"
        )
    if inspect.iscoroutinefunction(llm) or inspect.iscoroutinefunction(getattr(llm, "__call__", None)):  # noqa: B004
        return Model(model_name(llm), None, llm)
    return Model(model_name(llm), llm, None)


def text_of(reply: Any) -> str:
    """The text of an LLM's reply, a str or an object of its framework.

    Raises:
        InputError: If the reply has no text.
    """
    if isinstance(reply, str):
        return reply
    # `content` first: a LangChain message has `text` too, which is a method in some versions.
    for attribute in ("content", "text"):
        value = getattr(reply, attribute, None)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(_block_text(block) for block in value)
    raise InputError(f"the LLM returned {type(reply).__name__}, which has no text; expected str")


async def _text_returned(acomplete: Callable[[str], Awaitable[Any]], prompt: str) -> str:
    return text_of(await acomplete(prompt))


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, dict) else getattr(block, "text", None)
    return text if isinstance(text, str) else ""


def _method(llm: Any, name: str) -> Callable[[str], Any] | None:
    """The method of this name, which sends NOT_STREAMED if it takes a config; None: the LLM has none, or is a class."""
    method = None if inspect.isclass(llm) else getattr(llm, name, None)
    if not callable(method):
        return None
    takes_config = name in ("invoke", "ainvoke") and "config" in inspect.signature(method).parameters
    return functools.partial(method, config=NOT_STREAMED) if takes_config else method


def model_name(llm: Any) -> str:
    """The module and name of a function or of an object's class, and the object's model name: "openai.OpenAI:gpt-4".

    Two lambdas of one module have the same name, and so do two chains and two `functools.partial`.
    """
    named = llm if inspect.isroutine(llm) else type(llm)
    module, name = getattr(named, "__module__", ""), getattr(named, "__qualname__", type(llm).__qualname__)
    models = (getattr(llm, attribute, None) for attribute in ("name", "model_name", "model", "model_id"))
    model = next((model for model in models if isinstance(model, str) and model), None)
    return f"{module}.{name}" if model is None else f"{module}.{name}:{model}"

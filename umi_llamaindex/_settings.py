"""LlamaIndex's `Settings` as an argument in place of a model."""

from __future__ import annotations

from typing import Any

from llama_index.core import Settings


class SettingsLLM:
    """An LLM that calls the current `Settings.llm`. If that changes, umi's cached replies of the old one stay valid."""

    def complete(self, prompt: str) -> Any:
        """The completion of the current `Settings.llm`."""
        return Settings.llm.complete(prompt)

    async def acomplete(self, prompt: str) -> Any:
        """`complete` on an event loop."""
        return await Settings.llm.acomplete(prompt)


def llm_of(llm: Any) -> Any:
    """The LLM of an `llm` argument: for `Settings`, one that reads `Settings.llm` at each call."""
    return SettingsLLM() if llm is Settings else llm


def embed_model_of(embed_model: Any) -> Any:
    """The embed model of an `embed_model` argument: for `Settings`, the present `Settings.embed_model`."""
    return Settings.embed_model if embed_model is Settings else embed_model

"""LlamaIndex's `Settings` as an argument, read when it is used."""

from __future__ import annotations

from typing import Any

from llama_index.core import Settings


class SettingsLLM:
    """Calls the `Settings.llm` of the moment. Replies in umi's cache stay there when it changes."""

    def complete(self, prompt: str) -> Any:
        """Its completion."""
        return Settings.llm.complete(prompt)

    async def acomplete(self, prompt: str) -> Any:
        """Its completion, on the event loop."""
        return await Settings.llm.acomplete(prompt)


def llm_of(llm: Any) -> Any:
    """The LLM that an `llm` argument means."""
    return SettingsLLM() if llm is Settings else llm


def embed_model_of(embed_model: Any) -> Any:
    """The embed model that an `embed_model` argument means; a store needs it at once."""
    return Settings.embed_model if embed_model is Settings else embed_model

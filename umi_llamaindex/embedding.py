"""A umi embedder as a LlamaIndex embed model, so that pipelines and indexes make the vectors that the store expects."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr

from umi_common.embedders import as_embedder
from umi_common.errors import ConfigError
from umi_common.frameworks.classes import CheckedFields, in_thread
from umi_common.protocols import Embedder
from umi_llamaindex.events import NamedInTraces


class UmiEmbedding(NamedInTraces, CheckedFields, BaseEmbedding):
    """umi's built-in model, which needs no download and no key, or any other embedder that umi takes.

    Args:
        embedder: As in `HybridStore.open`; None: the model that the field `model_name` names, by default umi's built-in
            model.
        **fields: Fields of `BaseEmbedding`. Beside an `embedder`, `model_name` is only the name that LlamaIndex shows.
    """

    model_config = ConfigDict(extra="forbid")

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Any = None, **fields: Any) -> None:
        name = fields.pop("model_name", None)
        model = as_embedder(name if embedder is None else embedder)
        shown = model.name if embedder is None or name is None else name
        super().__init__(model_name=shown, **fields)
        self._embedder = model

    @property
    def umi_embedder(self) -> Embedder | None:
        """The embedder that umi calls in place of this embed model; None: umi calls the embed model itself.

        It is None for a subclass, whose vectors may differ from those of the embedder.
        """
        return self._embedder if type(self) is UmiEmbedding else None

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle, which pipelines with several processes use. ConfigError is raised if the embedder
        cannot be pickled; LlamaIndex would omit it without an error."""
        state: dict[str, Any] = super().__getstate__()
        if "_embedder" not in state["__pydantic_private__"]:
            raise ConfigError(
                f"embedder {self._embedder.name!r} cannot be pickled; define its class or function at the top level "
                "of a module, or make UmiEmbedding(embedder) anew in the other process"
            )
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["__pydantic_private__"]["_embedder"], **state["__dict__"])  # type: ignore[misc]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.embed_documents(texts).tolist()  # type: ignore[no-any-return]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedder.embed_queries([query])[0].tolist()  # type: ignore[no-any-return]

    _aget_text_embedding = in_thread("_get_text_embedding")
    _aget_text_embeddings = in_thread("_get_text_embeddings")
    _aget_query_embedding = in_thread("_get_query_embedding")

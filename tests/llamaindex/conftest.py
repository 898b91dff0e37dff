"""Real texts for the LlamaIndex tests: docstrings of a few standard modules."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from umi_common.demo.corpus import module_chunks
from umi_common.embedders import default_embedder
from umi_common.types import Chunk

MODULES = ("asyncio.tasks", "heapq", "html", "json", "os", "pathlib", "shutil", "textwrap")


@pytest.fixture(scope="session")
def chunks() -> list[Chunk]:
    found: dict[str, Chunk] = {}
    for module in MODULES:
        code = Path(inspect.getsourcefile(importlib.import_module(module))).read_bytes()
        found.update((chunk.id, chunk) for chunk in module_chunks(module, code))
    return list(found.values())


@pytest.fixture
def nodes(chunks: list[Chunk]) -> list[TextNode]:
    return [
        TextNode(
            id_=chunk.id,
            text=chunk.text,
            metadata={"module": chunk.source, "place": chunk.position},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(chunk.source))},
            excluded_llm_metadata_keys=["place"],
        )
        for chunk in chunks
    ]


class CountingEmbedding(BaseEmbedding):
    """umi's built-in model as a LlamaIndex embed model that counts what it embeds."""

    model_name: str = "counting"
    documents: int = 0
    queries: int = 0

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self.documents += len(texts)
        return default_embedder().embed_documents(texts).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        self.queries += 1
        return default_embedder().embed_queries([query])[0].tolist()

    async def _aget_query_embedding(self, query: str) -> Any:
        return self._get_query_embedding(query)


@pytest.fixture
def embed_model() -> CountingEmbedding:
    return CountingEmbedding()

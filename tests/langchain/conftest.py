"""Real texts for the LangChain tests: docstrings of a few standard modules."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

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


@pytest.fixture(scope="session")
def documents(chunks: list[Chunk]) -> list[Document]:
    return [
        Document(id=c.id, page_content=c.text, metadata={"source": c.source, "position": c.position}) for c in chunks
    ]


class CountingEmbeddings(Embeddings):
    """umi's built-in model as a LangChain `Embeddings` that counts what it embeds."""

    model = "counting"

    def __init__(self) -> None:
        self.documents = 0
        self.queries = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents += len(texts)
        return default_embedder().embed_documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        self.queries += 1
        return default_embedder().embed_queries([text])[0].tolist()


@pytest.fixture
def embeddings() -> CountingEmbeddings:
    return CountingEmbeddings()

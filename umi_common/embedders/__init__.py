"""Embedding models behind one protocol (`protocols.Embedder`).

In: texts. Out: vectors, one row a text.

default        the embedded model; base class of models whose files are in an installed package
minilm         the sentence encoder of the extra `minilm`
adapters       an embedder from a name, LangChain's or LlamaIndex's model, or a function
loop_thread    an event loop in a thread, for models and clients that have async functions only
attempts       calls of a model: admitted, retried, limited in time
documents      texts of documents in batches, several calls at a time
cache          vectors of texts, in memory or in a file
sparse         learned sparse encoders: weighted terms of texts, and their file
"""

from __future__ import annotations

from umi_common.embedders.adapters import AbsentEmbedder, CallableEmbedder, as_embedder, declared_dim, identity_of
from umi_common.embedders.default import DEFAULT_DIM, DEFAULT_NAME, WordLlamaEmbedder, default_embedder, unit_rows

__all__ = [
    "DEFAULT_DIM",
    "DEFAULT_NAME",
    "AbsentEmbedder",
    "CallableEmbedder",
    "WordLlamaEmbedder",
    "as_embedder",
    "declared_dim",
    "default_embedder",
    "identity_of",
    "unit_rows",
]

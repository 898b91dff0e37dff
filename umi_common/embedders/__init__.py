"""Embedding models behind one protocol (`protocols.Embedder`).

In: texts. Out: vectors, one row per text.

default        the built-in model; the base class of models whose files are in an installed package
minilm         the sentence encoder of the extra `minilm`
adapters       an embedder from a name, a model of LangChain or LlamaIndex, or a function
attempts       retries of one call of a model, within a time limit
documents      embeds documents in batches, several calls at a time
cache          caches of vectors and other values by text, in memory or in a file
sparse         learned sparse encoders, which turn texts into weighted terms; the file that caches these terms
"""

from __future__ import annotations

from umi_common.embedders.adapters import AbsentEmbedder, CallableEmbedder, as_embedder, declared_dim, identity_of
from umi_common.embedders.default import WordLlamaEmbedder, default_embedder, unit_rows

__all__ = [
    "AbsentEmbedder",
    "CallableEmbedder",
    "WordLlamaEmbedder",
    "as_embedder",
    "declared_dim",
    "default_embedder",
    "identity_of",
    "unit_rows",
]

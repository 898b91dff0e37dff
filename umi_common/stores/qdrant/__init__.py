"""The same store over a Qdrant cluster: `QdrantStore(client, collection, embedder)`. Extra: `qdrant`."""

from umi_common.stores.qdrant.store import QdrantStore

__all__ = ["QdrantStore"]

"""QdrantStore: chunks in a collection of Qdrant. Needs the extra `qdrant`.

In: chunks to store, and `RecallRequest`s. Out: pools, and chunks by id. Everything that calls the server raises
StoreUnavailable if it fails, and everything that reads a point raises LedgerDamaged if umi did not write it.

    store        every public method: writing, reading, scan, status, verification
    collection   open or create a collection; compare its stored settings
    connection   every call to the server
    points       a chunk as a point of Qdrant and back
    filters      a filter as a condition of Qdrant
    recall       one search: requests, candidates with the scores of both arms, pool
    bm25         BM25 of candidates, from stored term frequencies and Qdrant's idf
    neighbours   adjacent chunks of a source
    statistics   statistics of the collection, from samples
"""

from umi_common.stores.qdrant.store import QdrantStore

__all__ = ["QdrantStore"]

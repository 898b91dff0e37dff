"""QdrantStore: chunks in a collection of Qdrant. Needs the extra `qdrant`.

In: chunks to store, and `RecallRequest`s. Out: pools, and chunks by id. A function that calls the server raises
StoreUnavailable if the call fails. A function that reads a point raises LedgerDamaged if umi did not write the point.

    store        the public methods: writing, reading, scan, status, verification
    collection   open or create a collection; compare its stored settings
    connection   every call to the server
    points       convert chunks to points of Qdrant, and points to chunks
    filters      convert a filter to a condition of Qdrant
    recall       one search: requests, candidates with the scores of both arms, pool
    bm25         BM25 of candidates, from stored term frequencies and Qdrant's idf
    neighbours   adjacent chunks of a source
    statistics   statistics of the collection, from samples
"""

from umi_common.stores.qdrant.store import QdrantStore

__all__ = ["QdrantStore"]

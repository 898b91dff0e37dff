"""ChromaStore: a store over a user's Chroma collection.

In: a collection, and searches as probes. Out: pools, and chunks read from the collection. A function that calls Chroma
raises StoreUnavailable if the call fails.

    store           ChromaStore: the store over a collection
    recall          one search
    side_index      terms, sources, positions, times and cached vectors, kept beside the collection
    following       updates the side index after writes to the collection
    records         converts chunks to records and back
    collection      the calls to Chroma
    chroma_import   copies a collection into another store
"""

from umi_common.stores.chroma.store import ChromaStore

__all__ = ["ChromaStore"]

"""A user's Chroma collection.

In: a collection, and searches as probes. Out: a `Pool`, and chunks read from the collection.

    store           ChromaStore: the store over a collection
    recall          one search
    vectors         the collection's vectors, cached
    side_index      terms, sources, positions and times, kept beside the collection
    following       keeps them in step with the collection
    records         a chunk as a record and back
    collection      the calls to Chroma
    chroma_import   copy a collection into another store
"""

from umi_common.stores.chroma.store import ChromaStore

__all__ = ["ChromaStore"]

"""Bulk ingestion on Ray.

In: paths, and functions that open a store and an embedder. Out: chunks in the store, and a `Report`.

    run            `ingest_on_ray`
    workers        processes that read, chunk, embed and write parts
    remote_store   a store that one process holds open and the workers call
"""

"""Bulk ingestion on Ray.

In: paths, and functions that open a store and an embedder. Out: chunks in the store, and a `Report`.

    run            `ingest_on_ray`
    processes      the workers, and the process that holds a store open for them
"""

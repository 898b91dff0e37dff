"""Bulk ingestion on Ray.

`ingest_on_ray` takes paths, and functions that open a store and an embedder. It writes the chunks of the files to the
store and returns a `Report`.

    run            `ingest_on_ray`
    processes      the workers, and the process that holds a store open for them
"""

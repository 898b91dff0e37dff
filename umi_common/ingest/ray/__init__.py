"""Bulk ingestion on Ray.

`ingest_on_ray` takes paths, and functions that open a store and an embedder. It writes the chunks of the files to the
store and returns a `Report`.

    run            `ingest_on_ray`
    workers        processes that read, chunk, embed and write parts
    remote_store   a store that one process holds open, and that the workers call
"""

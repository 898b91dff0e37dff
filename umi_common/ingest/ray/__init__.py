"""Bulk ingestion on Ray: `run.ingest_on_ray`.

In: paths, and functions that open a store and an embedder. Out: chunks in the store, and a `Report`.
"""

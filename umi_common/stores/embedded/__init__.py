"""HybridStore: a directory on this machine, or memory.

In: chunks to store, and `RecallRequest`s. Out: pools, and chunks by id.

    hybrid       the store: every public method
    core         opens a store; ledger, indexes that follow the ledger, embedder and lock; commits and chunks
    directory    the writer's lock; checks which files a directory holds
    row_data     the data of a store by row: arrays and their snapshots; chunks, names and metadata, read when needed
    recall       one search: the best rows of both arms, and the pool made of them
    care         status, verify, repair, rebuild, compact; reindex of a closed store
"""

"""HybridStore: a directory on this machine, or memory.

In: chunks to store, and `RecallRequest`s. Out: pools, and chunks by id.

    hybrid       the store: every public method
    opening      opens a store by its path
    directory    the writer's lock; checks which files a directory holds
    core         ledger, indexes that follow the ledger, embedder and lock; commits and chunks
    row_data     arrays by row number, and a snapshot of them
    lazy_data    chunks, names and metadata columns, which are read when a search needs them
    recall       one search: the best rows of both arms, and the pool made of them
    care         status, verify, repair, rebuild, compact
    reindex      changes the embedder or the analyzer of a closed store
"""

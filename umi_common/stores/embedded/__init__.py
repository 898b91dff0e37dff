"""HybridStore: a directory on this machine, or memory.

In: chunks to store, and `RecallRequest`s. Out: pools, and chunks by id.

    hybrid       the façade: every public method
    opening      from a path to an open store
    directory    the writer's lock; what may be in the directory
    core         ledger, indexes that follow it, embedder and lock; writing and reading
    row_data     arrays by row number, and a snapshot of them; caches of chunks and terms
    recall       one search: the best rows of both arms, then a pool of them
    care         status, verify, repair, rebuild, compact
    reindex      changes the embedder or the analyzer of a closed store
"""

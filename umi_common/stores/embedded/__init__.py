"""HybridStore: a directory on this machine, or memory.

In: chunks, and searches as probes. Out: pools, and chunks by id.

    hybrid       the façade: every public method
    opening      from a path to an open store
    directory    the writer's lock; what may be in the directory
    core         ledger, indexes, embedder and lock; writing and reading
    indexes      the indexes, kept in step with the ledger
    row_data     arrays by row number; a snapshot of them; what a commit changed
    recall       one search of the store: both arms for all probes
    candidates   from the best rows of both arms to a pool
    care         status, verify, repair, rebuild, compact
    reindex      another embedder or analyzer
    kept         cache of the chunks read last
"""

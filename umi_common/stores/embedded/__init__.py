"""HybridStore: a directory on this machine, or memory.

In: chunks, and searches as probes. Out: pools, and chunks by id.

    hybrid       the façade: every public method
    opening      from a path to an open store
    directory    what may be in the directory, and who may write to it
    core         ledger, indexes, embedder and lock as one; the rules of writing
    indexes      the indexes, kept in step with the ledger
    by_row       everything that is addressed by row number
    state        one moment of a store
    recall       one search of the store: both arms for all probes
    candidates   from the best rows of both arms to a pool
    strict       search by words alone that fails where it cannot answer
    care         status, verify, repair, rebuild, compact
    reindex      another embedder or analyzer
    kept         the chunks last read, in memory
"""

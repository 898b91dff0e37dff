"""The ledger: one SQLite file with all data of a store.

In: chunks with vectors, deletions. Out: rows by sequence number, in the order of writing.

    ledger         reading and writing rows
    file           the schema; creating and opening the file
    sqlite         connections; turns SQLite's errors into umi's
    followed       connections of a process that only reads
    history        one row per commit, with a rolling digest
    codec          turns chunks into rows and rows into chunks, with checksums
    acknowledged   `umi.mark`: the last acknowledged write, kept outside the ledger
    made_with      records a store's embedder and analyzer, and refuses another embedder or analyzer
"""

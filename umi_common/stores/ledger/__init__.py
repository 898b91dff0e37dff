"""The ledger: one SQLite file that holds all that a store knows.

In: chunks with vectors, deletions. Out: rows by sequence number, in the order of writing.

    ledger         reading and writing rows
    file           the schema; making and opening the file
    sqlite         connections, SQLite's errors as umi's
    followed       the file in a process that only reads
    history        one row per commit, with a rolling digest
    codec          a chunk as a row and back, with checksums
    acknowledged   `umi.mark`: the last acknowledged write, kept outside the ledger
    made_with      embedder and analyzer of a store
"""

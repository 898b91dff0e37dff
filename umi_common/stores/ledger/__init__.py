"""The ledger: one SQLite file that holds all that a store knows.

In: chunks with vectors, deletions. Out: rows by sequence number, in the order of writing.

    ledger         writing and reading rows
    access         the file while it is open: its connections and its place
    file           the schema, how the file is made and opened
    sqlite         connections and SQLite's errors as ours
    followed       the file for a process that only reads
    location       where an open store lies, by device and inode
    history        a row for each commit, with a rolling digest
    codec          a chunk as a row and back, with checksums
    ledger_rows    reading tables by sequence number
    scan           all chunks, a page at a time
    integrity      whether SQLite's own structures are sound
    acknowledged   how far the ledger had got at its last acknowledged write
    made_with      embedder and analyzer of a store
"""

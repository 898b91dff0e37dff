"""Stores of chunks, and the parts that they share.

In: chunks to store, and `RecallRequest`s. Out: a `Pool` of candidates, and chunks by id.

    embedded/          HybridStore: a directory on this machine, or memory
    ledger/            the SQLite file that holds all data
    rows/              chunks as arrays by row number
    lexical/           BM25
    dense/             nearest neighbours by cosine
    base               base classes of the three stores: `recall`, settings
    chroma/            ChromaStore: over a collection of Chroma; import of a collection
    qdrant/            QdrantStore: the same over a Qdrant cluster
    batch_checks       chunks and vectors of a write, checked; invalid items raise or are reported
    document_embedder  the texts of a write, embedded
    query_embedder     queries, embedded within a time limit
    corpus_stats       statistics of a corpus that ranking uses
    text_search        one search of a store that keeps a lexical index: the lexical arm, references, the pool
    references         from the best candidates to chunks that they refer to
    search_counts      counts of searches; a file of them in a store's directory
    arrays             distinct values; an array that grows at its end
    values             values that all stores return
    failpoints         named points where a test may raise, kill or wait
"""

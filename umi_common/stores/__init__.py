"""Stores of chunks, and the parts that they share.

In: chunks to store, and `RecallRequest`s. Out: a `Pool` of candidates, and chunks by id. A store has two arms, which
find candidates for a query: the lexical arm by BM25, the dense arm by cosine.

    embedded/          HybridStore: a directory on this machine, or memory
    ledger/            the SQLite file that holds all data
    rows/              chunks as arrays by row number
    lexical/           BM25
    dense/             nearest neighbours by cosine
    base               base classes of the three stores
    chroma/            ChromaStore: over a collection of Chroma; import of a collection
    qdrant/            QdrantStore: over a collection of a Qdrant cluster
    batch_checks       checks arguments: the chunks and vectors of a write, ids, counts, directories
    document_embedder  embeds the texts of a write
    query_embedder     embeds queries within a time limit
    corpus_stats       statistics of a corpus that ranking uses
    text_search        steps of a search in a store with a lexical index: the lexical arm, references, the pool
    chunk_names        finds chunks by their headings, and the headings in a text
    references         finds the chunks that the best candidates of a search refer to
    search_counts      counts searches, and keeps the counts in a file of the store's directory
    arrays             tools for numpy arrays: distinct values, best scores, an array that grows at its end
    values             values that all stores return
    failpoints         named points where a test may raise, kill or wait
"""

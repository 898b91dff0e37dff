"""BM25 over rows that are added and removed.

In: texts, each with the number of its row, and queries. Out: the best rows, and scores of given rows.

    index        the index: update, search, score, save, load
    analyzer     text to terms
    languages    the language of a text, its function words, the letters and the stemmer of each script
    numbers_in_text
                 common forms of numbers and codes
    vocabulary   texts to term codes, for indexing
    segment      the postings of a range of rows
    corpus       one state of the index: segments and their statistics; the state after a write
    spellings    adds to a query's terms those in other languages, spellings and forms
    bm25         the formula with its variants, a query's terms in one corpus, scores of rows and of sources
    top_k        the best rows, exactly
    file         the index on disk
"""

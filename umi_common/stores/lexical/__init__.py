"""BM25 over rows that come and go.

In: texts by row, and queries. Out: the best rows, and scores of given rows.

    index        the index: update, search, score, save, load
    arm          the index of an open store: kept in step with the ledger, saved, out of action after a failure
    analyzer     text to terms
    scripts      which script a piece of text is written in
    vocabulary   texts to term codes
    segment      postings of some rows
    corpus       the segments of one state of the index, with their statistics
    update       the corpus after an addition or a removal
    bm25         the formula and its variants
    scorer       a query's terms in one corpus, and scores of rows
    top_k        the best rows, exactly
    sources      BM25 over whole sources
    file         the index on disk
"""

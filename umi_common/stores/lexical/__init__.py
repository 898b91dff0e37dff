"""BM25 over rows that come and go.

In: texts by row, and queries. Out: the best rows, and scores of given rows.

    index             the index: add, remove, search, score, save, load
    arm               the index beside the ledger: filled, kept in step, saved
    analyzer          text to terms
    scripts           which script a piece of text is written in
    vocabulary        texts to term codes
    segment           postings of some rows
    corpus            the segments of one moment with their statistics
    update            the corpus after an addition or a removal
    bm25              the formula and its variants
    terms             a query's terms in one corpus
    scorer            scores of terms and rows
    top_k             the best rows, exactly
    sources           BM25 over whole sources
    engines           one moment of the index, answering
    rank_bm25_index   the rank_bm25 package as an engine
    lifecycle         where an index stands, from nothing to ready or broken
    file              postings as a file
    snapshot          the index in the store's directory
    check             whether postings hold what the texts say
    totals            sums by row over a few lists of postings
    unpacked          all postings as plain arrays
    remembered        a bounded cache of strings
"""

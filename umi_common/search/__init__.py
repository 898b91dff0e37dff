"""One search, in the order of its steps.

In: a checked request. Out: a `SearchResult`, or a context.

    pipeline     the steps of one search and of a context, a generator
    request      what may be asked for, checked
    recall       the fast pass, the LLM's variations, further arms: one pool
    rank         a pool to an order: fusion, neighbours, time, decay, duplicates, MMR
    hits         ranked rows to hits with their signals
    extra_arms   further ways to find chunks
    rerank       a cross-encoder for the best candidates
    trace        the stages of one search with their times and facts
"""

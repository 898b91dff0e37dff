"""One search, in the order of its steps.

In: a checked `SearchRequest`. Out: a `SearchResult`, or an `AssembledContext`. Each step that needs a store or a model
is a generator (`runtime.calls.Body`).

    pipeline     the steps of one search and of a context; the period that a query names
    request      the caller's arguments, checked
    recall       candidates for the query, for the LLM's variations and from extra arms: one pool
    rank         a pool to an order: fusion, score stages, MMR
    fetch        the chunks of the best rows, duplicates folded if asked, and hits with their signals
    late_interaction   the best candidates by their own words, in corpora whose positions carry information
    extra_arms   further ways to find chunks (`Arm` is public)
    rerank       scores from a cross-encoder for the best candidates
    trace        collects the stages of one search with their times and facts
"""

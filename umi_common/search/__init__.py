"""One search, in the order of its steps.

In: a checked `SearchRequest`. Out: a `SearchResult`, or an `AssembledContext`. Each step that needs a store or a model
is a generator (`runtime.calls.Body`).

    pipeline           the steps of one search and of a context, in order; the period that a query names ("last week")
    request            the caller's arguments, checked, and the parts of the retriever that the steps work with
    recall             one pool of candidates: for the query, for the LLM's variations, and from extra arms
    extra_arms         further ways to find chunks (`Arm` and `SparseArm` are public)
    rank               the order of a pool's rows: fusion, score stages, MMR
    fetch              the chunks of the best rows, without duplicates if configured; hits with their signals
    reorder/           stages that reorder the best candidates by their texts
    rerank             a cross-encoder or a function of the caller, which reorders the best candidates
    passages           the passage of a long text that answers the query best, around which a context cuts the text
    trace              collects the stages of one search with their times and facts; counts, logs and exports them
"""

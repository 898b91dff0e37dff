"""One search, in the order of its steps.

In: a checked `SearchRequest`. Out: a `SearchResult`, or an `AssembledContext`. Each step that needs a store or a model
is a generator (`runtime.calls.Body`).

    pipeline           the steps of one search and of a context, in order
    components         what the steps work with: the parts of the retriever, and one search of it
    request            the caller's arguments, checked
    named_period       the period that a query names ("last week"), and the boost of the chunks that lie in it
    recall             one pool of candidates: for the query, for the LLM's variations, and from extra arms
    extra_arms         further ways to find chunks (`Arm` and `SparseArm` are public)
    sparse_index       postings of a learned sparse encoder, for `SparseArm`
    one_word           how far each candidate resembles a single word of the query, for the built-in model
    rank               the order of a pool's rows: fusion, score stages, MMR
    fetch              the chunks of the best rows, without duplicates if configured; hits with their signals
    reorder/           stages that reorder the best candidates by their texts
    passages           the passage of a long text that answers the query best, around which a context cuts the text
    trace              collects the stages of one search with their times and facts; counts, logs and exports them
"""

"""One search, in the order of its steps.

In: a checked `SearchRequest`. Out: a `SearchResult`, or an `AssembledContext`. Each step that needs a store or a model
is a generator (`runtime.calls.Body`).

    pipeline           the steps of one search and of a context; the period that a query names
    request            the caller's arguments, checked
    recall             one pool of candidates for the query, for the LLM's variations, and from extra arms
    extra_arms         further ways to find chunks (`Arm` and `SparseArm` are public)
    sparse_index       postings of a learned sparse encoder, for `SparseArm`
    rank               a pool to an order: fusion, score stages, MMR
    fetch              the chunks of the best rows, duplicates left out if asked, and hits with their signals
    exact              the best candidates reordered by the query's numbers, codes and phrases, found as they stand
    alike              of alike candidates, the one that holds more of the query's words first
    in_time_order      of nearly equal candidates, the latest or the first one first, if the query asks for it
    late_interaction   the best candidates reordered by how well their words match the query's
    rerank             the best candidates reordered by a cross-encoder
    trace              collects the stages of one search with their times and facts
"""

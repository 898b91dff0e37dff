"""How a search waits for stores and models, and where it computes.

In: generators that yield `Call`s. Out: their results, in threads or on an event loop.

    calls       a call, its outcome, calls answered as one batch, several generators in step, and the drivers that run a
                generator to its end: blocking, or with asyncio; every limit on threads, and the compute slots
    call_queue  admit calls of a service at the rate that it accepts
    workers     the threads of a retriever, which run queued searches in groups
    guards      a time limit, a limited number of threads and a circuit breaker for calls that hang or fail
    losses      report parts of a search that failed
    closing     `with` and `async with` for everything that is closed after use
    forks       new locks and threads in a forked child
"""

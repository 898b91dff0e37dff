"""The calls that a search makes to stores and models, and the threads in which it waits and computes.

In: generators that yield `Call`s. Out: the results of the generators, run in threads or on an event loop.

    calls       a call and its outcome; the two drivers that run a generator, blocking or with asyncio; merging calls of
                one kind into one call; the limits on threads; the compute slots
    call_queue  limits the calls of a service to the rate that the service accepts
    workers     the threads of a retriever, which run queued searches in groups
    guards      a time limit, a limited number of threads and a circuit breaker for calls that hang or fail
    loop_thread an event loop in a thread, on which blocking code runs coroutines
    losses      warnings about parts of a search that failed
    closing     `with` and `async with` for classes that have `close`
    forks       new locks and threads in a forked child, and a cached property that has no lock
"""

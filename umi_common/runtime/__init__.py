"""The calls that a search makes to stores and models, and the threads in which it waits and computes.

In: generators that yield `Call`s. Out: the results of the generators, run in threads or on an event loop.

    calls       a call and its outcome; the two drivers that run a generator to its end, blocking or with asyncio; calls
                of one kind merged into one; every limit on threads, and the compute slots
    call_queue  admits calls of a service at the rate that the service accepts
    workers     the threads of a retriever, which run queued searches in groups
    guards      a time limit, a limited number of threads and a circuit breaker for calls that hang or fail
    loop_thread an event loop in a thread, where blocking code runs coroutines, its own and those of models and clients
    losses      reports parts of a search that failed
    closing     `with` and `async with` for classes that have `close`
    forks       new locks and threads in a forked child
"""

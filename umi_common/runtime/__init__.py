"""How a search waits: for stores, models and a place to compute.

In: generators that yield `Call`s. Out: their results, in threads or on an event loop.

    calls       a call, its outcome, calls that can be answered together
    drivers     run a generator to its end: blocking, or with asyncio
    workers     the threads of a retriever, which run queued searches in groups
    together    several generators in step
    turns       how many threads compute at a time
    deadline    a call with a time limit, in a bounded number of threads
    breaker     leave a failing part alone for a while
    forks       locks and threads in a forked child
"""

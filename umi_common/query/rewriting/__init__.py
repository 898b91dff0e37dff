"""An LLM's variations of a query.

In: a query and its history. Out: a few strings (`variations_max`), or the reason why there are none.

    rewrite   the call: prompt, deadline, retry, breaker, cache
    prompt    the template, filled with query and history
    reply     the reply as a checked list of strings
    models    LangChain's, LlamaIndex's and plain functions as one protocol
    cache     replies in memory and on the disk
"""

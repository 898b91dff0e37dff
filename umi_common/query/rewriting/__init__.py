"""An LLM's variations of a query.

In: a query and its history. Out: a few strings (`variations_max`), or the reason why there are none.

    rewrite   the call: prompt, cache in memory and on the disk, breaker, deadline, retry
    reply     the reply as a checked list of strings
    models    LLMs of LangChain and LlamaIndex, and plain functions, behind one protocol
"""

"""An LLM's variations of a query.

In: a query and its history. Out: at most three strings, or what went wrong.

    rewrite   the call: prompt, deadline, retry, breaker, cache
    prompt    the template and what fills it
    reply     the reply as a checked list of strings
    models    LangChain's, LlamaIndex's and plain functions as one protocol
    cache     replies in memory and on the disk
"""

"""An LLM's variations of a query.

rewrite       the call of the LLM: prompt, cache in memory and on disk, circuit breaker, deadline, retries
reply         the list of strings in its reply, and the variations that are used, or why there are none
models        the protocol `Rewriter` for LLMs of LangChain and LlamaIndex and for plain functions
"""

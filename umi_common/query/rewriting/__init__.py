"""An LLM's variations of a query.

rewrite       the call of the LLM: prompt, cache in memory and on disk, circuit breaker, deadline, retries
reply         the variations that are used of its reply, or why there are none
string_list   the parser that finds a list of strings in the reply
models        the protocol `Rewriter` for LLMs of LangChain and LlamaIndex and for plain functions
"""

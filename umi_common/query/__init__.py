"""Parse a query before the search, and ask an LLM for variations of it.

followups    join a follow-up question with the messages before it
frames       remove words that only ask for a text
questions    find the questions in a longer query, and the part that excludes something
routing      decide whether to ask the LLM: by the query's words, or by the evidence found
rewriting/   ask the LLM for variations of the query
time/        find the period that the query names
"""

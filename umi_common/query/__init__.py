"""What a query asks for: whether to ask the LLM, its variations of the query, the time the query names.

followups    a follow-up question with the messages before it
frames       the query without words that only ask for a text
questions    the questions of a query that holds more than one alone
routing      whether to ask the LLM: by the query's words, or by the evidence found
rewriting/   the LLM's variations of the query
time/        the period that the query names
"""

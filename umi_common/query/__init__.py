"""What a query asks for and the time that it names; whether to ask the LLM, and the LLM's variations.

followups    a follow-up question with the messages before it
frames       the query without words that only ask for a text
questions    the questions of a query that holds several, or one beside other text; what the query excludes
routing      whether to ask the LLM: by the query's words, or by the evidence found
rewriting/   the LLM's variations of the query
time/        the period that the query names
"""

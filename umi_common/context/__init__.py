"""The context for a prompt: the best hits that fit a token budget, with their sources. No I/O.

A hit's chunk, or a part of it, is a `Piece`. Pieces of one source that touch are joined to a `Stretch`. Each stretch is
a `ContextPart` of the finished text.

assemble   choose pieces greedily, write the text, count its tokens, remove pieces until every cap holds
budget     the arguments (budget, policy) and the result (context, parts, statistics)
pieces     hits and their neighbours as candidates with a value; chosen pieces of one source joined, and put in order
trim       cut a text that is too long to its beginning, or to the text around a passage
format     write parts as plain text, XML, JSON or by a template
tokens/    count the tokens of a text
"""

"""Evidence into a prompt: what fits a token budget, in a readable order, with its sources. Pure; no I/O.

    hits -> dedupe -> pack -> stitch -> format -> verified with the real token counter

`assemble` is the line; each file is one of its steps.
"""

"""`umi demo`: umi searches the docs of the standard library, a Chroma collection and a short conversation.

`run.run` prints each section in the terminal, and returns the results for the docs of the standard library.

    run     runs the sections of the demo
    corpus  the docs of the standard library as chunks
    story   the dated conversation and the questions about it
"""

"""`umi demo`: umi over the docs of the standard library, a Chroma collection and a short conversation.

In: a folder for the index, and a question or none. Out: what is shown in the terminal, and the results.

    run          the demo, section by section
    corpus       the docs of the standard library as chunks
    live_chroma  the section over a Chroma collection
    story        the dated conversation and its questions
"""

"""How many tokens a text has.

In: a text. Out: a number >= 0.

    counter       the counter for a model, an encoding, a tokenizer or a function; an estimate if there is no tokenizer
    encodings     tiktoken's encodings, where their files are cached
"""

"""The number of tokens of a text.

counter       a counter for a model, an encoding, a tokenizer or a function; an estimate if there is no tokenizer
encodings     tiktoken's encodings, from the files in its cache or downloaded
"""

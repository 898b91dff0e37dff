"""Nearest neighbours by cosine, exact.

In: unit rows and unit queries. Out: the best rows with their cosines.

    exact     one pass over the vectors, or over their codes first
    int8      one byte a coordinate, and how far that may be off
    cosines   cosines of rows and queries
"""

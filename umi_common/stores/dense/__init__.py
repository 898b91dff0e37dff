"""Nearest neighbours by cosine, exact.

In: unit rows and unit queries. Out: the best rows with their cosines, and cosines of given rows.

    cosines   search: one pass over the vectors, or over their codes first; score: cosines of given rows
    int8      codes of one byte per coordinate, with error bounds
    file      vectors and codes on disk, opened by memory map
    vectors   the growing array of a store's vectors, with their codes and files
"""

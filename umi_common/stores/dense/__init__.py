"""Nearest neighbours by cosine, exact.

In: unit rows and unit queries. Out: the best rows with their cosines, and cosines of given rows.

    cosines   search: one pass over the vectors, or over their codes first; score: cosines of given rows
    int8      one byte a coordinate, with error bounds
    file      vectors and codes on disk, opened by memory map
    vectors   the vectors of a store: growing, with their codes and files
"""

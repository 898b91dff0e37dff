"""A user's Chroma collection.

chroma_import   take over a collection with its vectors
"""

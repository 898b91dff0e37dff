"""The material of `umi demo`: the docs of the standard library, and a short dated conversation."""

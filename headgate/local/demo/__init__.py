"""A demonstration on real work: reading the source files of Python's own standard library."""

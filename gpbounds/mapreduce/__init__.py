"""Evaluations over partitions of rows: each partition becomes sums, and a fixed tree adds the sums.

`program` says what such an evaluation consists of, without any engine.  `serial` runs it on one machine, and is the
reference; `graph` runs it as one Dask graph.  Both add in the order of `tree`, so that their results have equal bits.
"""

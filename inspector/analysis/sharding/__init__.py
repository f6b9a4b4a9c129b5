"""Shardings of arguments, results and intermediate values, and the reshardings that the partitioner inserts."""

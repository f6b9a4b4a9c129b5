"""Runs compiled programs on inputs, measures them and compares runs."""

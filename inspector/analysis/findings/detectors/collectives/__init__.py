"""Collectives that are repeated, small, wide, exposed or written by hand."""

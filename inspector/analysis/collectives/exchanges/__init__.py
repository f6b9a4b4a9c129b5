"""Textbook algorithms for collectives: their steps, the blocks that each step sends, and the load on the links."""

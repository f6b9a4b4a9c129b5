"""Compiler passes: the changes that each pass made, and the path of an instruction through all passes."""

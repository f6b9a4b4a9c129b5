"""Exercises that are generated: a function for each kind, from random numbers and a level. JAX and XLA work out the answers."""

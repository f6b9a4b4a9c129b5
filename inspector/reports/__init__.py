"""Recorded explorations, the files that they are saved to, and replays with other versions of JAX."""

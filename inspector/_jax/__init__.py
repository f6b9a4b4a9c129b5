"""The wall: the only room that touches private JAX and jaxlib. Gives and takes bytes, text, numbers and dicts."""

"""The collectives of a module: axes, groups, members, origins, and textbook algorithms for them."""

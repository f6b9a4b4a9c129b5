"""The collectives of a module: their axes, groups, members and origins, and textbook algorithms for them."""

"""Estimated times of collectives on the links of a TPU slice or a GPU host: the one model of all panes and tables."""

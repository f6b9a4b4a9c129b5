"""Pallas kernels: the walk of the grid over the blocks of each array, and VMEM use."""

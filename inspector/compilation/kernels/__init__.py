"""The work of Pallas kernels for TPUs, counted in their bodies."""

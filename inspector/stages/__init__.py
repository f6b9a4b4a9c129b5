"""Programs as users hold them, with their analyses as methods: lowered, compiled, compiler passes and Pallas kernels."""

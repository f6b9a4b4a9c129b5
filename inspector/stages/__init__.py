"""What users hold of a program: lowered, compiled, its passes and kernels, as values with what can be asked of them."""

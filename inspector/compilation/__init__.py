"""Values of a compile (program, options, target, request, compiled program) and the engine contract."""

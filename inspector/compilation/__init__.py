"""Values of compiling (program, options, target, request, compiled) and the engine contract."""

"""Private jaxlib used to compile and run: clients, ahead-of-time compilers, dumps, executables."""

"""Private jaxlib for compiling and running: clients, ahead-of-time compilers, dumps and executables."""

"""Facts read from the shared libraries of jaxlib, libtpu and plugins: flags, descriptors and pass names."""

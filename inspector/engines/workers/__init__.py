"""Worker processes: the fork server, the wire format, and the engine that compiles in them."""

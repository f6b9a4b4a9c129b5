"""The installed compilers: their messages, options, defaults, passes and versions."""

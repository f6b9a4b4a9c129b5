"""What the installed compilers are: their messages, options, defaults, passes and versions."""

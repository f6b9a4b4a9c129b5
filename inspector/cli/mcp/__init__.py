"""`inspector mcp`: a server that offers commands to coding agents as tools, over the Model Context Protocol on stdin and stdout.

`tools.py` lists the tools; each is a command with the input schema that follows from its options. `server.py` answers requests,
and is the only module that imports the package `mcp`. `call_process.py` runs each call in a separate process with limits, because
a call imports and traces the user's code; `called_command.py` is that process. `answers.py` bounds the answers.
"""

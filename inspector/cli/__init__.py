"""The command line: `inspector` and `python -m inspector`.

`commands.py` names the commands, each group of which is a file. What they take is read in `given.py`, and said in
`output.py`. Nothing of JAX is imported before a command runs: `--help` comes at once.
"""

from __future__ import annotations


def main() -> None:
    """Runs the command that the process was started with, and ends the process."""
    from inspector.cli.commands import inspector

    inspector(prog_name="inspector")

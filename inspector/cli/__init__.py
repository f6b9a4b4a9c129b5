"""The command line: `inspector` and `python -m inspector`.

`commands.py` lists the commands; each group of commands is a file. `program_arguments.py` reads their input, and `output.py` prints their
results. JAX is imported only when a command runs, so that `--help` is fast.
"""

from __future__ import annotations


def main() -> None:
    """Runs the command in `sys.argv` and exits."""
    from inspector.cli.commands import inspector

    inspector(prog_name="inspector")

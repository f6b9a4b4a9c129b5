"""A replacement for `dot` that covers the options used by the graphviz package; draws with pygraphviz. Run as a script."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

FONT_NOTES = b"Fontconfig warning:"
"""Prefix of the warnings of the wheel's fontconfig that it is older than the configuration files of the system."""

_PACKAGES = (
    "Install it: `apt-get install libglib2.0-0 libxrender1` on Debian, `dnf install glib2 libXrender` on Fedora."
)


def main(arguments: list[str]) -> None:
    """Lays out a file or standard input; takes the options `-Kprog`, `-Tformat`, `-ofile` and `-O` of `dot`."""
    try:
        import pygraphviz
    except ImportError as e:  # its wheel needs GLib and Xrender from the system, which a minimal container may lack
        sys.exit(f"pygraphviz cannot be loaded: {e}. {_PACKAGES if '.so' in str(e) else ''}".rstrip())

    program, output_format, output, files = "dot", "dot", None, []
    pending = iter(arguments)
    for argument in pending:
        if argument == "-V":
            sys.stderr.write("dot - graphviz version 14.0.0 (pygraphviz)\n")
            return
        if argument.startswith("-K"):
            program = argument[2:] or next(pending)
        elif argument.startswith("-T"):
            output_format = argument[2:] or next(pending)
        elif argument.startswith("-o"):
            output = argument[2:] or next(pending)
        elif argument == "-O":
            output = ""
        elif not argument.startswith("-"):
            files.append(argument)
    text = pathlib.Path(files[0]).read_text() if files else sys.stdin.read()
    with _without_font_notes():
        drawn = pygraphviz.AGraph(string=text).draw(format=output_format, prog=program)
    if output == "" and files:
        output = f"{files[0]}.{output_format}"
    if output:
        pathlib.Path(output).write_bytes(drawn)
    else:
        sys.stdout.buffer.write(drawn)


@contextlib.contextmanager
def _without_font_notes() -> Iterator[None]:
    """Removes lines with `FONT_NOTES` from standard error, which notebooks show in red; other lines stay."""
    with contextlib.ExitStack() as ends:
        try:
            captured = ends.enter_context(tempfile.TemporaryFile())
        except OSError:  # no writable folder: all lines are shown
            yield
            return
        shown = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.close(shown)
            captured.seek(0)
            os.write(2, b"".join(line for line in captured if not line.startswith(FONT_NOTES)))


if __name__ == "__main__":
    main(sys.argv[1:])

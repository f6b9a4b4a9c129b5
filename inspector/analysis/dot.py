"""`dot`, as far as the graphviz package uses it, through pygraphviz's own Graphviz. Run as a script."""

from __future__ import annotations

import pathlib
import sys


def main(arguments: list[str]) -> None:
    """Lays out a file or standard input; `-Kprog`, `-Tformat` and `-Ofile` as `dot` takes them."""
    import pygraphviz

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
    drawn = pygraphviz.AGraph(string=text).draw(format=output_format, prog=program)
    if output == "" and files:
        output = f"{files[0]}.{output_format}"
    if output:
        pathlib.Path(output).write_bytes(drawn)
    else:
        sys.stdout.buffer.write(drawn)


if __name__ == "__main__":
    main(sys.argv[1:])

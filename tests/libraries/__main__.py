"""`python -m tests.libraries [library ...]`: the table of programs for the installed JAX."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["INSPECTOR_CACHE"] = "off"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()

from tests.libraries import suite
from tests.libraries.program import outcome


def main(chosen: list[str]) -> int:
    """Prints one row a program as it comes; the exit status is 1 where something does not hold."""
    import jax

    print(f"Python {sys.version.split()[0]}, JAX {jax.__version__}\n")
    print("| library | program | explored | HLO equal | run equal |\n|---|---|---|---|---|")
    total = 0
    failed: list[str] = []
    for name in chosen or suite.names():
        library = suite.load(name)
        if library.reason:
            print(f"| {name} | does not import: {library.reason} | | | |")
        for program in library.programs:
            result = outcome(program, library.file)
            marks = ["no" if said else "yes" for said in (result.explored, result.hlo_equal, result.run_equal)]
            print(f"| {name} | {program.name} | {' | '.join(marks)} |", flush=True)
            total += 1
            failed += [f"{name}: {program.name}: {said}" for said in result.failures]
    print(f"\n{total} programs, {len(failed)} checks failed")
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.mutation --room analysis --faults 40 --seed 0`: how many deliberate faults do the tests notice?

First the quick tests run once under coverage, which tells what runs each line (`--map FILE` keeps that). Then each fault,
drawn by the seed, is put into a copy of the checkout, and the tests that run its line are run there. Of lines that
only other processes run, the tests of the room's folder are. The table says what survived: each is to be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.operators import Fault, faults, with_fault

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("lowering", "analysis", "hlo", "engines", "compilation")
QUICK = "not (slow or browser or libraries)"
MOST_TESTS = 60  # of those that run a line, the first ones
LIMIT_S = 600

Runners = Mapping[str, Mapping[str, Sequence[str]]]
"""File to line to the tests that run it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", choices=ROOMS, action="append", help="again for several; all by default")
    parser.add_argument("--faults", type=int, default=20, help="of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--map", type=Path, help="what runs each line: read where it is there, else written")
    given = parser.parse_args()
    runners = read_map(given.map)
    noticed: dict[str, list[tuple[Fault, bool]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "node_modules", "notebooks"))
        for room in given.room or ROOMS:
            for fault in drawn(room, given.faults, given.seed):
                killed = is_noticed(fault, copy, what_runs(fault, runners))
                noticed.setdefault(room, []).append((fault, killed))
                print(f"{'noticed ' if killed else 'SURVIVED'} {fault.file}:{fault.line}: {fault.what}", flush=True)
    print("\n| room | faults | noticed |\n|---|---|---|")
    for room, found in noticed.items():
        print(f"| {room} | {len(found)} | {sum(killed for _, killed in found) / len(found):.0%} |")
    return 0


def drawn(room: str, count: int, seed: int) -> list[Fault]:
    """Faults of a room, lines drawn evenly: a line with many faults is no likelier than others."""
    source = random.Random(f"{room} {seed}")
    by_line: dict[tuple[str, int], list[Fault]] = {}
    for path in sorted((ROOT / "inspector" / room).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for fault in faults(file, path.read_text()):
            by_line.setdefault((file, fault.line), []).append(fault)
    lines = source.sample(sorted(by_line), min(count, len(by_line)))
    return [source.choice(by_line[line]) for line in lines]


def what_runs(fault: Fault, runners: Runners) -> list[str]:
    """What to run: the tests that run the line; else those named after the module, or the room's, and that import it."""
    known = runners.get(fault.file, {}).get(str(fault.line), ())
    if known:
        return list(known[:MOST_TESTS])
    path = Path(fault.file)
    room = ROOT / "tests" / Path(*path.parent.parts[1:])
    named = sorted(room.glob(f"test_{path.stem}*.py"))
    importing = [test for test in sorted((ROOT / "tests").rglob("test_*.py")) if _imports(test, path)]
    found = [*named, *importing, *([] if named else [room])]
    return list(dict.fromkeys(str(test.relative_to(ROOT)) for test in found))


def _imports(test: Path, module: Path) -> bool:
    package, name = ".".join(module.parent.parts), module.stem
    said = rf"^\s*from {re.escape(package)}(\.{name} import|\s+import\s[^\n]*\b{name}\b)"
    return re.search(said, test.read_text(), re.MULTILINE) is not None


def is_noticed(fault: Fault, copy: Path, tests: Sequence[str]) -> bool:
    """Whether any of the tests fails, or hangs, with the fault in place."""
    file = copy / fault.file
    before = file.read_text()
    file.write_text(with_fault(before, fault))
    try:
        return _pytest(copy, "-x", *tests) not in (0, 5)
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(before)


def read_map(path: Path | None) -> Runners:
    """What runs each line, from a file or from a run of the quick tests."""
    if path is not None and path.exists():
        found: Runners = json.loads(path.read_text())
        return found
    with tempfile.TemporaryDirectory() as folder:
        data, settings = Path(folder) / "data", Path(folder) / "coveragerc"
        settings.write_text(f"[run]\ndata_file = {data}\nsource = inspector\ndynamic_context = test_function\n")
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-m", QUICK]
        subprocess.run(command, cwd=ROOT, env=_environment(), check=False)
        made = _lines(data)
    if path is not None:
        path.write_text(json.dumps(made))
    return made


def _lines(data: Path) -> Runners:
    import coverage

    read = coverage.CoverageData(str(data))
    read.read()
    return {
        Path(file).relative_to(ROOT).as_posix(): {
            str(line): sorted({node for name in names if (node := _node(name))})
            for line, names in read.contexts_by_lineno(file).items()
        }
        for file in read.measured_files()
    }


def _node(context: str) -> str:
    """`tests.hlo.test_shape.TestX.test_y` as pytest writes it; "" where it is no test."""
    parts = context.split(".")
    module = next((i for i, part in enumerate(parts) if part.startswith("test_")), None)
    if module is None or module == len(parts) - 1:
        return ""
    return "::".join([f"{'/'.join(parts[: module + 1])}.py", *parts[module + 1 :]])


def _pytest(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", QUICK, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S
    )
    return done.returncode


def _environment() -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}


if __name__ == "__main__":
    sys.exit(main())

"""The tests that run a line, and their durations: from one run of the quick tests under coverage.

Only tests that pass count: what fails without a fault tells nothing of one. Processes that tests start are not
measured; of functions that only those run, what to run is told from the names of files and from what they import.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from run import QUICK
from tests.mutation import contexts
from tests.mutation.contexts import REPORT

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = ("inspector", "tests")


@dataclasses.dataclass(frozen=True, slots=True)
class Runners:
    """What is known of the tests.

    Attributes:
      lines: file to line to the tests that run it, as pytest names them; a file of tests where fixtures do.
      seconds: what each test, or file of them, took that passed.
      sources: a digest of what was run.
    """

    lines: Mapping[str, Mapping[str, Sequence[str]]]
    seconds: Mapping[str, float]
    sources: str

    def of(self, file: str, line: int) -> list[str]:
        """The tests that run a line: those of its module first, then those of its room; tests before files, the quickest first.

        Of a line that runs at import, whoever imports it, or never, those that run its function; of one outside of
        functions, its module.
        """
        path, lines = Path(file), self.lines.get(file, {})
        running = lines.get(str(line)) if is_in_function(path, line) else None
        running = running or {test for each in span(path, line) for test in lines.get(str(each), ())}
        own = f"{_folder(path).relative_to(ROOT)}/"
        named = f"{own}test_{path.stem}"
        found = [test for test in running if test in self.seconds]
        return sorted(
            found, key=lambda t: (not t.startswith(named), not t.startswith(own), "::" not in t, self.seconds[t], t)
        )


def is_in_function(file: Path, line: int) -> bool:
    """Reports whether a line of a module runs when a function does, and not when that is defined."""
    return any(line in range(node.body[0].lineno, _end(node)) for node in _functions(file))


def span(file: Path, line: int) -> range:
    """The lines of the innermost function that a line of a module stands in, else of the whole module."""
    spans = [range(node.lineno, _end(node)) for node in _functions(file)]
    last = len((ROOT / file).read_text().splitlines())
    return min((each for each in spans if line in each), key=len, default=range(1, last + 1))


def _functions(file: Path) -> list[ast.FunctionDef]:
    tree = ast.parse((ROOT / file).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _end(function: ast.FunctionDef) -> int:
    return (function.end_lineno or function.lineno) + 1


def by_name(file: str) -> list[str]:
    """The test files named after a module and after the first word of its name; else those that import it; else its room's."""
    path = Path(file)
    folder = _folder(path)
    names = (path.stem, path.stem.partition("_")[0])
    named = dict.fromkeys(test for name in names for test in sorted(folder.glob(f"test_{name}*.py")))
    importing = [test for test in sorted((ROOT / "tests").rglob("test_*.py")) if _imports(test, path)]
    return [str(test.relative_to(ROOT)) for test in list(named) or importing or [folder]]


def read(path: Path | None, checkout: Path) -> Runners:
    """From a file that was made of these sources, else from a run of the quick tests in a checkout, kept in the file."""
    sources = digest(checkout)
    if path is not None and path.exists():
        found = Runners(**json.loads(path.read_text()))
        if found.sources == sources:
            return found
        print(f"{path} is of other sources: the quick tests run anew", flush=True)
    made = _measured(checkout, sources)
    if path is not None:
        path.write_text(json.dumps(dataclasses.asdict(made)))
    return made


def digest(checkout: Path) -> str:
    """Of every Python file that is measured or measures."""
    found = hashlib.sha256()
    for path in sorted(path for folder in MEASURED for path in (checkout / folder).rglob("*.py")):
        found.update(path.relative_to(checkout).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def _measured(checkout: Path, sources: str) -> Runners:
    with tempfile.TemporaryDirectory() as folder:
        data, settings, report = (Path(folder) / name for name in ("data", "coveragerc", "report.json"))
        settings.write_text(f"[run]\ndata_file = {data}\nsource = inspector\n")
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-m", QUICK]
        environment = {**os.environ, REPORT: str(report)}
        done = subprocess.run([*command, "-p", contexts.__name__], cwd=checkout, check=False, env=environment)
        if not report.exists():
            raise SystemExit(f"`{' '.join(command)}` wrote no report and ended with {done.returncode}: see above")
        return Runners(lines_run(data, checkout), json.loads(report.read_text()), sources)


def lines_run(data: Path, checkout: Path) -> dict[str, dict[str, list[str]]]:
    """File to line to tests, of what coverage measured in a checkout."""
    import coverage

    found = coverage.CoverageData(str(data))
    found.read()
    return {
        Path(file).relative_to(checkout).as_posix(): {
            str(line): sorted(filter(None, names)) for line, names in found.contexts_by_lineno(file).items()
        }
        for file in found.measured_files()
    }


def _folder(module: Path) -> Path:
    return ROOT / "tests" / Path(*module.parent.parts[1:])


def _imports(test: Path, module: Path) -> bool:
    package, name = ".".join(module.parent.parts), module.stem
    said = rf"^\s*from {re.escape(package)}(\.{name} import|\s+import\s[^\n]*\b{name}\b)"
    return re.search(said, test.read_text(), re.MULTILINE) is not None

"""The pytest plugin: the fixture `hlo`, `--inspector-update` and `--inspector-summary`.

pytest imports this file in every environment that has inspector, so it imports only pytest. The fixture imports the rest on
first use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from inspector.expectations.baseline_context import BaselineComparison
    from inspector.expectations.fixture import Hlo

_COMPARED = pytest.StashKey[list["BaselineComparison"]]()
_OUTPUT = "inspector_compared"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds inspector's options and settings."""
    group = parser.getgroup("inspector", "checks of compiled JAX programs")
    group.addoption(
        "--inspector-update",
        action="store_true",
        help="write the baselines of the tests that run instead of checking them",
    )
    group.addoption(
        "--inspector-summary", metavar="FILE", help="write differences from the baselines to FILE, as Markdown"
    )
    parser.addini("inspector_baselines", "folder of baseline files, next to each test file", default="baselines")


@pytest.fixture
def hlo(request: pytest.FixtureRequest) -> Iterator[Hlo]:
    """Provides `inspector.expect` with the baseline file of the test: `hlo(step, *args)`."""
    from inspector.expectations.baseline_context import Keeping
    from inspector.expectations.fixture import Hlo

    config, path = request.config, request.path
    cls = request.cls
    keeping = Keeping(
        baselines=path.parent / config.getini("inspector_baselines") / f"{path.stem}.json",
        name=f"{cls.__qualname__}.{request.node.name}" if cls is not None else request.node.name,
        update=config.getoption("--inspector-update"),
        failed=_failed_folder(config),
    )
    yield Hlo(keeping)
    config.stash.setdefault(_COMPARED, []).extend(keeping.compared)


def _failed_folder(config: pytest.Config) -> Path | None:
    cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
    return None if cache is None else Path(cache.mkdir("inspector"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sends the comparisons of a pytest-xdist worker to the main process."""
    comparisons = session.config.stash.get(_COMPARED, None)
    if comparisons and hasattr(session.config, "workeroutput"):
        from inspector.support import json_values

        session.config.workeroutput[_OUTPUT] = json.dumps([json_values.encode(each) for each in comparisons])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receives the comparisons of a pytest-xdist worker."""
    text = getattr(node, "workeroutput", {}).get(_OUTPUT)
    if text:
        from inspector.expectations.baseline_context import BaselineComparison
        from inspector.support import json_values

        comparisons = [json_values.decode(BaselineComparison, each, _OUTPUT) for each in json.loads(text)]
        node.config.stash.setdefault(_COMPARED, []).extend(comparisons)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Reports improvements, which do not fail a test, and writes the summary if requested."""
    if hasattr(config, "workeroutput"):
        return
    comparisons = config.stash.get(_COMPARED, [])
    path = config.getoption("--inspector-summary")
    if not comparisons and not path:
        return
    from inspector.expectations.baseline_context import is_better, markdown

    written = sum(each.is_new for each in comparisons)
    better = [each.name for each in comparisons if not each.is_new and is_better(each)]
    if written:
        terminalreporter.write_line(
            f"inspector: {written} baseline{'' if written == 1 else 's'} recorded; review the files."
        )
    if better:
        terminalreporter.write_line(
            f"inspector: better than recorded: {', '.join(better)}. Run pytest --inspector-update to record it."
        )
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown(comparisons))

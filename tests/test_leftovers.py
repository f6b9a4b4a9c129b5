"""README's first command, JupyterLab, leaves files behind. Its second, the tests, passes all the same."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from tests.conftest import ROOT

OPENED = (
    "notebooks/00_tour.ipynb",
    "notebooks/course/2_replica_groups.ipynb",
    "docs/howto.md",
    "docs/reference/index.md",
    "inspector/support/units.py",
    "tests/support/test_units.py",
)
TESTS = ("test_site.py", "test_docs.py", "test_walls.py", "test_advice.py", "platforms/test_platforms.py")


def project(folder: Path) -> None:
    """Copies the project as it stands in this checkout, and commits it."""
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)


async def work(folder: Path) -> None:
    """Opens, saves, copies and makes files through Jupyter's server, as JupyterLab does."""
    contents = AsyncLargeFileManager(root_dir=str(folder), parent=None)
    for path in OPENED:
        model = await contents.get(path)
        if path.endswith(".ipynb"):
            await contents.copy(path)  # "Duplicate": 00_tour-Copy1.ipynb
            cells = model["content"]["cells"]
            cells.append(
                {
                    "id": "mine",
                    "cell_type": "code",
                    "source": "1 + 1",
                    "metadata": {},
                    "outputs": [],
                    "execution_count": 1,
                }
            )
        await contents.save(model, path)
        await contents.create_checkpoint(path)
    await contents.new_untitled("notebooks", type="notebook")
    await contents.new_untitled("notebooks/course", type="notebook")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone of the project")
    folder = tmp_path_factory.mktemp("project")
    project(folder)
    with ThreadPoolExecutor(1) as thread:  # where no event loop of other tests runs
        thread.submit(asyncio.run, work(folder)).result()
    return folder


def test_leftovers_of_jupyter(used: Path) -> None:
    left = {path.relative_to(used).as_posix() for path in used.rglob("*-checkpoint.*")}
    assert {
        "notebooks/.ipynb_checkpoints/00_tour-checkpoint.ipynb",
        "docs/.ipynb_checkpoints/howto-checkpoint.md",
    } <= left
    assert (used / "notebooks/00_tour-Copy1.ipynb").exists()
    assert (used / "notebooks/Untitled.ipynb").exists()


@pytest.mark.slow
def test_the_tests_pass_after_work_in_jupyterlab(used: Path) -> None:
    chosen = "not test_code_runs_with_one_device"  # which run the documents: minutes
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *(f"tests/{name}" for name in TESTS)],
        cwd=used, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(used)},
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    assert "checkpoint" not in process.stdout

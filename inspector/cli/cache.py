"""`cache`: shows the files that inspector stores on disk, and deletes them."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import click

from inspector.cli.output import print_json, table
from inspector.cli.program_arguments import takes_json

_ENVIRONMENTS = "jax"  # subfolder of inspector's folder: an environment for each other version of JAX


@click.group(invoke_without_command=True)
@takes_json
@click.pass_context
def cache(ctx: click.Context, as_json: bool) -> None:
    """Show the files that inspector stores on disk. `inspector cache clear` deletes them."""
    if ctx.invoked_subcommand is not None:
        return
    from inspector.support.units import format_bytes

    rows = stored_files()
    if as_json:
        print_json(
            [{"path": str(path), "what": what, "files": files, "bytes": size} for path, what, files, size in rows]
        )
        return
    cells = [[what, files, format_bytes(size), str(path)] for path, what, files, size in rows]
    table(["what", "files", "size", "where"], cells, right=["files", "size"])


@cache.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(yes: bool) -> None:
    """Delete files that can be created again. Only inspector's own files are deleted."""
    from inspector.support.units import counted, format_bytes

    paths = [file for path, _, _, _ in stored_files() for file in _files(path)]
    if not yes:
        click.confirm(f"Delete {counted(len(paths), 'file')}?", abort=True)
    freed = 0
    for file in paths:
        with contextlib.suppress(OSError):
            size = file.stat().st_size
            file.unlink()
            freed += size
    for path, _, _, _ in stored_files():
        if path.name == _ENVIRONMENTS:
            shutil.rmtree(path, ignore_errors=True)
    click.echo(f"{format_bytes(freed)} freed")


def stored_files() -> list[tuple[Path, str, int, int]]:
    """Returns each folder with its contents in words, its number of files and their bytes."""
    from inspector import settings
    from inspector.support.files import cache_folder

    own, compiled = cache_folder(), settings.current().cache_directory
    folders = {Path(compiled): "compiled programs"} if compiled else {}
    if own is not None:
        folders |= {own / "compiled": "compiled programs", own / "failed": "programs that failed a check"}
        folders |= {
            own / _ENVIRONMENTS: "environments of other versions of JAX",
            own: "data about the installed compilers",
        }
    rows = []
    for path, what in folders.items():
        sizes = [file.stat().st_size for file in _files(path)]
        rows.append((path, what, len(sizes), sum(sizes)))
    return rows


def _files(folder: Path) -> list[Path]:
    """Returns inspector's files of this user in a folder; for environments, all files."""
    from inspector.support import files

    if not folder.is_dir():
        return []
    if folder.name == _ENVIRONMENTS:
        return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path, _ in files.entries(folder) if _is_ours(path)]


def _is_ours(path: Path) -> bool:
    from inspector.compilation.caches import readings
    from inspector.compilation.files import saved_compiled

    if path.suffix in (".bin", "") and path.parent.name == "inspector":
        return True
    if path.suffix not in (".compiled", ".inspector", readings.SUFFIX):
        return False
    with contextlib.suppress(OSError):
        return path.suffix == ".inspector" or saved_compiled.is_saved(path) or readings.is_reading(path)
    return False

"""Corrupted and hostile files of explorations: none may raise another error than ours, write anything, cost much memory, or take long.

    python -m tests.fuzz.bundles --seed 0 --corrupted 1000 --hostile 200

The same seed and number always make the same file, of the same kept files. Exit status 1 when something is bad.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import random
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import inspector
from inspector import settings
from inspector.api.exploration import Exploration
from inspector.compilation.compiled import digest_of
from inspector.errors import InspectorError
from tests.fuzz.files import MAX_EXTRA_BYTES, Outcome, _containers, _largest, _spoilt, outcome
from tests.fuzz.hostile import mutated_bytes

KEPT = Path(__file__).parent.parent / "data" / "explorations"
MANIFEST = "manifest.json"
_USED = 2  # variants: what is done with one is done with each
MARKUP = "<img src=x onerror=alert(1)>\x00\x1b[31m\r\n../../x' \"&{{"

Entries = dict[str, bytes]


def use(path: Path) -> None:
    """Loads a file and uses it as users do, except for a browser and a compile."""
    loaded = inspector.load(path)
    if not isinstance(loaded, Exploration):
        return
    lowered = loaded.lowered
    uses: list[Callable[[], object]] = [
        lambda: repr((loaded, lowered, loaded.installation)),
        dataclasses.replace(loaded, variants=loaded.variants[:_USED]).compare, lambda: repr(lowered.collectives()),
        lambda: [(k.table(), k.remarks(), repr(k)) for k in lowered.kernels],
    ]  # fmt: skip
    for variant in loaded.variants[:_USED]:
        uses += [lambda v=variant: repr((v, v.error, v.outcome)), lambda v=variant: _use(v.compiled)]
        uses += [lambda v=variant: loaded.baseline.compiled.diff(v.compiled).headline]
    for each in uses:
        with contextlib.suppress(InspectorError):
            each()


def _use(compiled: Any) -> None:
    for each in (
        lambda: repr(compiled), lambda: digest_of(compiled), lambda: repr(compiled.collectives()), compiled.timeline,
        lambda: [p.before for p in compiled.passes][:3] if compiled.passes else "", lambda: repr(compiled.memory),
    ):  # fmt: skip
        with contextlib.suppress(InspectorError):
            each()


def unpacked(path: Path) -> Entries:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path: Path, entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def replaced(entries: Entries, name: str, data: bytes) -> Entries:
    """Entries with another content for one, under its right name, as someone would write who means harm."""
    new = hashlib.sha256(data).hexdigest()
    found = {key: value for key, value in entries.items() if key != name} | {new: data}
    for key, value in list(found.items()):
        if name.encode() in value and key != new:
            changed = value.replace(name.encode(), new.encode())
            if key == MANIFEST:
                found[key] = changed
            else:
                found = replaced({**found, key: value}, key, changed)
    return found


def documents(entries: Entries) -> list[str]:
    return [name for name, data in entries.items() if data[:2] == b'{"' and name != MANIFEST]


def damaged_bytes(good: Entries, whole: bytes, source: random.Random, path: Path) -> None:
    path.write_bytes(mutated_bytes(whole, source) if source.random() < 0.7 else whole[: source.randrange(len(whole))])


def changed_entry(good: Entries, whole: bytes, source: random.Random, path: Path) -> None:
    name = source.choice([n for n in good if n != MANIFEST])
    packed(path, replaced(good, name, mutated_bytes(good[name], source)))


def changed_manifest(good: Entries, whole: bytes, source: random.Random, path: Path) -> None:
    value = json.loads(good[MANIFEST])
    packed(path, {**good, MANIFEST: json.dumps(_spoilt(value, source)).encode()})


def changed_document(good: Entries, whole: bytes, source: random.Random, path: Path) -> None:
    name = source.choice(documents(good))
    packed(path, replaced(good, name, json.dumps(_spoilt(json.loads(good[name]), source)).encode()))


CORRUPTED: Mapping[str, Callable[[Entries, bytes, random.Random, Path], None]] = {
    "damaged bytes": damaged_bytes, "changed entry": changed_entry, "changed manifest": changed_manifest,
    "changed document": changed_document,
}  # fmt: skip
_WEIGHTS = (30, 20, 20, 30)


def markup(good: Entries, source: random.Random) -> Entries:
    """Every short text somewhere is markup, a path or control characters."""
    name = source.choice([MANIFEST, *documents(good)])
    value = json.loads(good[name])
    for owner in list(_containers(value)):
        for key in list(owner if isinstance(owner, dict) else range(len(owner))):
            if isinstance(owner[key], str) and len(owner[key]) != 64 and source.random() < 0.3:
                owner[key] = source.choice([MARKUP, "../" * 20 + "etc/passwd", "/dev/zero", "\x00", "x" * 100_000])
    data = json.dumps(value).encode()
    return {**good, name: data} if name == MANIFEST else replaced(good, name, data)


def references(good: Entries, source: random.Random) -> Entries:
    """Documents that stand for each other, themselves, files, or the manifest."""
    value = json.loads(good[MANIFEST])
    names = [*documents(good), MANIFEST, "../x", "/etc/passwd", "0" * 64, "file:///etc/passwd", "http://localhost/"]
    for owner in list(_containers(value)):
        if isinstance(owner, dict) and {"document", "text", "bytes"} & owner.keys() and source.random() < 0.4:
            owner[source.choice(["document", "text", "bytes"])] = source.choice(names)
    return {**good, MANIFEST: json.dumps(value).encode()}


def cycle(good: Entries, source: random.Random) -> Entries:
    """A document that names itself: no digest fits."""
    name = source.choice(documents(good))
    value = json.loads(good[name])
    owner = source.choice([o for o in _containers(value) if isinstance(o, dict) and o])
    owner[source.choice(list(owner))] = {"document": name}
    return {**good, name: json.dumps(value).encode()}


def deep(good: Entries, source: random.Random) -> Entries:
    name, depth = source.choice([MANIFEST, *documents(good)]), source.choice([500, 5_000, 100_000])
    data = good[name].replace(source.choice([b"[]", b"null", b'""']), b"[" * depth + b"]" * depth, 1)
    return {**good, name: data} if name == MANIFEST else replaced(good, name, data)


def counts(good: Entries, source: random.Random) -> Entries:
    """Numbers far beyond what there is."""
    name = source.choice([MANIFEST, *documents(good)])
    value = json.loads(good[name])
    for owner in list(_containers(value)):
        for key in list(owner if isinstance(owner, dict) else range(len(owner))):
            if type(owner[key]) in (int, float) and source.random() < 0.5:
                owner[key] = source.choice(
                    [-1, 2**31, 2**62, 10**30, float("inf"), float("nan"), 10**4000 if source.random() < 0.1 else 7]
                )
    try:
        data = json.dumps(value).encode()
    except ValueError:  # more digits than Python writes
        return good
    return {**good, name: data} if name == MANIFEST else replaced(good, name, data)


def many(good: Entries, source: random.Random) -> Entries:
    """A list that is as long as a file of this size could make it."""
    value = json.loads(good[MANIFEST])
    variants = value["content"]["variants"]
    value["content"]["variants"] = variants * source.choice([100, 3_000])
    return {**good, MANIFEST: json.dumps(value).encode()}


def bomb(good: Entries, source: random.Random) -> Entries:
    name = source.choice(list(good))
    fill = source.choice([b"[", b"\0", b'{"a":', b" "])
    data = fill * ((source.choice([20, 80]) << 20) // len(fill))
    return {**good, name: data} if name == MANIFEST or source.random() < 0.3 else replaced(good, name, data)


def more_entries(good: Entries, source: random.Random) -> Entries:
    names = [f"{'../' * source.randrange(4)}{i}" for i in range(source.choice([10, 20_000]))]
    return {**dict.fromkeys(names, b"x"), **good}


HOSTILE: Mapping[str, Callable[[Entries, random.Random], Entries]] = {
    "markup": markup, "references": references, "cycle": cycle, "deep": deep, "counts": counts, "many": many,
    "bomb": bomb, "more entries": more_entries,
}  # fmt: skip


def fuzz(seed: int, corrupted: int, hostile: int) -> tuple[list[Outcome], int]:
    """The outcomes, and by how many bytes the process has grown at its largest."""
    found = list[Outcome]()
    files = sorted(KEPT.iterdir())
    goods = [(unpacked(file), file.read_bytes()) for file in files]
    with tempfile.TemporaryDirectory(prefix="fuzz-bundles-") as name, settings.scope(cache=False):
        folder = Path(name)
        os.chdir(folder)
        for file in files:
            use(file)
        largest = _largest()
        for number in range(corrupted + hostile):
            source = random.Random(f"{seed}:bundle:{number}")
            good, whole = source.choice(goods)
            path = folder / "f.inspector"
            if number < corrupted:
                kind = source.choices(list(CORRUPTED), _WEIGHTS)[0]
                CORRUPTED[kind](good, whole, source, path)
            else:
                kind = source.choice(list(HOSTILE))
                method = source.choice([zipfile.ZIP_DEFLATED] * 5 + [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
                packed(path, HOSTILE[kind](good, source), method)
            del source, good, whole
            found.append(outcome(kind, number, lambda path=path: use(path)))
            path.unlink()
            left = [entry.name for entry in folder.iterdir()]
            if left:
                found.append(Outcome(kind, number, "ok", 0.0, f"wrote {left}"))
            if number % 100 == 0:
                print(f"{number} of {corrupted + hostile}, {_largest() >> 20} MiB", file=sys.stderr, flush=True)
    return found, _largest() - largest


def main() -> int:
    """Prints the outcomes, one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in (("seed", 0), ("corrupted", 1000), ("hostile", 200)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    began = time.monotonic()
    found, grown = fuzz(given.seed, given.corrupted, given.hostile)
    for kind, said in sorted(collections.Counter((o.kind, o.said) for o in found).items()):
        print(f"{kind[0]:18} {kind[1]:20} {said}")
    bad = [o for o in found if o.bad]
    for o in bad:
        print(f"BAD {o.kind} {o.number}: {o.bad}")
    slowest = max(found, key=lambda o: o.seconds)
    print(
        f"{len(found)} files in {time.monotonic() - began:.0f} s, {len(bad)} bad, the slowest {slowest.seconds:.2f} s"
        f" ({slowest.kind} {slowest.number}), the process grew by {grown >> 20} MiB"
    )
    return bool(bad) or grown > MAX_EXTRA_BYTES


if __name__ == "__main__":
    sys.exit(main())

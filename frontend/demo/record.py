"""Records the demo page's fixtures: what a real Explorer tells a browser about real programs.

Use: `python frontend/demo/record.py`, which writes `mlp.json`, `mesh.json`, `targets.json` and `recorded.json`
beside it; `targets.json` needs the extras `tpu` and `cuda`. A fixture holds the messages that answer `ready`, and
for each variant its graph and the result of a run, null for a target that is not here; `recorded.json` holds
compiler passes and code too, with the replies about each.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT_S = 120.0

# Both are read when JAX starts its backend.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]


class Browser:
    """Stands in for a browser: keeps what the app of an Explorer sends."""

    def __init__(self, explorer: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self._app = next(child for child in explorer.children if type(child).__name__ == "App")
        self._app.send = self._keep

    def ask(self, message: dict[str, Any]) -> None:
        """Sends a message to Python."""
        self._app._receive(self._app, message, [])  # noqa: SLF001 - plays the part of the comm

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted, when it has come."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            found = next((entry["content"] for entry in self.sent if wanted(entry["content"])), None)
            if found is not None:
                return found
            time.sleep(0.05)
        raise TimeoutError(f"No such message in {LIMIT_S} s; got {[e['content']['type'] for e in self.sent]}.")

    def reply(self, number: int, request: dict[str, Any], kind: str) -> dict[str, Any]:
        """The message, with its buffers, that answers a request about the baseline."""
        self.ask({**request, "id": number, "variant": 0})
        message = self.wait_for(lambda m: m["type"] == kind and m["id"] == number)
        return next(entry for entry in self.sent if entry["content"] is message)

    def _keep(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        plain = {name: value for name, value in content.items() if name != "to"}
        self.sent.append({"content": plain, "buffers": [base64.b64encode(b).decode() for b in buffers or []]})


def record(explorer: Any) -> dict[str, Any]:
    """The fixture of an Explorer, once all its variants have ended."""
    explorer.wait(LIMIT_S)
    browser = Browser(explorer)
    browser.ask({"type": "ready", "browser": "recorder"})
    messages = list(browser.sent)
    graphs, runs = {}, {}
    for number in (variant.number for variant in explorer.variants):
        browser.ask({"type": "graph", "variant": number})
        browser.wait_for(lambda m, n=number: m["type"] == "graph_costs" and m["variant"] == n)
        graphs[number] = [entry for entry in browser.sent if _is_graph(entry["content"], number)]
        browser.ask({"type": "run", "variant": number, "repeat": 20})
        run = browser.wait_for(lambda m, n=number: _has_run(m, n))
        runs[number] = run["result"]
        if run["state"] == "done":
            browser.wait_for(lambda m, n=number: _has_profile(m, n))
    return {"messages": messages, "graphs": graphs, "runs": runs}


def record_products(explorer: Any) -> dict[str, Any]:
    """What an Explorer tells of the baseline's passes and code: by product its messages, and the reply to each request."""
    explorer.wait(LIMIT_S)
    browser = Browser(explorer)
    browser.ask({"type": "ready", "browser": "recorder"})
    found: dict[str, Any] = {}
    for product, kind, reply in (("passes", "pass", "pass_change"), ("assembly", "code", "code_text")):
        before = len(browser.sent)
        browser.ask({"type": "record", "variant": 0, "product": product})
        browser.wait_for(lambda m, p=product: m["type"] == "recording" and m["product"] == p and m["state"] == "done")
        messages = browser.sent[before:]
        replies = {}
        for number, (key, request) in enumerate(_worth_asking(messages).items()):
            replies[key] = browser.reply(number * _APART, {"type": kind, **request}, reply)
        found[product] = {"messages": messages, "replies": replies}
    found["passes"]["stories"] = {
        name: browser.reply(number * _APART, {"type": "follow", **_NOTHING, "instruction": name}, "story")
        for number, name in enumerate(_names(explorer))
    }
    return found


_APART = 100_000  # one browser's requests that wait are answered by the last alone
_NOTHING = {"index": None, "op_name": "", "file": "", "line": 0}


def _names(explorer: Any) -> list[str]:
    """A dozen instructions of the compiled program, the fusions first."""
    listed = explorer.baseline.compiled.module().entry.instructions
    return [i.name for i in sorted(listed, key=lambda i: i.opcode != "fusion") if i.opcode != "parameter"][:12]


def _worth_asking(told: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All code; of the passes those that changed something, and the first; since the start, and whole, the last."""
    (list_,) = (entry for entry in told if entry["content"]["type"] in ("passes", "code"))
    if list_["content"]["type"] == "code":
        count = len(json.loads(gzip.decompress(base64.b64decode(list_["buffers"][0])))["entries"])
        return {str(index): {"index": index} for index in range(count)}
    rows = list_["content"]["rows"]
    asked = [(i, None, False) for i, row in enumerate(rows) if i == 0 or row["changed"]]
    last = asked[-1][0]
    asked += [(last, -1, False), *((i, None, True) for i in (last, _last_of(rows, "layout-assignment")))]
    keys = ("null" if since is None else since for _, since, _ in asked)
    return {
        f"{index}/{key}/{str(whole).lower()}": {"index": index, "since": since, "whole": whole}
        for (index, since, whole), key in zip(asked, keys, strict=True)
    }


def _last_of(rows: list[dict[str, Any]], name: str) -> int:
    return max(i for i, row in enumerate(rows) if row["name"] == name)


def _is_graph(message: dict[str, Any], variant: int) -> bool:
    return message["type"] in ("graph", "graph_costs") and message["variant"] == variant


def _has_run(message: dict[str, Any], variant: int) -> bool:
    return message["type"] == "run" and message["variant"] == variant and message["state"] in ("done", "failed")


def _has_profile(message: dict[str, Any], variant: int) -> bool:
    return message["type"] == "profiling" and message["variant"] == variant and message["state"] in ("done", "failed")


def on_targets() -> Any:
    """A gradient over eight devices, for CPU, TPU and GPU."""
    import jax
    import jax.numpy as jnp
    import programs
    from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

    import inspector

    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def argument(shape: tuple[int, ...], *axes: str | None) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, PartitionSpec(*axes)))

    return inspector.explore(
        jax.jit(jax.grad(programs.sharded_loss, (0, 1))),
        argument((512, 2048), None, "model"), argument((2048, 512), "model", None), argument((256, 512), "data", None),
        target="cpu:8", compare=["tpu:v5e:2x4", "gpu:h100:8"],
    )  # fmt: skip


def main() -> None:
    """Records the programs."""
    import jax
    import jax.numpy as jnp
    import programs

    import inspector

    sizes = {"w1": (64, 128), "b1": (128,), "w2": (128, 128), "b2": (128,), "w3": (128, 8)}
    params = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in sizes.items()}
    x, y = jax.ShapeDtypeStruct((32, 64), jnp.float32), jax.ShapeDtypeStruct((32, 8), jnp.float32)
    mlp = inspector.explore(programs.train_step, params, x, y, target="cpu")
    mlp.add({"xla_disable_hlo_passes": "fusion"})
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    w = jax.ShapeDtypeStruct((64, 32), jnp.float32)
    sharded = inspector.explore(programs.sharded_step(mesh), x, w, target="cpu:8")
    fixtures = {"mlp": record(mlp), "mesh": record(sharded), "targets": record(on_targets())}
    fixtures["recorded"] = record(mlp) | {"products": record_products(mlp)}
    for name, fixture in fixtures.items():
        path = HERE / f"{name}.json"
        path.write_text(json.dumps(fixture, separators=(",", ":")))
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB\n")


if __name__ == "__main__":
    main()

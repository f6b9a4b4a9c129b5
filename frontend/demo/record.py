"""Records the demo page's fixtures from real programs: `python frontend/demo/record.py`.

Plain JAX, no room of inspector but the widget's own messages, so that the app can be worked on
without the rest. Origins are read from the printed texts; they are good enough for a page, not for
a product.
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import difflib

import jax
import jax.numpy as jnp
import numpy as np
import programs
import pygraphviz

from inspector.widgets.app import App, TextDocument

FILE = "demo/programs.py"


class Table:
    """Collects origins; the index of one is its place in the document's table."""

    def __init__(self) -> None:
        self.files = [FILE]
        self.origins: list[tuple[str, list[tuple[int, int]]]] = []
        self._index: dict[object, int] = {}

    def index(self, name: str, lines: list[int]) -> int:
        key = (name, tuple(lines))
        if key not in self._index:
            self._index[key] = len(self.origins)
            self.origins.append((name, [(0, line) for line in lines]))
        return self._index[key]


def source_document() -> TextDocument:
    lines, first = [f"# {FILE}"], [None]
    for function in (programs.dense, programs.loss_fn, programs.train_step, programs.sharded_step):
        text, start = inspect.getsourcelines(function)
        lines += ["", *(t.rstrip("\n") for t in text)]
        first += [None, *range(start, start + len(text))]
    table = Table()
    origins = [-1 if n is None else table.index("", [n]) for n in first]
    return TextDocument("source", None, "python", "\n".join(lines), origins, table.files, table.origins, labels=first)


def user_lines(frames) -> list[int]:
    return [f.start_line for f in frames if f.file_name.endswith("programs.py")]


def walk(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from walk(inner)


def jaxpr_document(closed, name: str) -> TextDocument:
    table, text = Table(), str(closed)
    eqns = list(walk(closed.jaxpr))
    found, current, position = [], -1, 0
    for line in text.split("\n"):
        if re.search(r" = [a-z_]+[\w\-]*(\[| |$)", line) and position < len(eqns):
            eqn = eqns[position]
            position += 1
            stack = "/".join(filter(None, (f"jit({name})", str(eqn.source_info.name_stack), eqn.primitive.name)))
            frames = eqn.source_info.traceback.frames if eqn.source_info.traceback else []
            lines = [f.line_num for f in frames if f.file_name.endswith("programs.py")]
            current = table.index(stack, lines)
        elif re.match(r"\s*in \(", line):
            current = -1
        found.append(current)
    found[0] = -1
    return TextDocument("jaxpr", None, "jaxpr", text, found, table.files, table.origins)


def stablehlo_document(lowered) -> TextDocument:
    text = lowered.as_text(debug_info=True)
    definitions = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.M))
    table = Table()

    def resolve(expression: str) -> tuple[str, list[int]]:
        if expression in definitions:
            return resolve(definitions[expression])
        if m := re.match(r'"([^"]*programs\.py)":(\d+)', expression):
            return "", [int(m[2])]
        if re.match(r'"[^"]*":\d+', expression):
            return "", []
        if m := re.match(r"callsite\((\S+) at (\S+)\)", expression):
            return "", resolve(m[1])[1] + resolve(m[2])[1]
        if m := re.match(r'"([^"]*)"\((.*)\)$', expression):
            return m[1], resolve(m[2])[1]
        if m := re.match(r'"([^"]*)"$', expression):
            return m[1], []
        return "", []

    def origin(line: str) -> int:
        m = re.search(r"loc\((#loc\d*)\)$", line)
        if not m or line.startswith("#"):
            return -1
        name, lines = resolve(m[1])
        return table.index(name, lines) if name or lines else -1

    lines = text.split("\n")
    return TextDocument("stablehlo", None, "mlir", text, [origin(t) for t in lines], table.files, table.origins)


def hlo_document(text: str, pane: str, variant: int | None) -> TextDocument:
    rows = {k: dict(re.findall(r"^(\d+) (.+)$", b, re.M)) for k, b in re.findall(r"^(\w+)\n((?:\d+ .*\n)+)", text, re.M)}
    files = rows.get("FileNames", {})
    places = {k: dict(re.findall(r"(\w+)=(\d+)", v)) for k, v in rows.get("FileLocations", {}).items()}
    frames = {k: dict(re.findall(r"(\w+)=(\d+)", v)) for k, v in rows.get("StackFrames", {}).items()}

    def chain(frame: str | None) -> list[int]:
        found: list[int] = []
        while frame and frame in frames:
            place = places[frames[frame]["file_location_id"]]
            if files[place["file_name_id"]].endswith('programs.py"'):
                found.append(int(place["line"]))
            parent = frames[frame].get("parent_frame_id")
            parent = str(int(parent) - 1) if parent else None
            frame = None if parent == frame or parent == "0" else parent
        return found

    table = Table()

    def origin(line: str) -> int:
        name = re.search(r'op_name="([^"]*)"', line)
        frame = re.search(r"stack_frame_id=(\d+)", line)
        lines = chain(frame[1]) if frame else []
        return table.index(name[1] if name else "", lines) if name or lines else -1

    def instruction(line: str) -> str | None:
        m = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = ", line)
        return m[1] if m else None

    text = re.sub(r'"[^"]*/(\w+\.py)"', r'"demo/\1"', text)
    lines = text.split("\n")
    return TextDocument(
        pane, variant, "hlo", text, [origin(t) for t in lines], table.files, table.origins, instructions=[instruction(t) for t in lines]
    )


def stats(variant: int, compiled, seconds: float) -> dict:
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    argument, output, temp = memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.temp_size_in_bytes
    row = lambda key, label, unit, value, reason=None, less=True: {
        "key": key, "label": label, "unit": unit, "value": value, "reason": reason, "less_is_better": less,
    }  # fmt: skip
    return {
        "type": "stats",
        "variant": variant,
        "rows": [
            row("compile_s", "compile time", "seconds", seconds),
            row("peak_bytes", "peak memory", "bytes", argument + output + temp - memory.alias_size_in_bytes),
            row("argument_bytes", "arguments", "bytes", argument, less=False),
            row("output_bytes", "outputs", "bytes", output, less=False),
            row("temp_bytes", "temporaries", "bytes", temp),
            row("generated_code_bytes", "machine code", "bytes", None, "XLA keeps CPU machine code in host memory and does not report its size."),
            row("flops", "flops", "count", cost.get("flops"), less=False),
            row("transcendentals", "transcendentals", "count", cost.get("transcendentals"), less=False),
            row("bytes_accessed", "bytes accessed", "bytes", cost.get("bytes accessed")),
        ],
    }  # fmt: skip


def variant_message(variant: int, label: str, options: dict, seconds: float, target: str = "cpu") -> dict:
    return {
        "type": "variant", "variant": variant, "label": label, "target": target, "options": options,
        "state": "done", "stage": "done", "elapsed_s": seconds, "error": None,
    }  # fmt: skip


def hunks(a: str, b: str) -> list[list[int]]:
    matcher = difflib.SequenceMatcher(None, a.split("\n"), b.split("\n"), autojunk=False)
    return [[i1, i2, j1, j2] for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def draw(text: str, focus: str | None = None) -> str:
    """An SVG of the entry computation: every instruction, or those around one."""
    entry = text[text.index("\nENTRY") :]
    operands: dict[str, list[str]] = {}
    for line in entry.split("\n")[1:]:
        if m := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*)", line):
            body = m[2].split(", metadata=")[0].split(", calls=")[0]
            operands[m[1]] = [n for n in re.findall(r"%([\w.\-]+)", body) if n in operands]
    keep = set(operands)
    if focus:
        keep = {focus, *operands[focus], *(n for n, ins in operands.items() if focus in ins)}
    graph = pygraphviz.AGraph(directed=True)
    graph.node_attr.update(shape="box", style="rounded,filled", fillcolor="white", fontsize="10", height="0.3", fontname="Helvetica")
    graph.graph_attr.update(nslimit="1", ranksep="0.3", nodesep="0.2")
    for name in (n for n in operands if n in keep):
        graph.add_node(name, id=f"node-{name}", label=name)
        for operand in operands[name]:
            if operand in keep:
                graph.add_edge(operand, name, arrowsize="0.6")
    return graph.draw(format="svg", prog="dot").decode()


def run_result(compiled, args) -> dict:
    durations = []
    for _ in range(24):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        durations.append(time.perf_counter() - start)
    durations = durations[4:]
    low, median, high = np.percentile(durations, [25, 50, 75])
    text = lambda a: np.array2string(np.asarray(a).ravel()[:5], precision=4, separator=" ") + " …"
    leaves = jax.tree_util.tree_flatten_with_path(args)[0]
    names = ["params", "x", "y"]
    inputs = [
        {"path": names[p[0].idx] + jax.tree_util.keystr(p[1:]), "shape": ",".join(map(str, a.shape)), "dtype": str(a.dtype),
         "generated": True, "per_replica": False, "preview": [text(a)]}
        for p, a in leaves
    ]  # fmt: skip
    out = jax.tree_util.tree_flatten_with_path(compiled(*args))[0]
    outputs = [
        {"path": jax.tree_util.keystr(p), "shape": ",".join(map(str, a.shape)), "dtype": str(a.dtype),
         "generated": False, "per_replica": False, "preview": [text(a)]}
        for p, a in out
    ]  # fmt: skip
    return {
        "device_kind": "cpu", "durations_s": durations, "median_s": float(median), "min_s": min(durations),
        "iqr_s": float(high - low), "inputs": inputs, "outputs": outputs,
        "note": "Arguments were given as shapes: their values are standard normal, from a fixed seed.",
    }  # fmt: skip


def record_mlp() -> dict:
    sizes = {"w1": (64, 128), "b1": (128,), "w2": (128, 128), "b2": (128,), "w3": (128, 8)}
    rng = np.random.default_rng(0)
    normal = lambda shape: jnp.asarray(rng.standard_normal(shape), jnp.float32) * 0.1
    args = ({k: normal(s) for k, s in sizes.items()}, normal((32, 64)), normal((32, 8)))
    traced = jax.jit(programs.train_step).trace(*args)
    lowered = traced.lower()
    app, sent = recorder("train_step")
    app.publish_document(source_document())
    app.publish_document(jaxpr_document(traced.jaxpr, "train_step"))
    app.publish_document(stablehlo_document(lowered))
    app.publish_document(hlo_document(lowered.compiler_ir("hlo").as_hlo_module().to_string(), "hlo", None))
    graphs, runs, texts = {}, {}, {}
    for variant, (label, flags) in enumerate((("baseline", {}), ("xla_disable_hlo_passes=fusion", {"xla_disable_hlo_passes": "fusion"}))):
        start = time.perf_counter()
        compiled = lowered.compile(compiler_options=flags)
        seconds = time.perf_counter() - start
        texts[variant] = compiled.as_text()
        app.publish(variant_message(variant, label, flags, seconds))
        app.publish_document(hlo_document(texts[variant], "optimized", variant))
        app.publish(stats(variant, compiled, seconds))
        for stage in ("hlo", "optimized"):
            app.publish({"type": "collectives", "variant": variant, "stage": stage, "mesh": None, "rows": [],
                         "note": "The program has one replica and one partition, so nothing is communicated."})  # fmt: skip
        graphs[variant] = draw(texts[variant])
        runs[variant] = run_result(compiled, args)
    app.publish({"type": "diff", "baseline": 0, "variant": 1, "hunks": hunks(hlo_text(texts[0]), hlo_text(texts[1])),
                 "summary": "19 instructions changed, 96 added, 22 removed"})  # fmt: skip
    return {"messages": sent, "graphs": graphs, "runs": runs}


def hlo_text(text: str) -> str:
    return hlo_document(text, "optimized", 0).text


MESH = {"axis_names": ["data", "model"], "axis_sizes": [4, 2], "kind": "partition", "device_ids": None}


def collective(name: str, opcode: str, axes: list[str], line: int, before: str, after: str, pairs=None) -> dict:
    ids = np.arange(8).reshape(4, 2)
    groups = {"data": ids.T.tolist(), "model": ids.tolist()}[axes[0]]
    members = [
        {"group": g, "position": p, "device": d, "replica": 0, "partition": d, "coordinates": [d // 2, d % 2],
         "before": before.format(p=p, g=g), "after": after.format(p=p, g=g)}
        for g, group in enumerate(groups) for p, d in enumerate(group)
    ]  # fmt: skip
    shapes = ["f32[8,32]"] if "gather" not in opcode else ["f32[32,32]"]
    return {
        "name": name, "opcode": opcode, "computation": "main", "context": "in the entry computation", "axes": axes, "axes_reason": "",
        "groups": pairs or groups, "is_pairs": pairs is not None,
        "group_mode": "cross_partition" if pairs else "flattened_id", "operand_shapes": shapes,
        "result_shapes": ["f32[64,32]"] if "gather" in opcode else shapes, "operand_bytes": 1024 if "gather" not in opcode else 4096,
        "source": {"file": FILE, "line": line}, "inserted_by": "", "members": members,
    }  # fmt: skip


def record_mesh() -> dict:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    args = (jnp.ones((32, 64)), jnp.ones((64, 32)))
    traced = jax.jit(programs.sharded_step(mesh)).trace(*args)
    lowered = traced.lower()
    start = time.perf_counter()
    compiled = lowered.compile()
    seconds = time.perf_counter() - start
    app, sent = recorder("sharded_step")
    app.publish_document(source_document())
    app.publish_document(jaxpr_document(traced.jaxpr, "step"))
    app.publish_document(stablehlo_document(lowered))
    app.publish_document(hlo_document(lowered.compiler_ir("hlo").as_hlo_module().to_string(), "hlo", None))
    app.publish(variant_message(0, "baseline", {}, seconds, "cpu:8"))
    text = compiled.as_text()
    app.publish_document(hlo_document(text, "optimized", 0))
    app.publish(stats(0, compiled, seconds))
    first = inspect.getsourcelines(programs.sharded_step)[1]
    kinds = {"all-reduce": [("model", 3), ("data", 4)], "all-gather": [("model", 5)], "collective-permute": [("data", 6)]}
    for stage, body in (("hlo", lowered.compiler_ir("hlo").as_hlo_module().to_string()), ("optimized", text)):
        rows = []
        for opcode, uses in kinds.items():
            names = re.findall(rf"^\s+(?:ROOT )?%?([\w.\-]+) = [^\n]*? {opcode}\(", body, re.M)
            for name, (axis, offset) in zip(names, uses, strict=False):
                pairs = [[2 * i + m, 2 * ((i + 1) % 4) + m] for i in range(4) for m in range(2)] if "permute" in opcode else None
                after = {"all-reduce": "the sum over all positions of group {g}", "all-gather": "all slices of group {g}, in order",
                         "collective-permute": "the value of the position before"}[opcode]  # fmt: skip
                rows.append(collective(name, opcode, [axis], first + offset, "its own slice, position {p} of group {g}", after, pairs))
        app.publish({"type": "collectives", "variant": 0, "stage": stage, "mesh": MESH, "rows": rows, "note": ""})
    return {"messages": sent, "graphs": {0: draw(text)}, "runs": {}}


def recorder(name: str) -> tuple[App, list[dict]]:
    app, sent = App(name), []

    def send(content: dict, buffers: list[bytes] | None = None) -> None:
        content = {k: v for k, v in content.items() if k != "to"}
        sent.append({"content": content, "buffers": [base64.b64encode(b).decode() for b in buffers or []]})

    app.send = send
    app._receive(app, {"type": "ready", "client": "recorder"}, [])
    return app, sent


if __name__ == "__main__":
    for name, record in (("mlp", record_mlp), ("mesh", record_mesh)):
        path = HERE / f"{name}.json"
        path.write_text(json.dumps(record(), separators=(",", ":")))
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB\n")

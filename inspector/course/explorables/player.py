"""`inspector.player`: a collective, step by step, with its cost and its values."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.exchanges.exchange import Exchange
from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.textbook import OPCODES, Transfer, schedule
from inspector.course.explorables.networks import network_message
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.shape import Shape
from inspector.lowering.lower import lower
from inspector.support.notebook import short
from inspector.support.units import format_bytes
from inspector.widgets import messages
from inspector.widgets.explorables.explorable import Explorable
from inspector.widgets.explorables.messages import NetworkMessage, PlayerMessage, PlayerRun
from inspector.widgets.panes.collective_parts.exchange_messages import exchange_messages, most_followed

_PERMUTE = "collective-permute"
_NAMES = {
    "psum": "all-reduce",
    "all_gather": "all-gather",
    "psum_scatter": "reduce-scatter",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ppermute": _PERMUTE,
    "broadcast": "collective-broadcast",
}
_MOST_IDS = 64
_PUBLISHED = (("ring", "tpu:v5e", True), ("line", "tpu:v5e", False), ("switch", "gpu:h100", False))

Groups = list[list[int]]
Values = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _Played:
    """A collective among groups. `array_bytes` is that of the whole array, `operand` the shape of the operand or ""."""

    opcode: str
    groups: Groups
    array_bytes: int
    operand: str = ""

    @property
    def ids(self) -> list[int]:
        return sorted({id_ for group in self.groups for id_ in group})

    @property
    def members(self) -> int:
        return len(self.groups[0])

    @property
    def title(self) -> str:
        if self.opcode == _PERMUTE:
            return f"{self.opcode} with {len(self.groups)} pairs"
        among = f"{len(self.groups)} groups of {self.members}" if len(self.groups) > 1 else f"{self.members} members"
        return f"{self.opcode} of {among}"


def player(
    what: object,
    members: int | Sequence[Sequence[int]] = 4,
    *,
    collective: int | str = 0,
    array_bytes: int = 1 << 20,
    links: Links | None = None,
) -> Explorable:
    """Returns a player of a collective: its messages step by step, its cost by each textbook algorithm, and its values.

    Args:
      what: name of a collective, such as "all-reduce" or "psum"; or a `Lowered`, a `Compiled` or their `collectives()`, or
        one of these.
      members: for a name, the number of members of one group, or the ids of each group, or (source, target) pairs for a
        collective-permute.
      collective: for a program, position or name of the collective.
      array_bytes: for a name, bytes of the whole array: the operand of an all-reduce, all-to-all or broadcast, and the whole
        array of an all-gather or reduce-scatter.
      links: links between the members; None for a choice of published ones.

    Raises:
      ParameterError: an unknown collective, groups of different sizes, or too many members to follow each.
      ModuleError: the program has no such collective.
    """
    played = _named(what, members, array_bytes) if isinstance(what, str) else _from_program(what, collective)
    most = most_followed(played.opcode)
    if played.opcode != _PERMUTE and not 1 < played.members <= most:
        raise ParameterError(
            f"Got groups of {played.members} for {played.opcode}; expected 2 to {most} members, so that each can be followed."
        )
    if len(played.ids) > _MOST_IDS:
        raise ParameterError(f"Got {len(played.ids)} ids; expected at most {_MOST_IDS}.")
    inputs = _inputs(played)
    content = PlayerMessage(
        type="player",
        opcode=played.opcode,
        groups=played.groups,
        is_pairs=played.opcode == _PERMUTE,
        array_bytes=played.array_bytes,
        operand=played.operand,
        exchanges=[] if played.opcode == _PERMUTE else list(exchange_messages(played.opcode, played.members)),
        networks=[] if played.opcode == _PERMUTE else list(_networks(played, links)),
        before=_texts(inputs),
        after=_texts(_outputs(played, inputs)),
    )
    form = partial(_form, content)
    return Explorable("player", played.title, content, form, lambda _: _run(played), [{"type": "run_player"}])


def _named(name: str, members: int | Sequence[Sequence[int]], array_bytes: int) -> _Played:
    opcode = _NAMES.get(name.lower(), name.lower().replace("_", "-"))
    known = (*OPCODES, _PERMUTE)
    if opcode not in known:
        raise ParameterError(
            f"Got the collective {short(name)}; expected one of {', '.join(known)}, or JAX's name of one."
        )
    size: object = array_bytes
    if not isinstance(size, int) or size < 1:
        raise ParameterError(f"Got array_bytes={short(array_bytes)}; expected a number of bytes, 1 or more.")
    if isinstance(members, int) and not isinstance(members, bool):
        ids = list(range(members))
        groups = [[id_, (id_ + 1) % members] for id_ in ids] if opcode == _PERMUTE else [ids]
    else:
        groups = _checked_groups(members)
    return _Played(opcode, groups, array_bytes)


def _checked_groups(members: object) -> Groups:
    try:
        groups = [[int(id_) for id_ in group] for group in members]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        groups = []
    ids = [id_ for group in groups for id_ in group]
    if not ids or min(ids) < 0 or len({len(group) for group in groups}) != 1:
        raise ParameterError(
            f"Got members={short(members)}; expected a number, or groups of ids of one size, such as [[0, 1], [2, 3]]."
        )
    return groups


def _from_program(what: object, number: int | str) -> _Played:
    if callable(found := getattr(what, "collectives", None)):
        what = found()
    if isinstance(what, Collectives):
        if not len(what):
            raise ParameterError("The program has no collectives. Use a program that runs on several devices.")
        what = what[number]
    if not isinstance(what, Collective):
        raise ParameterError(
            f"Got {type(what).__name__}; expected the name of a collective, such as 'all-reduce', or a Lowered, a Compiled or"
            " their collectives()."
        )
    if isinstance(what.participants, Unavailable):
        raise ParameterError(f"The members of {what.name} are unknown: {what.participants.reason}")
    if what.opcode not in (*OPCODES, _PERMUTE):
        raise ParameterError(f"Cannot play {what.opcode}: textbooks have no algorithm for it.")
    groups = [list(group) for group in what.participants]
    is_whole = what.opcode in ("all-gather", "reduce-scatter")
    size = max(what.operand_bytes, what.result_bytes) if is_whole else what.operand_bytes
    return _Played(what.opcode, _checked_groups(groups), size, ", ".join(map(_shape, what.operand_shapes)))


def _shape(shape: Shape) -> str:
    return str(shape.without_layout())


def _networks(played: _Played, links: Links | None) -> list[NetworkMessage]:
    if links is not None:
        return [network_message(links.kind, played.opcode, played.members, links, "given in the call")]
    return [
        network_message(
            kind,
            played.opcode,
            played.members,
            Links.published(chip, wraps=wraps),
            f"published for {chip}, per direction",
        )
        for kind, chip, wraps in _PUBLISHED
    ]


def _inputs(played: _Played) -> Values:
    """Returns an example: on id r the numbers 10 r, 10 r + 1, ..., one for each part that a member sends on."""
    width = played.members if played.opcode in ("reduce-scatter", "all-to-all") else 1
    return 10 * np.arange(max(played.ids) + 1, dtype=np.int32)[:, None] + np.arange(width, dtype=np.int32)


def _outputs(played: _Played, inputs: Values) -> list[Values]:
    """Returns the results by the definition of the collective; ids that do not take part keep nothing."""
    outputs: list[Values] = [np.zeros(0, np.int32)] * len(inputs)
    if played.opcode == _PERMUTE:
        step = tuple(Transfer(source, target, (source,)) for source, target in played.groups)
        done = Exchange(_PERMUTE, "direct", tuple(range(len(inputs))), 4, (step,), Links())
        return done.play(list(inputs))
    steps = schedule(played.opcode, "direct", played.members)
    assert not isinstance(steps, Unavailable), "every collective has this algorithm"
    for group in played.groups:
        done = Exchange(played.opcode, "direct", tuple(group), 4, steps, Links())
        for id_, value in zip(group, done.play([inputs[id_] for id_ in group]), strict=True):
            outputs[id_] = value
    return outputs


def _texts(values: Sequence[Values] | Values) -> list[str]:
    return [", ".join(str(int(number)) for number in np.asarray(value).reshape(-1)) for value in values]


def _run(played: _Played) -> Mapping[str, Any]:
    """Runs the collective on virtual devices and returns the values."""
    reply = PlayerRun(type="player_run", id=0, error=None, device_kind="", before=[], after=[])
    try:
        inputs = _inputs(played)
        count = len(inputs)
        lowered = lower(
            _function(played, count), jax.ShapeDtypeStruct(inputs.shape[1:], jnp.int32), axis_env=[("i", count)]
        )
        run = lowered.compile(target=f"cpu:{count}").run(inputs, repeat=1)
        outputs = np.asarray(run.outputs[0]).reshape(count, -1)
        reply["device_kind"] = f"{count} virtual CPU devices"
        reply["before"], reply["after"] = _texts(inputs), _texts(outputs)
    except Exception as error:  # shown to the user
        reply["error"] = messages.error_of(error)
    return reply


def _function(played: _Played, count: int) -> Any:
    groups = None if played.groups == [list(range(count))] else played.groups
    if played.opcode != _PERMUTE and played.ids != list(range(count)):
        raise ParameterError("Only groups of all ids from 0 can run.")
    match played.opcode:
        case "all-reduce":
            return lambda x: jax.lax.psum(x, "i", axis_index_groups=groups)
        case "all-gather":
            return lambda x: jax.lax.all_gather(x, "i", axis_index_groups=groups, tiled=True)
        case "reduce-scatter":
            return lambda x: jax.lax.psum_scatter(x, "i", axis_index_groups=groups, tiled=True)
        case "all-to-all":
            return lambda x: jax.lax.all_to_all(x, "i", 0, 0, axis_index_groups=groups, tiled=True)
        case "collective-permute":
            return lambda x: jax.lax.ppermute(x, "i", played.groups)
        case _:
            raise ParameterError(f"JAX has no function for {played.opcode} that runs on CPUs.")


def _form(content: PlayerMessage, replies: Sequence[Mapping[str, Any]]) -> str:
    """Returns the cost and the values for pages without scripts: those of the run, if it ran."""
    origin, shown = "An example, by the definition of the collective", (content["before"], content["after"])
    for reply in replies:
        origin, shown = f"Measured on {reply['device_kind']}", (reply["before"], reply["after"])
    costs = "".join(
        f"<tr><td>{network['name']}</td><td>{html.escape(cost['algorithm'])}</td><td>{cost['steps']}</td>"
        f"<td>{cost['hops']}</td><td>{format_bytes(math.ceil(cost['busiest'] * content['array_bytes']))}</td>"
        f"<td>{1e6 * (cost['hops'] * network['latency_s'] + cost['busiest'] * content['array_bytes'] / network['bytes_per_s']):.3g}"
        " µs</td></tr>"
        for network in content["networks"]
        for cost in network["costs"]
    )
    values = "".join(
        f"<tr><td>{number}</td><td>{before}</td><td>{after}</td></tr>"
        for number, (before, after) in enumerate(zip(*shown, strict=True))
    )
    heads = "<th>links</th><th>algorithm</th><th>steps</th><th>hops</th><th>busiest link</th><th>estimated time</th>"
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{costs}</tbody></table>" if costs else ""
    caption = f"<caption>{html.escape(origin)}</caption>"
    heads = "<thead><tr><th>id</th><th>before</th><th>after</th></tr></thead>"
    return f"{table}<table>{caption}{heads}<tbody>{values}</tbody></table>"

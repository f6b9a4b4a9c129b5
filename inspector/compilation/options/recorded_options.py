"""`RecordedOptions`: options of a file that need the user's consent before a program is compiled with them again.

A file may come from anyone. Options that `toolchain/untrusted.py` rejects are rejected for all programs of a file, wherever
they are compiled, unless the user allows them by name in Python.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.errors import OptionError, ParameterError, UnknownFlagError, cut
from inspector.support.notebook import short
from inspector.toolchain.untrusted import why_untrusted

_SHOWN = 100


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedOptions:
    """The recorded options that are rejected.

    Attributes:
      refused: the reason by name and value, with the value as JSON.
    """

    refused: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, recorded: Iterable[Options], allow: Collection[str] = ()) -> RecordedOptions:
        """Checks the options of a file.

        Args:
          recorded: the options of the file's variants.
          allow: names of options that the user trusts.

        Raises:
          ParameterError: `allow` is not a list of names, or has a name that no variant uses.
        """
        flat = [options.as_dict() for options in recorded]
        allowed = _names(allow, {name for each in flat for name in each})
        refused: dict[tuple[str, str], str] = {}
        for each in flat:
            for name, value in each.items():
                if name not in allowed and (reason := _why(name, value, each)):
                    refused[_key(name, value)] = reason
        return cls(refused)

    def check(self, request: CompileRequest) -> None:
        """Rejects a compile with one of these options.

        Raises:
          OptionError: with the option, the reason, and the way to allow it.
        """
        if not self.refused:
            return
        reasons = {
            name: f"{name}={cut(str(value), _SHOWN)} {reason}"
            for name, value in request.build_options.as_dict().items()
            if (reason := self.refused.get(_key(name, value)))
        }
        if reasons:
            names = ", ".join(repr(name) for name in reasons)
            raise OptionError(
                f"The program is not compiled again, because its file sets options that a file may not set: {' '.join(reasons.values())}"
                f" If you trust the file, allow them from Python: exploration.replay(allow=[{names}]) or"
                f" exploration.explorer(allow=[{names}]); `inspector replay` has --allow."
            )


def _why(name: str, value: Any, options: Mapping[str, Any]) -> str:
    try:
        return why_untrusted(name, value, options)
    except UnknownFlagError:
        return "is not an option of the installed compilers, so its effect is unknown."
    except OptionError as e:
        return f"has a value of another type: {e}"


def _names(allow: Any, known: Collection[str]) -> frozenset[str]:
    if isinstance(allow, str) or not isinstance(allow, Collection) or not all(isinstance(name, str) for name in allow):
        raise ParameterError(f"allow must be a list of names of options, such as ['xla_dump_to'], got {short(allow)}.")
    names = {name if name in known else name.removeprefix("--") for name in allow}
    if unknown := sorted(names - set(known)):
        raise ParameterError(
            f"allow has {', '.join(unknown)}, but no variant has this option. The variants have:"
            f" {', '.join(sorted(known)) or 'no options'}."
        )
    return frozenset(names)


def _key(name: str, value: Any) -> tuple[str, str]:
    return name, json.dumps(value)

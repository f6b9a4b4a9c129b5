"""Tools as clients see them: schemas that follow from the commands, and calls as command lines."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from inspector.cli.commands import inspector as commands
from inspector.cli.mcp.answers import PAGE_SCHEMA
from inspector.cli.mcp.tools import TOOLS, Tool, tool_named
from inspector.support import packages
from tests.conftest import ROOT

REQUIRED = {"lower", "compile", "collectives", "memory", "findings", "prove", "compare", "profile"}


def test_the_required_tools_exist() -> None:
    assert {tool.name for tool in TOOLS} >= REQUIRED


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_follow_from_the_commands(tool: Tool) -> None:
    schema = tool.input_schema
    assert schema["required"] == ["program"]
    assert schema["additionalProperties"] is False
    assert all(each["description"] for each in schema["properties"].values())
    own = set(schema["properties"]) - set(PAGE_SCHEMA)
    assert len(own) + len(PAGE_SCHEMA) == len(schema["properties"]), "no option has the name of a page's parameter"
    assert own & {"json", "output", "html", "exit_code"} == set(), "no tool writes files or sets an exit status"
    assert tool.command in commands.commands.values()
    assert not any(isinstance(p.type, click.Path) for name in own for p in tool.command.params if p.name == name)


def test_schemas_have_types_choices_and_limits() -> None:
    profile = tool_named("profile").input_schema["properties"]
    assert profile["by"]["enum"] == ["line", "scope", "opcode", "phase", "kernel"]
    assert (profile["repeat"]["type"], profile["repeat"]["minimum"]) == ("integer", 1)
    assert profile["donate"] == {**profile["donate"], "type": "array", "items": {"type": "integer"}}
    assert tool_named("compile").input_schema["properties"]["hlo"]["type"] == "boolean"
    assert tool_named("compare").input_schema["properties"]["others"]["type"] == "array"


def test_a_call_becomes_a_command_line() -> None:
    given = {"program": "--help", "args": "f32[8], -1", "donate": [0, 1], "hlo": True, "target": "cpu:8"}
    words = tool_named("compile").command_line(given)
    assert words == [
        "--json", "--args=f32[8], -1", "--donate=0", "--donate=1", "--target=cpu:8", "--hlo", "--", "--help"
    ]  # fmt: skip
    context = tool_named("compile").command.make_context("compile", list(words))
    assert context.params["program"] == "--help"
    assert context.params["donate"] == (0, 1)
    off = tool_named("compile").command_line({"program": "a.hlo", "hlo": False, "args": None})
    assert off == ["--json", "--", "a.hlo"]
    proved = tool_named("prove").command_line({"program": "a.hlo", "kind": ["undonated"], "time_limit": 5})
    assert proved == ["--json", "--prove", "--kind=undonated", "--time-limit=5", "--", "a.hlo"]
    compared = tool_named("compare").command_line({"program": "a.hlo", "others": ["b.hlo"]})
    assert compared == ["--json", "--", "a.hlo", "b.hlo"]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("compile", {}, "compile needs the parameter program: package.module:function"),
        ("compile", {"program": 3}, "program is 3. Expected a text."),
        ("compile", {"program": ["a"]}, r"program is \['a'\]. Expected a text."),
        ("compile", {"program": "a", "donate": 0}, "donate is 0. Expected a list, each an integer."),
        ("compile", {"program": "a", "donate": [True]}, "Expected a list, each an integer."),
        ("compile", {"program": "a", "hlo": "yes"}, "hlo is 'yes'. Expected true or false."),
        ("compile", {"program": "a\0b"}, "with a null character"),
        ("compile", {"program": "a", "json": True}, "compile has no parameter 'json'. Its parameters: program, args,"),
        ("findings", {"program": "a", "prove": True}, "findings has no parameter 'prove'"),
    ],
)
def test_wrong_arguments_name_the_value_and_the_expected_one(name: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        tool_named(name).command_line(given)


def test_an_unknown_tool_lists_the_tools() -> None:
    with pytest.raises(click.UsageError, match=r"There is no tool 'explode'\. The tools: lower, compile,"):
        tool_named("explode")


def test_compiler_options_are_checked_as_the_command_passes_them_on() -> None:
    flags = tool_named("compile").flag_texts({"option": ["xla_a=1", "--xla_b='x y'"]})
    assert flags == ["--xla_a=1 --xla_b='x y'"]
    assert tool_named("compare").flag_texts({"options": ["xla_a=1 xla_b", "xla_c"]}) == ["--xla_a=1 --xla_b", "--xla_c"]
    assert tool_named("compare").programs({"program": "a", "others": ["b", "c"], "args_from": "d:e"}) == [
        "a",
        "b",
        "c",
        "d:e",
    ]


def test_the_documentation_lists_the_tools_and_the_parameters_of_pages() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text()
    assert [tool.name for tool in TOOLS if f"\n| `{tool.name}` |" not in page] == []
    assert [name for name in PAGE_SCHEMA if f"`{name}`" not in page] == []


def test_a_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "folders", lambda name: [])
    result = CliRunner().invoke(commands, ["mcp"])
    assert result.exit_code == 2
    assert "inspector mcp: `inspector mcp` needs the package mcp, which is not installed." in result.stderr
    assert "Install it with: " in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "options", [("--memory-limit", "much"), ("--time-limit", "0"), ("--jobs", "0"), ("--root", "no/such/folder")]
)
def test_wrong_limits_are_refused(options: tuple[str, str]) -> None:
    result = CliRunner().invoke(commands, ["mcp", *options])
    assert result.exit_code == 2
    assert options[1] in result.stderr


def test_every_compiler_option_of_a_call_is_checked_and_no_file_is_written() -> None:
    for tool in TOOLS:
        offered = set(tool.input_schema["properties"])
        for parameter in tool.command.params:
            name = max(parameter.opts, key=len).lstrip("-").replace("-", "_")
            metavar = parameter.metavar or ""
            if "FLAG" in metavar and name in offered:
                assert tool.flag_texts({name: ["xla_a=1"]}) == ["--xla_a=1"], (tool.name, name)
            assert not (metavar in ("FOLDER", "FILE") and name in offered), (tool.name, name)

"""Reads the --help of the programs and of all their subcommands."""
import dataclasses
import os
import pathlib
import re
import subprocess

# Program and section of its manual page.
PROGRAMS = {"mccsd": 8, "mccs-controller": 8, "mccsctl": 1, "mccs-lab": 1}
TIMEOUT_S = 60


@dataclasses.dataclass
class Command:
    name: str  # "mccsctl get hosts"
    text: str  # of --help
    subcommands: list


def aliases_of_subcommands(text):
    """The names of each subcommand in the part "Subcommands:": [["tenants", "tenant"], …]."""
    part = re.search(r"^Subcommands:\n((?:  .*\n?)+)", text, re.MULTILINE)
    return [names.split(", ") for names in re.findall(r"^  ([\w-]+(?:, [\w-]+)*)", part[1], re.MULTILINE)] \
        if part else []


def read_command(program, words=()):
    """Runs `program WORDS --help`. REQUIRES: the program is built."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCCS_")}
    run = subprocess.run([str(program), *words, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S,
                         env=environment)
    if run.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(words)} --help: exit status {run.returncode}: {run.stderr}")
    text = run.stdout.replace(str(program), pathlib.Path(program).name)
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    text = "\n".join(lines) + "\n"
    return Command(" ".join([pathlib.Path(program).name, *words]), text,
                   [read_command(program, [*words, names[0]]) for names in aliases_of_subcommands(text)])


def flat(command):
    """The command and all commands below it."""
    yield command
    for each in command.subcommands:
        yield from flat(each)


def options_of(text):
    """The options in a help text, and whether they take a value: {"-f": True, "--once": False}."""
    options = {}
    part = re.search(r"^Options:\n((?:  .*\n?)+)", text, re.MULTILINE)
    for names, value in re.findall(r"^  (-[\w,-]+)( \S)?", part[1] if part else "", re.MULTILINE):
        options.update({name: bool(value) for name in names.split(",")})
    return options


def page(command):
    """The reference page of a program."""
    who = "operators and users" if PROGRAMS[command.name] == 1 else "operators"
    lines = [f"# {command.name}", "", f"This page is for {who} who look up a command or an option. It is generated "
             f"from `{command.name} --help`.", ""]
    for each in flat(command):
        if each is not command:
            depth = min(each.name.count(" ") + 1, 4)
            lines += ["#" * depth + f" {each.name}", ""]
        lines += ["```text", each.text.rstrip("\n"), "```", ""]
    return "\n".join(lines)

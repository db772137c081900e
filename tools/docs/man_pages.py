#!/usr/bin/env python3
"""Writes the manual pages of the programs from their --help.

Usage: tools/docs/man_pages.py BIN DIRECTORY    writes DIRECTORY/man1/*.1 and DIRECTORY/man8/*.8
"""
import pathlib
import re
import sys

import cli_help

VERSION_LINE = "MCCS"


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.splitlines())


def parts_of(text):
    """(description, usage, [(title, body)]) of a help text."""
    description, _, rest = text.partition("Usage: ")
    usage, _, rest = rest.partition("\n")
    parts = re.split(r"^(\w[\w ]*):\n", rest, flags=re.MULTILINE)
    return description.strip(), usage.strip(), parts[0].strip(), list(zip(parts[1::2], parts[2::2]))


def entries(body):
    """The entries "  name   text" of a part, as (name, text); text may start on the next line."""
    found = []
    for line in body.splitlines():
        entry = re.match(r"  (\S(?:.*?\S)?)(?:\s{2,}(\S.*))?$", line)
        if line.startswith("   ") and found:
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
        elif entry:
            found.append([entry[1], entry[2] or ""])
    return found


def section_lines(title, body):
    if title in ("Options", "Subcommands", "Positionals"):
        lines = []
        for name, text in entries(body):
            lines += [".TP", f"\\fB{escape(name)}\\fR", escape(text) or "\\&"]
        tail = [line for line in body.splitlines() if line and not line.startswith(" ")]
        return lines + ([".PP", escape("\n".join(tail))] if tail else [])
    return [".nf", escape(body.strip("\n")), ".fi"]


def command_lines(command):
    description, usage, loose, parts = parts_of(command.text)
    lines = [escape(description), ".PP", f"\\fB{escape(usage)}\\fR"]
    for title, body in parts:
        lines += [".PP", f"\\fI{escape(title)}\\fR", *section_lines(title, body)]
    return lines + ([".PP", ".nf", escape(loose), ".fi"] if loose else [])


def man_page(command):
    section = cli_help.PROGRAMS[command.name]
    description, usage, loose, parts = parts_of(command.text)
    first = re.split(r"(?<=[.:])\s", description.removeprefix(f"{command.name}: "))[0].rstrip(".:")
    lines = [f'.TH "{command.name.upper()}" "{section}" "" "{VERSION_LINE}" ""', ".SH NAME",
             f"{escape(command.name)} \\- {escape(first[0].lower() + first[1:])}", ".SH SYNOPSIS",
             f"\\fB{escape(usage)}\\fR", ".SH DESCRIPTION", escape(description)]
    for title, body in parts:
        lines += [f".SH {title.upper()}", *section_lines(title, body)]
    if loose:
        lines += [".SH EXAMPLES", ".nf", escape(loose), ".fi"]
    below = [each for each in cli_help.flat(command) if each is not command]
    if below:
        lines.append(".SH COMMANDS")
    for each in below:
        lines += [f'.SS "{escape(each.name)}"', *command_lines(each)]
    others = [f"\\fB{escape(name)}\\fR({number})" for name, number in cli_help.PROGRAMS.items() if name != command.name]
    return "\n".join([*lines, ".SH SEE ALSO", ", ".join(others)]) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    programs, directory = map(pathlib.Path, sys.argv[1:])
    for name, section in cli_help.PROGRAMS.items():
        target = directory / f"man{section}" / f"{name}.{section}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(man_page(cli_help.read_command(programs / name)))


if __name__ == "__main__":
    main()

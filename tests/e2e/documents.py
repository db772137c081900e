"""Reads the documentation: code blocks, and the commands of our programs in them."""
import re
import shlex
import subprocess
import sys

from lab_world import ROOT

sys.path.insert(0, str(ROOT / "tools/docs"))
import cli_help  # noqa: E402

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
# Text in examples that stands for something.
PLACEHOLDER = re.compile(r"^[A-Z][A-Z_]*$|^…$|^<.*>$|^\.\.\.$")
ENDS = {"|", ";", "&&", "||", "&", ")", "#", ">", "<"}


def pages():
    """The pages that people write: {name: text}."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: (ROOT / name).read_text() for name in sorted(listed)
            if (ROOT / name).is_file() and not name.startswith("docs/decisions/0")}


def blocks(text, language):
    return [body for _, found, body in FENCE.findall(text) if found == language]


def commands_of(text):
    """The lines of a page that call one of our programs: in shell blocks, after "$ " in others, and in backticks."""
    lines = []
    for _, language, body in FENCE.findall(text):
        body = body.replace("\\\n", " ")
        lines += body.splitlines() if language == "sh" else re.findall(r"^\$ (.*)$", body, re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    return lines


def calls_of(line):
    """The words of each call of one of our programs in a line: [["mccsctl", "get", "hosts"], …]."""
    line = re.sub(r"(\$|<)\(([^)]*)\)", r"\2", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&()<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return []  # a sentence with an apostrophe
    calls = []
    for i, word in enumerate(words):
        first = i == 0 or words[i - 1] in ENDS or words[i - 1] == "--" or "=" in words[i - 1]
        if first and word.split("/")[-1] in cli_help.PROGRAMS:
            end = next((j for j in range(i + 1, len(words)) if words[j] in ENDS or words[j].startswith("#")), len(words))
            calls.append([word.split("/")[-1], *words[i + 1:end]])
    return calls


def problem_of(words, command):
    """What is wrong with a call of a program, or None. `command` is the program's tree of commands."""
    position, above = 1, []
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            return None  # Another program's words follow.
        options = {name: value for each in [*above, command] for name, value in cli_help.options_of(each.text).items()}
        if word.startswith("-") and word != "-":
            name, assigned, _ = word.partition("=")
            if name not in options:
                return f"'{command.name}' has no option {name}"
            position += 1 if options[name] and not assigned else 0
        elif command.subcommands and not PLACEHOLDER.match(word):
            names = cli_help.aliases_of_subcommands(command.text)
            found = [below for below, each in zip(command.subcommands, names) if word in each]
            if not found:
                return f"'{command.name}' has no subcommand {word}"
            above.append(command)
            command = found[0]
    return None

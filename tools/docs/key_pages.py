"""The pages of configuration keys and object fields, from `--print-keys` of the programs and tools/docs/meanings.txt."""
import pathlib
import subprocess

MEANINGS = pathlib.Path(__file__).with_name("meanings.txt")
TIMEOUT_S = 60
CONFIGURATIONS = {"mccsd": "deploy/examples/mccsd.yaml", "mccs-controller": "deploy/examples/mccs-controller.yaml"}


def read_meanings():
    """{format: {path: meaning}} from sections "[format]" with lines "path: meaning"."""
    meanings = {}
    for line in MEANINGS.read_text().splitlines():
        if line.startswith("["):
            section = meanings.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            path, _, meaning = line.partition(": ")
            section[path] = meaning
    return meanings


def read_keys(programs):
    """[(format, path, type, need, default)] of all formats, and [(type of Policy, effect, parameters, required)]."""
    keys, policies = [], []
    for program in ("mccsd", "mccs-controller"):
        run = subprocess.run([str(programs / program), "--print-keys"], capture_output=True, text=True,
                             timeout=TIMEOUT_S, check=True)
        for line in run.stdout.splitlines():
            fields = line.split("\t")
            if fields[0].startswith("policy "):
                policies.append((fields[0].removeprefix("policy "), *fields[1:]))
            else:
                keys.append(tuple(fields))
    return keys, policies


def find_differences(keys, meanings):
    """Keys without a meaning, and meanings of keys that do not exist."""
    known = {(each[0], each[1]) for each in keys}
    explained = {(kind, path) for kind, section in meanings.items() for path in section}
    return [f"{MEANINGS.name}: no meaning of {kind} {path}" for kind, path in sorted(known - explained)] + \
           [f"{MEANINGS.name}: {kind} {path} does not exist" for kind, path in sorted(explained - known)]


def table(keys, kind, meanings, strip=""):
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for format_, path, type_, need, default in keys:
        if format_ != kind:
            continue
        meaning = meanings[kind].get(path, "").replace("|", "\\|")
        meaning, stated, said = meaning.partition(". Default: ")  # where the reader's own value is a placeholder
        shown = "required" if need == "required" else said if stated else f"`{default}`" if default else ""
        lines.append(f"| `{path.removeprefix(strip)}` | {type_} | {shown} | {meaning} |")
    return lines


def configuration_page(keys, meanings):
    lines = ["# Configuration", "", "This page is for operators who configure mccsd and mccs-controller. It is generated "
             "from the programs. An unknown key or an invalid value is an error with line and column, and the program "
             "ends with status 2. Options of the command line override the file.", "",
             "Sizes are written as `64MiB`, durations as `5s` or `200ms`. `a.b` is the key `b` below `a`; `a[].b` is the "
             "key `b` of each item of the list `a`.", ""]
    for kind, example in CONFIGURATIONS.items():
        lines += [f"## {kind}", "", f"Example: [{example}](../../{example}).", "", *table(keys, kind, meanings), ""]
    return "\n".join(lines)


def objects_page(keys, policies, meanings):
    lines = ["# Objects", "", "This page is for operators who write objects. It is generated from mccs-controller, "
             "which reads them. [Write objects](../operators/objects.md) has an example.", "",
             "Rates are written as `25Gbit/s`, sizes as `64MiB`. `a.b` is the field `b` below `a`; `a[].b` is the field "
             "`b` of each item of the list `a`. An unknown field is an error with line and column.", ""]
    kinds = [kind for kind in dict.fromkeys(each[0] for each in keys) if kind not in CONFIGURATIONS]
    for kind in kinds:
        lines += [f"## {kind}", "", *table(keys, kind, meanings), ""]
        if kind == "Policy":
            lines += ["Types of policies, and the parameters of each:", "", "| type | effect | parameters |", "|---|---|---|"]
            for policy, effect, parameters, required in policies:
                names = [f"`{name}` (required)" if name in required.split() else f"`{name}`" for name in parameters.split()]
                lines.append(f"| `{policy}` | {effect} | {', '.join(names)} |")
            lines.append("")
    return "\n".join(lines)

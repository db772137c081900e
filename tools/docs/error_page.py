"""The page of error messages, from the literals in the source that creates them."""
import pathlib
import re
import subprocess

# Component: title, directories, and how its statuses become results of NCCL (None: they do not).
COMPONENTS = [
    ("The library (libnccl.so.2)", ["shim"], "shim"),
    ("The daemon (mccsd)", ["service"], "service"),
    ("The controller and its objects", ["controller", "topology"], None),
    ("mccsctl", ["tools/mccsctl"], None),
    ("mccs-lab", ["lab"], None),
    ("Configuration files, addresses and units", ["base"], None),
]
SHORTEST = 12  # letters of a message; shorter ones are parts of others

CALL = re.compile(r"absl::(\w+)Error\(|[.>](Reject|RejectItem)\(|return (ArgumentError)\(")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# x ? "one" : "other" is a value.
CHOICE = re.compile(r'\?\s*(?:"(?:[^"\\]|\\.)*"\s*)+:\s*(?:"(?:[^"\\]|\\.)*"\s*)+')
WRAPPERS = re.compile(r"absl::StrCat|std::string(?:_view)?|std::move")


def mapping(text, function):
    """{value: result} of the switch in a function: "case X::kValue: … return result;", "default: return result;"."""
    body = text[text.index(function):]
    body = body[:body.index("\n}\n")]
    found, waiting = {}, []
    for value, default, result in re.findall(r"case [\w:]+::k(\w+):|(default):|return (?:[\w:]+::)?(\w+)[;(]", body):
        if result:
            found.update({each: result for each in waiting})
            waiting = []
        else:
            waiting.append(value or default)
    return found


def results(root):
    """{"shim": {status: result}, "service": {status: result}}, with "default"."""
    shim = (root / "shim/daemon/error_message.cc").read_text()
    of_shim = mapping(shim, "ncclResult_t ResultOf(const absl::Status& status)")
    classes = mapping((root / "service/error_class.h").read_text(), "ErrorClass ToErrorClass(")
    statuses = mapping(shim, "absl::Status StatusOf(wire::ErrorClass error")

    def of_class(name):
        status = statuses.get(name.removeprefix("k"), "InternalError").removesuffix("Error")
        return of_shim.get(status, of_shim["default"])
    return {"shim": of_shim, "service": {status: of_class(name) for status, name in classes.items()}}


def arguments(text, start):
    """The text up to the parenthesis that closes the one before `start`."""
    depth, i = 1, start
    while depth and i < len(text):
        if text[i] == '"':
            i = STRING.match(text, i).end()
            continue
        if text[i] == "'":
            i += 4 if text[i + 1] == "\\" else 3
            continue
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        i += 1
    return text[start:i - 1]


def without_first(text, count):
    """Without the first `count` arguments."""
    for _ in range(count):
        depth, i = 0, 0
        while i < len(text) and not (text[i] == "," and depth == 0):
            i = STRING.match(text, i).end() if text[i] == '"' else i + 1
            if i < len(text) and text[i - 1] in "([{":
                depth += 1
            elif text[i - 1] in ")]}":
                depth -= 1
        text = text[i + 1:]
    return text


def message_of(text):
    """The literals in order, with "…" for everything between them."""
    text = CHOICE.sub(" value ", text)
    parts, end = [], 0
    for literal in STRING.finditer(text):
        parts += ["…"] if re.search(r"\w", WRAPPERS.sub("", text[end:literal.start()])) else []
        parts.append(literal[1].encode().decode("unicode_escape").encode("latin-1", "ignore").decode("utf-8", "ignore")
                     if "\\" in literal[1] else literal[1])
        end = literal.end()
    if parts and re.search(r"\w", WRAPPERS.sub("", text[end:])):
        parts.append("…")
    return re.sub(r"…(\s*…)+", "…", "".join(parts)).replace("\n", " ").strip()


def messages_of(path):
    """[(status, message)] of a source file."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    found = []
    for call in CALL.finditer(text):
        inside = arguments(text, call.end())
        if call[2] or call[3]:
            inside = without_first(inside, 2 if call[2] == "RejectItem" else 1)
        message = message_of(inside)
        if len(re.sub(r"\W", "", message)) >= SHORTEST:
            found.append((call[1] or "InvalidArgument", message))
    return found


def table(messages, result_of):
    lines = ["| message | result |", "|---|---|"] if result_of else ["| message |", "|---|"]
    for message, statuses in sorted(messages.items(), key=lambda each: each[0].lower()):
        shown = message.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("`", "\\`")
        if result_of:
            names = sorted({result_of.get(status, result_of["default"]) for status in statuses})
            lines.append(f"| {shown} | {', '.join(f'`{each}`' for each in names)} |")
        else:
            lines.append(f"| {shown} |")
    return lines


def page(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "*.cc",
                             "*.h"], capture_output=True, text=True, check=True).stdout.splitlines()
    lines = ["# Error messages", "", "This page is for users and operators who search for a message. It is generated "
             "from the source. \"…\" stands for a name, a number, or the message of a deeper cause. Messages are parts "
             "of longer lines: the object, the communicator or the file stands before them. The result is what a call "
             "of NCCL returns, if the message reaches a program.", ""]
    result_of = results(root)
    for title, directories, kind in COMPONENTS:
        messages = {}
        for name in sorted(listed):
            if name.startswith(tuple(f"{each}/" for each in directories)) and (root / name).is_file():
                for status, message in messages_of(pathlib.Path(root / name)):
                    messages.setdefault(message, set()).add(status)
        lines += [f"## {title}", "", *table(messages, result_of.get(kind)), ""]
    return "\n".join(lines)

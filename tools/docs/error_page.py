"""The page of error messages, from the literals in the source that creates them."""
import pathlib
import re
import subprocess

# Component: title, directories and files, and how its statuses become results of NCCL (None: they do not). The longest
# match has a file.
COMPONENTS = [
    ("The library (libnccl.so.2)", ["shim"], "shim"),
    ("The daemon (mccsd)", ["service"], "service"),
    ("The daemon's configuration, and its requests from the controller",
     ["service/config.cc", "service/machine_parts.cc", "service/agent", "service/probe"], None),
    ("The controller and its objects", ["controller", "topology"], None),
    ("mccsctl", ["tools/mccsctl"], None),
    ("mccs-lab", ["lab"], None),
    ("Configuration files, addresses and units", ["base"], None),
]
SHORTEST = 12  # letters of a message; shorter ones are parts of others

CALL = re.compile(r"absl::(\w+)Error\(|[.>](Reject|RejectItem)\(|return (ArgumentError)\(|\b(Leave)\((?=handle,\s)")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
CHARACTER = re.compile(r"'(?:[^'\\]|\\.)'")
# n == 1 ? "rank" : "ranks" is a value: readers do not search for one of both.
PLURAL = re.compile(r'== 1 \?\s*"(?:[^"\\]|\\.)*"\s*:\s*"(?:[^"\\]|\\.)*"')
NESTED_CALL = re.compile(r"(?<![\w:])([A-Z]\w*)\(")
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


def first(text):
    """The first argument."""
    depth, i = 0, 0
    while i < len(text) and not (text[i] == "," and depth == 0):
        i = STRING.match(text, i).end() if text[i] == '"' else i + 1
        if i < len(text) and text[i - 1] in "([{":
            depth += 1
        elif text[i - 1] in ")]}":
            depth -= 1
    return text[:i]


def without_first(text, count):
    """Without the first `count` arguments."""
    for _ in range(count):
        text = text[len(first(text)) + 1:]
    return text


def without_literals(text):
    """Of the same length, without the characters of literals."""
    return CHARACTER.sub(lambda each: "_" * len(each[0]), STRING.sub(lambda each: "_" * len(each[0]), text))


def find_choice(text):
    """The first "condition ? one : other" in `text`, up to the comma or bracket around it: (begin, question mark, colon,
    end); None: there is none."""
    bare = without_literals(text)
    question = bare.find("?")
    if question < 0:
        return None

    def bound(start, step, ends, closing, opening):
        """The position of the first of `ends` outside brackets."""
        i, depth = start, 0
        while 0 <= i < len(bare) and (depth or bare[i] not in ends):
            depth += {closing: 1, opening: -1}.get("(" if bare[i] in "([{" else ")" if bare[i] in ")]}" else "", 0)
            i += step
        return i
    begin = bound(question - 1, -1, ",;([{", ")", "(") + 1
    end = bound(question, 1, ",;)]}", "(", ")")
    i, depth, open_choices = question + 1, 0, 0
    while i < end:
        depth += 1 if bare[i] in "([{" else -1 if bare[i] in ")]}" else 0
        if bare.startswith("::", i):
            i += 2
            continue
        if not depth and bare[i] == "?":
            open_choices += 1
        if not depth and bare[i] == ":":
            if not open_choices:
                return begin, question, i, end
            open_choices -= 1
        i += 1
    return None


def alternatives(text):
    """The variants of `text` in which each choice has one result; the same condition always has the same one."""
    text = PLURAL.sub(" value ", text)
    choice = find_choice(text)
    if choice is None:
        return [text]
    begin, question, colon, end = choice
    condition = " ".join(text[begin:question].split())
    return [each for first in (True, False) for each in alternatives(take(text, condition, first))]


def take(text, condition, first):
    """`text` with one result of each choice on `condition`."""
    done = 0
    while (choice := find_choice(text[done:])) is not None:
        begin, question, colon, end = (done + each for each in choice)
        if " ".join(text[begin:question].split()) == condition:
            text = text[:begin] + (text[question + 1:colon] if first else text[colon + 1:end]) + text[end:]
            done = begin
        else:
            done = question + 1
    return text


def without_joins(text):
    """With a value for each StrJoin, whose separator is not a part of the message."""
    while (join := re.search(r"absl::StrJoin\(", text)) is not None:
        text = f"{text[:join.start()]} value {text[join.end() + len(arguments(text, join.end())) + 1:]}"
    return text


def without_calls(text):
    """With the parts of UnknownName's message for its call, and a value for each other call that is not a part of the
    message, such as PlaceOf(object, "metadata.name")."""
    begin = 0
    while (call := NESTED_CALL.search(without_literals(text), begin)) is not None:
        inside = arguments(text, call.end())
        end = call.end() + len(inside) + 1
        begin = call.end()
        if call[1] == "UnknownName":
            kind, name, remedy = first(inside), first(without_first(inside, 1)), without_first(inside, 3)
            text = f"{text[:call.start()]}\"unknown \", {kind}, \" '\", {name}, \"'; \", {remedy}{text[end:]}"
        elif '"' in inside:
            text = f"{text[:call.start()]} value {text[end:]}"
            begin = call.start()
    return text


def message_of(text):
    """The literals in order, with "…" for everything between them."""
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
        if call[2] or call[3] or call[4]:
            inside = without_first(inside, 2 if call[2] == "RejectItem" else 1)
        if call[4]:  # Session::Leave: why a rank leaves; its communicator's error names the rank first.
            inside = '"rank ", rank, " ",' + first(inside)
        for message in map(message_of, alternatives(without_calls(without_joins(inside)))):
            if len(re.sub(r"\W", "", message)) >= SHORTEST:
                found.append((call[1] or ("Unavailable" if call[4] else "InvalidArgument"), message))
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


def component_of(name):
    """The title of the component that has the file; None: no component has it."""
    matches = [(len(place), title) for title, places, _ in COMPONENTS for place in places
               if name == place or name.startswith(f"{place}/")]
    return max(matches)[1] if matches else None


def page(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "*.cc",
                             "*.h"], capture_output=True, text=True, check=True).stdout.splitlines()
    lines = ["# Error messages", "", "This page is for users and operators who search for a message. It is generated "
             "from the source. \"…\" stands for a name, a number, or the message of a deeper cause. Messages are parts "
             "of longer lines: a prefix names the object, communicator or file. The result is what a call of NCCL "
             "returns, if the message reaches a program.", ""]
    result_of = results(root)
    for title, _, kind in COMPONENTS:
        messages = {}
        for name in sorted(listed):
            if component_of(name) == title and (root / name).is_file():
                for status, message in messages_of(pathlib.Path(root / name)):
                    messages.setdefault(message, set()).add(status)
        lines += [f"## {title}", "", *table(messages, result_of.get(kind)), ""]
    return "\n".join(lines)

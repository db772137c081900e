"""MkDocs hook: shows files of the repository that pages link to, and indents lists as MkDocs expects.

A page links to a file outside docs/, for example ../deploy/examples/mccsd.yaml, with the path that is correct in the
repository. The site gets a page for each such file, below source/, and the links lead there. So the site needs no
other server.
"""
import os
import pathlib
import posixpath
import re
import subprocess

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?(?:\s[^)]*)?\))")
LANGUAGES = {".yaml": "yaml", ".h": "cpp", ".cc": "cpp", ".py": "python", ".sh": "sh", ".proto": "protobuf"}


def outside(page, target):
    """The path in the repository that a link of a page leads to, if it is outside docs/ and exists."""
    if "://" in target or target.startswith("mailto:"):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return path if not path.startswith(("docs/", "..")) and path != "docs" and (ROOT / path).exists() else None


def page_of(path):
    return f"source/{path}/index.md" if (ROOT / path).is_dir() else f"source/{path}.md"


def children(directory):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", directory], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if posixpath.dirname(name) == directory]


def file_page(path):
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    fence = "`````"
    return f"# {path}\n\n{fence}{LANGUAGES.get(pathlib.Path(path).suffix, 'text')}\n{text}{fence}\n"


def directory_page(path):
    lines = [f"- [{posixpath.basename(name)}]({posixpath.basename(name)}.md)" for name in children(path)]
    return f"# {path}\n\n" + "\n".join(lines) + "\n"


def linked_paths(files):
    paths = set()
    for file in files.documentation_pages():
        text = pathlib.Path(file.abs_src_path).read_text()
        paths |= {found for _, target, _ in LINK.findall(text) if (found := outside(file.src_uri, target))}
    return paths | {child for path in paths if (ROOT / path).is_dir() for child in children(path)}


def with_wide_lists(markdown):
    """Indents what belongs to an item of a list by four columns, and puts empty lines before lists and between items
    with several paragraphs: Python-Markdown needs both, other renderers do not."""
    lines, in_list, several, fence_shift = [], False, False, None
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        shift = 4 - indent if in_list and 0 < indent < 4 else 0
        if fence_shift is not None:
            shift = fence_shift if text else 0
        elif re.match(r"([-*]|\d+\.) ", line):
            after_text = not in_list and lines and not lines[-1].startswith("#")
            if (several or after_text) and lines[-1].strip():
                lines.append("")
            in_list, several = True, False
        elif not text:
            several = in_list
        elif indent == 0 and (several or text.startswith(("#", "|"))):
            in_list = several = False
        if text.startswith("```"):
            fence_shift = shift if fence_shift is None else None
        lines.append(" " * shift + line)
    return "\n".join(lines)


def on_files(files, config):
    for path in sorted(linked_paths(files)):
        text = directory_page(path) if (ROOT / path).is_dir() else file_page(path)
        files.append(File.generated(config, page_of(path), content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    original = here.removeprefix("source/").removesuffix(".md")
    is_copy = here.startswith("source/") and original.endswith(".md")

    def lead(match):
        start, target, end = match.groups()
        if is_copy:  # The links of a copied page are relative to its place in the repository.
            path = posixpath.normpath(posixpath.join(posixpath.dirname(original), target))
            if "://" in target or not (ROOT / path).exists():
                return match.group(0)
            new = path.removeprefix("docs/") if path.startswith("docs/") else page_of(path)
            if files.get_file_from_path(new) is None:  # A file that no page of docs/ links to: keep its name only.
                return f"]({posixpath.basename(here)})"
        else:
            path = outside(here, target)
            if path is None:
                return match.group(0)
            new = page_of(path)
        return start + os.path.relpath(new, posixpath.dirname(here) or ".") + end

    return LINK.sub(lead, with_wide_lists(markdown))

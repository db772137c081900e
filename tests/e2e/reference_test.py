#!/usr/bin/env python3
"""The generated pages and the manual pages are those of the programs."""
import pathlib
import shutil
import sys
import tempfile
import unittest

from lab_world import BIN, ROOT, call, cases

sys.path.insert(0, str(ROOT / "tools/docs"))
import cli_help  # noqa: E402
import generate_reference  # noqa: E402
import key_pages  # noqa: E402

REMEDY = "run tools/docs/generate_reference.py and commit docs/reference/"


class Reference(unittest.TestCase):
    def assert_current(self, pages):
        for name, text in pages.items():
            with self.subTest(name):
                self.assertEqual(generate_reference.difference(name, text), "", REMEDY)

    def test_pages_of_commands(self):
        self.assert_current(generate_reference.command_pages(BIN))

    def test_every_key_and_field_has_a_meaning(self):
        keys, _ = key_pages.read_keys(BIN)
        self.assertGreater(len(keys), 100)
        self.assertEqual(key_pages.find_differences(keys, key_pages.read_meanings()), [])
        self.assertEqual(key_pages.find_differences([*keys, ("Tenant", "spec.new", "", "", "")], key_pages.read_meanings()),
                         ["meanings.txt: no meaning of Tenant spec.new"])

    def test_pages_of_keys_and_fields(self):
        self.assert_current(generate_reference.pages_of_keys(BIN))

    def test_page_of_error_messages(self):
        self.assert_current(generate_reference.pages_of_errors())

    def test_page_of_metrics(self):
        self.assert_current(generate_reference.page_of_metrics())

    def test_examples_of_configuration_have_every_key(self):
        keys, _ = key_pages.read_keys(BIN)
        for kind, example in key_pages.CONFIGURATIONS.items():
            text = (ROOT / example).read_text()
            names = {path.split(".")[-1].removesuffix("[]") for format_, path, *_ in keys
                     if format_ == kind and not path.startswith("dscp.")}
            self.assertEqual({name for name in names if f"{name}:" not in text}, set(), f"{example} lacks keys")


class Pictures(unittest.TestCase):
    def test_pictures_are_those_of_the_script(self):
        with tempfile.TemporaryDirectory() as directory:
            call(sys.executable, ROOT / "tools/docs/draw_pictures.py", directory)
            drawn = {path.name: path.read_text() for path in pathlib.Path(directory).iterdir()}
        committed = {path.name: path.read_text() for path in (ROOT / "docs/pictures").glob("*.svg")}
        self.assertEqual(drawn, committed, "run tools/docs/draw_pictures.py and commit docs/pictures/")


class ManualPages(unittest.TestCase):
    def test_manual_pages_have_all_commands_and_no_warnings(self):
        with tempfile.TemporaryDirectory() as directory:
            made = call(sys.executable, ROOT / "tools/docs/man_pages.py", BIN, directory)
            self.assertEqual(made.returncode, 0, made.stderr)
            for name, section in cli_help.PROGRAMS.items():
                page = pathlib.Path(directory, f"man{section}", f"{name}.{section}")
                text = page.read_text().replace("\\-", "-")
                for command in cli_help.flat(cli_help.read_command(BIN / name)):
                    self.assertIn(command.name, text)
                if shutil.which("groff"):
                    checked = call("groff", "-man", "-Tutf8", "-ww", "-K", "utf-8", "-z", page)
                    self.assertEqual(checked.stderr, "")


if __name__ == "__main__":
    cases.main()

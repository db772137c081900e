#!/usr/bin/env python3
"""The systemd units and the AppArmor profile: valid, with few privileges, and each privilege explained."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

UNITS = ROOT / "deploy/systemd"
PROFILE = ROOT / "deploy/apparmor/mccsd"
PAGE = ROOT / "docs/operators/privileges.md"
# Of `systemd-analyze security`: 0 is the least, 10 the most.
HIGHEST_EXPOSURE = {"mccs-controller.service": 2.5, "mccsd.service": 5.0}


def tool(name, *arguments, stdin=""):
    """Runs a program of the system. Skips the test with a message if it is missing."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return subprocess.run([path, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=120)


def setting(unit, key):
    """The words of all lines of `key` in a unit."""
    lines = re.findall(rf"^{key}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)
    return [word for line in lines for word in line.split()]


class Units(unittest.TestCase):
    def test_the_exposure_is_low(self):
        for unit, highest in HIGHEST_EXPOSURE.items():
            with self.subTest(unit=unit):
                result = tool("systemd-analyze", "security", "--no-pager", "--offline=true", UNITS / unit)
                if "unrecognized option" in result.stderr:
                    self.skipTest("systemd-analyze is older than systemd 250")
                figure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", result.stdout)
                self.assertIsNotNone(figure, result.stdout + result.stderr)
                print(f"{unit}: exposure {figure[1]}, at most {highest}")
                self.assertLessEqual(float(figure[1]), highest, result.stdout)

    def test_systemd_understands_each_line(self):
        for unit in HIGHEST_EXPOSURE:
            with self.subTest(unit=unit), tempfile.TemporaryDirectory() as directory:
                # The program and its user are not on this machine.
                text = re.sub("(?m)^ExecStart=.*$", "ExecStart=/bin/true", (UNITS / unit).read_text())
                copy = pathlib.Path(directory, unit)
                copy.write_text(text)
                result = tool("systemd-analyze", "verify", "--no-pager", copy)
                problems = [line for line in result.stderr.splitlines() if unit in line]
                self.assertEqual(problems, [])
                copy.write_text(text.replace("UMask=", "Umask="))
                self.assertIn("Umask", tool("systemd-analyze", "verify", "--no-pager", copy).stderr, "it finds mistakes")

    def test_a_stuck_program_is_restarted_without_a_limit(self):
        for unit in HIGHEST_EXPOSURE:
            self.assertGreater(int(*setting(unit, "WatchdogSec")), 0)
            self.assertEqual(setting(unit, "StartLimitIntervalSec"), ["0"])
            self.assertEqual(setting(unit, "Restart"), ["on-failure"])
            self.assertLess(int(*setting(unit, "OOMScoreAdjust")), 0)
            self.assertEqual(setting(unit, "ExecReload"), ["kill", "-HUP", "$MAINPID"])

    def test_no_unit_runs_as_root(self):
        users = re.findall(r"(?m)^u\s+(\S+)", (UNITS / "mccs.sysusers.conf").read_text())
        for unit in HIGHEST_EXPOSURE:
            user, = setting(unit, "User")
            self.assertIn(user, users)

    def test_systemd_would_create_the_users(self):
        text = (UNITS / "mccs.sysusers.conf").read_text()
        result = tool("systemd-sysusers", "--dry-run", "-", stdin=text)
        if "unrecognized option" in result.stderr:
            self.skipTest("systemd-sysusers is older than systemd 250")
        self.assertEqual(result.returncode, 0, result.stderr)
        broken = text.replace("MCCS daemon", "MCCS: daemon")  # a colon separates fields of /etc/passwd
        self.assertNotEqual(tool("systemd-sysusers", "--dry-run", "-", stdin=broken).returncode, 0, "it finds mistakes")

    def test_the_page_explains_each_privilege(self):
        page = PAGE.read_text()
        profile = PROFILE.read_text()
        capabilities = setting("mccsd.service", "CapabilityBoundingSet")
        self.assertGreater(len(capabilities), 0)
        self.assertEqual(capabilities, setting("mccsd.service", "AmbientCapabilities"))
        self.assertEqual(setting("mccs-controller.service", "CapabilityBoundingSet"), [])
        for capability in capabilities:
            self.assertIn(f"`{capability}`", page)
            self.assertIn(f"capability {capability.removeprefix('CAP_').lower()},", profile)
        self.assertEqual(len(re.findall(r"(?m)^\s*capability ", profile)), len(capabilities))
        for device in setting("mccsd.service", "DeviceAllow"):
            if device != "rw":
                self.assertIn(f"`{device}`", page)
        for unit in HIGHEST_EXPOSURE:
            for family in setting(unit, "RestrictAddressFamilies"):
                self.assertIn(f"`{family}`", page)


class Profile(unittest.TestCase):
    def test_apparmor_understands_it(self):
        result = tool("apparmor_parser", "--skip-kernel-load", "--skip-cache", PROFILE)
        self.assertEqual(result.returncode, 0, result.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".profile") as broken:
            broken.write(PROFILE.read_text().replace("capability net_raw,", "capability net_rwa,"))
            broken.flush()
            result = tool("apparmor_parser", "--skip-kernel-load", "--skip-cache", broken.name)
            self.assertNotEqual(result.returncode, 0, "it finds mistakes")


if __name__ == "__main__":
    cases.main()

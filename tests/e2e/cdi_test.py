#!/usr/bin/env python3
"""`mccsd --print-cdi`: its output against the schema of CDI specifications, and what containers get."""
import json
import pathlib
import re
import tempfile
import unittest

from lab_world import call, cases, program

SCHEMA = json.loads((pathlib.Path(__file__).parent / "cdi_schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str}


def faults(value, schema, place="$"):
    """Where `value` differs from `schema`: the part of JSON Schema that cdi_schema.json uses."""
    if "$ref" in schema:
        return faults(value, SCHEMA["definitions"][schema["$ref"]], place)
    if not isinstance(value, TYPES[schema["type"]]):
        return [f"{place} is not of type {schema['type']}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} is {value!r}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place} is {value!r}, which does not match {schema['pattern']}")
    if schema["type"] == "array":
        if len(value) < schema.get("minItems", 0):
            found.append(f"{place} has too few items")
        for index, item in enumerate(value):
            found += faults(item, schema["items"], f"{place}[{index}]")
    if schema["type"] == "object":
        found += [f"{place} has no {key}" for key in schema.get("required", ()) if key not in value]
        for key, item in value.items():
            if key in schema["properties"]:
                found += faults(item, schema["properties"][key], f"{place}.{key}")
            else:
                found.append(f"{place} has the unknown key {key}")
    return found


class PrintCdi(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mccs-cdi-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def keep_tenants(self, *tenants):
        """Writes the daemon's table: agent.Tenants of proto/agent.proto."""
        def field(number, content):
            return bytes([number << 3 | 2, len(content)]) + content
        table = b"".join(field(1, field(1, name.encode()) + b"".join(field(8, field(1, path.encode())) for path in paths))
                         for name, paths in tenants)
        (self.directory / "tenants.table").write_bytes(f"mccs-tenants 1 {len(table)}\n".encode() + table)

    def print(self, *flags, **config):
        file = self.directory / "mccsd.yaml"
        file.write_text(json.dumps({"state_dir": str(self.directory), **config}))
        return call(program("mccsd"), "--config", file, "--print-cdi", *flags)

    def devices(self, *flags, **config):
        """By name; each as its environment and its mounts, source by target."""
        output = self.print(*flags, **config)
        self.assertEqual(output.returncode, 0, output.stderr)
        spec = json.loads(output.stdout)
        self.assertEqual(faults(spec, SCHEMA), [])
        self.assertEqual(spec["kind"], "mccs/socket")
        names = [device["name"] for device in spec["devices"]]
        self.assertEqual(len(names), len(set(names)), names)
        devices = {}
        for device in spec["devices"]:
            edits = device["containerEdits"]
            self.assertTrue(all("ro" in mount["options"] for mount in edits["mounts"]))
            devices[device["name"]] = (dict(each.split("=", 1) for each in edits["env"]),
                                       {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]})
        return devices

    def test_every_socket_is_a_device(self):
        devices = self.devices(socket="/run/mccs/mccsd.sock", socket_dir="/run/mccs/tenants",
                               sockets=[{"path": "/run/mccs/a.sock", "tenant": "team a"},
                                        {"path": "/srv/b/mccsd.sock", "tenant": "b"},
                                        {"path": "/srv/b2.sock", "tenant": "b"}])
        self.assertEqual(sorted(devices), ["b", "b:2", "default", "team_a"])
        environment, mounts = devices["default"]
        self.assertEqual(environment["MCCS_SOCKET"], "/run/mccs/mccsd.sock")
        self.assertEqual(environment["LD_PRELOAD"],
                         "/opt/mccs/lib/libmccs-free-hooks.so:/opt/mccs/lib/libnccl.so.2")
        # A directory with sockets of others is not visible in the container.
        self.assertEqual(mounts, {"/run/mccs/mccsd.sock": "/run/mccs/mccsd.sock", "/opt/mccs/lib": "/opt/mccs/lib"})
        self.assertEqual(devices["team_a"][1]["/run/mccs/a.sock"], "/run/mccs/a.sock")
        self.assertEqual(devices["team_a"][0]["MCCS_SOCKET"], "/run/mccs/a.sock")
        self.assertEqual(devices["b"][1]["/run/mccs/mccsd.sock"], "/srv/b/mccsd.sock")
        self.assertEqual(devices["b:2"][1]["/run/mccs/b2.sock"], "/srv/b2.sock")

    def test_a_directory_of_one_socket_is_mounted(self):
        """The socket in it changes when mccsd restarts; a container then has the new one."""
        self.keep_tenants(("a", ["a/mccsd.sock"]), ("b", ["b.sock"]), ("c", ["c/1.sock", "c/2.sock"]),
                          ("d", ["d/d.sock"]), ("e", ["d/deep/e.sock"]))
        devices = self.devices(socket="", socket_dir="/srv/t")
        self.assertEqual(sorted(devices), ["a", "b", "c", "c:2", "d", "e"])
        self.assertEqual(devices["a"][1]["/run/mccs"], "/srv/t/a")
        self.assertEqual(devices["a"][0]["MCCS_SOCKET"], "/run/mccs/mccsd.sock")
        self.assertEqual(devices["e"][1]["/run/mccs"], "/srv/t/d/deep")
        for name, path in (("b", "b.sock"), ("c", "c/1.sock"), ("c:2", "c/2.sock"), ("d", "d/d.sock")):
            self.assertEqual(devices[name][1]["/run/mccs/" + path.rpartition("/")[2]], "/srv/t/" + path)

    def test_names_of_devices_are_unique_and_valid(self):
        """CDI rejects the whole file for one name that it has twice, or that ends with a dot."""
        self.keep_tenants(("a", ["a/1.sock", "a/2.sock"]), ("a-2", ["b/1.sock"]), ("default", ["c/1.sock"]), ("d.", ["d/1.sock"]))
        devices = self.devices(socket="/run/mccs/mccsd.sock", socket_dir="/srv/t",
                               sockets=[{"path": "/run/mccs/1.sock", "tenant": "a:2"},
                                        {"path": "/run/mccs/2.sock", "tenant": "-a"}])
        self.assertEqual({name: environment["MCCS_SOCKET"] + " " + next(iter(mounts.values()))
                          for name, (environment, mounts) in devices.items()},
                         {"a": "/run/mccs/1.sock /srv/t/a/1.sock", "a:2": "/run/mccs/2.sock /srv/t/a/2.sock",
                          "a-2": "/run/mccs/1.sock /srv/t/b", "a_2": "/run/mccs/1.sock /run/mccs/1.sock",
                          "0-a": "/run/mccs/2.sock /run/mccs/2.sock", "default": "/run/mccs/1.sock /srv/t/c",
                          "default:2": "/run/mccs/mccsd.sock /run/mccs/mccsd.sock", "d.:1": "/run/mccs/1.sock /srv/t/d"})

    def test_the_libraries_may_be_elsewhere(self):
        environment, mounts = self.devices("--library-dir", "/usr/lib/mccs")["default"]
        self.assertIn("/usr/lib/mccs/libnccl.so.2", environment["LD_PRELOAD"])
        self.assertEqual(mounts["/usr/lib/mccs"], "/usr/lib/mccs")

    def test_a_damaged_table_and_no_socket_are_errors(self):
        self.assertIn("this host has no sockets", self.print(socket="").stderr)
        (self.directory / "tenants.table").write_text("mccs-tenants 1 7\n")
        output = self.print()
        self.assertEqual(output.returncode, 1)
        self.assertIn("is not a complete table of Tenants", output.stderr)

    def test_the_schema_finds_faults(self):
        good = {"cdiVersion": "0.5.0", "kind": "mccs/socket", "devices": [{"name": "a", "containerEdits": {}}]}
        self.assertEqual(faults(good, SCHEMA), [])
        for change in ({"kind": "socket"}, {"devices": []}, {"cdiVersion": 1}, {"more": 1},
                       {"devices": [{"name": "a b", "containerEdits": {}}]},
                       {"devices": [{"name": "a", "containerEdits": {"env": ["X"]}}]},
                       {"devices": [{"name": "a", "containerEdits": {"mounts": [{"hostPath": "/x"}]}}]}):
            self.assertNotEqual(faults({**good, **change}, SCHEMA), [], change)


if __name__ == "__main__":
    cases.main()

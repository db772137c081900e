#!/usr/bin/env python3
"""A lab over network namespaces: reachability, rates, paths, and complete removal."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from lab_world import ROOT, Lab, Running, cases, environment, eventually, foreign_environment, program

TESTBED = ROOT / "tests/testbeds/mccs.yaml"
FLOW = [sys.executable, str(pathlib.Path(__file__).with_name("flow.py"))]
PORT = 5000
# From linux/prctl.h and linux/capability.h.
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21
# Bytes allowed besides a flow: handshakes, acknowledgements, address resolution.
SMALL = 20_000


def users_of(namespaces):
    """The processes in one of these network namespaces."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "ns/net") in namespaces:
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue  # it has ended
    return found


def devices_here():
    return {line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]}


class NetworkLab(Lab):
    """A lab of the testbed, or of the topology in `text`."""

    def __init__(self, text=None, name="net"):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text or TESTBED.read_text())
            file.flush()
            super().__init__(name=name, topology=file.name)

    def described(self):
        lab, = json.loads(self.command("status", "-o", "json").stdout)
        return lab

    def namespaces(self):
        return {os.readlink(f"/proc/{node['pid']}/ns/net") for node in self.described()["nodes"]}

    def links(self):
        """The line of each direction, by (from, to)."""
        shown = self.command("links", "-o", "json")
        assert shown.returncode == 0, shown.stderr
        return {(line["from"], line["to"]): line for line in json.loads(shown.stdout)}

    def foreign(self, host, *arguments):
        return self.exec(host, *arguments, env=foreign_environment())

    def receiver(self, host, address):
        receiver = Running([program("mccs-lab"), "exec", "--name", self.name, host, "--", *FLOW, "receive",
                            address, str(PORT)], foreign_environment())
        assert receiver.has_printed("ready"), receiver.output
        return receiver

    def send(self, host, source, port, destination, count):
        """Sends `count` bytes and returns the seconds that it took."""
        sent = self.foreign(host, *FLOW, "send", source, port, destination, PORT, count)
        assert sent.returncode == 0, sent.stderr + sent.stdout
        return float(sent.stdout)

    def endless(self, host, source, port, destination):
        return Running([program("mccs-lab"), "exec", "--name", self.name, host, "--", *FLOW, "send", source,
                        str(port), destination, str(PORT), "0"], foreign_environment())

    def spines_of(self, port, count=100_000):
        """The spines that a flow from h1 to h2 with this source port uses."""
        before = self.links()
        self.send("h1", "10.0.0.1", port, "10.0.1.1", count)
        after = self.links()
        moved = {spine: after["leaf0", spine]["bytes"] - before["leaf0", spine]["bytes"]
                 for spine in ("spine0", "spine1")}
        return {spine for spine, grown in moved.items() if grown > count // 2}


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = NetworkLab()

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    def test_every_nic_reaches_every_nic_of_other_hosts(self):
        nics = {"h1": ["10.0.0.1", "10.0.0.2"], "h5": ["10.0.0.3", "10.0.0.4"],
                "h2": ["10.0.1.1", "10.0.1.2"], "h3": ["10.0.1.3", "10.0.1.4"]}
        before = self.lab.links()
        with contextlib.ExitStack() as receivers:
            for host in nics:
                receivers.enter_context(self.lab.receiver(host, "0.0.0.0"))
            for host, sources in nics.items():
                others = [address for other, addresses in nics.items() if other != host for address in addresses]
                for source in sources:
                    met = self.lab.foreign(host, *FLOW, "meet", source, PORT, *others)
                    self.assertEqual(met.returncode, 0, met.stderr)
        after = self.lab.links()
        # Packets from a NIC's address leave through that NIC.
        for link, line in after.items():
            if "nic" in line["link"]:
                self.assertGreater(line["bytes"], before[link]["bytes"] + 500, link)

    def test_hosts_know_each_other_and_themselves_by_name(self):
        with self.lab.receiver("h3", "10.0.1.3"):
            self.lab.send("h1", "h1", 0, "h3", 10)
        own = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))"
        self.assertEqual(self.lab.foreign("h5", sys.executable, "-c", own).stdout, "h5 10.0.0.3\n")
        self.assertIn("p3", self.lab.foreign("leaf0", "ls", "/sys/class/net").stdout)
        self.assertIn("'h9'; it has controller, leaf0", self.lab.exec("h9", "true").stderr)

    def test_a_flow_gets_no_more_than_its_links_rate(self):
        count = 4_000_000
        with self.lab.receiver("h2", "10.0.1.1"):
            seconds = self.lab.send("h1", "10.0.0.1", 61500, "10.0.1.1", count)
        # Links allow short bursts. No upper bound: a busy machine may take any time.
        self.assertGreater(seconds, 0.8 * count * 8 / 100e6)

    def test_a_slower_link_carries_less(self):
        self.assertEqual(self.lab.command("link", "rate", "leaf0", "spine1", "20Mbit/s").returncode, 0)
        try:
            links = self.lab.links()
            self.assertEqual(links["leaf0", "spine1"]["rate_bps"], 20_000_000)
            self.assertEqual(links["spine1", "leaf0"]["rate_bps"], 20_000_000)
            self.assertEqual(links["leaf0", "spine0"]["rate_bps"], 100_000_000)
            # Two flows without common links, until the slower one has sent enough.
            with self.lab.receiver("h2", "0.0.0.0"), self.lab.endless("h1", "10.0.0.1", 61000, "10.0.1.1"), \
                    self.lab.endless("h1", "10.0.0.2", 63000, "10.0.1.2"):
                def moved(spine):
                    return self.lab.links()["leaf0", spine]["bytes"] - links["leaf0", spine]["bytes"]
                self.assertTrue(eventually(lambda: moved("spine1") > 2_000_000))
                self.assertGreater(moved("spine0"), 2.5 * moved("spine1"))
        finally:
            self.assertEqual(self.lab.command("link", "rate", "leaf0", "spine1", "100Mbit/s").returncode, 0)

    def test_port_rules_pin_flows_to_spines(self):
        with self.lab.receiver("h2", "10.0.1.1"):
            for port in (61000, 61777, 62999):
                self.assertEqual(self.lab.spines_of(port), {"spine0"}, port)
            for port in (63000, 64123, 64999):
                self.assertEqual(self.lab.spines_of(port), {"spine1"}, port)

    def test_flows_leave_a_link_that_is_down_and_come_back(self):
        with self.lab.receiver("h2", "10.0.1.1"):
            down = self.lab.command("link", "down", "spine1", "leaf0")
            self.assertEqual(down.returncode, 0, down.stderr)
            try:
                self.assertEqual(self.lab.links()["leaf0", "spine1"]["state"], "down")
                self.assertEqual(self.lab.links()["spine1", "leaf0"]["state"], "down")
                self.assertEqual(self.lab.spines_of(63001), {"spine0"})
            finally:
                self.assertEqual(self.lab.command("link", "up", "leaf0-spine1").returncode, 0)
            self.assertEqual(self.lab.links()["leaf0", "spine1"]["state"], "up")
            self.assertEqual(self.lab.spines_of(63002), {"spine1"})

    def test_a_nic_that_was_down_works_again(self):
        with self.lab.receiver("h2", "10.0.1.1"):
            self.assertEqual(self.lab.command("link", "down", "h1/nic0", "leaf0").returncode, 0)
            try:
                rejected = self.lab.foreign("h1", *FLOW, "send", "10.0.0.1", 0, "10.0.1.1", PORT, 10)
                self.assertIn("No route to host", rejected.stderr)
                self.lab.send("h1", "10.0.0.2", 0, "10.0.1.1", 10)
            finally:
                self.assertEqual(self.lab.command("link", "up", "h1/nic0", "leaf0").returncode, 0)
            self.lab.send("h1", "10.0.0.1", 0, "10.0.1.1", 10)

    def test_unknown_links_are_rejected(self):
        self.assertIn("no link between 'leaf0' and 'leaf1'",
                      self.lab.command("link", "down", "leaf0", "leaf1").stderr)
        self.assertIn("name one of h1/nic0-leaf0, h1/nic1-leaf0",
                      self.lab.command("link", "down", "h1", "leaf0").stderr)
        self.assertIn("invalid rate 'fast'", self.lab.command("link", "rate", "leaf0", "spine0", "fast").stderr)

    def test_a_switch_answers_probes_by_its_own_address(self):
        probe = self.lab.foreign("h1", sys.executable, "-c", """
import select, socket
IP_RECVERR = 11
for ttl in (1, 2, 3):
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    probe.bind(("10.0.0.1", 63500))
    probe.setsockopt(socket.SOL_IP, IP_RECVERR, 1)
    probe.setsockopt(socket.SOL_IP, socket.IP_TTL, ttl)
    probe.sendto(b"?", ("10.0.1.1", 4791))
    poll = select.poll()
    poll.register(probe, 0)
    assert poll.poll(30000), ttl
    _, ancillary, _, _ = probe.recvmsg(512, 512, socket.MSG_ERRQUEUE)
    print(socket.inet_ntoa(ancillary[0][2][20:24]))
    probe.close()
""")
        names = {address: name for address, name in
                 (line.split() for line in self.lab.foreign("h1", "cat", "/etc/hosts").stdout.splitlines())}
        hops = [names.get(hop, hop) for hop in probe.stdout.split()]
        self.assertEqual(hops, ["leaf0", "spine1", "leaf1"], probe.stderr)

    def test_an_all_reduce_of_unmodified_programs_crosses_the_spines(self):
        before = self.lab.links()
        done = self.lab.run(program("collective_perf"), "--op", "all_reduce", "--min", "1M", "--max", "1M",
                            "--iters", "2", "--warmup", "0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.lab.logs())
        after = self.lab.links()
        crossed = sum(after[link]["bytes"] - before[link]["bytes"]
                      for link in after if link[0].startswith("leaf") and link[1].startswith("spine"))
        self.assertGreater(crossed, 2 * 1_000_000)

    def test_ranks_run_on_chosen_hosts_in_the_order_asked_for(self):
        shown = self.lab.run("/bin/sh", "-c", "echo $(hostname) $MASTER_ADDR", options=("--hosts", "h2,h1"),
                             env=foreign_environment())
        self.assertEqual(sorted(shown.stdout.splitlines()),
                         [f"[{rank}] {host} 172.31.0.4" for rank, host in enumerate(["h2", "h2", "h1", "h1"])])

    def test_the_controller_is_reached_from_every_host(self):
        for host in ("h1", "h2", "h3", "h5"):
            shown = self.lab.exec(host, program("mccsctl"), "get", "hosts")
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("h5", shown.stdout)

    def test_the_controller_has_the_labs_topology(self):
        again = self.lab.exec("h1", program("mccsctl"), "apply", "-f", TESTBED)
        self.assertEqual((again.returncode, again.stdout), (0, "topology/mccs unchanged\n"), again.stderr)


class Hash(unittest.TestCase):
    def test_a_fixed_seed_maps_a_source_port_to_the_same_path(self):
        text = TESTBED.read_text()
        text = text[:text.index("  source_ports:")] + """
  source_ports:
    mapping: hash
    hash: {name: linux-multipath, seed: 7,
           fields: [source_address, destination_address, protocol, source_port, destination_port]}
"""
        ways = []
        for _ in range(2):
            with NetworkLab(text, name="hash") as lab, lab.receiver("h2", "10.0.1.1"):
                ways.append([lab.spines_of(port) for port in [*range(61000, 61008), 61000]])
        self.assertEqual(ways[0], ways[1])
        self.assertEqual(ways[0][0], ways[0][-1])
        self.assertTrue(all(len(way) == 1 for way in ways[0]), ways)
        self.assertEqual(set.union(*ways[0]), {"spine0", "spine1"})


class Leftovers(unittest.TestCase):
    def expect_nothing_left(self, lab, namespaces):
        self.assertTrue(eventually(lambda: not users_of(namespaces), timeout=20), users_of(namespaces))
        self.assertTrue(eventually(lambda: not lab.directory.exists(), timeout=20))

    def test_down_leaves_nothing_behind(self):
        with NetworkLab() as lab, lab.receiver("h2", "10.0.1.1"):
            namespaces = lab.namespaces()
            self.assertEqual(len(namespaces), 9)
            self.assertGreater(len(users_of(namespaces)), 9)
            self.assertFalse(devices_here() & {"nic0", "nic1", "mgmt", "bridge0", "p0"})
            self.assertEqual(lab.down().returncode, 0)
        self.expect_nothing_left(lab, namespaces)

    def test_the_death_of_its_supervisor_leaves_nothing_behind(self):
        with NetworkLab() as lab, lab.receiver("h2", "10.0.1.1"):
            namespaces = lab.namespaces()
            os.kill(lab.described()["supervisor_pid"], signal.SIGKILL)
            self.expect_nothing_left(lab, namespaces)

    def test_killing_supervisor_and_launcher_leaves_nothing_behind(self):
        with NetworkLab() as lab, lab.receiver("h2", "10.0.1.1"):
            namespaces = lab.namespaces()
            described = lab.described()
            supervisor = described["supervisor_pid"]
            launcher = int(re.search(r"PPid:\t(\d+)", pathlib.Path(
                f"/proc/{described['daemons'][0]['pid']}/status").read_text())[1])
            os.kill(supervisor, signal.SIGSTOP)  # so that it cannot clean up before it is killed
            os.kill(launcher, signal.SIGKILL)
            os.kill(supervisor, signal.SIGKILL)
            self.assertTrue(eventually(lambda: not users_of(namespaces), timeout=20), users_of(namespaces))
            lab.command("status")  # removes the directory
            self.expect_nothing_left(lab, namespaces)

    def test_two_labs_are_independent(self):
        with NetworkLab(name="one") as one, NetworkLab(name="two") as two:
            with one.receiver("h2", "10.0.1.1"), two.receiver("h2", "10.0.1.1"):
                before = two.links()
                one.send("h1", "10.0.0.1", 61000, "10.0.1.1", 1_000_000)
                after = two.links()
                self.assertLess(after["leaf0", "spine0"]["bytes"] - before["leaf0", "spine0"]["bytes"], SMALL)
                one.down()
                two.send("h1", "10.0.0.1", 61000, "10.0.1.1", 10)


class Rejections(unittest.TestCase):
    def up(self, *arguments, **options):
        return subprocess.run([program("mccs-lab"), "up", "--name", f"rejected-{os.getpid()}", *arguments],
                              capture_output=True, text=True, env=environment(), timeout=60, **options)

    def test_without_root_it_says_so_and_exits_77(self):
        def drop_privilege():
            if os.geteuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) != 0:
                os._exit(99)
        rejected = self.up("--topology", str(TESTBED), "--network", "namespaces", preexec_fn=drop_privilege)
        self.assertEqual(rejected.returncode, 77, rejected.stderr)
        self.assertRegex(rejected.stderr, "root|iproute2")

    def test_an_invalid_topology_is_rejected_with_positions(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(TESTBED.read_text().replace("switch: leaf1", "switch: leaf7"))
            file.flush()
            for network in ("namespaces", "processes"):
                rejected = self.up("--topology", file.name, "--network", network)
                self.assertEqual(rejected.returncode, 1)
                self.assertRegex(rejected.stderr, r"\.yaml:\d+:\d+: .*leaf7")

    def test_a_network_needs_a_topology(self):
        self.assertIn("--topology FILE", self.up("--network", "namespaces").stderr)

    def test_virtual_machines_have_no_topology_and_are_at_most_four(self):
        with_topology = self.up("--network", "rdma-vms", "--topology", str(TESTBED))
        self.assertEqual(with_topology.returncode, 1)
        self.assertIn("has no topology", with_topology.stderr)
        five = self.up("--network", "rdma-vms", "--hosts", "5")
        self.assertEqual(five.returncode, 1)
        self.assertIn("at most 4 virtual machines", five.stderr)

    def test_without_qemu_it_names_the_packages_and_exits_77(self):
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "python3").symlink_to(sys.executable)
            line = [program("mccs-lab"), "up", "--name", f"rejected-{os.getpid()}", "--network", "rdma-vms"]
            rejected = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False,
                                      env=environment() | {"PATH": directory})
        self.assertEqual(rejected.returncode, 77, rejected.stderr)
        self.assertRegex(rejected.stderr, r"(?m)\Amccs-lab: .*apt-get install.* qemu-system-x86'$|x86_64 processor")

    def test_a_lab_of_processes_has_hosts_of_a_topology_but_no_links(self):
        with Lab(topology=TESTBED, network="processes") as lab:
            self.assertEqual(list(lab.daemons()), ["controller", "h1", "h5", "h2", "h3"])
            self.assertEqual(lab.run("true", env=foreign_environment()).returncode, 0)
            self.assertIn("has no links", lab.command("links").stderr)
            placed = lab.exec("h1", program("mccsctl"), "get", "hosts")
            self.assertIn("r1", placed.stdout)


if __name__ == "__main__":
    cases.main()

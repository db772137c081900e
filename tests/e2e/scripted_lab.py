"""The testbed with a scripted controller instead of the lab's."""
import contextlib
import json
import os
import pathlib
import signal
import tempfile

from lab_world import ROOT, Lab, Running, environment, eventually, process_has_ended, program

TESTBED = ROOT / "tests/testbeds/mccs.yaml"
# The lab's hosts in the order of their ranks.
HOSTS = ["h1", "h5", "h2", "h3"]


class ScriptedLab(Lab):
    def __init__(self, *orders):
        super().__init__(name="scripted", topology=TESTBED)
        self._orders = tempfile.NamedTemporaryFile("w", suffix=".txtpb")
        self.order(*orders)
        controller = self.daemons()["controller"]
        os.kill(controller["pid"], signal.SIGKILL)
        assert eventually(lambda: process_has_ended(controller["pid"]))
        self.controller = Running([program("mccs-lab"), "exec", "--name", self.name, "controller", "--",
                                   program("tests/scripted_controller"), controller["endpoint"],
                                   self._orders.name, str(self.directory / "certificates/controller")], environment())
        try:
            for host in HOSTS:
                assert self.controller.has_printed(f"{host} registered"), self.controller.output
        except BaseException:
            self.down()
            raise

    def order(self, *orders):
        """Replaces the controller's orders. It does not repeat a probe request to a host."""
        new = pathlib.Path(self._orders.name + ".new")
        new.write_text("\n---\n".join(orders))
        os.replace(new, self._orders.name)  # atomic for readers

    def down(self):
        with contextlib.ExitStack() as ends:
            ends.callback(self._orders.close)
            ends.enter_context(self.controller)
            return super().down()

    def links(self):
        shown = self.command("links", "-o", "json")
        assert shown.returncode == 0, shown.stderr
        return {line["from"]: line for line in json.loads(shown.stdout) if line["from"].startswith("h")}

    def reports(self):
        """All reports of each host."""
        found = {host: [] for host in HOSTS}
        for line in self.controller.output.splitlines():
            host, _, text = line.partition(" ")
            if text.startswith("{"):
                with contextlib.suppress(json.JSONDecodeError):  # an incomplete line
                    found[host].append(json.loads(text))
        return found

    def answers(self, host):
        """The host's probe results: the flows of each probe request, by its number."""
        found = {}
        for line in self.controller.output.splitlines(keepends=True):
            if line.startswith(f"{host} probed ") and line.endswith("\n"):
                answer = json.loads(line.partition("probed ")[2])
                found[int(answer["requestId"])] = answer["flows"]
        return found

    def job(self, size, iterations):
        return self.start(program("collective_perf"), "--op", "all_reduce", "--min", size, "--max", size,
                          "--iters", iterations, "--warmup", "0")

"""The control paths at the size of a cluster: reports to the controller, formation of a communicator, cost per slice."""
import json
import re
import shutil
import tempfile

from figures import Measurement, Row, at_most, of, ratio
from measuring import call
from paths import BIN

HOSTS = 1000
COMMUNICATORS = 25
SECONDS = 8
FORMING_HOSTS = 1024
SMALLER = 256
JITTER_US = 2000
RING_HOSTS = (10, 1000)
GATHER_HOSTS = 128


def instructions_per_slice(hosts):
    """Of the executor, by callgrind. The difference of two runs is without the start."""
    def count(operations):
        with tempfile.TemporaryDirectory() as directory:
            errors = f"{directory}/errors"
            slices = call("valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", f"--log-file={errors}",
                          "--toggle-collect=mccs::Executor::Poll()", BIN / "slice_instructions", operations, "--hosts",
                          hosts)
            with open(errors) as log:
                return int(re.search(r"Collected : (\d+)", log.read()).group(1)), int(slices)
    operations = max(2, 200 // hosts)
    (begin, slices_begin), (end, slices_end) = count(operations), count(2 * operations)
    return (end - begin) / (slices_end - slices_begin)


def measurements(_lab):
    def reports(span):
        found = json.loads(call(BIN / "report_load", "--hosts", HOSTS, "--communicators", COMMUNICATORS, "--span", span,
                                "--seconds", SECONDS))
        return {f"scale/reports/{span}": found["cores"]}

    def forming(jitter):
        lines = call(BIN / "forming_scale", "--hosts", SMALLER, FORMING_HOSTS, "--jitter", jitter, timeout_s=900)
        values = {}
        for line in map(json.loads, lines.splitlines()):
            name = f"scale/forming/{line['hosts']}/{jitter}"
            values[f"{name}/leader"] = line["leader_cpu_ms"]
            values[f"{name}/turn"] = max(line["leader_longest_turn_ms"], line["member_longest_turn_ms"])
            values[f"{name}/sent"] = max(line["leader_sent_bytes"], line["member_sent_bytes"])
            values[f"{name}/per_host"] = line["leader_sent_bytes"] / line["hosts"]
        return values

    def slices():
        return {f"scale/slice/{hosts}": instructions_per_slice(hosts) for hosts in RING_HOSTS}

    for span in (HOSTS, 4):
        yield Measurement(f"reports of communicators over {span} hosts", 2 * SECONDS, lambda span=span: reports(span))
    for jitter in (0, JITTER_US):
        yield Measurement(f"{8 * FORMING_HOSTS} ranks form, jitter {jitter} us", 25, lambda jitter=jitter: forming(jitter))
    def plans():
        gather = json.loads(call(BIN / "plan_scale", "all_gather", "pat", GATHER_HOSTS))
        exchange = json.loads(call(BIN / "plan_scale", "all_to_all", "grid", FORMING_HOSTS))
        parts = [json.loads(call(BIN / "plan_scale", kind, algorithm, FORMING_HOSTS, "--ranks-per-host", 8,
                                 "--every", FORMING_HOSTS // 4))
                 for kind, algorithm in (("all_gather", "ring"), ("reduce_scatter", "ring"), ("all_to_all", "grid"))]
        longest = max(max(part["longest_part_ms"], part["longest_choice_part_ms"]) for part in parts)
        return {"scale/plan/part": longest,
                "scale/gather/hops": gather["hops"], "scale/exchange/memory": exchange["lane_mib"],
                "scale/exchange/build": exchange["longest_build_ms"]}

    yield Measurement("plans over many hosts", 5, plans)
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is not installed; run scripts/setup")
    yield Measurement("instructions per slice", 5, slices)


def rows():
    lower = {"higher_is_better": False}
    for span in (HOSTS, 4):
        yield Row(f"controller: {HOSTS} hosts x {COMMUNICATORS} communicators over {span} hosts each", "cores",
                  of(f"scale/reports/{span}"), at_most(0.2), **lower)
    for jitter in (0, JITTER_US):
        name = f"scale/forming/{FORMING_HOSTS}/{jitter}"
        where = f"init of {8 * FORMING_HOSTS} ranks on {FORMING_HOSTS} hosts, jitter {jitter} us"
        yield Row(f"{where}: leader's processor time", "ms", of(f"{name}/leader"), at_most(500), **lower)
        yield Row(f"{where}: longest turn", "ms", of(f"{name}/turn"), **lower)
        yield Row(f"{where}: bytes that the leader sends per host", "B", of(f"{name}/per_host"), **lower)
        yield Row(f"{where}: bytes of a host over those with {SMALLER} hosts", "x",
                  ratio(f"{name}/sent", f"scale/forming/{SMALLER}/{jitter}/sent"),
                  at_most(FORMING_HOSTS / SMALLER * 1.1), **lower)
    yield Row(f"all_gather over {GATHER_HOSTS} hosts: hops", "", of("scale/gather/hops"), at_most(7), **lower)
    yield Row(f"all_to_all over {FORMING_HOSTS} hosts: memory of a daemon's lanes", "MiB", of("scale/exchange/memory"),
              at_most(256), **lower)
    yield Row(f"all_to_all over {FORMING_HOSTS} hosts: longest time to build a plan", "ms", of("scale/exchange/build"),
              **lower)
    yield Row(f"plans of {8 * FORMING_HOSTS} ranks on {FORMING_HOSTS} hosts: longest part of a turn", "ms",
              of("scale/plan/part"), **lower)
    few, many = RING_HOSTS
    yield Row("ring all_reduce: instructions per slice", "", of(f"scale/slice/{few}"), **lower)
    yield Row(f"ring all_reduce: instructions per slice, {many} hosts over {few}", "x",
              ratio(f"scale/slice/{many}", f"scale/slice/{few}"), at_most(1.02), **lower)

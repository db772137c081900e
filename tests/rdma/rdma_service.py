"""Daemons, controller and jobs over RDMA, on a pair of virtual machines. Each check returns a line for the summary."""
import json
import re
import time

SIZES = "-b 8 -e 2M -f 512 -n 1 -w 0"
MIB = 1 << 20

CONFIG = """\
host: {host}
listen: {address}:7400
controller: 10.77.0.1:7500
metrics_listen: 127.0.0.1:9500
socket: /tmp/mccsd.sock
state_dir: /tmp/mccsd
gpus: 2
transport: rdma
rdma:
  subnet: 10.77.0.0/16
  # An emulated processor answers late. Each needless repetition may also hang a queue pair of rdma_rxe.
  timeout: 16
  retries: 3
lanes:
  channels: 2
  slots: 8
  slot_bytes: 1MiB
  skew: 3
position:
  rack: r{index}
"""

# Each host at its own switch, so that the routes between them differ by source port.
TOPOLOGY = """\
apiVersion: mccs/v1
kind: Topology
metadata:
  name: pair
spec:
  racks:
    - name: r[0-1]
  switches:
    - name: leaf[0-1],spine[0-1]
  hosts:
    - {name: h1, rack: r0, gpus: 2, nics: [{name: eth0, switch: leaf0, capacity: 10Gbit/s, address: 10.77.0.1}]}
    - {name: h2, rack: r1, gpus: 2, nics: [{name: eth0, switch: leaf1, capacity: 10Gbit/s, address: 10.77.0.2}]}
  links:
    - ends: ["leaf[0-1]", "spine[0-1]"]
      capacity: 10Gbit/s
  source_ports:
    mapping: rules
    rules:
      - ports: 50000-54999
        via: spine0
      - ports: 55000-59999
        via: spine1
---
apiVersion: mccs/v1
kind: Policy
metadata:
  name: fair
spec:
  type: fair_flow
"""
SPINES = {0: range(50000, 55000), 1: range(55000, 60000)}


class Failed(Exception):
    """A check does not hold."""


def expect(holds, text):
    if not holds:
        raise Failed(text)


class Service:
    def __init__(self, pair):
        self.pair = pair
        self.jobs = 0

    # ---- Commands ----

    def run(self, host, command, limit_s=60, status=0):
        got, output = self.pair.shells[host].run(command, limit_s)
        expect(got == status, f"h{host + 1}: {command.splitlines()[0]} ended with {got}: {output[-1500:]}")
        return output

    def ctl(self, words, limit_s=60):
        return self.run(0, f"mccsctl --controller 10.77.0.1:7500 --timeout 30 {words}", limit_s)

    def start_job(self, program, ranks_per_host=1):
        """Starts ranks on both hosts in the background. Returns the name of their logs."""
        self.jobs += 1
        name = f"/tmp/job{self.jobs}"
        for host in (0, 1):
            for local in range(ranks_per_host):
                rank = host * ranks_per_host + local
                self.run(host, f"""( RANK={rank} WORLD_SIZE={2 * ranks_per_host} LOCAL_RANK={local} MASTER_ADDR=10.77.0.1 \\
MASTER_PORT={29000 + self.jobs} MCCS_SOCKET=/tmp/mccsd.sock MCCS_EMULATED_GPUS=2 MCCS_EMULATED_HOST=h{host + 1} \\
LD_PRELOAD=libmccs-free-hooks.so:libcudart.so.13:libcuda.so.1:libnvidia-ml.so.1:libnccl.so.2 {program} \\
</dev/null >{name}.{local} 2>&1; echo "status $?" >>{name}.{local} ) &
echo $! >{name}.{local}.pid""")
        return name

    def finish_job(self, name, ranks_per_host=1, limit_s=180):
        """Waits for all ranks. Returns [(status, output)] of h1's ranks, then h2's."""
        deadline = time.monotonic() + limit_s
        ends = []
        for host in (0, 1):
            for local in range(ranks_per_host):
                while True:
                    output = self.run(host, f"cat {name}.{local}")
                    if (ended := re.search(r"^status (\d+)$", output, re.M)) is not None:
                        ends.append((int(ended[1]), output))
                        break
                    expect(time.monotonic() < deadline, f"{name} on h{host + 1} did not end: {output[-1500:]}")
                    time.sleep(0.3)
        return ends

    def job(self, program, ranks_per_host=1, limit_s=180):
        ends = self.finish_job(self.start_job(program, ranks_per_host), ranks_per_host, limit_s)
        for status, output in ends:
            expect(status == 0, f"{program} ended with {status}: {output[-2500:]}")
        return [output for _, output in ends]

    def metrics(self, host):
        text = self.run(host, "wget -q -O - http://127.0.0.1:9500/metrics")
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
                for line in text.splitlines() if line and not line.startswith("#")}

    def communicator(self):
        listed = json.loads(self.ctl("-o json get communicators"))
        expect(listed.get("communicators"), f"no communicator: {listed}")
        return listed["communicators"][0]["id"]

    def await_log(self, host, name, pattern, limit_s=60):
        deadline = time.monotonic() + limit_s
        while re.search(pattern, output := self.run(host, f"cat {name}.0")) is None:
            expect(time.monotonic() < deadline, f"no '{pattern}' in {output[-1500:]}")
            time.sleep(0.2)
        return output

    def start_load(self):
        """A job that runs until it is ended."""
        name = self.start_job("training_job --bytes 2097152")
        self.await_log(0, name, r"(?m)^\D*\d")
        return name

    def end_job(self, name):
        for host in (0, 1):
            self.run(host, f"killall -9 training_job; sleep 0.2; true # {name}")

    def steps(self, name):
        return len(self.run(0, f"cat {name}.0").splitlines())

    # ---- Checks, in this order ----

    def check_start(self):
        """mccsd --check-rdma, controller and daemons start"""
        for host, address in enumerate(self.pair.ADDRESSES):
            config = CONFIG.format(host=f"h{host + 1}", index=host, address=address)
            self.run(host, f"cat >/tmp/mccsd.yaml <<'END'\n{config}END")
            check = self.run(host, "mccsd --config /tmp/mccsd.yaml --check-rdma")
            expect("RDMA can be used" in check and "by flow label" in check, check)
        self.run(0, "mccs-controller --listen 10.77.0.1:7500 --insecure --state-dir /tmp/controller >/tmp/controller.log 2>&1 &\nsleep 2")
        for host in (0, 1):
            self.run(host, "mccsd --config /tmp/mccsd.yaml >/tmp/mccsd.log 2>&1 &\nsleep 1")
            self.run(host, "i=0; until grep -q 'is ready' /tmp/mccsd.log; do i=$((i+1)); [ $i -lt 60 ] || exit 1; sleep 0.5; done")
        deadline = time.monotonic() + 60
        while self.ctl("get hosts").count("rdma (rxe0/1 at 10.77.0.") < 2:
            expect(time.monotonic() < deadline, self.ctl("get hosts"))
            time.sleep(0.5)
        return re.search(r"GID \d+ at \S+", check)[0]

    def check_collectives(self):
        """all collectives, 4 ranks, 8 B to 2 MiB, every element checked"""
        self.job(f"collective_perf --op all {SIZES}", ranks_per_host=2, limit_s=240)
        return "collective_perf --op all"

    def check_messages(self):
        """point-to-point and one-sided calls"""
        output = self.job("conformance --filter one_sided zero_counts sends_and_receives --exclude large/", limit_s=240)[0]
        return re.findall(r"(?m)^.*passed.*$", output)[-1].strip()

    def check_no_copies(self):
        """no processor copies payload; work requests per MiB and per slice"""
        before = [self.metrics(host) for host in (0, 1)]
        self.job("collective_perf --op all_reduce -b 64M -e 64M -n 3 -w 0 -c 0", limit_s=120)
        after = [self.metrics(host) for host in (0, 1)]

        def gained(host, key, label=""):
            names = [name for name in after[host] if name.startswith(key) and label in name]
            expect(names, f"no metric {key} {label}")
            return sum(after[host][name] - before[host].get(name, 0) for name in names)

        sent = gained(0, "mccs_lane_bytes_total", 'direction="sent"')
        expect(sent > 3 * 64 * MIB, f"only {sent} bytes were sent")
        copied = sum(gained(host, "mccs_lane_copied_bytes_total") for host in (0, 1))
        requests = sum(gained(host, "mccs_rdma_requests_total") for host in (0, 1))
        completions = sum(gained(host, "mccs_rdma_completions_total") for host in (0, 1))
        moved = sum(gained(host, "mccs_lane_bytes_total", 'direction="sent"') for host in (0, 1))
        # The first call of a job has 8 bytes (its barrier).
        expect(copied <= 4096, f"{copied} bytes were copied of {moved}")
        expect(requests / (moved / MIB) <= 2, f"{requests} requests for {moved / MIB} MiB")
        expect(completions / (moved / MIB) <= 4, f"{completions} completions for {moved / MIB} MiB")
        # One slice is 1 MiB.
        refills = sum(gained(host, "mccs_rdma_refills_total") for host in (0, 1)) / (moved / MIB)
        expect(refills <= 1 / 8, f"{refills} refills per slice")
        return (f"{copied:.0f} B of {moved / MIB:.0f} MiB copied; per MiB {requests / (moved / MIB):.2f} requests, "
                f"{completions / (moved / MIB):.2f} completions on both sides, {refills:.3f} calls that post receives")

    def check_ports(self):
        """describe communicator names queue pairs and source ports; the capture agrees"""
        self.run(0, f"cat >/tmp/pair.yaml <<'END'\n{TOPOLOGY}END")
        self.ctl("apply -f /tmp/pair.yaml")
        load = self.start_load()
        time.sleep(3)
        described = json.loads(self.ctl(f"-o json describe communicator {self.communicator()}"))
        lanes = [lane for lane in described["lanes"] if lane.get("rdma", {}).get("requested_source_port")]
        expect(lanes, f"no lane has a requested port: {json.dumps(described['lanes'])[:1500]}")
        time.sleep(2)
        flows = self.pair.flows()
        addresses = dict(zip(("h1", "h2"), self.pair.ADDRESSES))
        for lane in lanes:
            rdma = lane["rdma"]
            key = (addresses[lane["from"]], rdma["source_port"], rdma["peer_queue_pair"])
            expect(flows.get(key, 0) > 10, f"{rdma}: not in the capture: {sorted(flows)}")
            same = [ports for ports in SPINES.values() if rdma["source_port"] in ports and
                    rdma["requested_source_port"] in ports]
            expect(same, f"{rdma}: the port is of another route")
        explained = self.ctl(f"explain communicator {self.communicator()}")
        expect(str(lanes[0]["rdma"]["source_port"]) in explained, explained)
        self.load = load
        return "; ".join(f"{lane['from']}→{lane['to']} requested {lane['rdma']['requested_source_port']}, "
                         f"{lane['rdma']['source_port']} on the wire" for lane in lanes)

    def spines_used(self):
        described = json.loads(self.ctl(f"-o json describe communicator {self.communicator()}"))
        ports = [lane["rdma"]["source_port"] for lane in described["lanes"]
                 if lane.get("rdma", {}).get("requested_source_port")]
        return {spine for spine, own in SPINES.items() for port in ports if port in own}

    def check_route(self):
        """a drained link moves live lanes to another route"""
        before = self.spines_used()
        left = min(before)
        self.ctl(f"drain link leaf0-spine{left} --reason test")
        self.ctl(f"drain link leaf1-spine{left} --reason test")
        deadline = time.monotonic() + 60
        while left in self.spines_used():
            expect(time.monotonic() < deadline, f"lanes still use spine{left}")
            time.sleep(0.5)
        steps = self.steps(self.load)
        time.sleep(2)
        expect(self.steps(self.load) > steps, "the job is stalled")
        return f"from spines {sorted(before)} to {sorted(self.spines_used())}, the job goes on"

    def check_short_cut(self):
        """the link is cut for 300 ms under load"""
        self.pair.monitors[0].set_link(False)
        time.sleep(0.3)
        self.pair.monitors[0].set_link(True)
        time.sleep(3)
        steps = self.steps(self.load)
        time.sleep(2)
        expect(self.steps(self.load) > steps, "the job is stalled: " + self.run(0, f"tail -5 {self.load}.0"))
        return "the job goes on"

    def check_tenant_killed(self):
        """a tenant is killed in mid-write"""
        began = time.monotonic()
        self.run(1, "killall -9 training_job")
        ends = self.finish_job(self.load, limit_s=30)
        seconds = time.monotonic() - began
        expect(ends[0][0] == 1 and "rank 1 left" in ends[0][1], f"rank 0 ended with {ends[0]}")
        self.job(f"collective_perf --op all_reduce {SIZES}")
        return f"the other rank ended after {seconds:.1f} s; the next job is right"

    def check_long_cut(self):
        """the link is cut for good"""
        load = self.start_load()
        time.sleep(2)
        began = time.monotonic()
        self.pair.monitors[0].set_link(False)
        seconds, texts = [], []
        for host in (0, 1):
            output = self.await_log(host, load, r"status [1-9]", limit_s=30)
            seconds.append(time.monotonic() - began)
            found = re.search(r"(?m)^.*communicator failed.*$", output)
            expect(found, output)
            texts.append(found[0])
        expect("port error" in texts[0], texts)
        self.pair.monitors[0].set_link(True)
        time.sleep(3)
        self.job(f"collective_perf --op all_reduce {SIZES}")
        return f"ranks ended after {seconds[0]:.1f} and {seconds[1]:.1f} s: {texts[0]}"

    def check_peer_off(self):
        """the peer's machine is switched off"""
        load = self.start_load()
        time.sleep(1)
        self.pair.machines[1].stop()
        began = time.monotonic()
        output = self.await_log(0, load, r"status [1-9]", limit_s=60)
        seconds = time.monotonic() - began
        found = re.search(r"(?m)^.*communicator failed.*$", output)
        expect(found, output)
        return f"the other rank ended after {seconds:.1f} s: {found[0]}"

    CHECKS = ("start", "collectives", "messages", "no_copies", "ports", "route", "short_cut", "tenant_killed",
              "long_cut", "peer_off")

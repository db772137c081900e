"""All-reduces of 16 MiB of float32 on two hosts over loopback, over what plain sockets achieve."""
import programs
from figures import Measurement, Row, at_least, of, ratio

SIZE = 16 << 20
ITERATIONS = 20
RANKS_PER_HOST = (1, 2)
OF_EXCHANGE = {1: 0.92, 2: 0.85}
OVER_PEERS = 2  # with two ranks per host


def name(who, ranks_per_host):
    return f"two hosts/all_reduce/{ranks_per_host} ranks each/{who}"


def measurements(lab):
    def ours(per_host):
        times = lab.collectives(2 * per_host, per_host, "all_reduce", (SIZE, SIZE, 2), ITERATIONS)
        return {name("MCCS", per_host): times["all_reduce", SIZE]}

    def peer(who, times):
        return lambda per_host: {name(who, per_host): found[SIZE] for found in [times(2 * per_host)] if found}

    peers = {
        "OpenMPI": peer("OpenMPI", lambda ranks: programs.open_mpi(programs.TCP, ranks, "all_reduce", [SIZE], ITERATIONS)),
        "Gloo": peer("Gloo", lambda ranks: programs.gloo(ranks, "all_reduce", [SIZE], ITERATIONS)),
    }
    yield Measurement("bare exchange over loopback", 2, lambda: {
        "two hosts/bare exchange": programs.bare_exchange(SIZE, ITERATIONS)})
    for per_host in RANKS_PER_HOST:
        yield Measurement(f"MCCS, two hosts, {per_host} ranks each", 2, lambda n=per_host: ours(n))
        for who, run in peers.items():
            yield Measurement(f"{who}, TCP, {2 * per_host} ranks", 8, lambda run=run, n=per_host: run(n))


def rows():
    for per_host in RANKS_PER_HOST:
        ours = name("MCCS", per_host)
        shape = f"all_reduce 16 MiB, 2 hosts x {per_host}"
        yield Row(f"{shape}: of a bare exchange", "x", ratio("two hosts/bare exchange", ours),
                  at_least(OF_EXCHANGE[per_host]))
        for who in ("OpenMPI", "Gloo"):
            yield Row(f"{shape}: speed over {who}'s", "x", ratio(name(who, per_host), ours),
                      at_least(OVER_PEERS) if per_host > 1 else None)
        yield Row(f"{shape}: time", "us", of(ours), higher_is_better=False)

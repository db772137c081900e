"""Collectives of 16 MiB of float32 on one host, over the time in which memory can be read and written once."""
import programs
from figures import Measurement, Row, at_least, of, ratio

SIZE = 16 << 20
ITERATIONS = 20
RANKS = (2, 4, 8)
ALL_REDUCE_GOALS = {2: 0.80, 4: 0.65, 8: 0.50}
OVER_OPEN_MPI = 4
GOAL = 0.75

# Buffers that n ranks read and write, in units of SIZE, the larger buffer of a rank.
TRAFFIC = {
    "all_reduce": lambda n: (n, n),
    "all_gather": lambda n: (1, n),
    "reduce_scatter": lambda n: (n, 1),
    "broadcast": lambda n: (1, n),
    "alltoall": lambda n: (n, n),
    "sendrecv": lambda n: (n, n),
}


def name(who, op, ranks):
    return f"one host/{op}/{ranks} ranks/{who}"


def measurements(lab):
    def ours(ranks):
        times = lab.collectives(ranks, ranks, "all", (SIZE, SIZE, 2), ITERATIONS)
        return {name("MCCS", op, ranks): times[op, SIZE] for op in TRAFFIC}

    def limit(ranks):
        by_traffic = {}
        for op, traffic in TRAFFIC.items():
            if traffic(ranks) not in by_traffic:
                by_traffic[traffic(ranks)] = programs.memory_limit(*traffic(ranks), SIZE, ITERATIONS)
        return {name("limit", op, ranks): by_traffic[traffic(ranks)] for op, traffic in TRAFFIC.items()}

    def open_mpi(ranks):
        return {name("OpenMPI", op, ranks): times[SIZE] for op in TRAFFIC
                if (times := programs.open_mpi(programs.SHARED_MEMORY, ranks, op, [SIZE], ITERATIONS))}

    # Per number of ranks: what is compared runs next to each other.
    for ranks in RANKS:
        yield Measurement(f"memory limit, {ranks} ranks", 1 + ranks, lambda ranks=ranks: limit(ranks))
        yield Measurement(f"MCCS, one host, {ranks} ranks", 2 + 2 * ranks, lambda ranks=ranks: ours(ranks))
        yield Measurement(f"OpenMPI, one host, {ranks} ranks", 5 + 3 * ranks, lambda ranks=ranks: open_mpi(ranks))


def rows():
    for ranks in RANKS:
        for op in TRAFFIC:
            ours, limit, mpi = (name(who, op, ranks) for who in ("MCCS", "limit", "OpenMPI"))
            shape = f"{op} 16 MiB, {ranks} ranks, one host"
            goal = ALL_REDUCE_GOALS[ranks] if op == "all_reduce" else GOAL
            yield Row(f"{shape}: of the memory limit", "x", ratio(limit, ours), at_least(goal))
            yield Row(f"{shape}: speed over OpenMPI's", "x", ratio(mpi, ours),
                      at_least(OVER_OPEN_MPI) if op == "all_reduce" and ranks > 2 else None)
            yield Row(f"{shape}: time", "us", of(ours), higher_is_better=False)

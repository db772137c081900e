"""What the suite measures: samples of one round, and rows of the table that are computed from them."""
import dataclasses
import statistics
from typing import Callable


# Libraries that may be missing on a machine.
PEERS = ("OpenMPI", "Gloo")


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Programs that run once per round.

    `run` returns the values by name. `seconds`: a first estimate of the duration of one round, replaced by the measured
    one. A peer that is not installed yields no values.
    """
    name: str
    seconds: float
    run: Callable[[], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Goal:
    bound: float
    at_least: bool

    def met(self, value):
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self):
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


def at_least(bound):
    return Goal(bound, True)


def at_most(bound):
    return Goal(bound, False)


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table.

    `value` computes it from the values of one round, by name; a KeyError with a name of one of PEERS means that this
    peer is missing. A ratio has unit "x": ratios are comparable between runs and machines, absolute figures are not.
    """
    name: str
    unit: str
    value: Callable[[dict[str, float]], float]
    goal: Goal | None = None
    higher_is_better: bool = True


@dataclasses.dataclass
class Result:
    """A row over all rounds. `values` is empty if a peer is missing."""
    row: Row
    values: list[float]

    @property
    def median(self):
        return statistics.median(self.values)

    def verdict(self):
        if not self.values:
            return "not measured: a peer is missing"
        if self.row.goal is None:
            return ""
        return f"{'met' if self.row.goal.met(self.median) else 'MISSED'} (goal {self.row.goal})"

    def as_json(self):
        line = {"row": self.row.name, "unit": self.row.unit, "higher_is_better": self.row.higher_is_better}
        if self.values:
            line |= {"min": round(min(self.values), 4), "median": round(self.median, 4),
                     "max": round(max(self.values), 4)}
        if self.row.goal is not None:
            line["goal"] = str(self.row.goal)
            if self.values:
                line["met"] = self.row.goal.met(self.median)
        return line


def results(rows, rounds):
    """The rows over `rounds`, each a dict of values by name."""
    found = []
    for row in rows:
        values = []
        for values_by_name in rounds:
            try:
                values.append(row.value(values_by_name))
            except KeyError as missing:
                if not any(peer in str(missing) for peer in PEERS):
                    raise
        found.append(Result(row, values))
    return found


def ratio(above, below):
    """A Row.value: the quotient of two named values."""
    return lambda values: values[above] / values[below]


def of(name):
    """A Row.value: one named value."""
    return lambda values: values[name]

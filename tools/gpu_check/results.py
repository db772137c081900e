"""Results of parts, and their limits of time."""
import dataclasses
import time

PASSED, FAILED, SKIPPED = "passed", "FAILED", "SKIPPED"
# A part with less time than this is skipped.
SHORTEST_PART_S = 3.0


class Failed(Exception):
    """A part, or a step of one, has not done what it should."""


class Skipped(Exception):
    """This machine cannot run a part."""


class OutOfTime(Failed):
    """The limit of a part has passed."""


# The errors of parts that read unexpected output of a program.
UNEXPECTED = (OSError, ValueError, LookupError, AttributeError, TypeError)


@dataclasses.dataclass
class Figure:
    name: str
    value: float
    unit: str

    def __str__(self):
        return f"{self.name} {self.value:.4g} {self.unit}".rstrip()


@dataclasses.dataclass
class Result:
    part: str
    result: str
    seconds: float
    limit_s: float
    text: str = ""  # the reason of a failure or a skip, or the most important figures
    figures: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)  # what was skipped within the part, and observations
    problems: list = dataclasses.field(default_factory=list)
    logs: list = dataclasses.field(default_factory=list)

    def as_json(self):
        return {**dataclasses.asdict(self), "result": self.result.lower()}


class Budget:
    """The time of all parts together. `clock` returns seconds."""

    def __init__(self, total_s, clock=time.monotonic):
        self._clock = clock
        self._begun = clock()
        self._total_s = total_s

    def elapsed(self):
        return self._clock() - self._begun

    def limit_of(self, limit_s):
        """The limit of a part that begins now. Raises Skipped if there is too little time."""
        left = self._total_s - self.elapsed()
        if left < min(SHORTEST_PART_S, limit_s):
            raise Skipped(f"no time is left of the {self._total_s:g} s of --limit")
        return min(limit_s, left)


class Deadline:
    """The end of a part, which its steps share."""

    def __init__(self, limit_s, clock=time.monotonic):
        self.limit_s = limit_s
        self._clock = clock
        self._end = clock() + limit_s

    def left(self):
        return max(0.0, self._end - self._clock())

    def limit_of(self, limit_s):
        """The limit of a step that begins now."""
        left = self.left()
        if left <= 0:
            raise OutOfTime(f"the part's limit of {self.limit_s:.0f} s has passed")
        return min(limit_s, left)

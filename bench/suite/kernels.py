"""The memory kernels of one thread: narrow floats over float32, many sources over two."""
import json

from figures import Measurement, Row, at_least, ratio
from measuring import call
from paths import BIN

NARROW = {"bfloat16": 0.8, "float16": 0.8, "float8e4m3": 0.5, "float8e5m2": 0.5}
MANY = {8: None, 16: 0.7}
BYTES = 16 << 20


def bench(kind, ranks):
    return f"{kind}_stream/{ranks}/{BYTES}"


def measurements(_lab):
    def run():
        wanted = [bench("float32", n) for n in (2, 8, 16)] + [bench(kind, 2) for kind in NARROW]
        output = call(BIN / "mem_op_bench", f"--benchmark_filter=^({'|'.join(wanted)})$", "--benchmark_format=json",
                      "--benchmark_min_time=0.3")
        figures = {found["name"]: found["bytes_per_second"] for found in json.loads(output)["benchmarks"]}
        if missing := set(wanted) - set(figures):
            raise RuntimeError(f"mem_op_bench has no benchmark {', '.join(sorted(missing))}")
        return {f"kernels/{name}": value for name, value in figures.items()}

    yield Measurement("memory kernels", 8, run)


def rows():
    base = f"kernels/{bench('float32', 2)}"
    for kind, goal in NARROW.items():
        yield Row(f"sum of 2 sources, {kind}: bytes per second over float32's", "x",
                  ratio(f"kernels/{bench(kind, 2)}", base), at_least(goal))
    for sources, goal in MANY.items():
        yield Row(f"sum of {sources} sources, float32: bytes per second over 2 sources'", "x",
                  ratio(f"kernels/{bench('float32', sources)}", base), at_least(goal) if goal else None)

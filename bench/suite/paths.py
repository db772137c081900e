"""Where the suite finds programs."""
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = SOURCE / "build/bin"
PYTORCH = SOURCE / "build/pytorch/bin/python"
GLOO = SOURCE / "bench/gloo_collective.py"
KEPT = SOURCE / "docs/results/bench.jsonl"

sys.path.append(str(SOURCE / "bench"))

"""PyTorch under preload: data parallel training, compared with one process."""
import json
import pathlib

from results import Failed, Skipped

SCRIPT = pathlib.Path(__file__).with_name("ddp_losses.py")
# Gradients of halves of a batch are added in another order than those of the batch.
TOLERANCE = 1e-4


def losses_of(output):
    """The last line of rank 0: losses of each step, by the name of the run."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed("the program printed no losses")
    return json.loads(lines[-1])


def difference(losses, reference):
    """The largest relative difference of a step's loss."""
    if len(losses) != len(reference) or not losses:
        raise Failed(f"{len(losses)} losses, expected {len(reference)}")
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference))


def reason_to_skip(check):
    if check.environment.torch is None:
        return f"no PyTorch in {check.environment.python}; pass another interpreter with --python"
    if check.emulated and not (check.package.lib / "emulation/libmccs_torch.so").exists():
        return ("the emulation has no operators of PyTorch (lib/emulation/libmccs_torch.so); scripts/setup_pytorch and "
                "scripts/build add them")
    return None


def check_pytorch(check):
    """Losses of two ranks on one GPU equal those of one process."""
    if reason := reason_to_skip(check):
        raise Skipped(reason)
    check.service.require(check.environment.cuda())
    environment = check.environment.mccs(CUBLAS_WORKSPACE_CONFIG=":4096:8")
    command = [check.environment.python, SCRIPT]
    alone = losses_of(check.run("pytorch-alone", command, check.environment.cuda(
        **({"LD_PRELOAD": environment["LD_PRELOAD"]} if check.emulated else {}), CUBLAS_WORKSPACE_CONFIG=":4096:8"),
        30).expect())
    ended = check.run_ranks("pytorch-ddp", 2, command, environment, 40)
    ddp = losses_of(ended.expect())
    check.note(f"NCCL in PyTorch: {ddp['library']}")
    if str(check.package.lib / "libnccl.so.2") not in ddp["library"]:
        raise Failed(f"PyTorch did not use the library of the package: {ddp['library']}")
    if ddp["same"] != alone["whole"]:
        check.problems.append("both ranks train on the whole batch, so the averages are exact, but the losses differ: "
                              f"{ddp['same']}, one process {alone['whole']}; log: {ended.log}")
    worst = difference(ddp["halves"], alone["whole"])
    check.figure("halves of the batch: largest relative difference of a loss", worst)
    if not worst <= TOLERANCE:
        check.problems.append(f"the losses differ by {worst:.1e}, at most {TOLERANCE:.0e} allowed: {ddp['halves']}, "
                              f"one process {alone['whole']}; log: {ended.log}")
    check.figure("last loss", ddp["halves"][-1])
    return f"same batch: losses equal bit for bit; halves: relative difference {worst:.1e}"

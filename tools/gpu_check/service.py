"""The controller and the daemon of this host."""
import signal
import time

from results import Failed, OutOfTime, Skipped

START_LIMIT_S = 10
STOP_LIMIT_S = 5


class Service:
    def __init__(self, package, processes, directory):
        self._package = package
        self._processes = processes
        self._directory = directory
        self.socket = directory / "mccsd.sock"
        self.controller = None
        self.daemon = None

    def start(self, environment):
        """Starts what does not run. Raises Failed."""
        if self.controller is None or self.controller.poll() is not None:
            self.controller = self._start("mccs-controller", environment, "listen: 127.0.0.1:0\n")
        self.daemon = self._start(
            "mccsd", environment, f"host: gpu-check\nsocket: {self.socket}\nlisten: 127.0.0.1:0\ndevice: gpu\ngpus: 1\n"
            f"transport: tcp\ncontroller: {self.controller_endpoint()}\n")

    def _start(self, name, environment, config):
        state = self._directory / name
        state.mkdir(exist_ok=True)
        endpoint = state / "endpoint"
        endpoint.unlink(missing_ok=True)  # of one that was killed
        file = self._directory / f"{name}.yaml"
        file.write_text(f"{config}state_dir: {state}\n")
        process = self._processes.start(name, [self._package.program(name), "--config", file], environment)
        end = time.monotonic() + START_LIMIT_S
        while not (endpoint.exists() and endpoint.read_text().strip()):
            if process.poll() is not None:
                raise Failed(f"{name} ended with status {process.poll()}: {process.output.strip()[-500:]}; "
                             f"log: {process.log}")
            if time.monotonic() > end:
                process.kill()
                raise OutOfTime(f"{name} was not ready in {START_LIMIT_S} s; log: {process.log}")
            time.sleep(0.02)
        return process

    def controller_endpoint(self):
        return (self._directory / "mccs-controller/endpoint").read_text().strip()

    def processes(self):
        return [process for process in (self.controller, self.daemon) if process is not None]

    def runs(self):
        return self.daemon is not None and self.daemon.poll() is None

    def require(self, environment):
        """Starts the service if it does not run. Raises Skipped if it cannot."""
        if self.runs():
            return
        try:
            self.start(environment)
        except Failed as failure:
            raise Skipped(f"the service does not run: {failure}") from failure

    def stop(self):
        for process in (self.daemon, self.controller):
            if process is not None and process.poll() is None:
                process.signal(signal.SIGTERM)
                try:
                    process.wait(STOP_LIMIT_S)
                except OutOfTime:
                    pass

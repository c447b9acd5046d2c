"""The processes of a part: in groups of their own, with output in files, ended when the part's time is over."""

import os
import signal
import subprocess
import tempfile
import time

# Seconds in which a killed process must end: one that waits for a GPU's driver may never do.
AFTER_KILL = 10


class LimitReached(Exception):
    """The call's time is over."""


class PartFailed(Exception):
    """A part failed, for the reason in the text. `result` has the figures that it computed before."""

    def __init__(self, reason, result=None):
        super().__init__(reason)
        self.result = result


class PartSkipped(PartFailed):
    """The machine lacks what a part needs."""


class Part:
    """The time of a part and its running processes. Leaving the context kills those that still run."""

    def __init__(self, bundle, seconds):
        self.bundle, self.seconds = bundle, seconds
        self.end = min(bundle.end, time.monotonic() + seconds)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in list(self.running):
            self.kill(process)

    def start(self, command, variables=None):
        """Starts a process without waiting. `variables` are set beside the bundle's."""
        # Files take any amount of output, and a process that was not killed keeps no reader waiting.
        output = {name: tempfile.TemporaryFile() for name in ("stdout", "stderr")}
        env = {**self.bundle.variables, **(variables or {})}
        process = subprocess.Popen(list(map(str, command)), env=env, start_new_session=True, **output)
        process.output = output
        self.running.append(process)
        return process

    def finish(self, process):
        """Waits for a process: its exit code and both outputs. When the time is over its group is killed."""
        while process.poll() is None:
            self.check_time()
            time.sleep(0.02)
        return process.returncode, *self.ended(process)

    def check_time(self):
        """Raises an exception when the part's time is over, or the call's."""
        if time.monotonic() >= self.bundle.end:
            raise LimitReached
        if time.monotonic() >= self.end:
            raise PartFailed(f"not ended after {self.seconds} s")

    def kill(self, process):
        """Kills a process with its group, as a crash of both of the host's processes."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=AFTER_KILL)
            end = "killed"
        except (ProcessLookupError, subprocess.TimeoutExpired) as error:
            end = f"not killed: {error}"
        self.ended(process, end + "\n")

    def ended(self, process, more=""):
        """Logs a process: both outputs."""
        self.running.remove(process)
        texts = []
        for file in process.output.values():
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        self.bundle.log(f"$ {' '.join(process.args)}\n{''.join(texts)}{more}")
        return texts

    def call(self, command, variables=None):
        """Runs a command that must succeed: both outputs."""
        code, out, err = self.finish(self.start(command, variables))
        if code != 0:
            raise PartFailed(f"exit code {code}: {(err or out).strip()[-500:]}")
        return out, err


def said(command, variables=None):
    """The output of a command, or None without one."""
    try:
        run = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None

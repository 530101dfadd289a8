"""A `python` that starts at once: what it runs is forked from a process that has torch and the like loaded already.

The pipeline's tests start some fifty stages, each for a second of work, and loading torch and transformers takes
several. Each stage stays a process of its own, with DVC, arguments, environment, output and exit code as ever. Explearn
itself is never loaded beforehand. The children of one server share a hash seed: runs to be compared take a server each.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

MODULES = (
    "accelerate",
    "captum.attr",
    "entmax",
    "matplotlib.figure",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "rich.console",
    "scipy.stats",
    "sklearn.linear_model",
    "sklearn.metrics",
    "torch",
    "transformers",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.tokenization_utils_fast",
    "transformers.trainer",
    "typer",
)
SOCKET = "WARM_PYTHON"
"""Environment variable: where the server listens."""

LOADED = "WARM_PYTHON_LOADED"
"""Environment variable: a folder to which a script SCRIPT.py writes what it loaded of Explearn, in SCRIPT.loaded."""

CLIENT = """#!{python} -IS
# Sends its arguments, environment and standard streams to the server, and exits as the child did.
import json, os, socket, sys

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ[{variable!r}])
    asked = json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ)}}).encode()
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    code = server.recv(16)
sys.exit(int(code) if code else 70)
"""


@contextlib.contextmanager
def warm_python(environment):
    """The environment in which `python` is the one that starts at once; elsewhere than on Linux the usual one."""
    if sys.platform != "linux":
        yield environment
        return
    # Not in pytest's folder: a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        client = Path(folder) / "python"
        address = Path(folder) / "socket"
        client.write_text(CLIENT.format(python=sys.executable, variable=SOCKET), encoding="utf-8")
        client.chmod(0o755)
        command = [sys.executable, __file__, str(address)]
        with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None and server.stdout.readline() == "ready\n"
                path = os.pathsep.join([folder, environment["PATH"]])
                yield {**environment, "PATH": path, SOCKET: str(address)}
            finally:
                server.terminate()


def serve(address):
    """Fork a child for each that asks, until this process is ended."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            client, _ = listening.accept()
            if os.fork() == 0:
                break
            client.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as stream:
        asked = json.loads(stream.read(int.from_bytes(size, "big")))
    child = os.fork()
    if child == 0:
        client.close()
        become(asked["argv"], asked["cwd"], asked["environment"], streams)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    client.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def become(argv, folder, environment, streams):
    """Be `python ARGV...` in that folder; ends the process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    script = Path(argv[0]).resolve()
    sys.argv = argv
    own = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [str(script.parent), *own, *(entry for entry in sys.path[1:] if entry not in own)]
    code = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    if folder := environment.get(LOADED):
        loaded = sorted(name for name in sys.modules if name.partition(".")[0].startswith("explearn"))
        (Path(folder) / f"{script.stem}.loaded").write_text("\n".join(loaded), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    # sys.exit would free every object of the modules loaded beforehand, which takes seconds.
    os._exit(code)


if __name__ == "__main__":
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.partition(".")[0] == "explearn" for name in sys.modules)
    gc.freeze()
    serve(sys.argv[1])

"""The command lines that start Python in a sandbox: bubblewrap, podman, apptainer."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kappo.rewards.system_calls import rules, rules_file

if TYPE_CHECKING:
    from kappo.rewards.sandbox import Sandbox

MODULES = ("values", "source", "program", "judge")
"""Of kappo.rewards.inside, each after those that it imports."""
START = """import sys, types
for name, source in SOURCES.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""All that a program sees of the environment."""
NOBODY = "65534"
RULES = "SYSTEM-CALLS"
"""Stands in a command for the descriptor of the filter of system calls."""
FLAGS = ["-s", "-S", "-P", "-B"]


def bubblewrap(sandbox: Sandbox) -> list[str]:
    """Own user, pid, network, ipc and host-name namespaces; the system read-only, of the rest only Python's own folder.

    Root gives its rights up inside before it makes the user namespace: the kernel does not count root's processes.
    """
    root = os.geteuid() == 0
    tmp = str(8 * sandbox.output_mb << 20)
    command = [_found("bwrap"), "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"]
    if root:
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-all", "--unshare-user", "--disable-userns"]
    command += ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            command += ["--ro-bind", name, name]
    prefix, python = _python()
    if not prefix.is_relative_to("/usr"):
        command += ["--ro-bind", str(prefix), "/python", "--setenv", "LD_LIBRARY_PATH", "/python/lib"]
        python = Path("/python") / python.relative_to(prefix)
    command += ["--perms", "0755", "--dir", "/packages"]
    for name, folder in _folders(sandbox.packages):
        command += ["--ro-bind", str(folder), f"/packages/{name}"]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for own in ("/tmp", "/dev/shm"):
        command += ["--perms", "1777", "--size", tmp, "--tmpfs", own]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    command += ["--chdir", "/tmp", "--remount-ro", "/", "--remount-ro", "/dev"]
    if rules():
        command += ["--seccomp", RULES]
    if root:
        ids = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
        command += [_found("setpriv"), *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        command += ["--pdeathsig", "KILL", _found("unshare"), "--user"]
    return [*command, str(python), *FLAGS, "-c", inside()]


def podman(sandbox: Sandbox) -> list[str]:
    """A throw-away container without network or capabilities, its root file system read-only."""
    size = f"{8 * sandbox.output_mb}m"
    command = [_found("podman"), "run", "--rm", "--interactive", "--network=none", "--read-only", "--cap-drop=all"]
    command += ["--security-opt=no-new-privileges", f"--user={NOBODY}:{NOBODY}", "--pull=never", "--log-driver=none"]
    command += ["--http-proxy=false", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]
    command += [f"--pids-limit={sandbox.processes + 4}", f"--memory={sandbox.memory_mb}m"]
    command += [f"--tmpfs=/tmp:rw,mode=1777,size={size}", f"--shm-size={size}", "--workdir=/tmp", "--unsetenv-all"]
    command += [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
    return [*command, "--entrypoint=python3", _image(sandbox), *FLAGS, "-c", inside()]


def apptainer(sandbox: Sandbox) -> list[str]:
    """A contained, read-only image without network, home or the caller's environment."""
    command = [_found("apptainer"), "exec", "--containall", "--cleanenv", "--no-home", "--net", "--network=none"]
    command += ["--no-privs", "--pwd=/tmp"]
    command += [f"--env={name}={value}" for name, value in ENVIRONMENT.items() if name not in ("PATH", "HOME")]
    return [*command, _image(sandbox), "python3", *FLAGS, "-c", inside()]


def inside() -> str:
    """The code for `python -c` that defines MODULES and starts the last one."""
    folder = Path(__file__).with_name("inside")
    sources = {f"kappo.rewards.inside.{name}": (folder / f"{name}.py").read_text() for name in MODULES}
    return f"SOURCES = {sources!r}\n{START}"


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """The backend's process, leader of a session of its own, with three unbuffered pipes."""
    pipe, given = subprocess.PIPE, RULES in command
    with rules_file() as fd:
        return subprocess.Popen(
            [str(fd) if part == RULES else part for part in command],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=True,
            env=surroundings(command),
            pass_fds=(fd,) if given else (),
        )


def surroundings(command: Sequence[str]) -> dict[str, str]:
    """The environment of the backend's own process: a container's client needs the caller's, bubblewrap none of it."""
    return ENVIRONMENT if Path(command[0]).name == "bwrap" else dict(os.environ)


def _found(program: str) -> str:
    path = shutil.which(program, path="/usr/bin:/bin:/usr/local/bin") or shutil.which(program)
    if path is None:
        raise ValueError(f"{program} is not installed")
    return path


def _image(sandbox: Sandbox) -> str:
    if not sandbox.image:
        raise ValueError("sandbox.image is not set")
    return sandbox.image


def _python() -> tuple[Path, Path]:
    """This interpreter's own folder and program, outside any virtual environment."""
    prefix = Path(sys.base_prefix).resolve()
    for name in (f"python{sys.version_info[0]}.{sys.version_info[1]}", "python3"):
        if (prefix / "bin" / name).exists():
            program = (prefix / "bin" / name).resolve()
            return prefix, program if program.is_relative_to(prefix) else prefix / "bin" / name
    raise ValueError(f"no python3 in {prefix}/bin")


def _folders(packages: list[str]) -> list[tuple[str, Path]]:
    """Installed packages' folders, with those of their shared libraries beside them."""
    found = []
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(f"sandbox.packages: {name} is not installed; install it or drop it from the list")
        folder = Path(spec.submodule_search_locations[0])
        found.append((name, folder))
        libraries = folder.with_name(f"{name}.libs")
        if libraries.is_dir():
            found.append((libraries.name, libraries))
    return found


COMMANDS: dict[str, Callable[[Sandbox], list[str]]] = {
    "bubblewrap": bubblewrap,
    "podman": podman,
    "apptainer": apptainer,
}

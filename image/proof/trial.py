"""Tries an image's root: runs it as the image says, and looks at what is in it."""

import array
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

CONFIG = """\
listen: [{ address: "127.0.0.1:8000" }]
state_file: /var/lib/greylag/state.json
limits: { drain_wait: 0s }
rules:
  engines: { stable: { kind: vllm, url: "http://127.0.0.1:8100" } }
  default_engine: stable
"""


class Trial:
    def __init__(self, root, stage, repository):
        self.root, self.image, self.repository = Path(root), stage.image, repository

    def run(self):
        found = self.contents()
        self.lock()
        self.network()
        program = self.image["ENTRYPOINT"]
        version = self.image["LABEL"]["org.opencontainers.image.version"]
        self.expect([*program, "--version"], 0, f"greylag {version}\n")
        for sample in ("canary.yaml", "greylag.yaml"):
            self.expect([*program, "check", f"/etc/greylag/{sample}"], 0, f"/etc/greylag/{sample}: ok ")
        self.expect([*program, "demo", "--for", "4s"], 0, None)
        self.serve([*program, *self.image["CMD"]], self.image["HEALTHCHECK"])
        self.written()
        print(f"prove: passed; {found}", flush=True)

    def contents(self):
        """Lists what is there, and refuses what should not be."""
        allowed = r"""usr/bin/greylag|usr/share/doc/greylag/LICENSE|etc/(passwd|group|nsswitch\.conf)
            |etc/ssl/certs/ca-certificates\.crt|(usr/)?lib(64)?/([^/]*-linux-gnu/)?(lib\w+|ld-linux[\w-]*)\.so\.\d+"""
        files = sorted(path for path in self.root.rglob("*") if not path.is_dir() or path.is_symlink())
        size = 0
        for path in files:
            about = path.lstat()
            size += about.st_size
            print(f"{about.st_size:>12} {about.st_mode & 0o7777:04o} /{path.relative_to(self.root)}")
            if not re.fullmatch(allowed, str(path.relative_to(self.root)), re.VERBOSE):
                raise SystemExit(f"prove: found /{path.relative_to(self.root)}, which no image needs")
            if about.st_mode & 0o7022:
                raise SystemExit(f"prove: found mode {about.st_mode & 0o7777:04o} at {path}")
        return f"{len(files)} files, {size / 1e6:.1f} MB"

    def lock(self):
        """What a runtime mounts, then a root that cannot be written to."""
        for folder in ("proc", "dev"):
            (self.root / folder).mkdir(exist_ok=True)
        config, state = self.root.parent / "config", self.root.parent / "state"
        for folder in (config, state):
            folder.mkdir(exist_ok=True)
        os.chown(state, *self.ids())
        shutil.copy(self.repository / "config/canary.yaml", config)
        (config / "greylag.yaml").write_text(CONFIG)
        mount("--bind", self.root, self.root)
        mount("-o", "remount,bind,ro", self.root)
        mount("-t", "proc", "proc", self.root / "proc")
        mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", self.root / "dev")
        for device, number in (("null", 3), ("urandom", 9)):
            os.mknod(self.root / "dev" / device, 0o20666, os.makedev(1, number))
            os.chmod(self.root / "dev" / device, 0o666)
        mount("--bind", config, self.root / "etc/greylag")
        mount("-o", "remount,bind,ro", self.root / "etc/greylag")
        mount("--bind", state, self.root / "var/lib/greylag")
        if subprocess.run(["touch", self.root / "written"], stderr=subprocess.DEVNULL).returncode == 0:
            raise SystemExit("prove: the root can be written to")

    @staticmethod
    def network():
        """A network with a loopback alone, so that the image's own ports are free."""
        new_network = 0x40000000
        if ctypes.CDLL(None, use_errno=True).unshare(new_network) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        get_flags, set_flags, up = 0x8913, 0x8914, 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            asked = array.array("B", struct.pack("16sH14x", b"lo", 0))
            fcntl.ioctl(control, get_flags, asked)
            flags = struct.unpack_from("H", asked, 16)[0] | up
            fcntl.ioctl(control, set_flags, struct.pack("16sH14x", b"lo", flags))

    def ids(self):
        user, group = self.image["USER"].split(":")
        return int(user), int(group)

    def command(self, arguments):
        # As a runtime starts it: the image's user, no other groups, no variables but the path.
        user = ["chroot", f"--userspec={self.image['USER']}", "--groups=", str(self.root)]
        return ["env", "-i", "PATH=/usr/bin:/usr/sbin:/bin", *user, *arguments]

    def expect(self, arguments, code, begins):
        done = subprocess.run(self.command(arguments), capture_output=True, text=True, timeout=60)
        print(f"--- {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}", end="", flush=True)
        if done.returncode != code or not done.stdout.startswith(begins or ""):
            raise SystemExit(f"prove: expected exit code {code} and {begins!r}")

    def serve(self, serving, health):
        print(f"--- {' '.join(serving)}", flush=True)
        self.expect(health, 1, "")
        process = subprocess.Popen(self.command(serving), stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        ask = self.command(health)
        while subprocess.run(ask, capture_output=True).returncode != 0:
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit("prove: it does not serve")
            time.sleep(0.05)
        self.expect(health, 0, "ok")
        self.expect([*health, "--ready"], 0, "ready")
        owners = Path(f"/proc/{process.pid}/status").read_text()
        if f"Uid:\t{self.ids()[0]}\t" not in owners:
            raise SystemExit("prove: it runs as another user")
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=20)
        print(f"--- SIGTERM: {code}", flush=True)
        if code != 0:
            raise SystemExit("prove: SIGTERM did not end it well")

    def written(self):
        """All that it wrote is under what was mounted for that."""
        written = sorted(path.name for path in (self.root.parent / "state").iterdir())
        print(f"--- written: {', '.join(written) or 'nothing'}", flush=True)


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)

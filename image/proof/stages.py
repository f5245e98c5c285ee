"""Makes stages in folders: a bare Debian, then what RUN, WORKDIR and COPY do.

What the base image would bring, the Rust toolchain, is this machine's, bound into the folder; so are the crates that it has
fetched, and Cargo is told to be content with those.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

# What the base image has beside Debian's own: a toolchain, and what links.
BROUGHT = "gcc,g++,make,libc6-dev"
PATH = "/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, **more)


class Stages:
    def __init__(self, folder, context, base):
        self.folder, self.context, self.base = folder, context, base
        # By the names of stages: their roots, and the folders that they are in.
        self.roots, self.places = {}, {}

    def root(self, stage):
        return self.roots[stage.name]

    def make(self, stage):
        print(f"=== FROM {stage.base} AS {stage.name}", flush=True)
        root = self.folder / stage.name
        self.roots[stage.name] = root
        if stage.base in self.roots:
            # The stage before is not looked at again but for this, so it may as well become this one.
            self.roots[stage.name] = root = self.roots[stage.base]
        elif stage.base == "scratch":
            root.mkdir()
        else:
            self.debian(stage.base, root)
        at = self.places.get(stage.base, "/")
        for word, rest in stage.steps:
            print(f"--- {word} {rest}", flush=True)
            if word == "WORKDIR":
                at = rest
                (root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif word == "RUN":
                self.run(root, at, rest, stage.arguments)
            else:
                self.copy(root, at, rest)
        self.places[stage.name] = at

    def assemble(self, stage, program):
        """The root alone, around a program that is there; by the same script, on this machine."""
        self.roots["root"] = self.folder / "host"
        script, licence = self.context.path("image/root"), self.context.path("LICENSE")
        run("sh", script, program, licence, self.folder / "host/out")
        self.make(stage)

    def debian(self, image, root):
        """A bare Debian of the release that an image such as rust:1.95.0-bookworm names."""
        version, _, release = image.partition(":")[2].partition("-")
        found = self.rust("--version").split()[1]
        if found != version:
            raise SystemExit(f"prove: the Dockerfile builds with Rust {version}, found {found} on this machine")
        if self.base:
            run("cp", "--archive", self.base, root)
            run("chroot", root, "apt-get", "install", "--yes", "-qq", *BROUGHT.split(","), stdout=subprocess.DEVNULL)
        else:
            run("debootstrap", "--variant=minbase", f"--include={BROUGHT}", release, root, stdout=subprocess.DEVNULL)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        for folder in ("proc", "dev"):
            run("mount", "--rbind", f"/{folder}", root / folder)
        bound = {
            "usr/local/toolchain": self.rust("--print", "sysroot"),
            "usr/local/cargo/registry": Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry",
        }
        for place, source in bound.items():
            (root / place).mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", source, root / place)
            run("mount", "-o", "remount,bind,ro", root / place)
        (root / "usr/local/cargo/bin").mkdir(exist_ok=True)
        for tool in ("cargo", "rustc"):
            (root / "usr/local/cargo/bin" / tool).symlink_to(f"/usr/local/toolchain/bin/{tool}")

    def rust(self, *asked):
        # There, since rust-toolchain.toml says which one it is.
        said = subprocess.run(["rustc", *asked], check=True, capture_output=True, text=True, cwd=self.context.root)
        return said.stdout.strip()

    def run(self, root, at, command, arguments):
        environment = {
            "PATH": PATH,
            "HOME": "/root",
            "CARGO_HOME": "/usr/local/cargo",
            "CARGO_NET_OFFLINE": "true",
            "CARGO_TERM_PROGRESS_WHEN": "never",
            "DEBIAN_FRONTEND": "noninteractive",
            **arguments,
        }
        inside = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        run("chroot", root, *inside, "sh", "-c", f"cd {shlex.quote(at)} && {command}")

    def copy(self, root, at, rest):
        words = shlex.split(rest)
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, to = [word for word in words if not word.startswith("--")]
        target = root / os.path.join(at, to).lstrip("/")
        for source in sources:
            if "from" in options:
                path = self.roots[options["from"]] / source.lstrip("/")
            else:
                path = self.context.path(source)
            self.place(path, target, is_folder=to.endswith("/") or len(sources) > 1)
        if "chown" in options:
            run("chown", "--recursive", options["chown"], target)

    @staticmethod
    def place(path, target, is_folder):
        # Of a folder its contents are copied. Modes and times stay, as a build's context has them; owners do not.
        kept = ["--recursive", "--no-dereference", "--preserve=mode,timestamps"]
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            run("cp", *kept, f"{path}/.", target)
        else:
            if is_folder or target.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
            run("cp", *kept, path, target)


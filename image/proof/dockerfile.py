"""What a Dockerfile says: its stages and their instructions, with arguments put in; and which files go into the build.

Only what this repository's Dockerfile uses is understood; anything else is refused, so that nothing is left out silently.
"""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "LABEL", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


@dataclass
class Stage:
    """A stage, and what its image is to be run as."""

    name: str
    base: str
    steps: list = field(default_factory=list)
    arguments: dict = field(default_factory=dict)
    image: dict = field(default_factory=dict)


def lines(text):
    """Instructions, each on one line, without comments."""
    held = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not (line.strip() or held):
            continue
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
        else:
            yield (held + line).strip()
            held = ""
    if held:
        raise SystemExit(f"Dockerfile: found {held!r}, which goes on at the end")


def read(text, given):
    """The stages, in order. `given` are the build's arguments."""
    stages = []
    for line in lines(text):
        word, _, rest = line.partition(" ")
        if word not in KNOWN or (not stages and word != "FROM"):
            raise SystemExit(f"Dockerfile: found {line!r}, which is not understood here")
        rest = rest.strip()
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(name or "image", base))
            continue
        stage = stages[-1]
        if word == "ARG":
            name, _, value = rest.partition("=")
            stage.arguments[name] = given.get(name, value)
        elif word in ("RUN", "WORKDIR", "COPY"):
            stage.steps.append((word, rest))
        elif word == "LABEL":
            labels = dict(one.split("=", 1) for one in shlex.split(rest))
            stage.image["LABEL"] = {key: filled(value, stage.arguments) for key, value in labels.items()}
        elif word in ("ENTRYPOINT", "CMD"):
            stage.image[word] = json.loads(rest)
        elif word == "HEALTHCHECK":
            stage.image[word] = json.loads(rest.partition(" CMD ")[2])
        else:
            stage.image[word] = rest
    unknown = set(given) - {name for stage in stages for name in stage.arguments}
    if unknown:
        raise SystemExit(f"Dockerfile: has no ARG {', '.join(sorted(unknown))}")
    return stages


def filled(text, arguments):
    return re.sub(r"\$(\w+)", lambda found: arguments.get(found[1], ""), text)


class Context:
    """The files that a build is sent: all but those that .dockerignore leaves out."""

    def __init__(self, root: Path, ignore: str):
        rules = [line for line in ignore.splitlines() if line and not line.startswith("#")]
        # Everything is left out, and then this and that is not.
        if rules[:1] != ["*"] or not all(rule.startswith("!") for rule in rules[1:]):
            raise SystemExit(".dockerignore: allowed are `*` and lines that begin with `!`")
        self.root = root
        self.sent = [Path(rule[1:]) for rule in rules[1:]]

    def path(self, source: str) -> Path:
        path = Path(source)
        if not any(path == sent or sent in path.parents for sent in self.sent):
            raise SystemExit(f"Dockerfile: COPY {source}: .dockerignore leaves it out")
        return self.root / path

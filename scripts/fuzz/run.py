#!/usr/bin/env python3
"""Property-based requests against a live server: the reference's document restricted to our operations, and our own.

Finds answers that the document does not know, answers of 5xx, and requests that were accepted although the document
forbids them. What is tried is the same in every run (fixed seed), within a limit of time. The server has a worker on the
small runner image, so that runs and sessions get real sandboxes; making them needs root.

    run.py TARGET_DIRECTORY [SECONDS]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request

PACKAGE, MEMBER = "labelbox-recursion-sdk==0.1.0", "recursion_sdk/_generated/openapi.json"
TREE, OWN = "/managed-agents/v1", "/groundwork/v1"
RUNNER = "groundwork/runner:small"
images = pathlib.Path(os.environ.get("GROUNDWORK_TEST_IMAGES", "/var/lib/groundwork-test/images"))
here = pathlib.Path(__file__).resolve().parent
target = pathlib.Path(sys.argv[1]).resolve()
seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 75


def run(args, **kwargs):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))} failed:\n{done.stdout}")
    return done.stdout


def tool():
    """The fuzzer, in a directory of its own under the target directory."""
    wanted = (here / "requirements.txt").read_text()
    # Of this name because the fuzzer tries constants of the code around it, and takes its own libraries for that code
    # elsewhere: one of them is a header's value that no client sends.
    place = target / "tools" / "fuzz" / "site-packages"
    stamp = place / "installed.txt"
    if not stamp.is_file() or stamp.read_text() != wanted:
        run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade",
             "--target", place, "--requirement", here / "requirements.txt"])
        stamp.write_text(wanted)
    return place


def contract():
    """The reference's document with our operations alone; beside the one that the conformance test fetches."""
    given = os.environ.get("GROUNDWORK_TEST_CONTRACT")
    place = target / "tmp" / "reference-contract-0.1.0"
    file = pathlib.Path(given) if given else place / MEMBER
    if not file.is_file():
        place.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--python-version", "3.13", PACKAGE], cwd=place)
        run([sys.executable, "-m", "zipfile", "--extract", next(place.glob("*.whl")), place])
    document = json.loads(file.read_text())
    ours = re.compile(TREE + "/(sandbox-providers|environment-templates|environments(/.*)?)$")
    document["paths"] = {path: item for path, item in document["paths"].items() if ours.match(path)}
    # Ours may be left out: then it is the catalog's default (docs/api.md).
    document["components"]["schemas"]["CreateEnvironmentRequest"]["required"].remove("provider")
    return document


class Server:
    """`groundwork serve` with its worker, on a data directory of its own, with an admin's key."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "site" / "pkg").mkdir(parents=True)
        limits = "".join(f"{name} = 100000\n" for name in
                         ("key_per_second", "key_burst", "address_per_second", "address_burst"))
        (directory / "groundwork.toml").write_text(
            f"site = '{directory}/site'\n[rate_limit]\n{limits}[runner]\nimage = '{RUNNER}'\n")
        if not (images / "runner" / "small" / "image.json").is_file():
            sys.exit(f"The small runner image is not under {images}: run make test, or set GROUNDWORK_TEST_IMAGES.")
        (directory / "data" / "images").mkdir(parents=True)
        # Hard links: it is read only.
        run(["cp", "-al", images / "runner", directory / "data" / "images" / "runner"])
        self.binary = target / "debug" / "groundwork"
        self.env = {"PATH": os.environ["PATH"], "GROUNDWORK_CONFIG": f"{directory}/groundwork.toml",
                    "GROUNDWORK_DATA": f"{directory}/data", "GROUNDWORK_LOG": "info"}
        member = ["--email", "admin@example.com", "--role", "admin"]
        run([self.binary, "admin", "create-member", *member], env=self.env)
        self.key = run([self.binary, "admin", "create-api-key", *member], env=self.env).strip()

    def __enter__(self):
        self.log = open(self.directory / "log", "w")
        self.process = subprocess.Popen([self.binary, "serve", "--listen", "127.0.0.1:0"], env=self.env,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.url = self.process.stdout.readline().strip().removeprefix("Groundwork is at ")
        if not self.url.startswith("http"):
            sys.exit((self.directory / "log").read_text())
        self.until("a worker that is ready", lambda: self.call("GET", "/readyz")["ready"])
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def until(self, what, check, limit=60):
        """Waits for a condition; an answer of 503 is none."""
        deadline = time.monotonic() + limit
        while True:
            try:
                if check():
                    return
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise
            if time.monotonic() > deadline:
                sys.exit(f"In vain waited for {what}:\n" + (self.directory / "log").read_text())
            time.sleep(0.1)

    def call(self, method, path, body=None, **headers):
        request = urllib.request.Request(self.url + path, method=method, data=body and json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.key}",
                                                  "Content-Type": "application/json", **headers})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


def fuzz(place, directory, server, name, document, limit, settings=""):
    """One run; its summary."""
    directory = directory / name.replace(" ", "-")
    directory.mkdir()
    (directory / "document.json").write_text(json.dumps(document))
    (directory / "schemathesis.toml").write_text(settings)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place), "HOME": str(directory), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", "document.json", "--url", server.url,
         "--header", f"Authorization: Bearer {server.key}", "--generation-deterministic", "--max-time", str(limit),
         "--max-examples", "30", "--no-shrink", "--continue-on-failure", "--request-timeout", "20",
         # The documents cannot say all that the rules say (no machine of such a size, a runtime that is not there), so
         # that a refusal of a request that fits the document is no fault.
         "--exclude-checks", "positive_data_acceptance", "--warnings", "off"],
        cwd=directory, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    summary = re.search(r"^=+ SUMMARY =+$(.*?)^=+ ", done.stdout, re.MULTILINE | re.DOTALL)
    if done.returncode or not summary:
        print(done.stdout)
        sys.exit(f"schemathesis with {name}: failed")
    return f"schemathesis with {name}:\n" + textwrap.indent(summary[1].strip(), "    ")


def named(paths, **parameters):
    """Settings that name what is there for these paths: chance seldom makes it."""
    given = ", ".join(f'"path.{name}" = "{value}"' for name, value in parameters.items())
    return f'[[operations]]\ninclude-path-regex = "{paths}"\nparameters = {{ {given} }}\n'


def with_a_run(server, name):
    """An environment with a script, and a run of it."""
    environment = server.call("POST", f"{TREE}/environments", {"name": name, "setup": {"script": "true\n"}})
    environment = environment["environment_id"]
    return environment, server.call("POST", f"{TREE}/environments/{environment}/setup-runs",
                                    **{"Idempotency-Key": name})["setup_run_id"]


def with_a_session(server):
    """An environment that needs no test, and a session of it that runs."""
    environment = server.call("POST", f"{TREE}/environments", {"name": "with a session"})["environment_id"]
    session = server.call("POST", f"{OWN}/sessions", {"environment_id": environment})["session_id"]
    server.until("a session", lambda: server.call("GET", f"{OWN}/sessions/{session}?wait_seconds=5")["status"] == "running")
    return environment, session


def with_own_things(server, document):
    """Our document and settings for it: its examples are of an environment that is there, and most calls about runs and
    sessions are about some that are there. What deletes takes what chance gives it."""
    environment, session = with_a_session(server)
    tested, run_id = with_a_run(server, "ours")
    body = document["paths"][f"{OWN}/sessions"]["post"]["requestBody"]["content"]["application/json"]
    text = json.dumps(document).replace(body["example"]["environment_id"], environment)
    return json.loads(text), (
        named("/setup-runs/.*/(log.txt|egress|timings)$", environment_id=tested, setup_run_id=run_id)
        + named("/sessions/.*/(samples|exec|stop|resume)$", session_id=session))


def own_document(server):
    try:
        return server.call("GET", "/openapi.json")
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def main():
    place, document = tool(), contract()
    with tempfile.TemporaryDirectory(prefix="groundwork-fuzz-") as directory:
        directory = pathlib.Path(directory)
        with Server(directory) as server:
            own = own_document(server)
            share = seconds // 3 if own else seconds // 2
            lines = [fuzz(place, directory, server, "the reference's document", document, share)]
            runs = dict(document, paths={path: item for path, item in document["paths"].items() if "/setup-runs" in path})
            environment, run_id = with_a_run(server, "theirs")
            settings = named("/setup-runs", environmentId=environment, setupRunId=run_id)
            lines.append(fuzz(place, directory, server, "the reference's setup runs", runs, share, settings))
            if own:
                own, settings = with_own_things(server, own)
                lines.append(fuzz(place, directory, server, "our own document", own, share, settings))
        if '"level":"ERROR"' in (directory / "log").read_text():
            sys.exit("The server logged an error:\n" + "\n".join(
                line for line in (directory / "log").read_text().splitlines() if '"level":"ERROR"' in line))
    for line in lines:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"schemathesis: {time.monotonic() - started:.0f} s", file=sys.stderr)

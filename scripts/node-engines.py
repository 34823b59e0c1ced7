#!/usr/bin/env python3
"""Fails if a locked npm package for Linux says that it needs a newer Node.js than Debian 12 has.

npm leaves out optional packages of that kind without a word (the native half of Tailwind, say), so that a build works
on machines with a newer Node.js and breaks on the one that the README promises.
"""
import json
import re
import sys

DEBIAN = 18
failed = False
for lock in sys.argv[1:]:
    with open(lock, encoding="utf-8") as file:
        packages = json.load(file)["packages"]
    for path, package in packages.items():
        if not package.get("optional") or "linux" not in package.get("os", ["linux"]):
            continue
        wanted = package.get("engines", {}).get("node", "*")
        # The lowest major version of each alternative.
        majors = [re.search(r"\d+", part) for part in wanted.split("||")]
        if all(major and int(major.group()) > DEBIAN for major in majors):
            print(f"{lock}: {path} {package['version']} needs Node.js {wanted}; Debian 12 has {DEBIAN}", file=sys.stderr)
            failed = True
sys.exit(failed)

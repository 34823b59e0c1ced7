#!/usr/bin/env python3
"""Sums up what the stories noted with GROUNDWORK_INTERACTIONS: the time from an interaction to the next paint."""
import sys

# What takes less is not noted by browsers, but for the first interaction of a page.
NOTED_MS = 16

took: dict[tuple[str, str], int] = {}
scripted: set[str] = set()
for line in open(sys.argv[1], encoding="utf-8"):
    story, note = line.rstrip("\n").split("\t")
    scripted.add(story)
    if note == "interaction page":
        continue
    _, interaction, milliseconds, _ = note.split(" ", 3)
    key = (story, interaction)
    # An interaction is several events; the slowest counts.
    took[key] = max(took.get(key, 0), int(float(milliseconds)))
times = sorted(milliseconds for milliseconds in took.values() if milliseconds >= NOTED_MS)
if not times:
    sys.exit("no interaction was noted")
silent = sorted(scripted - {story for story, _ in took})
print(
    f"interaction to next paint: {len(times)} interactions of {NOTED_MS} ms or more, "
    f"p50 {times[len(times) // 2]} ms, p95 {times[int(0.95 * len(times))]} ms, most {times[-1]} ms; "
    f"{len(scripted) - len(silent)} of {len(scripted)} stories with scripting have interactions"
)
for (story, _), milliseconds in sorted(took.items(), key=lambda item: -item[1])[:5]:
    print(f"  {milliseconds} ms in: {story}")
for story in silent:
    print(f"  no interaction in: {story}")

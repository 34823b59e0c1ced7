#!/usr/bin/env python3
"""Sums up what the stories noted with GROUNDWORK_INTERACTIONS: the time from an interaction to the next paint."""
import sys

took: dict[tuple[str, str], int] = {}
for line in open(sys.argv[1], encoding="utf-8"):
    story, note = line.rstrip("\n").split("\t")
    _, interaction, milliseconds, _ = note.split(" ", 3)
    key = (story, interaction)
    # An interaction is several events; the slowest counts. What takes under 16 ms is not noted by browsers.
    took[key] = max(took.get(key, 0), int(float(milliseconds)))
times = sorted(took.values())
if not times:
    sys.exit("no interaction was noted")
print(
    f"interaction to next paint: {len(times)} interactions of 16 ms or more, "
    f"p50 {times[len(times) // 2]} ms, p95 {times[int(0.95 * len(times))]} ms, most {times[-1]} ms"
)
for (story, _), milliseconds in sorted(took.items(), key=lambda item: -item[1])[:5]:
    print(f"  {milliseconds} ms in: {story}")

"""A training without torch for drills: `drilled.py VARIANT STEPS SECONDS_OF_A_STEP`.

It keeps a checkpoint of each replica every second step, and saves when it is asked to end. Variants
do one thing wrong: `none` keeps no checkpoint, `half-written` writes it in place and is nearly
always in the middle of that, `wrong-step` resumes at a later step, `jump` forgets its weights,
`early` ends with exit code 0 when asked, `short` saves only in the first half, `silent` reports no
metric.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

variant, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
path = Path(os.environ.get("RSCTL_CHECKPOINT_DIR", "."), f"{os.environ['RSCTL_REPLICA']}.json")
step, weight = 0, 10.0
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
if path.exists():
    state = json.loads(path.read_text())
    step, weight = state["step"], state["weight"]
    step += 4 if variant == "wrong-step" else 0
    weight = 10.0 if variant == "jump" else weight


def save() -> None:
    text = json.dumps({"step": step, "weight": weight})
    if variant == "half-written":
        with path.open("w") as file:
            file.write(text[:9])
            file.flush()
            time.sleep(2 * pause)
            file.write(text[9:])
    elif variant != "none" and not (variant == "short" and step > steps // 2):
        draft = path.with_suffix(".partial")
        draft.write_text(text)
        draft.replace(path)


while step < steps:
    step += 1
    weight *= 0.9
    loss = weight + ((step * 7919) % 13 - 6) / 300
    if variant != "silent":
        print(json.dumps({"rsctl": "metrics", "step": step, "loss": loss}), flush=True)
    if step % 2 == 0 or variant == "half-written":
        save()
    if asked:
        save()
        sys.exit(0 if variant == "early" else 143)
    time.sleep(0 if variant == "half-written" else pause)

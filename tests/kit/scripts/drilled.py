"""A training without torch for drills: `drilled.py VARIANT STEPS SECONDS_OF_A_STEP`.

It keeps a checkpoint of each replica every second step, and saves when it is asked to end. Variants
do one thing wrong: `none` keeps no checkpoint, `half-written` writes it in place and is nearly
always in the middle of that, `wrong-step` resumes at a later step, `jump` forgets its weights,
`early` ends with exit code 0 when asked, `short` saves only in the first half, `silent` reports no
metric.

With HELD_AT a run after the first in the folder RUNS, which is the run without a fault, stays at
that step and writes until it is struck. Later steps take no time, as in a run that continues from
a checkpoint.
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
is_resumed, held_at = path.exists(), int(os.environ.get("HELD_AT", steps + 1))
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
if is_resumed:
    state = json.loads(path.read_text())
    step, weight = state["step"], state["weight"]
    step += 4 if variant == "wrong-step" else 0
    weight = 10.0 if variant == "jump" else weight


def save(is_whole: bool = True) -> None:
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
        if is_whole:
            draft.replace(path)


def is_held() -> bool:
    return step == held_at and not (asked or is_resumed) and len(os.listdir(os.environ["RUNS"])) > 1


while step < steps:
    step += 1
    weight *= 0.9
    loss = weight + ((step * 7919) % 13 - 6) / 300
    if variant != "silent":
        print(json.dumps({"rsctl": "metrics", "step": step, "loss": loss}), flush=True)
    if step % 2 == 0 or variant == "half-written":
        save()
    while is_held():
        save(is_whole=False)
        time.sleep(0 if variant == "half-written" else 0.05)
    if asked:
        save()
        sys.exit(0 if variant == "early" else 143)
    if variant != "half-written" and not is_resumed and step < held_at:
        time.sleep(pause)

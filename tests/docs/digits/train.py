"""A stand-in for a training script: it prints what one prints, at once."""

import argparse
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.004)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

for epoch in range(1, args.epochs + 1):
    print(f"epoch {epoch} loss={1 / epoch:.4f} samples/s={800 + epoch}", flush=True)
for variable, file in (("RSCTL_OUTPUT_DIR", "model.pt"), ("RSCTL_CHECKPOINT_DIR", "step-3.pt")):
    if folder := os.environ.get(variable):
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, file).write_text("weights")

"""What tools/reference/claims.py finds in the documentation, and what it leaves alone."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[1] / "tools" / "reference"


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("claims")


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("`rsctl sumbit job.yaml`", ["rsctl does not have the command sumbit"]),
        ("`rsctl bench strat`", ["rsctl bench does not have the command strat"]),
        ("`rsctl logs @last --flow`", ["rsctl logs does not have the option --flow"]),
        ("`history bisect` `rsctl history bisect j --god x`",
         ["rsctl history bisect does not have the option --god"]),
        ("`status --wacht`", ["rsctl status does not have the option --wacht"]),
        ("`--wacht`", ["no command has the option --wacht"]),
        ("`--set worker.count=2`", ["the job file does not have the key worker.count"]),
        ("`limits.grave: 2m`", ["the job file does not have the key limits.grave"]),
        ("`targets.NAME.regoin`", ["the job file does not have the key targets.NAME.regoin"]),
        ("```console\n$ rsctl submit \\\n    --regoin x\nrsctl x\n```",
         ["rsctl submit does not have the option --regoin"]),
        ("| table | a row |\n|---|---|\n| `figures` | a run |\n\n| `other` |",
         ["rsctl export does not have the table figures; "
          "it has runs, samples, metrics, telemetry"]),
        ("```python\nframe(run, table=\"figures\")\n```",
         ["rsctl export does not have the table figures; "
          "it has runs, samples, metrics, telemetry"]),
        ("`export --table figures`",
         ["rsctl export does not have the table figures; "
          "it has runs, samples, metrics, telemetry"]),
    ],
)  # fmt: skip
def test_what_does_not_exist(
    claims: ModuleType, tmp_path: Path, text: str, problems: list[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [hit.rpartition("': ")[2] for hit in claims.check(page)] == problems


@pytest.mark.parametrize(
    "text",
    [
        "`rsctl COMMAND --help`, `rsctl bench status @last` and `rsctl gate calibrate JOB -n 10`",
        "`rsctl completion fish | source --x`, `rsctl exec RUN -- ls --color`, `exec rsctl gate …`",
        "`rsctl init torchrun --nnodes 2 train.py`, `sbatch --requeue`, `--requeue`, `train --lr`",
        "`run.args.lr`, `inputs.train.mode`, `targets.vertex.region[1]`, `targets.NAME.region`",
        "`run.cost`, `workers.…`, `torch.optim`, `report.html`, `--set KEY=VALUE`",
        "`--set 'matrix.run.args.lr=[1,2]'`, `--table metrics`, `<!-- rsctl gate steps -->`",
        "```yaml\n`--wacht` `limits.grave`\n```",
    ],
)
def test_what_exists_or_is_of_another_program(
    claims: ModuleType, tmp_path: Path, text: str
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert list(claims.check(page)) == []


def test_all_pages_are_true(claims: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert (claims.main([]), capsys.readouterr().out) == (0, "")

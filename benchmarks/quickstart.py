"""Times the first command of the README: python -m benchmarks.quickstart."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sweeps.store.sweep_store import SweepStore


def main() -> None:
    """Run the quickstart in an empty folder and print the time of each part."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        subprocess.run(
            [sys.executable, "-m", "sweeps.cli", "run", "quickstart"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        total = time.time() - start
        records = SweepStore(str(Path(folder) / "calsweep-store"), "quickstart").load_records()
        started = min(entry["timestamp"] for r in records for entry in r.history) - start
        epochs = sum(record.epochs for record in records)
    states = [record.state for record in records]
    rows = {
        "trials": len(records),
        "of them stopped early": states.count("stopped"),
        "epochs": epochs,
        "seconds until the first epoch is done": round(started, 1),
        "seconds in all": round(total, 1),
    }
    for name, value in rows.items():
        print(f"{name:40s} {value:>10}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()

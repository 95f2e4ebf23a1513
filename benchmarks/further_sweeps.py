"""Times sweeps that follow each other in one Python process.

    python -m benchmarks.further_sweeps [--sweeps 3] [--debug]

Each is the quickstart with two trials of two epochs. CPU seconds are those of this process and of
all that it starts, Ray's included.
"""

import argparse
import os
import tempfile
import time

import calsweep
from benchmarks.quickstart import cpu_of_living

SMALL = {
    "training.epochs": 2,
    "search.sampler": "random",
    "search.trials": 2,
    "selection.finalists": 0,
    "tracking.register_model": False,
}


def main() -> None:
    """Run the sweeps and print the time of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--debug", action="store_true", help="without Ray")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as storage:
        for number in range(arguments.sweeps):
            start, cpu = time.perf_counter(), cpu_in_all()
            calsweep.run(
                "quickstart",
                name=f"sweep-{number}",
                storage=storage,
                set=SMALL,
                progress=False,
                debug=arguments.debug,
            )
            seconds, used = time.perf_counter() - start, cpu_in_all() - cpu
            print(f"sweep {number}: {seconds:.1f} s, CPU {used:.1f} s", flush=True)


def cpu_in_all() -> float:
    """CPU seconds of this process and of the processes below it."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + cpu_of_living()


if __name__ == "__main__":
    main()

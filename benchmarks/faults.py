"""Work that a sweep loses when parts of a cluster die, with faults injected at random moments.

    python -m benchmarks.faults [--tries 20] [--trials N] [--seed 0] [FAULT ...]

A head and two nodes run on this machine as separate Ray processes (``ray start``), the driver as
a job of that cluster. Faults with the same requirements share a cluster. A fault is injected into a
sweep at random moments until the sweep has ended, and into further sweeps until ``--tries`` is
reached. If it ends the driver, ``calsweep resume`` follows. Prints a table: tries, trials, lost
trials, epochs that were trained twice, and seconds until the interrupted trials finished their
next epoch.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from dataclasses import replace
from itertools import groupby

from tests.harness.faults import FAULTS, Kind, Outcome, faulty_sweep, running_cluster
from tests.harness.ray_cluster import RayCluster


def main() -> None:
    """Inject all faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--tries", type=int, default=20, help="tries of each fault")
    parser.add_argument("--trials", type=int, help="of a sweep, in place of the usual number")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.faults) - FAULTS.keys():
        parser.error(f"no fault {', '.join(unknown)}; there are: {', '.join(FAULTS)}")
    print("| fault | tries | trials | lost | repeated epochs | seconds to recover: median, most |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for needs, names in groupby(arguments.faults or FAULTS, lambda name: FAULTS[name].needs):
        with running_cluster(*needs) as cluster:
            for name in names:
                kind = FAULTS[name]
                if arguments.trials is not None:
                    usual = kind.sections.get("search", {"sampler": "tpe"})
                    search = {**usual, "trials": arguments.trials}
                    kind = replace(kind, sections={**kind.sections, "search": search})
                rng = random.Random(f"{arguments.seed} {name}")
                print(_row(name, _outcomes(cluster, name, kind, rng, arguments.tries)), flush=True)


def _outcomes(
    cluster: RayCluster, name: str, kind: Kind, rng: random.Random, tries: int
) -> list[Outcome]:
    """The outcomes of the sweeps that are needed for ``tries`` faults."""
    outcomes: list[Outcome] = []
    while (left := tries - sum(outcome.tries for outcome in outcomes)) > 0:
        outcomes.append(faulty_sweep(cluster, kind, rng, left))
        print(f"{name}: {outcomes[-1]}", file=sys.stderr, flush=True)
        if not outcomes[-1].tries:
            raise RuntimeError(f"{name}: in a whole sweep it did not happen once")
    return outcomes


def _row(name: str, outcomes: list[Outcome]) -> str:
    seconds = [value for outcome in outcomes for value in outcome.seconds]
    took = f"{statistics.median(seconds):.1f}, {max(seconds):.1f}" if seconds else "–"
    counts = (
        sum(outcome.tries for outcome in outcomes),
        sum(outcome.trials for outcome in outcomes),
        sum(len(outcome.lost) for outcome in outcomes),
        sum(outcome.repeated for outcome in outcomes),
    )
    return f"| {name} | {' | '.join(map(str, counts))} | {took} |"


if __name__ == "__main__":
    main()

"""A batch script for Slurm: starts Ray on a job's nodes, runs the sweep, and requeues itself."""

from __future__ import annotations

import shlex

_SCRIPT = r"""#!/bin/bash
# Runs the sweep in @FILE on the nodes of a Slurm job. Before the wall time it stops the sweep in
# order and requeues itself; it then resumes where it stopped. Submit it from this folder:
#   sbatch @SCRIPT
# docs/slurm.md explains the lines; those marked CHANGE depend on your cluster.
#SBATCH --job-name=@JOB
#SBATCH --nodes=1                 # CHANGE
#SBATCH --exclusive               # `ray stop`, at the end, ends all your Ray processes on a node
#SBATCH --gpus-per-node=8         # CHANGE; delete the line for nodes without GPUs
#SBATCH --ntasks-per-node=1       # one Ray per node, which starts the trials itself
#SBATCH --time=08:00:00           # CHANGE
#SBATCH --signal=B:USR1@300       # seconds before the wall time, to stop in; at least 180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=@LOG-%j.log
set -uo pipefail

source .venv/bin/activate         # CHANGE: where calsweep is installed
storage=$PWD/calsweep-store       # CHANGE: a folder that all nodes share, or s3://...

export RAY_AUTH_MODE=token        # a Ray that is open to the network runs anyone's code
[[ -s ~/.ray/auth_token ]] || ray get-auth-token --generate > /dev/null

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$head:$((20000 + SLURM_JOB_ID % 10000))
pid_file=$PWD/.calsweep-$SLURM_JOB_ID.pid
rm -f "$pid_file"

# The driver runs on the first node, as this script does. It ends in order on SIGTERM.
stop() {
    if [[ -s $pid_file ]]; then kill -TERM "$(< "$pid_file")"; else kill -TERM "$step"; fi
}
out_of_time=
step=
trap 'out_of_time=1; stop' USR1
trap stop TERM

srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --wait=60 \
    ray symmetric-run --address="$address" --min-nodes="$SLURM_JOB_NUM_NODES" \
    --num-cpus="$SLURM_CPUS_ON_NODE" -- \
    bash -c 'echo $$ > "$1"; shift; exec "$@"' driver "$pid_file" \
    calsweep run @FILE --or-resume --storage "$storage" --address "$address" &
step=$!
code=0
while kill -0 "$step" 2> /dev/null; do  # a signal ends `wait`, not the step
    code=0
    wait "$step" || code=$?
done
rm -f "$pid_file"

if [[ -n $out_of_time && $code -ne 0 ]]; then
    echo "out of time: requeued, to resume"
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def batch_script(name: str, file: str) -> str:
    """The text of a batch script that runs a sweep file in the folder it is submitted from."""
    words = {
        "@FILE": shlex.quote(file),
        "@SCRIPT": shlex.quote(file.rpartition(".")[0] + ".sbatch"),
        "@JOB": name,
        "@LOG": name,
    }
    text = _SCRIPT
    for word, value in words.items():
        text = text.replace(word, value)
    return text

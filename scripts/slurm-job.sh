#!/usr/bin/env bash
#SBATCH --job-name=quarry
#SBATCH --requeue
#SBATCH --open-mode=append
# Each task of a job array runs one shard. Tasks are numbered from 1, there are as many tasks as
# shards, and all get the same seed:
#
#   QUARRY=/shared/quarry OUT=/shared/run sbatch --array=1-8 --exclusive scripts/slurm-job.sh \
#       peers --seed=7
#   quarry lab merge /shared/run --out whole      # once the array has ended
#
# Shards that the merge names as missing are run again with SHARDS=8 and --array=3,5.
#
# A shard that is ended by a signal (kill, a node out of memory) is put back into the queue, up to
# three times; Slurm itself does so when a node fails. The shard begins anew; if it is complete, the
# job ends at once. Other failures are not repeated, because they would happen again.
set -uo pipefail
task=${SLURM_ARRAY_TASK_ID:?submit it with sbatch --array=1-N}
if [[ -z ${SHARDS:-} ]]; then
    if [[ $SLURM_ARRAY_TASK_MIN != 1 || $SLURM_ARRAY_TASK_MAX != "$SLURM_ARRAY_TASK_COUNT" ]]; then
        echo "quarry: of an array that is not 1-N nobody knows how many shards there are;" \
            "accepted: --array=1-N, or SHARDS=N in the environment" >&2
        exit 2
    fi
    SHARDS=$SLURM_ARRAY_TASK_COUNT
fi
shard=$task/$SHARDS
status=0
"${QUARRY:-quarry}" lab run "$@" --shard="$shard" --out="${OUT:?the directory of all shards}" \
    || status=$?
# If a signal ended the command, its status is 128 plus the signal's number.
if ((status > 128 && ${SLURM_RESTART_COUNT:-0} < 3)); then
    echo "shard $shard: requeued after the end by a signal, status $status"
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$task"
fi
exit "$status"

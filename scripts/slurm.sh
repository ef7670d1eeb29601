#!/usr/bin/env bash
# Runs a sweep as a job array of Slurm on a cluster of one node that it starts itself: slurmctld,
# slurmd and munged, with a configuration of their own in a temporary folder, which is removed at
# the end. The script kills one shard in the middle, which has to come back by requeue; then it
# merges the shards, and the merge has to be whole.
#
#   scripts/slurm.sh [QUARRY]     the command; by default target/tools/quarry, else target/debug
#
# Exit status 77: Slurm cannot run here; a line says why. `scripts/setup.sh slurm` installs it. The
# job that this script submits is scripts/slurm-job.sh, which is made for real clusters as well.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

readonly SHARDS=4
# Long enough to be killed in the middle: a shard has 8 or 9 of 34 blocks with 3 samples each.
readonly EXPERIMENT=(empty --samples=17 --millis=60 --seed=7)
# If an awaited state does not come within so long, something hangs. The time is generous, because a
# busy machine may take long to requeue a shard.
readonly HANGS_AFTER_S=900

say() { printf '==> %s\n' "$*"; }
skip() { printf 'skipped: slurm: %s\n' "$*"; exit 77; }
fail() {
    printf 'slurm: %s\n' "$*" >&2
    tail -n 15 "$place"/*.log "$place"/job-*.out >&2 || true
    exit 1
}

target=${CARGO_TARGET_DIR:-target}
quarry=${1:-$target/tools/quarry}
[[ -x $quarry ]] || quarry=$target/debug/quarry
[[ -x $quarry ]] || { echo "slurm: no $quarry: run 'make lab' first" >&2; exit 1; }
quarry=$(realpath "$quarry")

if ! scripts/setup.sh slurm > /dev/null 2>&1; then
    skip "its packages cannot be installed here (scripts/setup.sh slurm)"
fi
[[ $(id -u) == 0 ]] || skip "slurmd starts jobs for others and needs root"

place=$(mktemp -d -t quarry-slurm-XXXXXX)
# A socket's path has at most 107 letters.
((${#place} < 80)) || skip "TMPDIR=$place is too long for the path of a socket"
started=()
stop() {
    local pid
    for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
    # Processes that do not end within 5 seconds are killed, by their ids as well.
    for pid in "${started[@]}"; do
        timeout 5 tail --pid="$pid" -f /dev/null 2> /dev/null || kill -9 "$pid" 2> /dev/null || true
    done
    rm -rf "$place"
}
trap stop EXIT

# until_true WHAT COMMAND..: waits until COMMAND succeeds; WHAT names the condition.
until_true() {
    local what=$1
    shift
    until "$@" > /dev/null 2>&1; do
        ((SECONDS < HANGS_AFTER_S)) || fail "$what: not within $HANGS_AFTER_S s"
        sleep 0.5
    done
}

# Random ports, so that two runs of this script at the same time hardly ever collide.
port=$((20000 + RANDOM % 20000))
mkdir -p "$place"/{munge,state,spool}
# munged requires that no other user can write into the folders of its socket and its key.
chmod 755 "$place" "$place/munge"
head -c 128 /dev/urandom > "$place/munge/key"
chmod 600 "$place/munge/key"
host=$(hostname -s)
cat > "$place/slurm.conf" << END
ClusterName=quarry
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/socket
CredType=cred/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
# In a container Slurm cannot make control groups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=100000,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
SlurmctldParameters=enable_configless
KillWait=1
JobRequeue=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=10 State=UP
END
export SLURM_CONF=$place/slurm.conf

say "munged, slurmctld, slurmd"
munged --foreground --force --key-file="$place/munge/key" --socket="$place/munge/socket" \
    --pid-file="$place/munge/pid" --seed-file="$place/munge/seed" \
    --log-file="$place/munged.log" > "$place/munged.out.log" 2>&1 &
started+=($!)
until_true "munged's socket" test -S "$place/munge/socket"
slurmctld -D -i > "$place/slurmctld.out.log" 2>&1 &
started+=($!)
until_true "slurmctld" scontrol ping
slurmd -D -N "$host" > "$place/slurmd.out.log" 2>&1 &
started+=($!)
is_idle() { [[ $(sinfo --noheader --format=%T) == idle ]]; }
until_true "an idle node" is_idle

say "sbatch --array=1-$SHARDS scripts/slurm-job.sh ${EXPERIMENT[*]}"
out=$place/run
job=$(sbatch --parsable --array=1-$SHARDS%1 --output="$place/job-%a.out" --open-mode=append \
    --export="ALL,QUARRY=$quarry,OUT=$out" scripts/slurm-job.sh "${EXPERIMENT[@]}")

# The process of a shard that has begun, by the only command line with its number; `quarry lab` has
# become `quarry-lab` by then.
victim=2
process_of() {
    local file words
    for file in /proc/[0-9]*/cmdline; do
        mapfile -d '' -t words < "$file" 2> /dev/null || continue
        if [[ ${words[0]:-} == "$quarry-lab" && " ${words[*]} " == *" --shard=$1/$SHARDS "* &&
            " ${words[*]} " == *"$out"* ]]; then
            file=${file%/cmdline}
            printf '%s\n' "${file#/proc/}"
            return 0
        fi
    done
    return 1
}
has_samples() {
    local file
    for file in "$out"/shard-$victim-of-$SHARDS.partial-*/samples.jsonl; do
        [[ -e $file ]] && (($(wc -l < "$file") >= 3)) && return 0
    done
    return 1
}
until_true "samples of shard $victim" has_samples
pid=$(process_of $victim) || fail "shard $victim ended before it could be killed"
say "kill -9 of shard $victim, process $pid"
kill -9 "$pid"
status=0
"$quarry" lab merge "$out" --out "$place/early" > "$place/early.log" 2>&1 || status=$?
[[ $status == 3 ]] || fail "a merge without shard $victim ended with $status, not with 3"
grep -q "missing of $SHARDS shards: .*$victim" "$place/early.log" || fail "it is not named missing"

# Slurm lets a requeued job wait for two minutes, so that a failed node can come back; this script
# starts it at once.
is_pending() { [[ $(squeue --noheader --jobs="${job}_$victim" --format=%T) == PENDING ]]; }
until_true "shard $victim in the queue" is_pending
until_true "its start" scontrol update JobId="${job}_$victim" StartTime=now

is_done() { [[ -z $(squeue --noheader --jobs="$job" 2> /dev/null) ]]; }
is_whole() { (($(find "$out" -maxdepth 1 -name "shard-*-of-$SHARDS" | wc -l) == SHARDS)); }
until_true "all shards" is_whole
until_true "the end of the array" is_done
grep -q "requeued after the end by a signal" "$place/job-$victim.out" \
    || fail "shard $victim did not come back by requeue"
"$quarry" lab merge "$out" --out "$place/whole" || fail "the shards cannot be merged"
"$quarry" lab compare "$place/whole" > "$place/table.txt"
grep -q '| steps ' "$place/table.txt" || fail "the table has no row of steps"
samples=$(wc -l < "$place/whole/samples.jsonl")
# 17 rounds and a warm-up of 2 workloads on 2 variants and a copy.
((samples == 18 * 2 * 3)) || fail "the merge has $samples samples, not $((18 * 2 * 3))"
say "$SHARDS shards, one killed and requeued, merged in $SECONDS s"

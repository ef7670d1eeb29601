# What the drivers of programs share; each of them sources it. See lab/experiments/src/driven.rs for
# the verbs. A driver defines `about`, `prepare` and `run` (a server: see `serve`), and ends with
# `drive "$@"`; then $folder and $size are set.
set -euo pipefail
export LC_ALL=C

# Says what to install, and ends the driver.
absent() { printf 'not installed; apt-get install %s\n' "$*" >&2; exit 3; }
# find_commands COMMAND PACKAGE..: ends the driver if commands are absent, and names their packages.
find_commands() {
    local missing=()
    for ((; $# > 0; )); do
        command -v "$1" > /dev/null || missing+=("$2")
        shift 2
    done
    ((${#missing[@]} == 0)) || absent "${missing[@]}"
}
wrong() { printf 'wrong: %s\n' "$*" >&2; exit 1; }
amount() { if [[ $size == quick ]]; then echo "$2"; else echo "$1"; fi; }

# become USER: sets $as to the words that run a command as USER if root calls it, because some
# servers refuse to run as root. The environment, LD_PRELOAD included, and the process id stay.
become() {
    as=(env)
    [[ $(id -u) != 0 ]] || as=(setpriv --reuid="$1" --regid="$1" --clear-groups)
}

# Waits until a command succeeds, while the process $1 lives.
await() {
    local process=$1
    shift
    until "$@" > /dev/null 2>&1; do
        kill -0 "$process" 2> /dev/null || wrong "the server has ended before it answered"
        sleep 0.02
    done
}

# Ends the server $1 by SIGTERM; $2 is the status that it may have beside 0.
terminate() {
    kill -TERM "$server"
    wait "$server" || (($? == ${2:-0})) || wrong "$1 ended with $?"
}

# Prints the ids of all processes below the process $1.
below() {
    local child
    for child in $(cat "/proc/$1/task/"*/children 2> /dev/null); do
        echo "$child"
        below "$child"
    done
}

# If the lab asks for rests (LAB_REST): waits $2 seconds, and records as $1 the memory of all
# processes of the sample but this shell and its copies.
rest() {
    local process
    [[ -n ${LAB_REST:-} ]] || return 0
    sleep "$2"
    for process in $(below "$PPID"); do
        [[ /proc/$process/exe -ef /proc/$$/exe ]] || cat "/proc/$process/smaps_rollup" || true
    done 2> /dev/null | awk -v name="$1" '/^Pss:/ { kib += $2 } END { print name, kib * 1024 }' \
        >> "$folder/rest"
}

# Runs a server, whose driver defines `start`, `load`, `reload` and `stop`.
serve() {
    rm -f "$folder/rest"
    start
    load
    rest rest_5 5
    rest rest_60 55
    reload
    load
    rest rest_reload 5
    stop
}

# Root runs a server in a network of its own: its ports are free there, and other hosts see none.
alone() {
    if [[ $(id -u) != 0 || -n ${LAB_ALONE:-} ]]; then
        [[ $(id -u) != 0 ]] || ip link set lo up
        return
    fi
    LAB_ALONE=yes exec unshare --net bash "$0" "$@"
}

drive() {
    local verb=$1
    folder=${2:-} size=${3:-full}
    PATH=$PATH:/usr/sbin:/sbin
    if declare -F load > /dev/null; then
        [[ $verb != about ]] || echo 'kind: server'
        [[ $verb != run ]] || alone "$@"
        run() { serve; }
    fi
    case $verb in
        about | prepare | run) "$verb" ;;
        *) echo "usage: $0 about|prepare|run FOLDER full|quick" >&2; exit 2 ;;
    esac
}

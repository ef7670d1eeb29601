# What the drivers of programs share; each of them sources it. See lab/experiments/src/driven.rs for
# the verbs. A driver defines `about`, `prepare` and `run`, and ends with `drive "$@"`; then $folder
# and $size are set.
set -euo pipefail
export LC_ALL=C

# Says what to install, and ends the driver.
absent() { printf 'not installed; apt-get install %s\n' "$*" >&2; exit 3; }
wrong() { printf 'wrong: %s\n' "$*" >&2; exit 1; }
amount() { if [[ $size == quick ]]; then echo "$2"; else echo "$1"; fi; }

# $as becomes what runs a command as a user who is not root: some servers refuse to run otherwise.
# What is preloaded and the rest of the environment stay, and so does the id of the process.
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

drive() {
    local verb=$1
    folder=${2:-} size=${3:-full}
    case $verb in
        about | prepare | run) "$verb" ;;
        *) echo "usage: $0 about|prepare|run FOLDER full|quick" >&2; exit 2 ;;
    esac
}

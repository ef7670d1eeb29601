#!/usr/bin/env bash
# Fills pages of results: every block between `<!-- run: COMMAND -->` and `<!-- end -->` becomes
# the output of the command on this machine, with the command and the date above it. In a block that
# begins with `<!-- run text: COMMAND -->` the output keeps its columns. The prose around the blocks
# stays. On pages of results, and in memory.md and programs.md, the block of `quarry lab run` or
# `compare` keeps command, date and machine, and links to its output, lab/recorded/PAGE-N.txt.gz.
#
#   scripts/results.sh [PAGE..]     PAGE.md in lab/results, docs/results or docs; else all documents
#
# RESULTS_OPTIONS='--samples=3 --millis=50' is added to every `quarry lab run`, and to the command
# that the page shows. The raw samples are in $RUNS, by default a folder under target/results that
# is named by the time. All pages take about half an hour on two CPUs, and nothing else should run:
# before the first measurement the script waits up to 5 minutes until the load over 1 minute is 0.5
# per CPU or less; otherwise it fails, and the page stays as it was. Later that load includes the
# script's own measurements; then it is enough that over 5 seconds at most 0.5 threads per CPU run
# beside the script.
#
# RESULTS_LOADAVG=FILE is read instead of /proc/loadavg, by the test of this script.
set -euo pipefail
loadavg=$(realpath "${RESULTS_LOADAVG:-/proc/loadavg}")
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
command=$target/tools/quarry
[[ -x $command ]] || { echo "results: $command is not there: run 'make lab' first" >&2; exit 1; }
RUNS=${RUNS:-$target/results/$(date -u +%Y%m%d-%H%M%S)}
export RUNS
mkdir -p "$RUNS"
quarry() { "$command" "$@"; }

# with_options LINE: prints the command LINE. If it is a `quarry lab run`, each of RESULTS_OPTIONS
# replaces the same option of LINE, or is added at the end.
with_options() {
    local line=$1 option word
    local -a words options kept
    read -r -a options <<< "${RESULTS_OPTIONS:-}"
    if [[ $line == "quarry lab run "* ]]; then
        for option in "${options[@]}"; do
            read -r -a words <<< "$line"
            kept=()
            for word in "${words[@]}"; do
                [[ ${word%%=*} == "${option%%=*}" ]] || kept+=("$word")
            done
            line="${kept[*]} $option"
        done
    fi
    printf '%s' "$line"
}

# at_rest CPUS: true if over 5 seconds, on average, at most 0.5 threads per CPU run beside this
# script. The fourth field of the file is RUNNING/ALL; one of the running threads is the script.
at_rest() {
    local look running sum=0
    for ((look = 0; look < 10; look++)); do
        read -r _ _ _ running _ < "$loadavg"
        sum=$((sum + ${running%/*} - 1))
        sleep 0.5
    done
    ((2 * sum <= 10 * $1))
}

# quiet: waits until the machine is idle enough to measure; fails after 5 minutes.
measured=
quiet() {
    local cpus load second
    cpus=$(nproc)
    for ((second = 0; ; second += 5)); do
        read -r load _ < "$loadavg"
        if awk -v now="$load" -v cpus="$cpus" 'BEGIN { exit !(now <= cpus / 2) }'; then
            measured=yes
            return 0
        fi
        [[ -z $measured ]] || ! at_rest "$cpus" || return 0
        ((second < 300)) || break
        ((second)) || echo "results: waiting for a load of $load to fall" >&2
        sleep 5
    done
    echo "results: the load over 1 minute is $load on $cpus CPUs: figures are recorded at 0.5 per" \
        "CPU or less only; end what else runs and try again" >&2
    return 1
}

# block KIND COMMAND: runs COMMAND and prints the text that belongs between the marks.
block() {
    local kind=$1 line
    line=$(with_options "$2")
    [[ $line != "quarry lab run "* ]] || quiet || return
    printf '==> %s\n' "$line" >&2
    printf '\140%s\140, %s:\n\n' "$line" "$(date -u +%Y-%m-%d)"
    [[ $kind != text ]] || echo '```text'
    eval "$line"
    [[ $kind != text ]] || echo '```'
}

# raw PREFIX FOLDER: writes the output of each block of the lab into PREFIX-N.txt; prints instead a
# link to that file in FOLDER, and the tables that compare Quarry with glibc, one row a program.
raw() {
    awk -v prefix="$1" -v folder="$2" '
        inside && /^<!-- end/ {
            inside = 0
            if (rows) {
                file = prefix "-" (++files) ".txt"
                for (row = 1; row <= rows; row++) print block[row] > file
                print block[1] "\n"
                for (row = 2; row <= rows; row++) if (block[row] ~ /^[0-9]+ CPUs? \(/) {
                    print block[row] "\n"
                    break
                }
                sub(/.*\//, "", file)
                printf "[%s.gz](%s/%s.gz)\n", file, folder, file
                kept = 0
                for (; row <= rows; row++) {
                    if (block[row] ~ /^\| quarry \/ glibc/) { kept = 1; print "" }
                    if (block[row] !~ /^\|/) kept = 0
                    gsub(/ +/, " ", block[row])
                    gsub(/---+/, "---", block[row])
                    if (kept) print block[row]
                }
            }
        }
        inside { block[++rows] = $0; next }
        { print }
        /^<!-- run( text)?: quarry lab (run|compare)/ { inside = 1; rows = 0 }'
}

fill() {
    local page=$1 skipping='' kind line
    while IFS= read -r line; do
        if [[ $line =~ ^'<!-- run'(' text')?': '(.*)' -->'$ ]]; then
            kind=${BASH_REMATCH[1]# }
            printf '%s\n' "$line"
            block "$kind" "${BASH_REMATCH[2]}" || return
            skipping=yes
        elif [[ $line == '<!-- end -->' ]]; then
            printf '%s\n' "$line"
            skipping=
        elif [[ -z $skipping ]]; then
            printf '%s\n' "$line"
        fi
    done < "$page"
    [[ -z $skipping ]] || { echo "results: $page: a block without <!-- end -->" >&2; return 1; }
}

pages=("$@")
((${#pages[@]})) || for page in lab/results/[0-9]*.md; do pages+=("$(basename "$page" .md)"); done
for page in "${pages[@]}"; do
    for file in {lab/results,docs/results,docs}/$page.md; do
        [[ ! -f $file ]] || break
    done
    grep -qs '^<!-- run' "$file" || {
        all=$(grep -rl '^<!-- run' docs lab/results | xargs)
        echo "results: no page '$page'; there are: $all" >&2
        exit 1
    }
    fresh=$(mktemp -d)
    # The old page is replaced only when the new one is complete.
    fill "$file" > "$fresh/page" || { rm -rf "$fresh"; exit 1; }
    case $file in
        lab/results/*) folder=../recorded ;;
        docs/results/*) folder=../../lab/recorded ;;
        docs/memory.md | docs/programs.md) folder=../lab/recorded ;;
        *) folder= ;;
    esac
    if [[ -n $folder ]]; then
        mkdir -p lab/recorded
        rm -f "lab/recorded/$page"-[0-9]*.txt.gz
        raw "$fresh/$page" $folder < "$fresh/page" > "$file"
        find "$fresh" -name '*.txt' -exec gzip -n9 {} \; -exec cp {}.gz lab/recorded \;
    else
        cat "$fresh/page" > "$file"
    fi
    rm -rf "$fresh"
done
echo "raw samples: $RUNS"

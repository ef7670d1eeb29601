#!/usr/bin/env bash
# Checks the messages of a change's commits: a subject names the place and begins with a verb, in at
# most 72 characters, and a body says why.
#
#   scripts/commits.sh [RANGE]    RANGE is what `git log` takes; @{upstream}..HEAD if not given
#
# The gate does not run this: a subject must not hold back work that is green.
set -euo pipefail
cd "$(dirname "$0")/.."

range=${1:-}
if [[ -z $range ]]; then
    if ! upstream=$(git rev-parse --abbrev-ref '@{upstream}' 2> /dev/null); then
        echo "commits.sh: the branch has no upstream; name a range, such as main..HEAD" >&2
        exit 2
    fi
    range=$upstream..HEAD
fi
if ! hashes=$(git rev-list --no-merges "$range" 2> /dev/null); then
    echo "commits.sh: '$range' is no range of commits; accepted are ranges such as main..HEAD" >&2
    exit 2
fi

readonly no_verbs='the|a|an|this|no|fixed|added|changed|fixes|adds|changes'
checked=0 bad=0
# complain HASH SUBJECT WHAT
complain() {
    printf '%s %s\n    %s\n' "${1:0:8}" "$2" "$3"
    bad=$((bad + 1))
}
for hash in $hashes; do
    subject=$(git log -1 --format=%s "$hash")
    body=$(git log -1 --format=%b "$hash")
    checked=$((checked + 1))
    if ((${#subject} > 72)); then
        complain "$hash" "$subject" "has ${#subject} characters, and may have 72"
    elif [[ ! $subject =~ ^[a-z_/0-9.-]+:\ [a-z] ]]; then
        complain "$hash" "$subject" "is not 'place: verb ..', as in 'slab: split a full list'"
    elif [[ $subject =~ ^[^:]+:\ ($no_verbs)\  ]]; then
        complain "$hash" "$subject" "does not begin with a verb in the imperative after the place"
    elif [[ $subject == *. ]]; then
        complain "$hash" "$subject" "ends with a full stop"
    elif [[ -z $body ]] && (($(git show --format= --numstat "$hash" | wc -l) > 3)); then
        complain "$hash" "$subject" "changes more than three files, and no body says why"
    fi
done
printf '%d commits, %d to mend\n' "$checked" "$bad"
((bad == 0))

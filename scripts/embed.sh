#!/usr/bin/env bash
# Puts shared objects, compressed, into a command: each as a section with the object's name. So a
# command without libraries beside it has them inside, and cargo can compile all at the same time.
# The command keeps its times, by which cargo and scripts/strip.sh know whether it has changed.
#
#   scripts/embed.sh COMMAND OBJECT..
set -euo pipefail
command=$1
new=$(mktemp "$command.XXXXXX")
trap 'rm -f "$new" "$new".*' EXIT
options=()
for object in "${@:2}"; do
    section=.${object##*/}
    gzip -9nc "$object" > "$new$section"
    options+=(--remove-section "$section" --add-section "$section=$new$section"
        --set-section-flags "$section=noload,readonly")
done
"${CROSS_COMPILE:-}objcopy" "${options[@]}" "$command" "$new"
chmod 755 "$new"
touch -r "$command" "$new"
mv "$new" "$command"

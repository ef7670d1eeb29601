#!/usr/bin/env bash
# Puts shared objects into a command, compressed, as sections of their names, where the command
# finds them on a machine that has no others: so all are compiled at the same time. The command
# keeps its times, and with them what cargo and scripts/strip.sh know of it.
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
objcopy "${options[@]}" "$command" "$new"
chmod 755 "$new"
touch -r "$command" "$new"
mv "$new" "$command"

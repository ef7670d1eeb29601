#!/usr/bin/env bash
# Puts a shared object into a command, as a section of the object's name, where the command finds it
# on a machine that has no other: so the two are compiled at the same time. The command keeps its
# times, and with them what cargo and scripts/strip.sh know of it.
#
#   scripts/embed.sh COMMAND OBJECT
set -euo pipefail
command=$1 section=.${2##*/}
new=$(mktemp "$command.XXXXXX")
trap 'rm -f "$new"' EXIT
objcopy --remove-section "$section" --add-section "$section=$2" \
    --set-section-flags "$section=noload,readonly" "$command" "$new"
chmod 755 "$new"
touch -r "$command" "$new"
mv "$new" "$command"

#!/usr/bin/env bash
# Apache with a process for each connection.
source "$(dirname "$0")/common.sh"
model=prefork
source "$(dirname "$0")/apache.inc"

drive "$@"

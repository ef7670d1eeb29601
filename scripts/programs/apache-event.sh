#!/usr/bin/env bash
# Apache with threads for connections.
source "$(dirname "$0")/common.sh"
model=event
source "$(dirname "$0")/apache.inc"

drive "$@"

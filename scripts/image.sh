#!/usr/bin/env bash
# Builds the image of docs/deploy/Dockerfile on a Debian that debootstrap made, and uses it in both
# ways of the manifests: runs its command, and preloads its library in a container of another image
# that has the folder of docs/deploy/image-volume.yaml mounted. scripts/deb-test.sh calls it.
#
#   scripts/image.sh ROOT DEBS
#
# ROOT is the Debian, DEBS the folder with the packages. Needs root and buildah, no service, and
# fetches nothing but what the image installs.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$1
debs=$2
fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
store=$(mktemp -d)
# Containers leave the mounts of their files.
trap 'images unmount --all > /dev/null; rm -rf "$store"' EXIT
images() { buildah --root "$store/files" --runroot "$store/run" --storage-driver vfs "$@"; }
export BUILDAH_ISOLATION=chroot

base=$(sed -n 's/^FROM //p' docs/deploy/Dockerfile)
from=$(images from scratch)
images add --quiet "$from" "$root" / > /dev/null
images commit --quiet "$from" "docker.io/library/$base" > /dev/null
images build --pull-never --tag quarry --file docs/deploy/Dockerfile "$debs"

container=$(images from --pull-never quarry)
version=$(images run "$container" -- quarry --version)
[[ $version == "quarry "* ]] || fail "the command of the image prints '$version'"

folder=$(sed -n 's/^ *subPath: //p' docs/deploy/image-volume.yaml)
library=$(sed -n 's/.*LD_PRELOAD, value: \(.*\) }/\1/p' docs/deploy/image-volume.yaml)
volume=$(images mount "$container")
service=$(images from --pull-never "$base")
maps=$(images run --volume "$volume/$folder:${library%/*}:ro" --env "LD_PRELOAD=$library" \
    "$service" -- cat /proc/self/maps)
[[ $maps == *" $library"* ]] || fail "a service with the image as a volume is not on Quarry"
echo "image: $version; a service with the image as a volume runs on $library"

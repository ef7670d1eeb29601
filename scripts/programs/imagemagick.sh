#!/usr/bin/env bash
# ImageMagick: pictures made, filtered, put together and written in several formats.
source "$(dirname "$0")/common.sh"

about() {
    command -v convert montage identify > /dev/null || absent imagemagick
    printf 'version: %s\n' "$(convert -version | sed -n '1s/.*\(ImageMagick [^ ]*\).*/\1/p')"
    echo 'what: pictures made, blurred, turned, sharpened, reduced in colours, put together;' \
        'PNG, JPEG, GIF, TIFF'
}

prepare() { :; }

run() {
    local at kind
    local -x MAGICK_THREAD_LIMIT=2
    for ((at = 0; at < $(amount 3 1); at++)); do
        convert -seed "$at" -size 640x480 plasma:fractal -blur 0x3 -rotate 7 -sharpen 0x1 \
            -resize 400x300 -modulate 110,80,$((90 + at)) "$folder/p$at.png"
        for kind in jpg gif tif; do
            convert "$folder/p$at.png" -colors 64 -strip "$folder/p$at.$kind"
            identify -format '%m %wx%h %k %#\n' "$folder/p$at.$kind"
        done
    done
    montage "$folder"/p*.png -tile 3x -geometry 200x150+2+2 "$folder/all.png"
    identify -format '%wx%h %#\n' "$folder/all.png"
}

drive "$@"

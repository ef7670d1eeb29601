#!/usr/bin/env bash
# ffmpeg: pictures and sound that it makes itself, encoded, decoded, filtered; two threads.
source "$(dirname "$0")/common.sh"

about() {
    command -v ffmpeg > /dev/null || absent ffmpeg
    printf 'version: %s\n' "$(ffmpeg -version | sed -n '1s/ version \([^-]*\).*/ \1/p')"
    echo 'what: test pictures to H.264 and VP9, sound to AAC and FLAC; both decoded, scaled and' \
        'hashed; two threads'
}

prepare() { :; }

run() {
    local seconds pictures
    seconds=$(amount 6 1)
    pictures="testsrc2=size=480x270:rate=25:duration=$seconds"
    encode() {
        ffmpeg -nostdin -v error -y -threads 2 -filter_threads 1 "$@" < /dev/null
    }
    encode -f lavfi -i "$pictures" -f lavfi -i "sine=frequency=330:duration=$seconds" \
        -c:v libx264 -preset medium -threads 2 -c:a aac -flags +bitexact -fflags +bitexact \
        "$folder/a.mkv"
    encode -f lavfi -i "$pictures" -f lavfi -i "sine=frequency=330:duration=$seconds" \
        -c:v libvpx-vp9 -deadline realtime -cpu-used 6 -b:v 600k -threads 2 -c:a flac \
        -flags +bitexact -fflags +bitexact "$folder/b.mkv"
    # Pictures only: how frames of sound are cut and ordered beside them depends on the threads.
    encode -i "$folder/a.mkv" -an -vf scale=240:135,hflip -f framemd5 - | md5sum
    encode -i "$folder/b.mkv" -an -vf "scale=320:180,unsharp" -f framemd5 - | md5sum
    md5sum < "$folder/a.mkv"
    md5sum < "$folder/b.mkv"
}

drive "$@"

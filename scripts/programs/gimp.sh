#!/usr/bin/env bash
# GIMP without a window: pictures made, filtered and written by Script-Fu; its filters (GEGL) use
# two threads, its plug-ins are processes.
source "$(dirname "$0")/common.sh"

about() {
    command -v gimp-console > /dev/null || absent gimp
    printf 'version: %s\n' "$(gimp-console --version 2> /dev/null | sed -n 's/.*version /GIMP /p')"
    echo 'what: layers of noise and text blurred, turned, put together, written as PNG and XCF' \
        'and read again'
    echo 'rounds: 4'
}

prepare() {
    cat > "$folder/work.scm" << 'END'
(define (work at folder)
  (let* ((image (car (gimp-image-new 500 400 RGB)))
         (layer (car (gimp-layer-new image 500 400 RGB-IMAGE "a" 100 LAYER-MODE-NORMAL)))
         (top 0) (flat 0) (file (string-append folder "/p" (number->string at))))
    (gimp-image-insert-layer image layer 0 0)
    (plug-in-plasma RUN-NONINTERACTIVE image layer at 3.0)
    (plug-in-gauss RUN-NONINTERACTIVE image layer 9 9 0)
    (set! top (car (gimp-layer-copy layer TRUE)))
    (gimp-image-insert-layer image top 0 0)
    (gimp-layer-set-mode top LAYER-MODE-DIFFERENCE)
    (gimp-item-transform-rotate-simple top ROTATE-180 TRUE 0 0)
    (gimp-drawable-hue-saturation layer HUE-RANGE-ALL 30 10 20 0)
    (plug-in-unsharp-mask RUN-NONINTERACTIVE image layer 3.0 0.5 0)
    (set! flat (car (gimp-image-flatten image)))
    (gimp-image-scale image 350 280)
    (gimp-xcf-save 0 image flat (string-append file ".xcf") (string-append file ".xcf"))
    (file-png-save RUN-NONINTERACTIVE image flat (string-append file ".png") file 0 6 0 0 0 0 0)
    (gimp-image-delete image)
    (let* ((back (car (gimp-file-load RUN-NONINTERACTIVE (string-append file ".xcf") file)))
           (seen (gimp-drawable-histogram (car (gimp-image-get-active-drawable back))
                                          HISTOGRAM-VALUE 0.0 1.0)))
      (gimp-message (string-append "sum " (number->string (car seen)) " "
                                   (number->string (cadr seen))))
      (gimp-image-delete back))))
END
}

run() {
    local at work
    local -x HOME=$folder GEGL_THREADS=2
    work=$(cat "$folder/work.scm")
    for ((at = 1; at <= $(amount 3 1); at++)); do work+=" (work $at \"$folder\")"; done
    gimp-console --no-data --no-fonts --no-interface --console-messages \
        -b "(begin $work (gimp-quit 1))" > "$folder/log" 2>&1 || wrong "$(tail -n1 "$folder/log")"
    grep -o 'sum .*' "$folder/log"
    ls "$folder"/p*.png | wc -l
}

drive "$@"

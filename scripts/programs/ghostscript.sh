#!/usr/bin/env bash
# Ghostscript: a program in PostScript to PDF, the PDF to pixels and to text.
source "$(dirname "$0")/common.sh"

about() {
    command -v gs > /dev/null || absent ghostscript
    printf 'version: ghostscript %s\n' "$(gs --version)"
    echo 'what: 30 generated pages of curves, shadings and text to PDF; the PDF to pixels and text'
}

prepare() {
    cat > "$folder/pages.ps" << 'END'
%!PS
/pages where { pop } { /pages 2 def } ifelse
1 1 pages {
    /page exch def
    /Times-Roman findfont 9 scalefont setfont
    0 1 300 {
        /at exch def
        at 37 mul page add 560 mod 20 add at 91 mul 780 mod 20 add moveto
        at 400 div page pages div 0.5 setrgbcolor
        at 13 mul 600 mod at 7 mul 800 mod at 29 mul 600 mod at 31 mul 800 mod
        at 17 mul 600 mod at 19 mul 800 mod curveto stroke
        at 37 mul 560 mod 20 add at 53 mul 780 mod 20 add moveto
        (stone ) show at 20 string cvs show
    } for
    << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [0 0 600 800]
       /Function << /FunctionType 2 /Domain [0 1] /C0 [1 0 0] /C1 [0 0 1] /N 1 >> >>
    gsave 300 400 100 0 360 arc clip shfill grestore
    showpage
} for
END
}

run() {
    local at=$folder
    rm -f "$at/pages.pdf"
    gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=pdfwrite "-sOutputFile=$at/pages.pdf" \
        "-dpages=$(amount 30 2)" "$at/pages.ps"
    gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=ppmraw -r60 -sOutputFile=- "$at/pages.pdf" | md5sum
    gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=txtwrite -sOutputFile=- "$at/pages.pdf" | md5sum
}

drive "$@"

#!/usr/bin/env bash
# LibreOffice without a window: a text document and a spreadsheet, converted.
source "$(dirname "$0")/common.sh"

about() {
    command -v soffice > /dev/null || absent libreoffice-writer-nogui libreoffice-calc-nogui
    printf 'version: %s\n' "$(soffice --version | cut -d' ' -f1,2)"
    echo 'what: a generated text of 400 paragraphs and a table to PDF; a sheet of 6,000 rows with' \
        'formulas to CSV'
    echo 'rounds: 3'
}

prepare() {
    local rows
    rows=$(amount 6000 200)
    awk -v count="$(amount 400 20)" 'BEGIN {
        print "<html><head><title>stones</title></head><body>"
        for (at = 0; at < count; at++) {
            printf "<h3>%d</h3><p>", at
            for (word = 0; word < 60; word++)
                printf "%s%d ", (word % 7 ? "s" : "<b>t</b>"), at * word
            print "</p>"
        }
        print "<table border=1>"
        for (at = 0; at < count; at++) printf "<tr><td>%d</td><td>%d</td></tr>\n", at, at * at
        print "</table></body></html>"
    }' > "$folder/text.html"
    {
        echo '<?xml version="1.0" encoding="UTF-8"?>'
        echo '<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"' \
            'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"' \
            'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"' \
            'xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2" office:version="1.2"' \
            'office:mimetype="application/vnd.oasis.opendocument.spreadsheet">'
        echo '<office:body><office:spreadsheet><table:table table:name="s">'
        awk -v count="$rows" 'BEGIN { for (at = 1; at <= count; at++) printf "<table:table-row>" \
            "<table:table-cell office:value-type=\"float\" office:value=\"%d\"/>" \
            "<table:table-cell table:formula=\"of:=[.A%d]*3+1\"/>" \
            "<table:table-cell table:formula=\"of:=CONCATENATE(&quot;s&quot;;MOD([.B%d];97))\"/>" \
            "<table:table-cell table:formula=\"of:=SUM([.B1:.B%d])\"/></table:table-row>\n",
            at * 7 % 1000, at, at, (at > 50 ? 50 : at) }'
        echo '</table:table></office:spreadsheet></office:body></office:document>'
    } > "$folder/sheet.fods"
}

convert() {
    soffice -env:UserInstallation="file://$folder/profile" --headless --norestore \
        --convert-to "$1" --outdir "$folder/out" "${@:2}" > "$folder/log" 2>&1 \
        || wrong "$(tail -n1 "$folder/log")"
}

run() {
    rm -rf "$folder/profile" "$folder/out"
    convert pdf:writer_web_pdf_Export "$folder/text.html"
    convert csv "$folder/sheet.fods"
    head -c5 "$folder/out/text.pdf"
    echo
    grep -ac '/Type */Page\b' "$folder/out/text.pdf"
    wc -l < "$folder/out/sheet.csv"
    md5sum < "$folder/out/sheet.csv"
}

drive "$@"

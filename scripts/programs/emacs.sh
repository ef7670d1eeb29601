#!/usr/bin/env bash
# Emacs without a window: buffers, Lisp, its own byte compiler, org-mode.
source "$(dirname "$0")/common.sh"

about() {
    command -v emacs > /dev/null || absent emacs-nox
    printf 'version: %s\n' "$(emacs --version | sed -n '1s/GNU //p')"
    echo 'what: buffers edited, sorted and searched; Lisp lists, hash tables and strings; a' \
        'generated file byte-compiled; an org text as HTML'
}

prepare() {
    awk -v count="$(amount 600 20)" 'BEGIN {
        print ";; -*- lexical-binding: t -*-"
        for (at = 0; at < count; at++)
            printf "(defun q-%d (n)\n  \"Doc %d.\"\n  (let ((s nil))\n    (dotimes (i n)\n" \
                "      (pcase (%% i 3) (0 (push (list i %d) s)) (1 (setq s (reverse s)))" \
                " (_ (push (format \"%%s\" i) s))))\n    s))\n", at, at, at
    }' > "$folder/functions.el"
    awk -v count="$(amount 60 5)" 'BEGIN {
        for (at = 0; at < count; at++) {
            printf "* Stone %d\n** Parts\n | a | b |\n |---+---|\n", at
            for (line = 0; line < 10; line++) printf " | %d | /%d/ |\n", line, line * at
            printf "- one *bold* =code= [[*Stone %d][link]]\n- two\n", at / 2
        }
    }' > "$folder/text.org"
    cat > "$folder/work.el" << 'END'
;; -*- lexical-binding: t -*-
(defvar q-turns (string-to-number (pop command-line-args-left)))
(let ((table (make-hash-table :test 'equal)) (sum 0))
  (dotimes (turn q-turns)
    (with-temp-buffer
      (dotimes (at 3000)
        (insert (format "%d stone %d\n" (% (* at 7919) 10007) (+ at turn))))
      (sort-numeric-fields 1 (point-min) (point-max))
      (goto-char (point-min))
      (while (re-search-forward "\\([0-9]+\\) stone \\([0-9]*5\\)$" nil t)
        (replace-match "\\2 rock \\1"))
      (put-text-property 1 500 'face 'bold)
      (goto-char (point-min))
      (while (not (eobp))
        (let ((words (split-string (buffer-substring (line-beginning-position)
                                                     (line-end-position)))))
          (push words (gethash (nth 1 words) table)))
        (forward-line 1))
      (setq sum (% (+ sum (string-to-number (substring (md5 (current-buffer)) 0 6) 16))
                   1000000007))))
  (princ (format "%d %d\n" sum (length (gethash "rock" table)))))
(byte-compile-file "functions.el")
(load (expand-file-name "functions.elc"))
(princ (format "%s\n" (md5 (format "%S" (q-7 200)))))
(require 'ox-html)
(with-temp-buffer
  (insert-file-contents "text.org")
  (org-mode)
  (let ((html (org-export-as 'html nil nil t)))
    (princ (format "%s\n" (md5 (replace-regexp-in-string "org[0-9a-f]\\{7\\}" "" html))))))
END
}

run() {
    cd "$folder"
    rm -f functions.elc
    emacs -Q --batch -l work.el "$(amount 8 1)" 2> errors || wrong "$(tail -n1 errors)"
}

drive "$@"

#!/usr/bin/env bash
# R: vectors of every size, data frames, lists, models, sorting, strings.
source "$(dirname "$0")/common.sh"

about() {
    command -v Rscript > /dev/null || absent r-base-core
    printf 'version: %s\n' "$(R --version | sed -n '1s/R version \([^ ]*\).*/R \1/p')"
    echo 'what: vectors, data frames, lists, a linear model, sorting, strings'
}

prepare() { :; }

run() {
    Rscript --vanilla -e '
        turns <- as.integer(commandArgs(TRUE)[1]); set.seed(7); sum <- 0
        for (turn in seq_len(turns)) {
            d <- data.frame(id = 1:20000, x = rnorm(20000), k = sample(letters, 20000, TRUE))
            d$s <- paste0(d$k, d$id %% 97)
            m <- tapply(d$x, d$s, mean)
            l <- lapply(split(d, d$k), function(p) p[order(p$x), ])
            f <- lm(x ~ poly(id, 3) + k, data = d)
            w <- unlist(lapply(1:20000, function(i) rep(i, i %% 9)))
            sum <- sum + sum(round(m, 6)) + nrow(l$a) + round(sum(coef(f)), 6) + length(w)
        }
        cat(sprintf("%.4f\n", sum))' "$(amount 10 1)"
}

drive "$@"

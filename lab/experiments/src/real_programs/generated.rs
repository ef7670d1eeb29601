//! Generated inputs, a function of the amount of work only.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt::Write;

/// Generates a C file of `count` functions with loops, switches and calls of each other.
pub(super) fn functions(count: u64) -> String {
    let mut random = StdRng::seed_from_u64(7);
    let mut text = String::from(
        "struct stone { unsigned id; double weight; struct stone *next; char name[24]; };\n",
    );
    for number in 0..count {
        let (turns, shift) = (random.random_range(3..40), random.random_range(1..13));
        let callee = if number == 0 { 0 } else { random.random_range(0..number) };
        let call = match number {
            0 => "x".to_owned(),
            _ => format!("f{callee}(s, x >> 1, y)"),
        };
        let _ = write!(
            text,
            "unsigned f{number}(struct stone *s, unsigned x, unsigned y) {{\n\
             unsigned sum = x ^ y, table[{turns}];\n\
             for (unsigned i = 0; i < {turns}; i++) table[i] = (i << {shift}) + sum * i;\n\
             for (; s; s = s->next) {{\n\
             s->weight = s->weight * {turns}.5 + table[s->id % {turns}];\n\
             switch ((s->id + x) % 7) {{\n"
        );
        for label in 0..6 {
            let factor: u32 = random.random_range(2..5000);
            let _ = writeln!(
                text,
                "case {label}: sum += s->name[{label}] * {factor}u; \
                 if (sum & {factor}u) s->name[{label}] ^= (char)sum; break;"
            );
        }
        let _ = writeln!(text, "default: sum -= y; }}\n}}\nreturn sum + {call};\n}}");
    }
    text
}

/// The puzzle of queens on a board of `columns` columns, in SMT-LIB: one integer per column, and a
/// `check-sat` for every row of the first queen. On boards of 8 columns and more, every answer is
/// yes.
pub(super) fn queens(columns: u64) -> String {
    let mut text = String::new();
    for column in 0..columns {
        let _ = writeln!(
            text,
            "(declare-const q{column} Int)\n(assert (and (<= 0 q{column}) (< q{column} {columns})))"
        );
    }
    for place in ["(+ qN 0)", "(+ qN N)", "(- qN N)"] {
        let places = (0..columns).map(|column| place.replace('N', &column.to_string()));
        let _ = writeln!(text, "(assert (distinct {}))", places.collect::<Vec<_>>().join(" "));
    }
    for row in 0..columns {
        let _ = writeln!(text, "(push)\n(assert (= q0 {row}))\n(check-sat)\n(pop)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_made_for_the_same_amount() {
        assert_eq!(functions(5), functions(5));
        assert_eq!(functions(5).matches("unsigned f").count(), 5);
        let board = queens(8);
        assert_eq!(board.matches("(check-sat)").count(), 8);
        assert!(board.contains("(distinct (- q0 0) (- q1 1)"), "{board}");
    }
}

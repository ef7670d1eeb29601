//! A table of ARCHITECTURE.md says how many lines each part may have, its tests aside. The numbers
//! only fall: a commit that raises one says what the lines buy, measured.

use quarry_tidy::rust::RustFile;
use quarry_tidy::workspace::root;
use quarry_tidy::{Breach, expect_none};

const PAGE: &str = "ARCHITECTURE.md";
const HEAD: &str = "| part | lines |";

/// A row of the table: the folders that it is about, and the lines that they may have.
struct Row {
    line: usize,
    folders: Vec<String>,
    most: usize,
}

/// Lines of a file, without those of items under `#[cfg(test)]`.
fn lines(file: &RustFile) -> usize {
    let pairs = file.code.lines().zip(file.shipped.lines());
    pairs.filter(|(code, shipped)| code.trim().is_empty() || !shipped.trim().is_empty()).count()
}

fn rows(page: &str) -> Vec<Row> {
    let (mut is_inside, mut rows) = (false, Vec::new());
    for (line, text) in (1..).zip(page.lines()) {
        is_inside = text.starts_with(HEAD) || is_inside && text.starts_with('|');
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let most = cells.get(2).map(|cell| cell.replace(',', "").parse());
        if let (true, Some(Ok(most))) = (is_inside, most) {
            let names = cells[1].split('`').skip(1).step_by(2);
            rows.push(Row { line, folders: names.map(|name| format!("{name}/")).collect(), most });
        }
    }
    rows
}

#[test]
fn each_part_stays_within_its_lines() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page exists");
    let files = RustFile::all();
    let rows = rows(&page);
    assert_eq!(rows.len(), 3, "product, bench and lab have a row in {PAGE}");
    let is_in = |row: &Row, file: &RustFile| {
        let is_test = ["/tests/", "/tests.rs", "/examples/", "/benches/"];
        row.folders.iter().any(|folder| file.path.starts_with(folder.as_str()))
            && !file.path.starts_with("scripts/tidy/")
            && !is_test.iter().any(|part| file.path.contains(part))
    };
    let mut breaches = Vec::new();
    for row in &rows {
        let has: usize = files.iter().filter(|file| is_in(row, file)).map(lines).sum();
        println!("{}: {has} of {}", row.folders.join(", "), row.most);
        assert!(has > 0, "{PAGE}:{}: {:?} has no source", row.line, row.folders);
        if has > row.most {
            let what = format!("{} has {has} lines, and may have {}", row.folders[0], row.most);
            breaches.push(Breach::new(PAGE, row.line, what));
        }
    }
    expect_none("lines", &breaches);
}

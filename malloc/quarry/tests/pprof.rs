//! The profile as a service hands it to pprof.

use std::process::Command;

#[global_allocator]
static HEAP: quarry::Quarry = quarry::Quarry;

#[test]
fn pprof_reads_what_a_handler_sends() {
    assert!(quarry::profile::pprof().is_err(), "there is no profile yet");
    quarry::profile::start(4096).expect("none is on");
    let objects: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 4096]).collect();
    (0..4000).for_each(|_| drop(std::hint::black_box(vec![1u8; 4096])));
    let bytes = quarry::profile::pprof().expect("a profile is on");
    drop(objects);
    quarry::profile::stop();
    let file = std::env::temp_dir().join(format!("quarry-pprof-{}", std::process::id()));
    std::fs::write(&file, &bytes).expect("a file");
    let shown = |kind: &str| {
        let program = std::env::current_exe().expect("a program");
        let mut pprof = Command::new("go");
        pprof.args(["tool", "pprof", "-top", "-cum", "-nodecount=100", "-unit=b"]);
        pprof.arg(format!("-sample_index={kind}")).arg(program).arg(&file).output()
    };
    let Ok(in_use) = shown("inuse_space") else {
        println!("skipped: Debian's package golang-go is not installed: pprof is not asked");
        return;
    };
    let allocated = shown("alloc_space").expect("it ran before");
    let _ = std::fs::remove_file(&file);
    let [in_use, allocated] = [in_use, allocated].map(|output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    // 2,000 objects of 4 KiB, and 4,000 more, of which two of three are samples: within a tenth.
    for (table, objects) in [(&in_use, 2000u64), (&allocated, 6000)] {
        let total = table.split("% of ").nth(1).and_then(|it| it.split_once("B total"));
        let total: u64 = total.and_then(|(total, _)| total.parse().ok()).expect(table);
        assert!(total.abs_diff(objects * 4096) < objects * 410, "{table}");
        assert!(table.contains("pprof_reads_what_a_handler_sends"), "{table}");
    }
}

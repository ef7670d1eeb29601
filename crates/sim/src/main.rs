//! The command `quarry-sim`: Quarry on a simulated machine.

#[cfg(quarry_sim)]
mod bench;

#[cfg(quarry_sim)]
fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bench"] => bench::run(),
        _ => anyhow::bail!("usage: quarry-sim bench"),
    }
}

#[cfg(not(quarry_sim))]
fn main() -> anyhow::Result<()> {
    anyhow::bail!(
        "this quarry-sim has no machine: build it with RUSTFLAGS=\"--cfg quarry_sim\" and a target \
         directory of its own, as `make build` does"
    )
}

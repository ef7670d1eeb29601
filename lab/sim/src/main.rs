//! The command `quarry-sim`: Quarry on a simulated machine. The command `quarry` starts it.

#[cfg(not(quarry_sim))]
compile_error!("quarry-sim needs RUSTFLAGS=\"--cfg quarry_sim\", as `make lab` sets it");

mod bench;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bench"] => bench::run(),
        ["simulate"] => simulate(),
        _ => Err(anyhow::anyhow!("usage: quarry-sim bench|simulate")),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry-sim: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Answers the question on standard input: JSON in, JSON out.
fn simulate() -> anyhow::Result<()> {
    let question = serde_json::from_reader(std::io::stdin().lock())?;
    let answer = quarry_sim::simulate::answer(&question)?;
    Ok(serde_json::to_writer(std::io::stdout().lock(), &answer)?)
}

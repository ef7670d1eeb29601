use super::*;
use crate::experiment::Experiment;
use crate::judge::Selection;
use crate::report;
use crate::results::{Measurement, Origin, Run, Sample, Variant, Verify, Workload, below, read};
use crate::sampler::{NoSample, SampleKey, Taken};
use crate::shard::Shard;
use crate::tables::CompareArgs;
use crate::usage::Usage;
use clap::FromArgMatches;
use tempfile::TempDir;

type Size = (usize, u32, u32);

/// A figure that depends only on its key, with some pseudo-noise.
fn fake(key: SampleKey) -> Result<Taken, NoSample> {
    if (key.round, key.variant, key.workload) == (2, 1, 0) {
        return Err("planted".into());
    }
    let noise = (key.round as usize * 7 + key.workload * 3 + key.variant * 5) % 11;
    let ns = 100_000 * (key.variant as u64 + 2) * u64::from(key.tasks) + noise as u64 * 900;
    Ok(Measurement { verified: 1000, ..Measurement::of_window(1000, ns, ns, ns, "fake") }.into())
}

fn experiment((workloads, tasks, rounds): Size) -> Experiment {
    let good = Variant::new("good", "v1");
    let variants = vec![good.clone(), Variant::new("bad", "v2"), good.copy()];
    let workload = |it| Workload::new(&format!("w{it}"), Verify::PerOperation(1));
    let workloads = (0..workloads).map(workload).collect();
    let mut experiment = Experiment::new("fake", variants, workloads, fake);
    let meta = &mut experiment.meta;
    meta.tasks = (1..=tasks).collect();
    meta.origin = Some(Origin { began: 7, ..Origin::default() });
    (meta.rounds, meta.seed) = (rounds, 5);
    experiment
}

fn take(size: Size, shard: Shard, place: &Path) -> Run {
    let out = Some(place.to_owned());
    Experiment { shard: Some(shard), out, ..experiment(size) }.conduct().unwrap()
}

fn merge(places: &[&Path], out: &Path) -> Result<String> {
    let directories = places.iter().map(|it| it.to_path_buf()).collect();
    let mut text = Vec::new();
    MergeArgs { directories, out: out.to_owned() }.run(&mut text)?;
    Ok(String::from_utf8(text)?)
}

fn three() -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let take = |shard: Shard| {
        let place = folder.path().join(format!("host{}", shard.number()));
        take((2, 2, 5), shard, &place);
        place
    };
    let places = Shard::all(3).map(take).collect();
    (folder, places)
}

fn joined(places: &[&Path]) -> Result<Run> {
    let places: Vec<PathBuf> = places.iter().map(|it| it.to_path_buf()).collect();
    join(Found::look(&places)?)
}

fn refusal(places: &[PathBuf]) -> (bool, String) {
    let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    let error = joined(&places).unwrap_err();
    (Usage::is_cause_of(&error), format!("{error:#}").replace('\n', " | "))
}

fn timeless(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.iter_mut().for_each(|it| it.at_ms = 0);
    samples
}

/// The output for readers: each style of `quarry lab compare`, and the page.
fn shown(run: Run) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    write(&place_of(&place), &run).unwrap();
    let runs = vec![("run".to_owned(), run)];
    let selection = Selection::new(&runs, None).unwrap();
    assert!(!selection.columns.is_empty());
    let style = |style: &str| {
        let command = CompareArgs::augment_args(clap::Command::new("compare"));
        let words = ["compare", "--style", style, place.to_str().unwrap()];
        let matches = command.try_get_matches_from(words).unwrap();
        let mut text = Vec::new();
        CompareArgs::from_arg_matches(&matches).unwrap().run(&[], &mut text).unwrap();
        String::from_utf8(text).unwrap().replace(place.to_str().unwrap(), "RUN")
    };
    let mut all: Vec<String> = ["modern", "json"].into_iter().map(style).collect();
    all.push(report::page(runs, None).unwrap());
    all
}

fn place_of(place: &Path) -> PathBuf {
    results::prepare(place).unwrap();
    place.to_owned()
}

#[test]
fn joined_shards_are_the_run_that_was_never_shared_out() {
    for (size, of) in [((2, 2, 7), 1), ((2, 2, 7), 3), ((1, 1, 8), 8), ((3, 2, 6), 5)] {
        let whole = experiment(size).conduct().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let shards: Vec<Run> = Shard::all(of).map(|it| take(size, it, folder.path())).collect();
        let counted = |run: &Run| run.samples.iter().filter(|it| it.round > 0).count();
        assert_eq!(shards.iter().map(counted).sum::<usize>(), counted(&whole));
        let mut run = joined(&[folder.path()]).unwrap();
        assert_eq!(timeless(run.samples.clone()), timeless(whole.samples.clone()), "{size:?}/{of}");
        assert_eq!(run.meta.options.remove("shards"), Some(of.to_string()));
        assert_eq!(run.meta.differences(&whole.meta), [""; 0]);
        run.meta.environment = whole.meta.environment.clone();
        let (run, whole) = (shown(run), shown(whole));
        assert!(run[0].contains("| w0") && run[2].contains("<svg"), "{}", run[0]);
        assert_eq!(run, whole);
    }
}

#[test]
fn the_command_writes_what_others_read() {
    let (folder, places) = three();
    let out = folder.path().join("whole");
    let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    let error = merge(&places, &out).unwrap_err().to_string();
    assert!(error.starts_with("samples failed:\nw0 on bad: planted (2 times)"), "{error}");
    let run = read(&out).unwrap();
    assert_eq!((run.samples.len(), run.meta.part), (6 * 4 * 3, None));
    assert!(merge(&places, &out).unwrap_err().to_string().contains("not empty"));
    let shard = below(places[0]).unwrap().remove(0);
    assert_eq!(joined(&[&shard, places[1], places[2]]).unwrap().samples, run.samples);
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 4, "three hosts, one run, and nothing temporary");
}

#[test]
fn missing_and_unfinished_shards_are_named() {
    let (folder, mut places) = three();
    let missing = |places: &[PathBuf]| {
        let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        let error = merge(&places, &folder.path().join("whole")).unwrap_err();
        assert!(error.is::<Missing>(), "{error:#}");
        error.to_string()
    };
    assert_eq!(missing(&places[1..]), "missing of 3 shards: 1");
    assert_eq!(missing(&places[1..2]), "missing of 3 shards: 1,3");
    let third = below(&places[2]).unwrap().remove(0);
    // An incomplete copy of the samples.
    let file = third.join("samples.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 20]).unwrap();
    let text = missing(&places);
    assert!(text.contains("missing of 3 shards: 3\n") && text.contains(" samples are there"));
    // A shard whose process was killed has no `shard.json`.
    fs::remove_file(third.join("shard.json")).unwrap();
    assert!(missing(&places).ends_with("host3/shard-3-of-3: was not finished"));
    places.remove(0);
    places.remove(0);
    assert!(missing(&places).starts_with("no shard is complete:\n"));
    let empty = tempfile::tempdir().unwrap();
    let (is_usage, text) = refusal(&[empty.path().to_owned()]);
    assert!(is_usage && text.contains("no shard is in it; accepted: a shard"), "{text}");
}

#[test]
fn an_interrupted_shard_is_not_complete_and_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let shard: Shard = "1/2".parse().unwrap();
    let interrupted = |key: SampleKey| match key.round {
        3 => Err(NoSample::Interrupted),
        _ => fake(key),
    };
    let out = Some(folder.path().to_owned());
    let cut = Experiment { shard: Some(shard), out, ..experiment((2, 1, 6)) };
    Experiment { sampler: Box::new(interrupted), ..cut }.conduct().unwrap();
    take((2, 1, 6), "2/2".parse().unwrap(), folder.path());
    let (_, text) = refusal(&[folder.path().to_owned()]);
    assert!(text.starts_with("missing of 2 shards: 1 | ") && text.contains(".partial-"), "{text}");
    let first = take((2, 1, 6), shard, folder.path());
    assert_eq!(first.warnings, [""; 0]);
    let again = take((2, 1, 6), shard, folder.path());
    assert_eq!(again.warnings, ["taken before: nothing was measured now"]);
    assert_eq!(again.samples, first.samples);
    assert_eq!(below(folder.path()).unwrap().len(), 2, "nothing is left of the first attempt");
    assert_eq!(joined(&[folder.path()]).unwrap().rounds(), 6);
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let (_folder, mut places) = three();
    let meta = below(&places[1]).unwrap()[0].join("meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    fs::write(&meta, text.replace("\"kernel\": \"", "\"kernel\": \"0.1-")).unwrap();
    let (is_usage, told) = refusal(&places);
    assert!(is_usage && told.contains("of different runs: | environment.kernel 0.1-"), "{told}");
    fs::write(&meta, &text).unwrap();
    // The same shard twice: as a copy, and taken again.
    places.push(places[0].clone());
    refusal_is_none(&places);
    let again = tempfile::tempdir().unwrap();
    take((2, 2, 5), "1/3".parse().unwrap(), again.path());
    let copy = below(again.path()).unwrap()[0].join("samples.jsonl");
    let samples = fs::read_to_string(&copy).unwrap();
    fs::write(&copy, samples.replace("\"at_ms\":", "\"at_ms\":9")).unwrap();
    places[3] = again.path().to_owned();
    let (is_usage, told) = refusal(&places);
    assert!(is_usage && told.contains("with other samples, in "), "{told}");
}

fn refusal_is_none(places: &[PathBuf]) {
    let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    assert_eq!(joined(&places).unwrap().samples.len(), 6 * 4 * 3);
}

#[test]
fn a_sample_of_another_shard_is_found() {
    let (_folder, places) = three();
    let of = |index: usize| below(&places[index]).unwrap()[0].join("samples.jsonl");
    let (own, other) = (fs::read_to_string(of(0)).unwrap(), fs::read_to_string(of(1)).unwrap());
    let last = |text: &str| text.lines().last().unwrap().to_owned();
    let replaced = own.replace(&last(&own), &last(&other));
    fs::write(of(0), replaced).unwrap();
    let (_, told) = refusal(&places);
    assert!(told.contains("shard 1/3 has no such sample, or has it twice: round "), "{told}");
}

#[test]
fn no_shard_is_empty_and_each_is_recorded() {
    let of = |shard: &str, out: Option<PathBuf>| {
        let shard = Some(shard.parse().unwrap());
        Experiment { shard, out, ..experiment((1, 1, 3)) }.conduct().unwrap_err()
    };
    let folder = tempfile::tempdir().unwrap();
    let error = of("4/4", Some(folder.path().to_owned()));
    assert!(Usage::is_cause_of(&error));
    assert_eq!(error.to_string(), "--shard 4/4: there is no more to share out than 3");
    assert!(of("1/2", None).to_string().contains("say --out DIR"));
    let (is_usage, told) = {
        let whole = folder.path().join("whole");
        Experiment { out: Some(whole.clone()), ..experiment((1, 1, 3)) }.conduct().unwrap();
        refusal(&[whole])
    };
    assert!(is_usage && told.contains("a whole run; accepted: a shard"), "{told}");
}

//! `quarry profile`: takes or reads a heap profile, and writes it in the chosen forms.

use crate::live::{self, Running, Taken, Wish};
use crate::profile::{Profile, View};
use crate::push::{PushArgs, Pusher};
use crate::raw::Raw;
use crate::symbols::Programs;
use crate::{flame, pprof, text};
use anyhow::{Context, Result, bail, ensure};
use clap::builder::{PathBufValueParser, TypedValueParser};
use quarry_live::{Choice, Process, Who};
use quarry_mm::heap::options::parse_bytes;
use quarry_record::profile_bell::{LEAST_MEAN, MOST_MEAN};
use quarry_watch::profile::DEFAULT_MEAN;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of call sites that [`held`] names.
const MOST_HELD: usize = 3;

/// Show which call sites of a program allocate memory, and which still have it.
///
/// Takes a profile of a running process (--pid), or reads a profile that a program has written
/// (QUARRY_PROFILE=FILE, quarry_profile_write). Prints it as text, or writes it in the form that
/// the ending of each --output names: .pb.gz for pprof, .svg for a flame graph, .raw as the program
/// wrote it, .txt for the text. --push sends it to a collector of profiles.
///
/// The process needs no preparation and gets no signal. Objects are sampled by their bytes, one in
/// --mean bytes; the figures are estimates for all objects.
#[derive(clap::Args)]
pub struct ProfileArgs {
    /// A profile that a program has written.
    #[arg(value_name = "FILE", conflicts_with_all = ["choice", "seconds", "wait", "mean", "frees"],
        value_parser = PathBufValueParser::new().try_map(|it| it.metadata().map(|_| it)))]
    file: Option<PathBuf>,
    #[command(flatten)]
    choice: Choice,
    /// Seconds for which to profile [default: 10; with --every until the process ends].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Seconds to wait for the process to react, which it does when it next takes memory on a slow
    /// path.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    wait: f64,
    /// Mean bytes from one sample to the next, a power of two from 4K to 2G.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MEAN as usize,
        value_parser = mean)]
    mean: usize,
    /// Also record the call sites that free the samples.
    #[arg(long)]
    frees: bool,
    /// Write to a file, in the form that its ending names. Can be given several times.
    #[arg(long, short, value_name = "FILE", value_parser = output)]
    output: Vec<PathBuf>,
    /// Column to show. `pinned` has to be chosen when the profile is taken.
    #[arg(long, value_enum, default_value = "inuse")]
    view: View,
    /// Show the changes since the profile in this file. If that is an older profile of the same
    /// program, the changes are the program's growth.
    #[arg(long, value_name = "FILE",
        value_parser = PathBufValueParser::new().try_map(|it| it.metadata().map(|_| it)))]
    diff: Option<PathBuf>,
    /// Number of call sites in the text.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    push: PushArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "accepted: a number of seconds".to_owned())?;
    let is_usual = (0.0..=1e6).contains(&seconds);
    is_usual.then_some(seconds).ok_or_else(|| "accepted: 0 to 1000000 seconds".to_owned())
}

fn mean(text: &str) -> Result<usize, String> {
    let is_usual = |mean: &usize| (LEAST_MEAN..=MOST_MEAN).contains(mean) && mean.is_power_of_two();
    let mean = parse_bytes(text).filter(is_usual);
    mean.ok_or_else(|| format!("accepted: a power of two from {LEAST_MEAN} to {MOST_MEAN}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Pprof,
    Flame,
    Raw,
    Text,
}

fn form_of(path: &Path) -> Option<Form> {
    let name = path.file_name()?.to_str()?;
    const ENDINGS: [(&str, Form); 5] = [
        (".pb.gz", Form::Pprof),
        (".pprof", Form::Pprof),
        (".svg", Form::Flame),
        (".raw", Form::Raw),
        (".txt", Form::Text),
    ];
    ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| *form)
}

fn output(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match form_of(&path) {
        Some(_) => Ok(path),
        None => Err("accepted: a name that ends in .pb.gz, .svg, .raw or .txt".to_owned()),
    }
}

/// An output file. It keeps its old content until there is a profile. So an older profile survives
/// if a process cannot be profiled, and `--diff` may name the same file.
struct Output<'a> {
    form: Form,
    path: &'a Path,
    file: File,
    /// True if this command has made the file and not written to it yet.
    is_bare: bool,
}

impl<'a> Output<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let (file, is_bare) = match options.write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create_new(false).create(true).truncate(false).open(path), false)
            }
            made => (made, true),
        };
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self { form: form_of(path).unwrap_or(Form::Text), path, file, is_bare })
    }

    fn write(
        mut self,
        write: impl FnOnce(Form, &mut BufWriter<&File>) -> Result<()>,
    ) -> Result<()> {
        self.is_bare = false;
        let write = || {
            // Pipes and devices have no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            let mut file = BufWriter::new(&self.file);
            write(self.form, &mut file)?;
            Ok(file.flush()?)
        };
        let written: Result<()> = write();
        written.with_context(|| self.path.display().to_string())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.is_bare {
            // An empty file could be taken for a profile.
            let _ = fs::remove_file(self.path);
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the process yields no profile, or the profile cannot be written.
pub fn profile(args: &ProfileArgs, out: &mut dyn Write) -> Result<()> {
    let pusher = args.push.pusher();
    if let (Some(pusher), Some(every)) = (&pusher, args.push.every) {
        return push_every(args, pusher, Duration::from_secs_f64(every));
    }
    // The files are opened first, so that a user learns of an error before the profile is taken.
    let outputs: Vec<Output> =
        args.output.iter().map(|it| Output::open(it)).collect::<Result<_>>()?;
    let base = args.diff.as_deref().map(live::load).transpose()?;
    let (raw, root, who) = get(args)?;
    let mut shown = Profile::of(&raw, &root);
    shown.process = who.unwrap_or(shown.process);
    if let Some(base) = base {
        shown = shown.minus(&Profile::of(&base, &root));
    }
    expect(&shown, args.view)?;
    for output in outputs {
        output.write(|form, file| match form {
            Form::Pprof => Ok(pprof::write(&shown, args.view, file)?),
            Form::Flame => flame::write(&shown, args.view, file),
            Form::Raw => Ok(file.write_all(&raw.bytes())?),
            Form::Text => Ok(text::write(&shown, args.view, args.top, file)?),
        })?;
    }
    match pusher {
        Some(pusher) => pusher.push(&shown, args.view)?,
        None if args.output.is_empty() => text::write(&shown, args.view, args.top, out)?,
        None => {}
    }
    Ok(())
}

fn expect(profile: &Profile, view: View) -> Result<()> {
    let frees = view != View::Frees || profile.traces_frees;
    ensure!(frees, "frees were not traced: take the profile with --frees");
    let pins = view != View::Pinned || profile.has_pins;
    ensure!(pins, "this profile has no pins: take one of a running process with --view pinned");
    Ok(())
}

/// Keeps one profile on, and pushes what was allocated since the last push, and what is in use.
fn push_every(args: &ProfileArgs, pusher: &Pusher, every: Duration) -> Result<()> {
    if args.view == View::Pinned {
        bail!("--every is not for --view pinned: a process counts pins when its profile ends");
    }
    let (process, wish) = wished(args)?;
    let who = process.who().clone();
    let mut running = Running::start(process, &wish, || false)?;
    running.tell_if_it_was_on();
    let _ = writeln!(io::stderr(), "quarry: a profile of {who}, pushed every {}", lasts(every));
    let end = args.seconds.map(Duration::from_secs_f64);
    let push =
        |state: &Profile| expect(state, args.view).and_then(|()| pusher.push(state, args.view));
    let pushed = push_until(&mut running, &who, end, every, push);
    running.finish()?;
    pushed
}

fn push_until(
    running: &mut Running,
    who: &Who,
    end: Option<Duration>,
    every: Duration,
    push: impl Fn(&Profile) -> Result<()>,
) -> Result<()> {
    let (began, mut due) = (Instant::now(), every);
    let (mut programs, mut last) = (Programs::new(), None);
    loop {
        let until = end.map_or(due, |end| end.min(due));
        let lives = running.wait(|| began.elapsed() >= until);
        let taken = running.so_far()?;
        let mut state = Profile::with(&taken.raw, &taken.root, &mut programs);
        state.process = who.clone();
        let is_over = !lives || taken.raw.session % 2 == 0 || end.is_some_and(|end| end <= until);
        let since = |last| state.clone().since(last);
        match push(&last.as_ref().map_or_else(|| state.clone(), since)) {
            Ok(()) => last = Some(state),
            Err(error) if last.is_none() || is_over => return Err(error),
            // The next push has what this one should have had.
            Err(error) => eprintln!("quarry: {error:#}; the next try is in {}", lasts(every)),
        }
        if is_over {
            return Ok(());
        }
        due = (due + every).max(began.elapsed());
    }
}

fn lasts(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}

/// Prints the `most` call sites whose objects were allocated during the profile and are still in
/// use.
///
/// # Errors
/// Those of the writer.
pub fn print_in_use(taken: &Taken, most: usize, out: &mut dyn Write) -> io::Result<()> {
    text::write(&Profile::of(&taken.raw, &taken.root), View::Inuse, most, out)
}

/// Reads the profiles in a folder and takes the one with the most memory in use. Returns a line for
/// each of the few call sites that have most of this memory.
#[must_use]
pub fn held(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let profiles = files.filter_map(|it| live::load_written(&it.path()).ok());
    let profiles = profiles.map(|raw| Profile::of(&raw, Path::new("/")));
    let most = profiles.max_by_key(|it| it.total(View::Inuse.space()));
    most.map_or_else(Vec::new, |it| text::lines(&it, View::Inuse, MOST_HELD))
}

fn get(args: &ProfileArgs) -> Result<(Raw, PathBuf, Option<Who>)> {
    if let Some(file) = &args.file {
        return Ok((live::load(file)?, PathBuf::from("/"), None));
    }
    let (process, wish) = wished(args)?;
    let (who, time) =
        (process.who().clone(), Duration::from_secs_f64(args.seconds.unwrap_or(10.0)));
    let _ = writeln!(io::stderr(), "quarry: a profile of {who} for {}", lasts(time));
    let taken = live::take(process, &wish, |passed| passed.is_some_and(|it| it >= time))?;
    Ok((taken.raw, taken.root, Some(who)))
}

fn wished(args: &ProfileArgs) -> Result<(Process, Wish)> {
    let wish = Wish {
        patience: Duration::from_secs_f64(args.wait),
        mean: args.mean,
        frees: args.frees,
        pins: args.view == View::Pinned,
    };
    let process = args.choice.only()?;
    live::wait_for_record(&process, wish.patience)?;
    Ok((process, wish))
}

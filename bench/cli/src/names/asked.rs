//! Asks another process for the names in a line. Files of debugging information are large, and the
//! program that is watched may have written them: that process may take long, or end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for an answer; large programs need seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many processes are started, one after the end of another.
const MOST_STARTS: u32 = 4;

enum Message {
    /// The answer of the process with this number.
    Answer(u32, String),
    /// The process with this number has ended.
    End(u32),
    /// Input waits.
    Hurry,
}

/// Lets another thread end a wait for an answer.
pub(super) struct Hurry {
    messages: Sender<Message>,
    is_late: Arc<AtomicBool>,
}

impl Hurry {
    /// Calls `wait`; meanwhile no answer is waited for.
    pub(super) fn during<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.is_late.store(true, Ordering::SeqCst);
        let _ = self.messages.send(Message::Hurry);
        let result = wait();
        self.is_late.store(false, Ordering::SeqCst);
        result
    }
}

struct Running {
    child: Child,
    questions: ChildStdin,
    is_busy: bool,
}

/// A process that answers each line with a line.
pub(super) struct Asked<F> {
    start: F,
    starts: u32,
    running: Option<Running>,
    messages: (Sender<Message>, Receiver<Message>),
    is_late: Arc<AtomicBool>,
}

impl<F: Fn() -> Command> Asked<F> {
    /// A process that this command starts when it is first asked.
    pub(super) fn new(start: F) -> Self {
        Self { start, starts: 0, running: None, messages: channel(), is_late: Arc::default() }
    }

    /// The right to end a wait.
    pub(super) fn hurry(&self) -> Hurry {
        Hurry { messages: self.messages.0.clone(), is_late: Arc::clone(&self.is_late) }
    }

    /// The answer to a line without its end; empty if the process has none in time.
    pub(super) fn ask(&mut self, line: &[u8]) -> String {
        while let Ok(message) = self.messages.1.try_recv() {
            self.note(message);
        }
        if self.running.is_none() && self.starts < MOST_STARTS {
            self.starts += 1;
            self.running = self.started();
        }
        let Some(running) = self.running.as_mut().filter(|it| !it.is_busy) else {
            return String::new();
        };
        // A process that is not busy reads, and a line fits into a pipe: this does not wait.
        running.is_busy = running.questions.write_all(&[line, b"\n"].concat()).is_ok();
        self.wait(Instant::now() + PATIENCE)
    }

    fn wait(&mut self, end: Instant) -> String {
        while !self.is_late.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(message) = self.messages.1.recv_timeout(left) else {
                self.stop();
                break;
            };
            if let Some(answer) = self.note(message) {
                return answer;
            }
            if self.running.is_none() {
                break;
            }
        }
        String::new()
    }

    /// Takes a message. Returns the answer of the process that runs.
    fn note(&mut self, message: Message) -> Option<String> {
        match message {
            Message::Answer(number, answer) if number == self.starts => {
                self.running.as_mut()?.is_busy = false;
                return Some(answer);
            }
            Message::End(number) if number == self.starts => self.stop(),
            _ => {}
        }
        None
    }

    fn started(&self) -> Option<Running> {
        let mut command = (self.start)();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let (questions, answers) = (child.stdin.take()?, child.stdout.take()?);
        let (messages, number) = (self.messages.0.clone(), self.starts);
        thread::spawn(move || {
            for answer in BufReader::new(answers).lines().map_while(Result::ok) {
                let _ = messages.send(Message::Answer(number, answer));
            }
            let _ = messages.send(Message::End(number));
        });
        Some(Running { child, questions, is_busy: false })
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &'static str) -> Asked<impl Fn() -> Command> {
        Asked::new(move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        })
    }

    #[test]
    fn each_line_has_its_answer() {
        let mut asked = shell("while read line; do echo \" <$line>\"; done");
        let answers = ["a", "b c"].map(|line| asked.ask(line.as_bytes()));
        assert_eq!(answers, [" <a>", " <b c>"]);
        assert_eq!(asked.starts, 1);
        asked.stop();
    }

    #[test]
    fn a_process_that_ends_is_started_again_a_few_times() {
        let mut asked = shell("read line; [ \"$line\" = bad ] || echo \"$line\"");
        let answers = ["1", "bad", "2", "3", "4", "5"].map(|line| asked.ask(line.as_bytes()));
        // A process whose end is not known yet gets one line and answers none.
        let given: Vec<&String> = answers.iter().filter(|it| !it.is_empty()).collect();
        assert!(given.len() <= MOST_STARTS as usize && given[0] == "1", "{answers:?}");
        assert!(asked.starts <= MOST_STARTS, "{} processes", asked.starts);
        asked.stop();
    }

    /// The other thread has input for which it waits; without the hurry this takes ten seconds.
    #[test]
    fn nothing_waits_while_input_waits() {
        let mut asked = shell("exec sleep 1000");
        let hurry = asked.hurry();
        let answer = hurry.during(|| asked.ask(b"line"));
        assert_eq!(answer, "");
        assert!(asked.running.as_ref().is_some_and(|it| it.is_busy), "it was asked");
        assert_eq!(asked.ask(b"other"), "", "a busy process is asked nothing more");
        asked.stop();
    }
}

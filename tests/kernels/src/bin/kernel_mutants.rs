//! Every mutant of every kernel: what becomes of it, counted.
//!
//! `cargo run -p kernel-tests --bin kernel_mutants [files of kernels/cu] [kinds of mutants] [parts of broken lines]`.
//! It fails if a mutant is not noticed that `harmless.txt` does not list, or one is noticed that it lists.
//!
//! The emulator runs one kernel at a time, so several processes share the mutants: this program starts itself with
//! `--share` for each of them, and adds up what they have counted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;

use kernel_tests::mutants::{Harmless, Kind, Mutant, Sources, Trial, Verdict, mutants};
use kernel_tests::subjects::subjects;

/// Processes at a time.
const PROCESSES: usize = 2;
/// What a line of a share begins with that is for the program that started it.
const COUNTS: &str = "counts ";

/// What becomes of a mutant, in the order of the columns.
const COLUMNS: [&str; 8] = [
    "by a report",
    "by results",
    "by counters",
    "harmless",
    "not noticed",
    "the same code",
    "no program",
    "listed, but noticed",
];
/// Of the columns, the first ones are of mutants that are noticed.
const CAUGHT: usize = 3;
const HARMLESS: usize = 3;
const MISSED: usize = 4;
/// What is counted here is in one of the first columns as well.
const WRONGLY_LISTED: usize = 7;

/// What became of the mutants of a file.
#[derive(Debug, Default, Clone, Copy)]
struct Counts([usize; COLUMNS.len()]);

impl Counts {
    fn add(&mut self, verdict: &Verdict, harmless: bool) {
        let column = match verdict {
            Verdict::Reported(_) => 0,
            Verdict::Wrong => 1,
            Verdict::Waste(_) => 2,
            Verdict::Unnoticed if harmless => HARMLESS,
            Verdict::Unnoticed => MISSED,
            Verdict::SameCode => 5,
            Verdict::NoProgram => 6,
        };
        self.0[column] += 1;
        self.0[WRONGLY_LISTED] += usize::from(harmless && verdict.is_harm());
    }

    fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|column| self.0[column] + other.0[column]))
    }

    fn joined(self, separator: &str) -> String {
        self.0.map(|count| count.to_string()).join(separator)
    }

    fn row(self, name: &str) -> String {
        let caught: usize = self.0[..CAUGHT].iter().sum();
        let all = caught + self.0[HARMLESS] + self.0[MISSED];
        let share = |part: usize| 100.0 * part as f64 / all.max(1) as f64;
        let explained = share(caught + self.0[HARMLESS]);
        let columns = self.joined(" | ");
        format!("| {name} | {all} | {caught} ({:.1} %) | {explained:.1} % | {columns} |", share(caught))
    }
}

/// What the arguments ask for.
struct Wanted<'a> {
    files: Vec<&'a str>,
    kinds: Vec<Kind>,
    texts: Vec<String>,
}

impl<'a> Wanted<'a> {
    /// Words that are no file and no kind are parts of broken lines.
    fn of(words: &[String], sources: &'a Sources) -> Self {
        let (mut files, mut kinds, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for word in words {
            if let Some(file) = sources.files().find(|file| file == word) {
                files.push(file);
            } else if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == word) {
                kinds.push(kind);
            } else {
                texts.push(word.clone());
            }
        }
        if files.is_empty() {
            files = sources.files().collect();
        }
        Self { files, kinds, texts }
    }

    fn has(&self, mutant: &Mutant) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&mutant.kind))
            && (self.texts.is_empty() || self.texts.iter().any(|text| mutant.after.contains(text)))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "--share" => {
            let number: usize = rest[0].parse().expect("a share has a number");
            try_share(number, &rest[1..]);
            ExitCode::SUCCESS
        }
        _ => try_all(&words),
    }
}

/// Starts the shares, shows what they say, and adds up what they have counted.
fn try_all(words: &[String]) -> ExitCode {
    let sources = Sources::read();
    let wanted = Wanted::of(words, &sources);
    if !wanted.files.iter().any(|file| mutants(&sources, file).iter().any(|mutant| wanted.has(mutant))) {
        let kinds = Kind::ALL.map(|kind| kind.to_string()).join(", ");
        println!(
            "there is no such mutant: {}; a word is a file of kernels/cu, a kind ({kinds}), or a part of a broken line",
            words.join(" ")
        );
        return ExitCode::FAILURE;
    }
    let program = std::env::current_exe().expect("a running program has a path");
    let (send, receive) = mpsc::channel();
    let shares: Vec<Child> = (0..PROCESSES)
        .map(|number| {
            let mut command = Command::new(&program);
            command.arg("--share").arg(number.to_string()).args(words).stdout(Stdio::piped());
            let mut share = command.spawn().expect("the program starts itself");
            let output = share.stdout.take().expect("its output is piped");
            let send = send.clone();
            thread::spawn(move || {
                // What belongs together ends with an empty line, and stays together.
                let mut paragraph = String::new();
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let ends = line.is_empty() || line.starts_with(COUNTS);
                    paragraph.push_str(&line);
                    if !ends {
                        paragraph.push('\n');
                    } else if send.send(std::mem::take(&mut paragraph)).is_err() {
                        return;
                    }
                }
            });
            share
        })
        .collect();
    drop(send);

    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for paragraph in receive {
        match paragraph.strip_prefix(COUNTS) {
            None => println!("{paragraph}"),
            Some(line) => {
                let mut words = line.split(' ');
                let of_file = counts.entry(words.next().unwrap_or_default().to_owned()).or_default();
                let mut numbers = words.map(|word| word.parse().expect("a count is a number"));
                *of_file = of_file.plus(Counts(std::array::from_fn(|_| numbers.next().unwrap_or(0))));
            }
        }
    }
    let finished = shares.into_iter().all(|mut share| share.wait().is_ok_and(|status| status.success()));

    println!("\n| file | mutants | caught | caught or harmless | {} |", COLUMNS.join(" | "));
    println!("|---|---|---|---|{}", "---|".repeat(COLUMNS.len()));
    let mut total = Counts::default();
    for file in wanted.files {
        let of_file = counts.get(file).copied().unwrap_or_default();
        println!("{}", of_file.row(file));
        total = total.plus(of_file);
    }
    println!("{}", total.row("all"));
    let right = total.0[MISSED] == 0 && total.0[WRONGLY_LISTED] == 0;
    if finished && right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tries every mutant whose number is that of the share modulo the number of shares.
fn try_share(number: usize, words: &[String]) {
    let sources = Sources::read();
    let subjects = subjects();
    let harmless = Harmless::read();
    let wanted = Wanted::of(words, &sources);
    let mut trial = Trial::new(&sources);
    for file in &wanted.files {
        let mut counts = Counts::default();
        let all = mutants(&sources, file).into_iter().filter(|mutant| wanted.has(mutant));
        for mutant in all.skip(number).step_by(PROCESSES) {
            let verdict = trial.run(&subjects, &mutant);
            let listed = harmless.reason(&mutant).is_some();
            show(&mutant, &verdict, listed);
            counts.add(&verdict, listed);
        }
        println!("{COUNTS}{file} {}", counts.joined(" "));
    }
}

fn show(mutant: &Mutant, verdict: &Verdict, listed: bool) {
    let word = match (verdict, listed) {
        (Verdict::Unnoticed, false) => "NOT NOTICED",
        (Verdict::Unnoticed, true) => "harmless",
        (verdict, true) if verdict.is_harm() => "NOT HARMLESS",
        (Verdict::SameCode, _) => "the same code",
        (Verdict::NoProgram, _) => "no program",
        _ => return,
    };
    println!("# {word}, {}\n{mutant}\n", mutant.kind);
}

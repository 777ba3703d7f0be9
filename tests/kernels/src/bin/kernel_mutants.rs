//! Every mutant of every kernel: what becomes of it, counted.
//!
//! `cargo run -p kernel-tests --bin kernel_mutants [files of kernels/cu] [kinds of mutants] [parts of broken lines]`.
//! It fails if a mutant is not noticed that `harmless.txt` does not list, or one is noticed that it lists.

use std::process::ExitCode;
use std::time::Instant;

use kernel_tests::mutants::{Harmless, Kind, Mutant, Sources, Trial, Verdict, mutants};
use kernel_tests::subjects::subjects;

/// What became of the mutants of a file.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    reported: usize,
    wrong: usize,
    conflicts: usize,
    harmless: usize,
    missed: usize,
    same_code: usize,
    no_program: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict, harmless: bool) {
        *match verdict {
            Verdict::Reported(_) => &mut self.reported,
            Verdict::Wrong => &mut self.wrong,
            Verdict::Conflicts => &mut self.conflicts,
            Verdict::SameCode => &mut self.same_code,
            Verdict::NoProgram => &mut self.no_program,
            Verdict::Unnoticed if harmless => &mut self.harmless,
            Verdict::Unnoticed => &mut self.missed,
        } += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            reported: self.reported + other.reported,
            wrong: self.wrong + other.wrong,
            conflicts: self.conflicts + other.conflicts,
            harmless: self.harmless + other.harmless,
            missed: self.missed + other.missed,
            same_code: self.same_code + other.same_code,
            no_program: self.no_program + other.no_program,
        }
    }

    fn row(self, name: &str) -> String {
        let Self { reported, wrong, conflicts, harmless, missed, same_code, no_program } = self;
        let caught = reported + wrong + conflicts;
        let all = caught + harmless + missed;
        let share = 100.0 * caught as f64 / all.max(1) as f64;
        format!(
            "| {name} | {all} | {caught} ({share:.1} %) | {reported} | {wrong} | {conflicts} | {harmless} | {missed} | \
             {same_code} | {no_program} |"
        )
    }
}

fn main() -> ExitCode {
    let sources = Sources::read();
    let subjects = subjects();
    let harmless = Harmless::read();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| wanted.contains(&kind.to_string())).collect();
    let (named, texts): (Vec<String>, Vec<String>) = wanted
        .into_iter()
        .filter(|word| kinds.iter().all(|kind| kind.to_string() != *word))
        .partition(|word| sources.files().any(|file| file == word));
    let files = sources.files().filter(|file| named.is_empty() || named.iter().any(|name| name == file));
    let wanted = |mutant: &Mutant| {
        (kinds.is_empty() || kinds.contains(&mutant.kind))
            && (texts.is_empty() || texts.iter().any(|text| mutant.after.contains(text)))
    };
    let mut trial = Trial::new(&sources);
    let (mut rows, mut total, mut wrong_entries) = (Vec::new(), Counts::default(), 0);
    for file in files {
        let start = Instant::now();
        let mut counts = Counts::default();
        for mutant in mutants(&sources, file).into_iter().filter(&wanted) {
            let verdict = trial.run(&subjects, &mutant);
            let listed = harmless.reason(&mutant).is_some();
            wrong_entries += usize::from(listed && verdict.is_caught());
            show(&mutant, &verdict, listed);
            counts.add(&verdict, listed);
        }
        println!("# {file}: {:.1} s", start.elapsed().as_secs_f64());
        rows.push(counts.row(file));
        total = total.plus(counts);
    }
    println!(
        "\n| file | mutants | caught | by a report | by results | by bank conflicts | harmless | not noticed | the same \
         code | no program |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    println!("{}\n{}", rows.join("\n"), total.row("all"));
    if total.missed == 0 && wrong_entries == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(mutant: &Mutant, verdict: &Verdict, listed: bool) {
    let word = match (verdict, listed) {
        (Verdict::Unnoticed, false) => "NOT NOTICED",
        (Verdict::Unnoticed, true) => "harmless",
        (verdict, true) if verdict.is_caught() => "NOT HARMLESS",
        (Verdict::SameCode, _) => "the same code",
        (Verdict::NoProgram, _) => "no program",
        _ => return,
    };
    println!("# {word}, {}\n{mutant}\n", mutant.kind);
}

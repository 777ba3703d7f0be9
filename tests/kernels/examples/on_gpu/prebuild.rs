//! Compiling what the parts need, for a machine that has no NVRTC.
//!
//! What that is, is found by doing it: the steps run on the emulated device, and what they have loaded is compiled.

use std::thread;

use kernel_tests::Emulator;
use kernels::cuda::{Compiler, Prebuilt};

use crate::asked::{Asked, Prebuild};
use crate::{Outcome, PARTS, engine, steps_of};

/// Has too many kernels to carry: it is left out unless it is named.
pub(crate) const LEFT_OUT: &str = "random";

/// Compiles the kernels of the parts that are asked for.
pub(crate) fn run(asked: &Asked, prebuild: &Prebuild) -> Outcome {
    // Other runs show that the steps are right; here they only have to get to their end.
    Emulator::open().set_checks(false);
    let device = asked.device()?;
    // A model opens devices of its own.
    for (part, _) in PARTS.iter().filter(|(part, _)| is_needed(asked, part) && *part != "engine") {
        for step in steps_of(part, asked) {
            let found = (step.run)(&device).map_err(|error| format!("{}: {error}", step.title.name))?;
            if !found.failed.is_empty() {
                return Err(format!("{}: {}", step.title.name, found.failed.join("; ")).into());
            }
        }
    }
    let mut programs = device.loaded_programs();
    if asked.wants("engine") {
        programs.extend(engine::programs(&asked.models, asked.is_thin)?);
    }
    let mut unique = Vec::new();
    for program in programs {
        if !unique.contains(&program) {
            unique.push(program);
        }
    }
    let Prebuild { folder, targets } = prebuild;
    let compiler = Compiler::find(asked.options.nvrtc_path.as_deref())?;
    Prebuilt::new(folder.clone()).build(&compiler, &unique, targets, thread::available_parallelism()?)?;
    println!("{} kernels for {} targets are in {}", unique.len(), targets.len(), folder.display());
    Ok(())
}

/// Whether the kernels of a part are wanted; those of the sample also by the sanitizer, which runs it.
fn is_needed(asked: &Asked, part: &str) -> bool {
    asked.names(part) || asked.wants(part) && part != LEFT_OUT || part == "sample" && asked.wants("sanitizer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_runs_the_sample_needs_its_kernels() {
        let needed = |named: &[&str]| {
            let mut asked = Asked::parse([]).unwrap();
            asked.parts = named.iter().map(|&name| name.to_owned()).collect();
            let needed = PARTS.iter().map(|(part, _)| *part).filter(|part| is_needed(&asked, part));
            needed.collect::<Vec<_>>()
        };
        assert_eq!(needed(&["sanitizer"]), ["sample", "sanitizer"]);
        assert_eq!(needed(&["random"]), ["random"]);
        assert_eq!(needed(&[]).len(), PARTS.len() - 1);
    }
}

//! Compiling what the parts need, for a machine that has no NVRTC.
//!
//! What that is, is found by doing it: the steps run on the emulated device, and what they have loaded is compiled.

use std::thread;

use kernel_tests::{Emulator, compiler};
use kernels::cuda::Prebuilt;

use crate::asked::{Asked, Prebuild};
use crate::{Outcome, PARTS, engine, steps_of};

/// Has too many kernels to carry: it is left out unless it is named.
pub(crate) const LEFT_OUT: &str = "random";

/// Compiles the kernels of the parts that are asked for.
pub(crate) fn run(asked: &Asked, prebuild: &Prebuild) -> Outcome {
    // Other runs show that the steps are right; here they only have to get to their end.
    Emulator::open().set_checks(false);
    let device = asked.device()?;
    for (part, _) in PARTS.iter().filter(|(part, _)| asked.names(part) || asked.wants(part) && *part != LEFT_OUT) {
        // A model opens devices of its own.
        for step in steps_of(part, asked).iter().filter(|_| *part != "engine") {
            (step.run)(&device).map_err(|error| format!("{}: {error}", step.name))?;
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
    Prebuilt::new(folder.clone()).build(&compiler(), &unique, targets, thread::available_parallelism()?)?;
    println!("{} kernels for {} targets are in {}", unique.len(), targets.len(), folder.display());
    Ok(())
}

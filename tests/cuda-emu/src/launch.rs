//! Running a kernel, and what its failure is called.

use ptx_emu::{FaultKind, LaunchConfig, LaunchError, Options, Schedule};

use crate::code::{Answer, Code};
use crate::driver::driver;

/// Runs a function of the current context.
///
/// `parameters` fills the parameter buffer, given where each parameter lies in it.
pub(crate) fn launch(
    function: usize,
    stream: usize,
    config: LaunchConfig,
    parameters: impl FnOnce(&[ptx_emu::Param], &mut [u8]),
) -> Answer {
    let mut driver = driver();
    let schedule = driver.schedule.map_or(Schedule::InOrder, Schedule::Random);
    let options = Options { schedule, ..Options::default() };
    let context = driver.current()?;
    context.check()?;
    context.check_stream(stream)?;
    let (function, module, memory) = context.function(function)?;
    let kernel = module.kernel(&function.name).ok_or(Code::NOT_FOUND)?;
    let config = LaunchConfig { max_dynamic_shared: function.max_dynamic_shared, ..config };
    let mut buffer = vec![0; kernel.param_bytes()];
    parameters(kernel.params(), &mut buffer);
    let outcome = ptx_emu::launch(module, &function.name, &config, &buffer, memory, &options);
    match outcome {
        Ok(stats) => {
            driver.stats = Some(stats);
            Ok(())
        }
        Err(LaunchError::Fault(fault)) => {
            // As on a GPU, the launch itself succeeds; the calls after it fail.
            context.fail(fault_code(fault.kind));
            driver.report(fault.to_string());
            Ok(())
        }
        Err(refused) => {
            driver.report(refused.to_string());
            Err(Code::INVALID_VALUE)
        }
    }
}

/// What the driver reports where hardware would notice; what hardware would not notice is a failed launch.
fn fault_code(kind: FaultKind) -> Code {
    match kind {
        FaultKind::OutOfBounds | FaultKind::ReadOnly => Code::ILLEGAL_ADDRESS,
        FaultKind::Misaligned => Code::MISALIGNED_ADDRESS,
        FaultKind::Budget => Code::LAUNCH_TIMEOUT,
        _ => Code::LAUNCH_FAILED,
    }
}

//! `engine kernels check`: are the CUDA kernels right on this machine's device?

use std::io::Write;

use kernels::cuda::self_check;
use kitbag::ConfigNamespaces;
use kitbag::clap::{ArgMatches, Command};

use engine_config::Settings;

use crate::cli::{Failure, settings};
use crate::launch;

pub(crate) const NAME: &str = "kernels";
const CHECK: &str = "check";

pub(crate) fn command() -> Command {
    let check = Command::new(CHECK).about("Run the CUDA kernels on random problems and compare with double precision");
    Command::new(NAME)
        .about("Look after the CUDA kernels")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Settings::augment(check))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((CHECK, matches)) = matches.subcommand() else { unreachable!("clap requires the command above") };
    let (options, shapes) = launch::kernel_check(&settings(matches)?.view());
    let report = self_check(&options, &shapes);
    launch::warn_of(options.kernel_cache.as_deref());
    let report = report.map_err(Failure::run)?;
    write!(std::io::stdout(), "{report}")?;
    if report.passed() { Ok(()) } else { Err(Failure::Run("the kernels are wrong on this device".into())) }
}

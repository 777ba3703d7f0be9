//! What is asked for on the command line, and how it is handed on to a process of a part.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::cuda::{CudaDevice, CudaOptions, KernelCache, Target};

use crate::alone::Task;
use crate::{Outcome, PARTS, engine};

const USAGE: &str = "on_gpu [--output FOLDER] [--only PART]... [--minutes NUMBER] [--thin] [--emulated] \
    [--nvrtc FOLDER] [--prebuilt FOLDER] [--models FOLDER] [--cache FOLDER]\n\
    on_gpu --prebuild FOLDER --target NAME... [--only PART]... [--thin] [--models FOLDER] \
    [--nvrtc FOLDER]\n\n\
    PART is sample, opcodes, timing, engine, torch, parity, sanitizer or random; all of them, in this order, unless some \
    are named.\n\
    --output    where the JSON files go; target/on_gpu unless given\n\
    --minutes   when to end, with what is there by then\n\
    --thin      a sample of the problems\n\
    --emulated  on the emulated device, and thin\n\
    --nvrtc     the folder of NVRTC; the library path unless given\n\
    --prebuilt  kernels that were compiled before, by --prebuild\n\
    --models    the folder of small models; tests/models unless given\n\
    --cache     where compiled kernels are kept; a folder of --output unless given\n\
    --prebuild  compiles what the parts need, but for random unless it is named, for a machine without NVRTC";

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) output: PathBuf,
    pub(crate) models: PathBuf,
    /// Those that are named; all if none is.
    pub(crate) parts: Vec<String>,
    pub(crate) is_thin: bool,
    pub(crate) is_emulated: bool,
    pub(crate) until: Option<Instant>,
    pub(crate) options: CudaOptions,
    /// What a process of a part is to do.
    pub(crate) alone: Option<Task>,
    pub(crate) prebuild: Option<Prebuild>,
}

/// Kernels to compile for another machine.
#[derive(Clone)]
pub(crate) struct Prebuild {
    pub(crate) folder: PathBuf,
    pub(crate) targets: Vec<Target>,
}

impl Asked {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Outcome<Self> {
        let mut asked = Self {
            output: "target/on_gpu".into(),
            models: Path::new(env!("CARGO_MANIFEST_DIR")).join("../models"),
            parts: Vec::new(),
            is_thin: false,
            is_emulated: false,
            until: None,
            options: CudaOptions::default(),
            alone: None,
            prebuild: None,
        };
        let (mut nvrtc, mut prebuilt, mut cache, mut prebuild) = (None, None, None, None);
        let mut targets = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{} needs a value", argument.display()));
            let text = |value: OsString| value.into_string().map_err(|_| "a value that is no text");
            match argument.to_str() {
                Some("--output") => asked.output = value()?.into(),
                Some("--models") => asked.models = value()?.into(),
                Some("--only") => asked.parts.push(text(value()?)?),
                Some("--minutes") => {
                    let minutes = Duration::try_from_secs_f64(60.0 * text(value()?)?.parse::<f64>()?)?;
                    asked.until = Instant::now().checked_add(minutes);
                }
                Some("--thin") => asked.is_thin = true,
                Some("--emulated") => asked.is_emulated = true,
                Some("--nvrtc") => nvrtc = Some(value()?.into()),
                Some("--prebuilt") => prebuilt = Some(value()?.into()),
                Some("--cache") => cache = Some(PathBuf::from(value()?)),
                Some("--prebuild") => prebuild = Some(value()?.into()),
                Some("--target") => targets.push(text(value()?)?.parse()?),
                Some("--alone") => asked.alone = Some(text(value()?)?.parse()?),
                _ => return Err(format!("unknown argument `{}`\nusage: {USAGE}", argument.display()).into()),
            }
        }
        if let Some(unknown) = asked.parts.iter().find(|part| !PARTS.iter().any(|(name, _)| name == part)) {
            return Err(format!("no part is called `{unknown}`\nusage: {USAGE}").into());
        }
        if prebuild.is_some() == targets.is_empty() {
            return Err(format!("--prebuild and --target belong together\nusage: {USAGE}").into());
        }
        if prebuild.is_some() || asked.is_emulated {
            asked.is_thin |= prebuild.is_none();
            asked.is_emulated = true;
            asked.options = kernel_tests::options();
        }
        if !asked.is_emulated || cache.is_some() {
            let folder = cache.unwrap_or_else(|| asked.output.join("kernels"));
            asked.options.kernel_cache = Some(Arc::new(KernelCache::new(folder, 1 << 30)));
        }
        asked.prebuild = prebuild.map(|folder| Prebuild { folder, targets });
        asked.options.nvrtc_path = nvrtc.or(asked.options.nvrtc_path);
        asked.options.prebuilt = prebuilt;
        if asked.wants("engine") && asked.alone.is_none() {
            engine::check_folder(&asked.models, asked.is_thin)?;
        }
        Ok(asked)
    }

    /// The arguments of a process that is to run a task of the same.
    pub(crate) fn for_task(&self, task: &Task) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--alone".into(), task.argument().into()];
        for (is_wanted, argument) in [(self.is_thin, "--thin"), (self.is_emulated, "--emulated")] {
            arguments.extend(is_wanted.then(|| argument.into()));
        }
        let cache = self.options.kernel_cache.as_ref().map(|cache| cache.folder());
        for (argument, folder) in [
            ("--output", Some(&*self.output)),
            ("--models", Some(&*self.models)),
            ("--nvrtc", self.options.nvrtc_path.as_deref()),
            ("--prebuilt", self.options.prebuilt.as_deref()),
            ("--cache", cache),
        ] {
            arguments.extend(folder.into_iter().flat_map(|folder| [argument.into(), folder.into()]));
        }
        arguments
    }

    pub(crate) fn device(&self) -> Outcome<CudaDevice> {
        Ok(CudaDevice::open(&self.options)?)
    }

    pub(crate) fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.names(part)
    }

    /// Whether a part is wanted by its name.
    pub(crate) fn names(&self, part: &str) -> bool {
        self.parts.iter().any(|wanted| wanted == part)
    }

    /// How much time is left, if it is limited.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Asked, String> {
        Asked::parse(arguments.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_without_the_models_is_an_error_where_they_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let models = folder.path().to_str().unwrap();
        let refusal = parse(&["--models", models]).err().expect("no model is there");
        assert!(refusal.contains(&format!("{models}/llama is not there")), "{refusal}");
        assert!(refusal.contains("--models"), "{refusal}");
        assert!(parse(&["--models", models, "--only", "engine"]).is_err());
        assert!(parse(&["--models", models, "--only", "sample"]).is_ok());
    }

    /// What a process of a part is not told, it does otherwise than was asked: it compiles anew, or reads other models.
    #[test]
    fn a_process_of_a_part_is_asked_for_the_same() {
        let words = "--output a --models m --nvrtc b --prebuilt c --thin --only sample";
        let asked = parse(&words.split(' ').collect::<Vec<_>>()).unwrap();
        let elsewhere = Asked { output: "d".into(), ..asked.clone() };
        let task: Task = "sample:1:3:7:products".parse().unwrap();
        let found = Asked::parse(elsewhere.for_task(&task)).unwrap();
        assert_eq!(found.alone, Some(task));
        assert_eq!((&found.output, &found.models), (&"d".into(), &asked.models));
        assert_eq!((found.is_thin, found.is_emulated), (true, false));
        let folders = |asked: &Asked| {
            let cache = asked.options.kernel_cache.as_ref().map(|cache| cache.folder().to_owned());
            (asked.options.nvrtc_path.clone(), asked.options.prebuilt.clone(), cache)
        };
        assert_eq!(folders(&found), folders(&asked));
        assert_eq!(folders(&found), (Some("b".into()), Some("c".into()), Some("a/kernels".into())));
    }

    #[test]
    fn what_belongs_together_is_asked_for_together() {
        for arguments in [&["--prebuild", "a"][..], &["--target", "sm_90"], &["--only", "none"], &["--minutes"]] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
    }
}

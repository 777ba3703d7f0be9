//! A terminal that a command runs on, with the test at its keyboard and before its screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A command on a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
    keyboard_and_screen: File,
    line: OwnedFd,
    before: Termios,
    /// Everything that was shown.
    pub(crate) screen: String,
    unfinished: Vec<u8>,
}

impl Terminal {
    /// Starts this program with `arguments` on a terminal, as `setsid` of util-linux does it.
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&own).and_then(|()| unlockpt(&own)).expect("it can be opened");
        let name = PathBuf::from(ptsname(&own, Vec::new()).expect("its name").into_string().expect("text"));
        let line: OwnedFd = File::options().read(true).write(true).open(name).expect("its other end").into();
        let mut modes = tcgetattr(&line).expect("its modes");
        // Programs that show terminals to people set this: a character may have several bytes.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&line, OptionalActions::Now, &modes).expect("set");
        let end = || line.try_clone().expect("another handle");
        let child = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_engine")])
            .args(arguments)
            .envs([("TERM", "xterm"), super::ON_CPU])
            .envs(variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid of util-linux runs");
        Self {
            child,
            keyboard_and_screen: own.into(),
            line,
            before: modes,
            screen: String::new(),
            unfinished: Vec::new(),
        }
    }

    /// Presses keys.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard_and_screen.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until what is shown after its first `from` bytes has `text` in it.
    pub(crate) fn shows(&mut self, from: usize, text: &str) {
        while !self.screen[from..].contains(text) {
            self.read();
        }
    }

    /// Waits until so much is shown in all.
    pub(crate) fn shows_bytes(&mut self, bytes: usize) {
        while self.screen.len() < bytes {
            self.read();
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let count = self.keyboard_and_screen.read(&mut buffer).expect("it shows more");
        self.unfinished.extend(&buffer[..count]);
        // A character may come in two parts.
        let whole = self.unfinished.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let rest = self.unfinished.split_off(whole);
        let text = std::mem::replace(&mut self.unfinished, rest);
        self.screen.push_str(std::str::from_utf8(&text).expect("text"));
        assert!(self.unfinished.len() < 4, "what is shown is no text: {:?}", self.unfinished);
    }

    /// How the command ends, which has to leave the terminal as it found it.
    pub(crate) fn ends(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        let after = tcgetattr(&self.line).expect("its modes");
        let modes = |modes: &Termios| {
            let codes = format!("{:?}", modes.special_codes);
            (modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes, codes)
        };
        assert_eq!(modes(&after), modes(&self.before), "the terminal is not as it was");
        // The last of it is still on its way.
        let mark = "\u{1f6d1}";
        File::from(self.line.try_clone().expect("another handle")).write_all(mark.as_bytes()).expect("written");
        self.shows(0, mark);
        (status, self.screen.replace(mark, ""))
    }
}

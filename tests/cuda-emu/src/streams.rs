//! Streams and events: which work waits for which, and which is captured.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::capture::{Capture, Graph, Mode};
use crate::code::{Answer, Code};
use crate::queue::{Queue, Ticket};
use crate::work::Work;

/// The default stream of old. It waits for all blocking streams, and they for it.
pub(crate) const LEGACY: usize = 0;
/// Another number for it.
const LEGACY_EXPLICIT: usize = 1;
/// Each thread's default stream; here one for all.
const PER_THREAD: usize = 2;

pub(crate) struct Streams {
    by_number: BTreeMap<usize, Stream>,
    events: BTreeMap<usize, Event>,
    /// By the number of their beginning.
    captures: BTreeMap<usize, Capture>,
    last_capture: usize,
    pub(crate) queue: Queue,
}

struct Stream {
    is_blocking: bool,
    /// What its next work waits for.
    tail: Vec<Ticket>,
    branch: Option<Branch>,
}

/// A stream's part in a capture.
struct Branch {
    capture: usize,
    /// The nodes that its next work waits for.
    tail: Vec<usize>,
}

/// A point in the work of a stream.
#[derive(Default)]
struct Event {
    point: Point,
    reached: Option<Instant>,
}

#[derive(Default, Clone)]
enum Point {
    #[default]
    Nowhere,
    /// Reached when this is done.
    Queued(Ticket),
    /// These nodes of a capture.
    Captured(usize, Vec<usize>),
}

/// What [`Streams::submit`] did with work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// It waits to be done.
    Queued(Ticket),
    /// It was written down.
    Captured,
}

/// How far a stream is with a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaptureStatus {
    None,
    Active,
    Invalidated,
}

fn known(stream: usize) -> usize {
    if stream == LEGACY_EXPLICIT { LEGACY } else { stream }
}

impl Default for Streams {
    fn default() -> Self {
        let stream = || Stream { is_blocking: true, tail: Vec::new(), branch: None };
        Self {
            by_number: BTreeMap::from([(LEGACY, stream()), (PER_THREAD, stream())]),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            last_capture: 0,
            queue: Queue::default(),
        }
    }
}

impl Streams {
    pub(crate) fn create(&mut self, number: usize, is_blocking: bool) {
        self.by_number.insert(number, Stream { is_blocking, tail: Vec::new(), branch: None });
    }

    /// Work that is left in it will still be done. A capture that it takes part in cannot succeed any more.
    pub(crate) fn destroy(&mut self, number: usize) -> Answer {
        if number <= PER_THREAD {
            return Err(Code::INVALID_HANDLE);
        }
        let gone = self.by_number.remove(&number).ok_or(Code::INVALID_HANDLE)?;
        if let Some(branch) = gone.branch {
            self.invalidate(branch.capture);
            if self.captures.get(&branch.capture).is_some_and(|capture| capture.origin == number) {
                self.leave(branch.capture);
            }
        }
        Ok(())
    }

    pub(crate) fn check(&self, stream: usize) -> Answer {
        self.stream(stream).map(drop)
    }

    fn stream(&self, stream: usize) -> Answer<&Stream> {
        self.by_number.get(&known(stream)).ok_or(Code::INVALID_HANDLE)
    }

    fn stream_mut(&mut self, stream: usize) -> Answer<&mut Stream> {
        self.by_number.get_mut(&known(stream)).ok_or(Code::INVALID_HANDLE)
    }

    /// What the stream's next work waits for.
    pub(crate) fn tail(&self, stream: usize) -> Answer<Vec<Ticket>> {
        let own = self.stream(stream)?;
        let is_legacy = known(stream) == LEGACY;
        let waits_for = |number: usize, other: &Stream| {
            if is_legacy { other.is_blocking } else { own.is_blocking && number == LEGACY }
        };
        let others = self.by_number.iter().filter(|&(&number, other)| waits_for(number, other));
        Ok(own.tail.iter().chain(others.flat_map(|(_, other)| &other.tail)).copied().collect())
    }

    /// Adds work to a stream or to the capture that the stream takes part in.
    pub(crate) fn submit(&mut self, stream: usize, work: Work) -> Answer<Submitted> {
        self.refuse_legacy(stream)?;
        if let Some((capture, after)) = self.branch(stream)? {
            let node = self.captures.get_mut(&capture).ok_or(Code::INVALID_HANDLE)?.add(after, work);
            self.set_branch_tail(stream, vec![node])?;
            return Ok(Submitted::Captured);
        }
        let ticket = self.queue.push(self.tail(stream)?, work);
        self.stream_mut(stream)?.tail = vec![ticket];
        Ok(Submitted::Queued(ticket))
    }

    /// Adds a graph's work, which also waits for `after`. Gives the tickets of its nodes that no other waits for, or nothing if
    /// it was captured.
    pub(crate) fn submit_graph(&mut self, stream: usize, graph: &Graph, after: &[Ticket]) -> Answer<Vec<Ticket>> {
        self.refuse_legacy(stream)?;
        if let Some((number, roots)) = self.branch(stream)? {
            let capture = self.captures.get_mut(&number).ok_or(Code::INVALID_HANDLE)?;
            let nodes = place(graph, &roots, |after, work| capture.add(after, work));
            if !nodes.is_empty() {
                self.set_branch_tail(stream, nodes)?;
            }
            return Ok(Vec::new());
        }
        let mut roots = self.tail(stream)?;
        roots.extend(after);
        let tail = place(graph, &roots, |after, work| self.queue.push(after, work));
        if !tail.is_empty() {
            self.stream_mut(stream)?.tail.clone_from(&tail);
        }
        Ok(tail)
    }

    /// The capture that a stream takes part in, and what its next node waits for.
    fn branch(&self, stream: usize) -> Answer<Option<(usize, Vec<usize>)>> {
        let Some(branch) = &self.stream(stream)?.branch else { return Ok(None) };
        if let Some(capture) = self.captures.get(&branch.capture) {
            capture.check()?;
        }
        Ok(Some((branch.capture, branch.tail.clone())))
    }

    fn set_branch_tail(&mut self, stream: usize, tail: Vec<usize>) -> Answer {
        if let Some(branch) = &mut self.stream_mut(stream)?.branch {
            branch.tail = tail;
        }
        Ok(())
    }

    pub(crate) fn create_event(&mut self, number: usize) {
        self.events.insert(number, Event::default());
    }

    pub(crate) fn destroy_event(&mut self, event: usize) -> Answer {
        self.events.remove(&event).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn event(&self, event: usize) -> Answer<&Event> {
        self.events.get(&event).ok_or(Code::INVALID_HANDLE)
    }

    /// Makes an event stand for all work of a stream so far.
    pub(crate) fn record(&mut self, event: usize, stream: usize) -> Answer<Submitted> {
        self.event(event)?;
        let (point, submitted) = if let Some((capture, tail)) = self.branch(stream)? {
            (Point::Captured(capture, tail), Submitted::Captured)
        } else {
            let submitted = self.submit(stream, Work::Mark { event })?;
            match submitted {
                Submitted::Queued(ticket) => (Point::Queued(ticket), submitted),
                Submitted::Captured => unreachable!("the stream does not capture"),
            }
        };
        self.events.insert(event, Event { point, reached: None });
        Ok(submitted)
    }

    /// Notes that work which stands for an event is done.
    pub(crate) fn mark(&mut self, event: usize, ticket: Ticket) {
        if let Some(event) = self.events.get_mut(&event)
            && matches!(event.point, Point::Queued(own) if own == ticket)
        {
            event.reached = Some(Instant::now());
        }
    }

    /// Has a stream's next work wait for an event, or the stream take part in the capture that the event is of.
    pub(crate) fn wait(&mut self, stream: usize, event: usize) -> Answer {
        let point = self.event(event)?.point.clone();
        let own = self.branch(stream)?;
        match (point, own) {
            (Point::Nowhere, _) => Ok(()),
            (Point::Queued(ticket), None) => {
                self.stream_mut(stream)?.tail.push(ticket);
                Ok(())
            }
            (Point::Queued(_), Some((capture, _))) => {
                self.invalidate(capture);
                Err(Code::CAPTURE_ISOLATION)
            }
            (Point::Captured(capture, _), _) if !self.captures.contains_key(&capture) => Err(Code::INVALID_VALUE),
            (Point::Captured(capture, nodes), None) => {
                self.captures[&capture].check()?;
                if known(stream) == LEGACY {
                    self.invalidate(capture);
                    return Err(Code::CAPTURE_IMPLICIT);
                }
                self.stream_mut(stream)?.branch = Some(Branch { capture, tail: nodes });
                Ok(())
            }
            (Point::Captured(capture, nodes), Some((own, mut tail))) if capture == own => {
                tail.extend(nodes);
                tail.sort_unstable();
                tail.dedup();
                self.set_branch_tail(stream, tail)
            }
            (Point::Captured(capture, _), Some((own, _))) => {
                self.invalidate(capture);
                self.invalidate(own);
                Err(Code::CAPTURE_MERGE)
            }
        }
    }

    /// The work that an event stands for; nothing if it was never recorded. One that was captured cannot be asked.
    pub(crate) fn point(&mut self, event: usize) -> Answer<Option<Ticket>> {
        match self.event(event)?.point {
            Point::Nowhere => Ok(None),
            Point::Queued(ticket) => Ok(Some(ticket)),
            Point::Captured(capture, _) => {
                self.invalidate(capture);
                Err(Code::CAPTURED_EVENT)
            }
        }
    }

    /// When an event was reached.
    pub(crate) fn reached(&mut self, event: usize) -> Answer<Instant> {
        self.point(event)?.ok_or(Code::INVALID_HANDLE)?;
        self.event(event)?.reached.ok_or(Code::NOT_READY)
    }

    pub(crate) fn begin_capture(&mut self, stream: usize, mode: Mode) -> Answer {
        if known(stream) == LEGACY {
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        let number = self.last_capture + 1;
        let own = self.stream_mut(stream)?;
        if own.branch.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        own.branch = Some(Branch { capture: number, tail: Vec::new() });
        self.last_capture = number;
        self.captures.insert(number, Capture::new(mode, stream));
        Ok(())
    }

    /// Ends the capture that began in a stream. Whether it has succeeded or not, its streams are as before it.
    pub(crate) fn end_capture(&mut self, stream: usize) -> Answer<Graph> {
        let branch = self.stream(stream)?.branch.as_ref().ok_or(Code::ILLEGAL_STATE)?;
        let (number, tail) = (branch.capture, branch.tail.clone());
        let capture = self.captures.get(&number).ok_or(Code::ILLEGAL_STATE)?;
        if capture.origin != stream {
            self.invalidate(number);
            return Err(Code::CAPTURE_UNMATCHED);
        }
        if capture.mode != Mode::Relaxed && !capture.is_of_this_thread() {
            return Err(Code::CAPTURE_WRONG_THREAD);
        }
        let capture = self.leave(number).ok_or(Code::ILLEGAL_STATE)?;
        capture.finish(&tail)
    }

    /// Takes a capture away, and its streams out of it.
    fn leave(&mut self, number: usize) -> Option<Capture> {
        for stream in self.by_number.values_mut() {
            stream.branch.take_if(|branch| branch.capture == number);
        }
        self.captures.remove(&number)
    }

    fn invalidate(&mut self, capture: usize) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.is_invalid = true;
        }
    }

    /// Spoils the capture that a stream takes part in, after a call that it does not allow.
    pub(crate) fn spoil(&mut self, stream: usize) {
        if let Ok(Stream { branch: Some(branch), .. }) = self.stream(stream) {
            self.invalidate(branch.capture);
        }
    }

    pub(crate) fn capture_status(&self, stream: usize) -> Answer<CaptureStatus> {
        let Some(branch) = &self.stream(stream)?.branch else { return Ok(CaptureStatus::None) };
        let is_invalid = self.captures.get(&branch.capture).is_some_and(|capture| capture.is_invalid);
        Ok(if is_invalid { CaptureStatus::Invalidated } else { CaptureStatus::Active })
    }

    /// Says that there is no answer to whether the legacy stream captures while a stream that waits for it does.
    pub(crate) fn check_asked(&self, stream: usize) -> Answer {
        let is_unclear = known(stream) == LEGACY && self.captured_blocking().next().is_some();
        if is_unclear { Err(Code::CAPTURE_IMPLICIT) } else { Ok(()) }
    }

    /// The captures of streams that wait for the legacy stream.
    fn captured_blocking(&self) -> impl Iterator<Item = usize> {
        let blocking = self.by_number.values().filter(|stream| stream.is_blocking);
        blocking.filter_map(|stream| stream.branch.as_ref()).map(|branch| branch.capture)
    }

    /// Work for the legacy stream is refused where it would have to wait for a stream whose work is captured.
    fn refuse_legacy(&mut self, stream: usize) -> Answer {
        let spoilt: Vec<_> = if known(stream) == LEGACY { self.captured_blocking().collect() } else { Vec::new() };
        self.refuse(&spoilt, Code::CAPTURE_IMPLICIT)
    }

    fn refuse(&mut self, captures: &[usize], code: Code) -> Answer {
        for &capture in captures {
            self.invalidate(capture);
        }
        if captures.is_empty() { Ok(()) } else { Err(code) }
    }

    /// Refuses a call that a capture would not see, such as an allocation, where a capture forbids them.
    pub(crate) fn refuse_unseen(&mut self) -> Answer {
        let captures = self.captures.iter().filter(|(_, capture)| capture.forbids_unseen_calls());
        let captures: Vec<_> = captures.map(|(&number, _)| number).collect();
        self.refuse(&captures, Code::CAPTURE_UNSUPPORTED)
    }

    /// Refuses to wait for a stream whose work is captured and so is not done.
    pub(crate) fn refuse_wait(&mut self, stream: usize) -> Answer {
        if let Some((capture, _)) = self.branch(stream)? {
            self.invalidate(capture);
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        self.refuse_unseen()?;
        self.refuse_legacy(stream)
    }

    /// Refuses to wait for all streams while one of them is captured.
    pub(crate) fn refuse_wait_for_all(&mut self) -> Answer {
        let captures: Vec<_> = self.captures.keys().copied().collect();
        self.refuse(&captures, Code::CAPTURE_UNSUPPORTED)
    }
}

/// Adds a graph's nodes one after another, those that wait for none after `roots`, and gives the names of those that no other
/// waits for.
fn place<T: Copy>(graph: &Graph, roots: &[T], mut add: impl FnMut(Vec<T>, Work) -> T) -> Vec<T> {
    let mut names = Vec::with_capacity(graph.0.len());
    for node in &graph.0 {
        let after = match node.after.as_slice() {
            [] => roots.to_vec(),
            nodes => nodes.iter().map(|&node| names[node]).collect(),
        };
        names.push(add(after, node.work.clone()));
    }
    graph.leaves().into_iter().map(|node| names[node]).collect()
}

//! Steps of single tokens that are captured have the bits of steps that are launched kernel by kernel.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use engine::model::{Batch, CudaChoices, CudaDecoder, CudaSizes, CudaState, DecodeKernel};
use engine::runner::{Logits, Runner};
use kernel_tests::{Emulator, device};
use kernels::cpu::{SequenceSpan, Workers};

use super::{Reference, SPLIT, limits, open};

const PAGE_SIZE: usize = 8;
/// Pages of a sequence.
const PAGES: usize = 8;
const SIZES: CudaSizes = CudaSizes {
    page_size: PAGE_SIZE,
    pages: 5 * PAGES,
    step_tokens: 24,
    sequences: 5,
    context_length: PAGES * PAGE_SIZE,
};

fn load(model: &str, decode: DecodeKernel, graphs: bool) -> CudaDecoder {
    let choices = CudaChoices { page_size: PAGE_SIZE, decode, graphs, settings_key: 6 };
    let checkpoint = open(model);
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let plan = checkpoint.plan().unwrap_or_else(|error| panic!("{error}"));
    CudaDecoder::load(&plan, &workers, device(), choices).unwrap_or_else(|error| panic!("{error}"))
}

/// Five sequences on a device, each with pages of its own, which do not lie in order.
struct Sequences<'a> {
    model: &'a CudaDecoder,
    state: CudaState,
    lengths: [usize; 5],
}

impl<'a> Sequences<'a> {
    fn new(model: &'a CudaDecoder) -> Self {
        let state = model.state(SIZES).unwrap_or_else(|error| panic!("{error}"));
        Self { model, state, lengths: [0; 5] }
    }

    /// Appends tokens to some sequences in one step; the bits of the logits after each.
    fn step(&mut self, parts: &[(usize, &[u32])]) -> Vec<u32> {
        let table = |sequence: usize| (0..PAGES).map(|page| (5 * page + sequence) as u32).collect::<Vec<_>>();
        let tables: Vec<_> = parts.iter().map(|&(sequence, _)| table(sequence)).collect();
        let (mut token_ids, mut positions, mut slots, mut spans) = (vec![], vec![], vec![], vec![]);
        for (&(sequence, tokens), table) in parts.iter().zip(&tables) {
            let cached = self.lengths[sequence];
            spans.push(SequenceSpan { block_table: table, cached, new: tokens.len() });
            token_ids.extend(tokens);
            for position in cached..cached + tokens.len() {
                positions.push(position);
                slots.push(table[position / PAGE_SIZE] as usize * PAGE_SIZE + position % PAGE_SIZE);
            }
            self.lengths[sequence] += tokens.len();
        }
        let logit_rows: Vec<_> = (0..token_ids.len()).collect();
        let batch = Batch {
            token_ids: &token_ids,
            positions: &positions,
            slots: &slots,
            sequences: &spans,
            logit_rows: &logit_rows,
        };
        let logits = self
            .model
            .forward(&mut self.state, batch, &AtomicBool::new(false))
            .unwrap_or_else(|error| panic!("{error}"));
        logits.expect("nobody cancels it").into_iter().map(f32::to_bits).collect()
    }

    /// Prompts, and then single tokens of changing sequences: alone, as many as are captured, and fewer; within one split, and on to
    /// the next.
    fn run(&mut self, tokens: &[u32]) -> Vec<Vec<u32>> {
        let mut steps = vec![
            self.step(&[(0, &tokens[..14]), (1, &tokens[3..8])]),
            self.step(&[(2, &tokens[1..18])]),
            self.step(&[(3, &tokens[9..10]), (4, &tokens[5..14])]),
        ];
        let active: [&[usize]; 14] = [
            &[0],
            &[0],
            &[0],
            &[0],
            &[2, 1, 0],
            &[0, 1, 2],
            &[0, 1, 2, 3],
            &[3, 4],
            &[3, 1],
            &[0, 1, 2, 3, 4],
            &[4, 3, 2, 1, 0],
            &[0],
            &[0, 2, 4],
            &[1],
        ];
        for (at, sequences) in active.into_iter().enumerate() {
            let parts: Vec<_> = sequences.iter().map(|&sequence| (sequence, &tokens[at + sequence..][..1])).collect();
            steps.push(self.step(&parts));
        }
        // A prompt sees what the steps have kept.
        steps.push(self.step(&[(0, &tokens[..3]), (1, &tokens[..3]), (2, &tokens[..3]), (3, &tokens[..3])]));
        steps
    }
}

/// Whether graphs are refused is the emulator's, not a test's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn a_capture_that_fails_is_told_and_steps_go_on_without() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    let tokens = Reference::of("llama").tokens;
    let model = load("llama", SPLIT, true);
    let run = || {
        let mut sequences = Sequences::new(&model);
        let steps: Vec<_> =
            tokens[..6].iter().map(|token| sequences.step(&[(0, std::slice::from_ref(token))])).collect();
        (steps, sequences.state.graph_use().clone())
    };
    let (expected, used) = run();
    assert_eq!((used.captured, used.launched, used.warning()), (1, 5, None));
    emulator.refuse_graphs(true);
    let (got, used) = run();
    emulator.refuse_graphs(false);
    assert!(got == expected);
    assert_eq!((used.captured, used.launched), (0, 0));
    let warning = used.warning().expect("it is told");
    assert!(warning.contains("capturing work: ") && warning.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{warning}");
    assert!(warning.contains("--max-total-tokens") && warning.contains("--disable-cuda-graph"), "{warning}");
}

#[test]
fn captured_steps_have_the_bits_of_single_launches() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    for (model, decode) in [("llama", SPLIT), ("qwen3", DecodeKernel::Paged), ("qwen3_moe", SPLIT)] {
        let tokens = Reference::of(model).tokens;
        let (single, captured) = (load(model, decode, false), load(model, decode, true));
        let mut sequences = Sequences::new(&single);
        let expected = sequences.run(&tokens);
        assert_eq!(sequences.state.graph_use().launched, 0);
        for seed in [0, 7] {
            emulator.defer(seed);
            let mut sequences = Sequences::new(&captured);
            let got = sequences.run(&tokens);
            emulator.defer(0);
            let differs: Vec<_> = (0..got.len()).filter(|&step| got[step] != expected[step]).collect();
            assert_eq!(differs, [0; 0], "{model}, {decode:?}, seed {seed}: steps that differ");
            let used = sequences.state.graph_use();
            assert_eq!(used.settings_key, 6);
            assert!(used.captured >= 3 && used.launched >= 7 && used.failure.is_none(), "{model}: {used:?}");
        }
        // What the engine runs: one sequence.
        let mut runner = Runner::on_cuda(captured, limits(16, 16)).unwrap_or_else(|error| panic!("{error}"));
        let mut sequence = runner.start();
        for part in [&tokens[..5], &tokens[5..6], &tokens[6..7], &tokens[7..8]] {
            runner.extend(&mut sequence, part, Logits::Last).unwrap_or_else(|error| panic!("{error}"));
        }
        runner.release(sequence).expect("it held its pages");
        assert_eq!(runner.graph_use().map(|used| (used.captured, used.launched)), Some((1, 2)));
    }
}

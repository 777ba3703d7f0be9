//! The runner owns a loaded model, its worker threads and its pages, and takes sequences forward.

use kernels::cpu::{SequenceSpan, Workers};

use crate::backend::{Backend, Sizes};
use crate::built::{Built, KvPool};
use crate::cancel::{Cancel, Never};
use crate::error::{Error, Result};
use crate::kv::{BlockTable, PageAllocator};
use crate::model::{Batch, CudaDecoder, Decoder, GraphUse, ModelConfig};

/// The sizes a runner is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerLimits {
    /// Tokens per page, at least one.
    pub page_size: usize,
    /// Pages for the keys and values of all sequences together.
    pub pool_pages: usize,
    /// The most tokens of a prompt that go through the model at once, at least one.
    pub chunked_prefill_size: usize,
    /// The longest sequence; at most the model's own context length. Nothing: the model's own.
    pub context_length: Option<usize>,
}

impl RunnerLimits {
    /// Says which limit a model cannot be run within, before it is loaded for nothing.
    pub fn check(self, config: &ModelConfig) -> Result<()> {
        sizes(config, self).map(|_| ())
    }
}

fn too_many(pages: usize) -> String {
    format!("{pages} pages are more than {}: lower --max-total-tokens or raise --page-size", u32::MAX)
}

/// One sequence of tokens whose keys and values are kept.
///
/// Give it back with [`Runner::release`]; dropping it keeps its pages taken for the life of the runner.
#[derive(Debug)]
#[must_use = "a sequence holds pages until it is released"]
pub struct Sequence {
    table: BlockTable,
}

impl Sequence {
    /// The number of tokens whose keys and values are kept.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.table.tokens()
    }
}

/// Which logits a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// None: the tokens are a part of a prompt.
    Nowhere,
    /// Those after the last token.
    Last,
    /// Those after every token.
    All,
}

/// A model ready to run.
pub struct Runner {
    backend: Backend,
    pages: PageAllocator,
    limits: RunnerLimits,
    context_length: usize,
    is_lost: bool,
}

/// What limits come to for a model.
fn sizes(config: &ModelConfig, limits: RunnerLimits) -> Result<Sizes> {
    if limits.page_size == 0 || limits.chunked_prefill_size == 0 {
        return Err(Error::Setting("page size and chunked prefill size must be at least 1".into()));
    }
    let own = config.context_length;
    let context_length = limits.context_length.unwrap_or(own);
    if !(1..=own).contains(&context_length) {
        return Err(Error::Setting(format!(
            "context length {context_length} is not within 1..={own}, the model's own"
        )));
    }
    let pages = u32::try_from(limits.pool_pages).map_err(|_| Error::Setting(too_many(limits.pool_pages)))?;
    Ok(Sizes { limits, pages, context_length })
}

impl Runner {
    /// A runner of `model` on `workers`.
    pub fn new(model: Decoder, workers: Workers, limits: RunnerLimits) -> Result<Self> {
        let sizes = sizes(model.config(), limits)?;
        Ok(Self::of(Backend::cpu(model, workers, sizes)?, sizes))
    }

    /// A runner of a model on a CUDA device.
    pub fn on_cuda(model: CudaDecoder, limits: RunnerLimits) -> Result<Self> {
        let sizes = sizes(model.config(), limits)?;
        Ok(Self::of(Backend::cuda(model, sizes)?, sizes))
    }

    fn of(backend: Backend, Sizes { limits, pages, context_length }: Sizes) -> Self {
        Self { backend, pages: PageAllocator::new(pages), limits, context_length, is_lost: false }
    }

    /// A runner of the same model in the same place with other limits. All sequences are gone.
    pub fn rebuild(self, limits: RunnerLimits) -> Result<Self> {
        let sizes = sizes(self.config(), limits)?;
        Ok(Self::of(self.backend.rebuild(sizes)?, sizes))
    }

    /// The sizes it was built with.
    #[must_use]
    pub fn limits(&self) -> RunnerLimits {
        self.limits
    }

    /// The model's numbers.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        self.backend.config()
    }

    /// The longest sequence this runner takes.
    #[must_use]
    pub fn context_length(&self) -> usize {
        self.context_length
    }

    /// The most tokens that go through the model at once.
    #[must_use]
    pub fn chunked_prefill_size(&self) -> usize {
        self.limits.chunked_prefill_size
    }

    /// The tokens all pages together hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pages.size() * self.limits.page_size
    }

    /// What it was built with.
    #[must_use]
    pub fn built(&self) -> Built {
        let (config, limits) = (self.config(), &self.limits);
        let longest = self.context_length.min(self.capacity());
        let (whole, rest) = (longest / limits.chunked_prefill_size, longest % limits.chunked_prefill_size);
        let sizes = [(whole > 0, limits.chunked_prefill_size), (rest > 0, rest)];
        Built {
            architecture: config.architecture,
            parameters: self.backend.parameters(),
            weight_bytes: self.backend.weight_bytes(),
            kv: KvPool {
                layers: config.layers,
                pages: self.pages.size(),
                page_size: limits.page_size,
                tokens: self.capacity(),
                key_elements: config.kv_size(),
                bytes: self.backend.kv_bytes(),
                element: self.backend.kv_element(),
            },
            attention: self.backend.attention(),
            context_length: self.context_length,
            longest_sequence: longest,
            prefill_sizes: sizes.into_iter().filter_map(|(is_run, size)| is_run.then_some(size)).collect(),
            threads: self.backend.threads(),
            query_heads_per_kv_head: config.heads / config.kv_heads,
        }
    }

    /// Whether the model can run where it is with pages of so many tokens.
    #[must_use]
    pub fn takes_pages_of(&self, tokens: usize) -> bool {
        self.backend.takes_pages_of(tokens)
    }

    /// Whether the device has failed for good: whatever is asked of this runner is an error.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// What became of capturing the steps of single tokens; nothing on the CPU.
    #[must_use]
    pub fn graph_use(&self) -> Option<&GraphUse> {
        self.backend.graph_use()
    }

    /// The pages no sequence holds.
    #[must_use]
    pub fn available_pages(&self) -> usize {
        self.pages.available()
    }

    /// A sequence without tokens.
    pub fn start(&self) -> Sequence {
        Sequence { table: BlockTable::new(self.limits.page_size) }
    }

    /// Appends tokens to a sequence, in chunks, and returns the wanted logits, `[wanted, vocab_size]`.
    ///
    /// When an error is returned, the sequence is as it was.
    pub fn extend(&mut self, sequence: &mut Sequence, token_ids: &[u32], wanted: Logits) -> Result<Vec<f32>> {
        let logits = self.extend_unless(sequence, token_ids, wanted, &Never)?;
        Ok(logits.unwrap_or_else(|| unreachable!("nobody cancels it")))
    }

    /// The same until it is cancelled: nothing then, and the sequence is as it was.
    pub fn extend_unless(
        &mut self,
        sequence: &mut Sequence,
        token_ids: &[u32],
        wanted: Logits,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>> {
        let before = sequence.tokens();
        self.admit(sequence, token_ids)?;
        let logits = self.chunks(sequence, token_ids, wanted, cancel);
        if !matches!(logits, Ok(Some(_))) {
            self.truncate(sequence, before)?;
        }
        logits
    }

    fn chunks(
        &mut self,
        sequence: &mut Sequence,
        token_ids: &[u32],
        wanted: Logits,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>> {
        let mut logits = Vec::new();
        let chunks = token_ids.len().div_ceil(self.limits.chunked_prefill_size);
        for (index, chunk) in token_ids.chunks(self.limits.chunked_prefill_size).enumerate() {
            let rows: Vec<usize> = match wanted {
                Logits::All => (0..chunk.len()).collect(),
                Logits::Last if index + 1 == chunks => vec![chunk.len() - 1],
                Logits::Last | Logits::Nowhere => Vec::new(),
            };
            let Some(of_chunk) = self.forward(sequence, chunk, &rows, cancel)? else { return Ok(None) };
            logits.extend(of_chunk);
        }
        Ok(Some(logits))
    }

    /// Refuses tokens that cannot be appended, and takes the pages for those that can.
    fn admit(&mut self, sequence: &mut Sequence, token_ids: &[u32]) -> Result<()> {
        let vocab_size = self.config().vocab_size;
        if token_ids.is_empty() {
            return Err(Error::Request("no tokens to run".into()));
        }
        if let Some(id) = token_ids.iter().find(|&&id| id as usize >= vocab_size) {
            return Err(Error::Request(format!("token id {id} is beyond the model's vocabulary of {vocab_size}")));
        }
        let total = sequence.tokens() + token_ids.len();
        if total > self.context_length {
            return Err(Error::Request(format!(
                "{total} tokens are more than the context length of {}",
                self.context_length
            )));
        }
        let pages = self.pages.allocate(sequence.table.pages_short(token_ids.len()))?;
        sequence.table.add_pages(pages);
        Ok(())
    }

    /// One step over one chunk of one sequence.
    fn forward(
        &mut self,
        sequence: &mut Sequence,
        chunk: &[u32],
        logit_rows: &[usize],
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>> {
        let table = &mut sequence.table;
        let cached = table.tokens();
        let positions: Vec<usize> = table.append(chunk.len()).collect();
        let slots: Vec<usize> = positions.iter().map(|&position| table.slot(position)).collect();
        let span = SequenceSpan { block_table: table.pages(), cached, new: chunk.len() };
        let batch = Batch { token_ids: chunk, positions: &positions, slots: &slots, sequences: &[span], logit_rows };
        let logits = self.backend.forward(batch, cancel);
        self.is_lost |= matches!(logits, Err(Error::DeviceLost(_)));
        logits
    }

    /// Forgets all but the first `tokens` tokens of a sequence, and returns the pages that are not needed any more.
    pub fn truncate(&mut self, sequence: &mut Sequence, tokens: usize) -> Result<()> {
        self.pages.free(&sequence.table.truncate(tokens))?;
        Ok(())
    }

    /// Returns the pages of a sequence.
    pub fn release(&mut self, sequence: Sequence) -> Result<()> {
        self.pages.free(&sequence.table.into_pages())?;
        debug_assert!({
            self.pages.check();
            true
        });
        Ok(())
    }
}

use kernel_tests::{device, operation_cases};
use kernels::cuda::check::{PoolOrder, RopeProblem, WeightFormat};
use kernels::cuda::{
    CudaError, CudaSlice, Floats, HeadNorm, HeadNormWeights, KvLayout, RopeKvWrite, RopeKvWriteArgs, RopeKvWriteShape,
    Rows, RowsMut,
};

#[test]
fn heads_without_a_norm_match_float64() {
    operation_cases::rotations(&device(), HeadNorm::None);
}

#[test]
fn heads_with_a_norm_each_match_float64() {
    operation_cases::rotations(&device(), HeadNorm::PerHead);
}

#[test]
fn heads_with_one_norm_for_all_match_float64() {
    operation_cases::rotations(&device(), HeadNorm::AllHeads);
}

const SHAPE: RopeKvWriteShape =
    RopeKvWriteShape { head_dim: 64, query_heads: 4, kv_heads: 2, page_size: 16, norm: HeadNorm::AllHeads };

#[test]
fn a_token_has_the_same_bits_alone_and_in_a_batch() {
    let device = device();
    let kernel = RopeKvWrite::compile(&device, SHAPE).unwrap();
    let kind = (PoolOrder::TokenMajor, WeightFormat::Bf16);
    let batch = RopeProblem::random(SHAPE, &[Some(70), Some(3), None, Some(12)], kind, None, 8);
    let all = batch.run(&device, &kernel).unwrap();
    let alone = batch.first_tokens(1).run(&device, &kernel).unwrap();
    assert_eq!(alone.query, all.query[..alone.query.len()]);
    assert_eq!(alone.keys, all.keys[..alone.keys.len()]);
    assert_eq!(alone.values, all.values[..alone.values.len()]);
}

/// Where neither the norm nor the rotation touches them, values arrive bit for bit.
#[test]
fn values_are_copied_exactly() {
    let device = device();
    let shape = RopeKvWriteShape { norm: HeadNorm::None, ..SHAPE };
    let kernel = RopeKvWrite::compile(&device, shape).unwrap();
    let kind = (PoolOrder::HeadMajor, WeightFormat::Bf16);
    let problem = RopeProblem::random(shape, &[Some(0), Some(1), Some(40)], kind, None, 9);
    assert_eq!(problem.run(&device, &kernel).unwrap().values, problem.reference().values);
}

/// Lengths and strides that fit a batch of three tokens; a test changes one at a time.
struct Launch {
    qkv: usize,
    qkv_stride: usize,
    weights: Option<[usize; 2]>,
    key_is_f32: bool,
    clip: Option<f32>,
    turns: usize,
    slots: usize,
    query: usize,
    keys: usize,
    layout: KvLayout,
    shift: usize,
}

const TOKENS: usize = 3;

impl Launch {
    fn right() -> Self {
        Self {
            qkv: TOKENS * 512,
            qkv_stride: 512,
            weights: Some([256, 128]),
            key_is_f32: false,
            clip: None,
            turns: 10 * 64,
            slots: TOKENS,
            query: TOKENS * 256,
            keys: 2 * 16 * 128,
            layout: KvLayout { pages: 2, page_stride: 16 * 128, token_stride: 128, head_stride: 64 },
            shift: 0,
        }
    }

    fn launch(&self, device: &kernels::cuda::CudaDevice, kernel: &RopeKvWrite) -> Result<(), CudaError> {
        let qkv: CudaSlice<u16> = device.zeros(self.qkv)?;
        let lengths = self.weights.unwrap_or([1, 1]);
        let query_weight: CudaSlice<u16> = device.zeros(lengths[0])?;
        let key_weight: CudaSlice<u16> = device.zeros(lengths[1])?;
        let wide_key_weight: CudaSlice<f32> = device.zeros(lengths[1])?;
        let positions: CudaSlice<i32> = device.zeros(TOKENS)?;
        let turns: CudaSlice<f32> = device.zeros(self.turns)?;
        let slots: CudaSlice<i32> = device.upload(&vec![-1; self.slots])?;
        let mut query: CudaSlice<u16> = device.zeros(self.query)?;
        let mut keys: CudaSlice<u16> = device.zeros(self.keys + self.shift)?;
        let mut values: CudaSlice<u16> = device.zeros(2 * 16 * 128)?;
        device.rope_kv_write(
            kernel,
            RopeKvWriteArgs {
                qkv: Rows { values: qkv.as_view(), stride: self.qkv_stride },
                norm: self.weights.map(|_| HeadNormWeights {
                    query: Floats::Bf16(query_weight.as_view()),
                    key: if self.key_is_f32 {
                        Floats::F32(wide_key_weight.as_view())
                    } else {
                        Floats::Bf16(key_weight.as_view())
                    },
                    epsilon: 1e-6,
                }),
                clip: self.clip,
                positions: positions.as_view(),
                turns: turns.as_view(),
                slots: slots.as_view(),
                query: RowsMut { values: query.as_view_mut(), stride: 256 },
                keys: keys.slice_mut(self.shift..),
                values: values.as_view_mut(),
                layout: self.layout,
            },
        )?;
        device.synchronize()
    }
}

#[test]
fn every_size_is_checked() {
    let device = device();
    let kernel = RopeKvWrite::compile(&device, SHAPE).unwrap();
    let right = Launch::right;
    right().launch(&device, &kernel).unwrap();
    let layout = right().layout;
    let wrong = [
        ("length of qkv", Launch { qkv: TOKENS * 512 - 1, ..right() }),
        ("stride of qkv", Launch { qkv_stride: 504, ..right() }),
        ("length of the query weight", Launch { weights: None, ..right() }),
        ("length of the query weight", Launch { weights: Some([64, 128]), ..right() }),
        ("length of the key weight", Launch { weights: Some([256, 64]), ..right() }),
        ("bits of the key weight", Launch { key_is_f32: true, ..right() }),
        ("clip", Launch { clip: Some(f32::NAN), ..right() }),
        ("clip", Launch { clip: Some(-1.0), ..right() }),
        ("length of turns", Launch { turns: 65, ..right() }),
        ("length of slots", Launch { slots: 4, ..right() }),
        ("length of query", Launch { query: 767, ..right() }),
        ("length of the key pool", Launch { keys: 4095, ..right() }),
        ("pages", Launch { layout: KvLayout { pages: 1 << 27, ..layout }, ..right() }),
        ("head_stride", Launch { layout: KvLayout { head_stride: 60, ..layout }, ..right() }),
        ("the key pool's address modulo 16", Launch { shift: 4, ..right() }),
    ];
    for (what, batch) in wrong {
        let error = batch.launch(&device, &kernel).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
    let plain = RopeKvWrite::compile(&device, RopeKvWriteShape { norm: HeadNorm::None, ..SHAPE }).unwrap();
    Launch { weights: None, ..right() }.launch(&device, &plain).unwrap();
    let error = right().launch(&device, &plain).unwrap_err();
    assert_eq!(error.to_string(), "length of the query weight is 256; this launch needs 0");
}

//! Rows of logits that are far apart. What comes out is what comes out where they are not.

use kernel_tests::launches::DrawSettings;
use kernels::cuda::check::Noise;
use kernels::cuda::{
    Argmax, ArgmaxArgs, CudaDevice, CudaSlice, Floats, Logits, Penalties, Sample, ShapeLogits, TokenMasks,
};

use super::{FAR, f32_buffer, far_device};

const ROWS: usize = 3;
const VOCABULARY: usize = 300;

/// The same rows, `stride` elements apart.
fn rows(device: &CudaDevice, stride: usize) -> CudaSlice<f32> {
    let mut noise = Noise::new(75);
    let rows: Vec<Vec<f32>> = (0..ROWS).map(|_| (0..VOCABULARY).map(|_| noise.normal()).collect()).collect();
    let places: Vec<(usize, &[f32])> = rows.iter().enumerate().map(|(index, row)| (index * stride, &row[..])).collect();
    f32_buffer(device, ROWS * stride, &places)
}

#[test]
fn likeliest_tokens() {
    let device = far_device();
    let kernel = Argmax::compile(&device).unwrap();
    let found = [VOCABULARY, FAR].map(|stride| {
        let logits = rows(&device, stride);
        let mut tokens = device.zeros::<i32>(ROWS).unwrap();
        let args = ArgmaxArgs {
            logits: Floats::F32(logits.as_view()),
            stride,
            vocabulary: VOCABULARY,
            tokens: tokens.as_view_mut(),
        };
        device.argmax(&kernel, args).unwrap();
        device.download(&tokens).unwrap()
    });
    assert_eq!(found[0], found[1]);
}

#[test]
fn drawn_tokens() {
    let device = far_device();
    let kernel = Sample::compile(&device).unwrap();
    let settings = DrawSettings::cut_at(&device, ROWS, 50, 0.95).unwrap();
    let found = [VOCABULARY, FAR].map(|stride| {
        let logits = rows(&device, stride);
        let mut tokens = device.zeros::<i32>(ROWS).unwrap();
        device.sample(&kernel, settings.draw(&logits, (VOCABULARY, stride), &mut tokens)).unwrap();
        device.download(&tokens).unwrap()
    });
    assert_eq!(found[0], found[1]);
}

#[test]
fn penalties_and_masks() {
    let device = far_device();
    let kernels = ShapeLogits::compile(&device).unwrap();
    let penalty = device.upload(&[1.5_f32; ROWS]).unwrap();
    let starts = device.upload(&[0, 2, 4, 6]).unwrap();
    let (tokens, counts) = (device.upload(&[3, 299, 7, 0, 8, 100]).unwrap(), device.upload(&[1; 6]).unwrap());
    let words = VOCABULARY.div_ceil(32);
    let masks = device.upload(&vec![0x0f0f_3c5a_u32; words]).unwrap();
    let mask_of_row = device.upload(&[0; ROWS]).unwrap();
    let found = [VOCABULARY, FAR].map(|stride| {
        let mut values = rows(&device, stride);
        let mut logits = Logits { values: values.as_view_mut(), rows: ROWS, stride, vocabulary: VOCABULARY };
        let penalties = Penalties {
            starts: starts.as_view(),
            tokens: tokens.as_view(),
            counts: counts.as_view(),
            repetition: penalty.as_view(),
            presence: penalty.as_view(),
            frequency: penalty.as_view(),
        };
        device.penalise(&kernels, &mut logits, &penalties).unwrap();
        let masks = TokenMasks { masks: masks.as_view(), words, mask_of_row: mask_of_row.as_view() };
        device.forbid(&kernels, &mut logits, &masks).unwrap();
        let row = |row: usize| device.download(&values.slice(row * stride..row * stride + VOCABULARY)).unwrap();
        (0..ROWS).flat_map(row).collect::<Vec<_>>()
    });
    assert_eq!(found[0], found[1]);
}

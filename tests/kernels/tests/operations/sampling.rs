use kernel_tests::launches::DrawSettings;
use kernel_tests::{device, operation_cases};
use kernels::cuda::check::SampleProblem;
use kernels::cuda::{CudaError, CudaSlice, Logits, Penalties, Sample, ShapeLogits, TokenMasks};

#[test]
fn tokens_are_those_of_a_draw_in_float64() {
    operation_cases::draws(&device());
}

#[test]
fn penalties_and_masks_match_float64() {
    operation_cases::shaped_logits(&device());
}

/// 4000 draws from six tokens: the chi-squared statistic with five degrees of freedom is above 20.5 once in a thousand.
#[test]
fn tokens_are_drawn_as_often_as_they_are_likely() {
    let device = device();
    let logits = [0.0, 1.0, -1.0, 0.5, 2.0, -2.0_f32];
    let problem = SampleProblem::repeated(4000, &logits, 12);
    let (tokens, _) = problem.run(&device, &Sample::compile(&device).unwrap()).unwrap();
    let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    let statistic: f64 = logits
        .iter()
        .enumerate()
        .map(|(token, &logit)| {
            let expected = 4000.0 * f64::from(logit).exp() / total;
            let found = tokens.iter().filter(|&&drawn| drawn == token as i32).count() as f64;
            (found - expected).powi(2) / expected
        })
        .sum();
    assert!(statistic < 20.5, "{statistic}");
}

/// Where tokens are equally likely, sums are exact, and so are the first and the last random number that give a token.
#[test]
fn borders_between_tokens_are_exact() {
    let device = device();
    let kernel = Sample::compile(&device).unwrap();
    for bits in [6, 11] {
        let (problem, expected) = SampleProblem::at_borders(bits);
        assert_eq!(problem.run(&device, &kernel).unwrap(), (expected, true), "2^{bits} tokens");
    }
}

/// Seeds and positions are read from the device whenever captured work is launched: none is part of what was captured.
#[test]
fn captured_draws_follow_the_position() {
    const ROWS: usize = 3;
    const VOCABULARY: usize = 400;
    let device = device();
    let kernel = Sample::compile(&device).unwrap();
    let logits = device.zeros::<f32>(ROWS * VOCABULARY).unwrap();
    let mut settings = DrawSettings::cut_at(&device, ROWS, 0, 1.0).unwrap();
    let mut tokens = device.zeros::<i32>(ROWS).unwrap();
    let draw = |settings: &DrawSettings, tokens: &mut CudaSlice<i32>| {
        device.sample(&kernel, settings.draw(&logits, (VOCABULARY, VOCABULARY), tokens))
    };
    let mut graph = device.capture(|| draw(&settings, &mut tokens)).unwrap();
    let mut drawn = Vec::new();
    for position in [0, 1, 2, 1000] {
        device.overwrite(&mut settings.positions, &[position, position + 7, position * 3]).unwrap();
        draw(&settings, &mut tokens).unwrap();
        let direct = device.download(&tokens).unwrap();
        device.overwrite(&mut tokens, &[-5; ROWS]).unwrap();
        device.launch_graph(&mut graph).unwrap();
        assert_eq!(device.download(&tokens).unwrap(), direct, "position {position}");
        drawn.push(direct);
    }
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 4, "{drawn:?}");
}

fn assert_sizes(outcomes: impl IntoIterator<Item = (&'static str, Result<(), CudaError>)>) {
    for (what, outcome) in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}

#[test]
fn every_size_of_a_draw_is_checked() {
    /// Lengths of logits, stride, and lengths of temperature, top-k, top-p, min-p, seeds and positions.
    const RIGHT: [usize; 8] = [28, 10, 3, 3, 3, 3, 3, 3];
    let device = device();
    let kernel = Sample::compile(&device).unwrap();
    let launch = |sizes: [usize; 8]| {
        let [logits, stride, temperature, top_k, top_p, min_p, seeds, positions] = sizes;
        let logits: CudaSlice<f32> = device.zeros(logits)?;
        let settings = DrawSettings {
            temperature: device.zeros(temperature)?,
            top_k: device.zeros(top_k)?,
            top_p: device.zeros(top_p)?,
            min_p: device.zeros(min_p)?,
            seeds: device.zeros(seeds)?,
            positions: device.zeros(positions)?,
        };
        let mut tokens: CudaSlice<i32> = device.zeros(3)?;
        device.sample(&kernel, settings.draw(&logits, (8, stride), &mut tokens))?;
        device.synchronize()
    };
    launch(RIGHT).unwrap();
    let changed = |index: usize, size: usize| {
        let mut sizes = RIGHT;
        sizes[index] = size;
        launch(sizes)
    };
    assert_sizes([
        ("length of logits", changed(0, 27)),
        ("stride of logits", changed(1, 7)),
        ("length of temperature", changed(2, 4)),
        ("length of top_k", changed(3, 2)),
        ("length of top_p", changed(4, 2)),
        ("length of min_p", changed(5, 2)),
        ("length of seeds", changed(6, 2)),
        ("length of positions", changed(7, 2)),
    ]);
}

#[test]
fn every_size_of_penalties_and_masks_is_checked() {
    let device = device();
    let kernels = ShapeLogits::compile(&device).unwrap();
    let penalise = |logits: usize, starts: usize, counts: usize, presence: usize| {
        let mut values: CudaSlice<f32> = device.zeros(logits)?;
        let starts: CudaSlice<i32> = device.zeros(starts)?;
        let tokens: CudaSlice<i32> = device.zeros(5)?;
        let counts: CudaSlice<i32> = device.zeros(counts)?;
        let ones: CudaSlice<f32> = device.zeros(3)?;
        let presence: CudaSlice<f32> = device.zeros(presence)?;
        let mut logits = Logits { values: values.as_view_mut(), rows: 3, stride: 10, vocabulary: 8 };
        let penalties = Penalties {
            starts: starts.as_view(),
            tokens: tokens.as_view(),
            counts: counts.as_view(),
            repetition: ones.as_view(),
            presence: presence.as_view(),
            frequency: ones.as_view(),
        };
        device.penalise(&kernels, &mut logits, &penalties)?;
        device.synchronize()
    };
    penalise(28, 4, 5, 3).unwrap();
    assert_sizes([
        ("length of logits", penalise(27, 4, 5, 3)),
        ("length of starts", penalise(28, 3, 5, 3)),
        ("length of counts", penalise(28, 4, 4, 3)),
        ("length of presence", penalise(28, 4, 5, 2)),
    ]);
    let forbid = |masks: usize, words: usize, rows: usize| {
        let mut values: CudaSlice<f32> = device.zeros(28)?;
        let masks: CudaSlice<u32> = device.zeros(masks)?;
        let mask_of_row: CudaSlice<i32> = device.zeros(rows)?;
        let mut logits = Logits { values: values.as_view_mut(), rows: 3, stride: 10, vocabulary: 8 };
        let masks = TokenMasks { masks: masks.as_view(), words, mask_of_row: mask_of_row.as_view() };
        device.forbid(&kernels, &mut logits, &masks)?;
        device.synchronize()
    };
    forbid(4, 2, 3).unwrap();
    assert_sizes([
        ("length of masks", forbid(5, 2, 3)),
        ("words", forbid(4, 0, 3)),
        ("length of mask_of_row", forbid(4, 2, 4)),
    ]);
}

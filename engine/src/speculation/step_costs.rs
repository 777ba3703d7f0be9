//! How many steps a second does the machine make, for so many tokens?
//!
//! Measured once for a model and a machine, kept in a JSON file. There are two forms. Rates for numbers of tokens:
//!
//! ```json
//! {"sample_batch_tokens": [8, 16, 32], "sample_steps_per_sec": [1000.0, 950.0, 500.0], "max_batch_tokens": 64}
//! ```
//!
//! and a time for each step, as a sum of a constant, a part for the requests and a part for the tokens:
//!
//! ```json
//! {"bias_seconds": 0.001, "bs_probes": [1, 64], "alpha_seconds": [0.0, 0.002],
//!  "m_probes": [1, 512], "theta_seconds": [0.0, 0.01]}
//! ```
//!
//! Nothing calls this yet. It will be read from `spec.speculative_dspark_sps_table_path`; how far it has to reach
//! follows from `schedule.max_running_requests`.

use serde::Deserialize;

/// What a step costs.
#[derive(Debug, Clone, PartialEq)]
pub enum StepCosts {
    /// Nobody measured it: every step takes the same time, so all guesses are worth verifying.
    Flat,
    /// Steps a second by tokens.
    Rates(StepRates),
    /// Seconds of a step by requests and tokens.
    Times(StepTimes),
}

/// Steps a second, measured for some numbers of tokens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRates {
    sample_batch_tokens: Vec<usize>,
    sample_steps_per_sec: Vec<f64>,
    max_batch_tokens: usize,
}

/// Seconds of a step: a constant, a part for requests, a part for tokens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTimes {
    bias_seconds: f64,
    bs_probes: Vec<usize>,
    alpha_seconds: Vec<f64>,
    m_probes: Vec<usize>,
    theta_seconds: Vec<f64>,
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StepCostsError {
    /// It is no JSON, or of another form. The message says line and column.
    #[error("not a table of step costs: {0}")]
    Form(#[from] serde_json::Error),
    /// Two lists that belong together have different lengths, or none.
    #[error("`{numbers}` and `{values}` need one length and at least one number, not {of_numbers} and {of_values}")]
    Lengths {
        /// The first list.
        numbers: &'static str,
        /// The second list.
        values: &'static str,
        /// Numbers in the first.
        of_numbers: usize,
        /// Numbers in the second.
        of_values: usize,
    },
    /// Numbers do not ascend.
    #[error("`{list}` has to ascend: {next} follows {one}")]
    Order {
        /// The list.
        list: &'static str,
        /// A number.
        one: usize,
        /// The one after it.
        next: usize,
    },
    /// A value is no possible one.
    #[error("`{list}` has {value}, which is no possible value")]
    Value {
        /// The list.
        list: &'static str,
        /// What it has.
        value: f64,
    },
    /// It ends before the largest step.
    #[error("the table reaches to {reaches} tokens, a step may have {needed}: measure further")]
    TooShort {
        /// Where it ends.
        reaches: usize,
        /// The largest step.
        needed: usize,
    },
}

/// The most tokens of a step: `verify_tokens` for each request that may run, of which there is at least one.
///
/// ```
/// use engine::speculation::step_costs::most_tokens;
///
/// assert_eq!(most_tokens(4, 5), 20);
/// assert_eq!(most_tokens(0, 5), 5);
/// ```
#[must_use]
pub fn most_tokens(max_running_requests: usize, verify_tokens: usize) -> usize {
    max_running_requests.max(1) * verify_tokens
}

impl StepCosts {
    /// Reads a table, which has to reach `needed` tokens; without a text it is flat.
    ///
    /// ```
    /// use engine::speculation::step_costs::StepCosts;
    ///
    /// let text = r#"{"sample_batch_tokens": [8, 16], "sample_steps_per_sec": [1000.0, 950.0], "max_batch_tokens": 64}"#;
    /// let costs = StepCosts::read(Some(text), 64)?;
    /// // Between two measurements the lower one counts.
    /// assert_eq!([1, 8, 15, 16, 64].map(|tokens| costs.steps_per_second(1, tokens)), [1000.0, 1000.0, 1000.0, 950.0, 950.0]);
    ///
    /// let error = StepCosts::read(Some(text), 65).unwrap_err();
    /// assert_eq!(error.to_string(), "the table reaches to 64 tokens, a step may have 65: measure further");
    /// # Ok::<(), engine::speculation::step_costs::StepCostsError>(())
    /// ```
    pub fn read(text: Option<&str>, needed: usize) -> Result<Self, StepCostsError> {
        let Some(text) = text else { return Ok(Self::Flat) };
        // Told apart first, so that what is wrong is said for the form that was meant.
        if text.contains("\"bias_seconds\"") {
            let times: StepTimes = serde_json::from_str(text)?;
            times.check()?;
            Ok(Self::Times(times))
        } else {
            let rates: StepRates = serde_json::from_str(text)?;
            rates.check()?;
            if rates.max_batch_tokens < needed {
                return Err(StepCostsError::TooShort { reaches: rates.max_batch_tokens, needed });
            }
            Ok(Self::Rates(rates))
        }
    }

    /// Steps a second with so many requests and, over all of them, so many tokens.
    #[must_use]
    pub fn steps_per_second(&self, requests: usize, tokens: usize) -> f64 {
        match self {
            Self::Flat => 1.0,
            Self::Rates(StepRates { sample_batch_tokens, sample_steps_per_sec, .. }) => {
                let above = sample_batch_tokens.partition_point(|sample| *sample <= tokens);
                sample_steps_per_sec[above.saturating_sub(1)]
            }
            Self::Times(times) => {
                let of_requests = between(&times.bs_probes, &times.alpha_seconds, requests);
                let of_tokens = between(&times.m_probes, &times.theta_seconds, tokens);
                (times.bias_seconds + of_requests + of_tokens).recip()
            }
        }
    }
}

/// The value at a number, on straight lines between those that are given, and level beyond them.
fn between(numbers: &[usize], values: &[f64], at: usize) -> f64 {
    let above = numbers.partition_point(|number| *number <= at);
    if above == 0 {
        values[0]
    } else if above == numbers.len() {
        values[above - 1]
    } else {
        let (from, to) = (numbers[above - 1], numbers[above]);
        let part = (at - from) as f64 / (to - from) as f64;
        values[above - 1] + part * (values[above] - values[above - 1])
    }
}

impl StepRates {
    fn check(&self) -> Result<(), StepCostsError> {
        let (numbers, values) = ("sample_batch_tokens", "sample_steps_per_sec");
        check_list(numbers, &self.sample_batch_tokens, values, &self.sample_steps_per_sec)?;
        let last = self.sample_batch_tokens[self.sample_batch_tokens.len() - 1];
        if self.max_batch_tokens < last {
            return Err(StepCostsError::TooShort { reaches: self.max_batch_tokens, needed: last });
        }
        check_values(values, &self.sample_steps_per_sec, |rate| rate > 0.0)
    }
}

impl StepTimes {
    fn check(&self) -> Result<(), StepCostsError> {
        check_list("bs_probes", &self.bs_probes, "alpha_seconds", &self.alpha_seconds)?;
        check_list("m_probes", &self.m_probes, "theta_seconds", &self.theta_seconds)?;
        check_values("bias_seconds", &[self.bias_seconds], |seconds| seconds > 0.0)?;
        check_values("alpha_seconds", &self.alpha_seconds, |seconds| seconds >= 0.0)?;
        check_values("theta_seconds", &self.theta_seconds, |seconds| seconds >= 0.0)
    }
}

fn check_list(
    numbers: &'static str,
    of_numbers: &[usize],
    values: &'static str,
    of_values: &[f64],
) -> Result<(), StepCostsError> {
    let (count, of_values) = (of_numbers.len(), of_values.len());
    if count == 0 || count != of_values {
        return Err(StepCostsError::Lengths { numbers, values, of_numbers: count, of_values });
    }
    match of_numbers.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(StepCostsError::Order { list: numbers, one: pair[0], next: pair[1] }),
        None => Ok(()),
    }
}

fn check_values(list: &'static str, values: &[f64], is_possible: impl Fn(f64) -> bool) -> Result<(), StepCostsError> {
    // JSON has no other numbers than finite ones.
    match values.iter().find(|value| !is_possible(**value)) {
        Some(&value) => Err(StepCostsError::Value { list, value }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Random;

    const RATES: &str = r#"{
        "sample_batch_tokens": [8, 16, 32, 64],
        "sample_steps_per_sec": [1000.0, 950.0, 500.0, 480.0],
        "max_batch_tokens": 128
    }"#;
    const TIMES: &str = r#"{"bias_seconds": 0.5, "bs_probes": [1, 3], "alpha_seconds": [0.25, 0.75],
        "m_probes": [10, 20], "theta_seconds": [0.0, 1.0]}"#;

    fn rate(text: &str, requests: usize, tokens: usize) -> f64 {
        StepCosts::read(Some(text), 0).expect("valid").steps_per_second(requests, tokens)
    }

    #[test]
    fn rates_are_those_of_the_sample_below() {
        let table = [(0, 1000.0), (1, 1000.0), (8, 1000.0), (15, 1000.0), (16, 950.0), (31, 950.0), (63, 500.0)];
        for (tokens, expected) in table.into_iter().chain([(64, 480.0), (128, 480.0), (9999, 480.0)]) {
            assert_eq!(rate(RATES, 3, tokens).to_string(), f64::to_string(&expected), "{tokens}");
        }
    }

    #[test]
    fn times_add_up_between_the_samples() {
        // 0.5, a quarter for each request from 1 to 3, a tenth for each token from 10 to 20.
        for (requests, tokens, seconds) in
            [(1, 10, 0.75), (0, 0, 0.75), (2, 10, 1.0), (3, 10, 1.25), (9, 10, 1.25), (1, 15, 1.25), (3, 99, 2.25)]
        {
            assert!((rate(TIMES, requests, tokens) * seconds - 1.0).abs() < 1e-12, "{requests} {tokens}");
        }
    }

    #[test]
    fn without_a_table_every_step_costs_the_same() {
        let costs = StepCosts::read(None, most_tokens(4, 5)).expect("nothing to read");
        assert_eq!(costs, StepCosts::Flat);
        assert_eq!(costs.steps_per_second(1, 1).to_bits(), costs.steps_per_second(4, 20).to_bits());
    }

    #[test]
    fn a_table_reaches_the_largest_step() {
        for (requests, tokens, reaches) in [(4, 5, 20), (0, 5, 5), (1, 8, 8), (16, 8, 128)] {
            assert_eq!(most_tokens(requests, tokens), reaches);
        }
        assert!(StepCosts::read(Some(RATES), 128).is_ok());
        let error = StepCosts::read(Some(RATES), 129).expect_err("too short").to_string();
        assert_eq!(error, "the table reaches to 128 tokens, a step may have 129: measure further");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let rates = |tokens: &str, rates: &str| {
            format!(
                "{{\"sample_batch_tokens\": {tokens}, \"sample_steps_per_sec\": {rates}, \"max_batch_tokens\": 16}}"
            )
        };
        let table = [
            (rates("[8, 8, 16]", "[1, 2, 3]"), "`sample_batch_tokens` has to ascend: 8 follows 8"),
            (rates("[16, 8]", "[1, 2]"), "`sample_batch_tokens` has to ascend: 8 follows 16"),
            (rates("[]", "[]"), "need one length and at least one number, not 0 and 0"),
            (rates("[8]", "[1, 2]"), "not 1 and 2"),
            (rates("[8, 32]", "[1, 2]"), "the table reaches to 16 tokens, a step may have 32"),
            (rates("[8]", "[0.0]"), "`sample_steps_per_sec` has 0"),
            (rates("[8]", "[-1.0]"), "`sample_steps_per_sec` has -1"),
            (rates("[-8]", "[1.0]"), "line 1"),
            (RATES.replace("950.0,", "950.0"), "line 3"),
            (RATES.replace("max_batch", "most_batch"), "unknown field `most_batch_tokens`"),
            (RATES.replace("128", "128, \"max_batch_tokens\": 1"), "duplicate field"),
            (TIMES.replace("0.5", "0.0"), "`bias_seconds` has 0"),
            (TIMES.replace("0.25", "-0.25"), "`alpha_seconds` has -0.25"),
            (TIMES.replace("[0.0, 1.0]", "[0.0, -1.0]"), "`theta_seconds` has -1"),
            (TIMES.replace("[10, 20]", "[20, 10]"), "`m_probes` has to ascend: 10 follows 20"),
            (TIMES.replace("[1, 3]", "[3, 1]"), "`bs_probes` has to ascend: 1 follows 3"),
            (TIMES.replace("[0.25, 0.75]", "[0.25]"), "`bs_probes` and `alpha_seconds` need one length"),
            (TIMES.replace("[0.0, 1.0]", "[0.0]"), "`m_probes` and `theta_seconds` need one length"),
            (String::new(), "line 1"),
        ];
        assert!(StepCosts::read(Some(&rates("[8, 16]", "[1, 2]")), 16).is_ok(), "it ends with its last sample");
        assert!(StepCosts::read(Some(&TIMES.replace("0.25", "0.0")), 0).is_ok(), "requests may cost nothing");
        for (text, says) in table {
            let error = StepCosts::read(Some(&text), 0).expect_err(&text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    /// Whatever the bytes, reading ends, and what is read answers with a positive rate.
    #[test]
    fn changed_bytes_are_an_error_or_a_table() {
        let seed = 0x0073_7073;
        eprintln!("random changes from seed {seed:#x}");
        let mut random = Random::new(seed);
        let mut read = 0;
        for text in [RATES, TIMES] {
            for _ in 0..3000 {
                let mut bytes = text.as_bytes().to_vec();
                for _ in 0..=random.bits() % 3 {
                    let at = (random.bits() % bytes.len() as u64) as usize;
                    bytes[at] = text.as_bytes()[(random.bits() % text.len() as u64) as usize];
                }
                let text = String::from_utf8(bytes).expect("ASCII");
                if let Ok(costs) = StepCosts::read(Some(&text), 0) {
                    read += 1;
                    for tokens in [0, 1, 17, 1000, usize::MAX] {
                        let rate = costs.steps_per_second(tokens, tokens);
                        assert!(rate > 0.0 && rate.is_finite(), "{rate} from {text}");
                    }
                }
            }
        }
        assert!(read > 50, "only {read} tables were read");
    }
}

//! Which experts does the device compute, and which the host?
//!
//! A mixture of experts can be larger than the device's memory: the first experts of each layer stay on the device, the
//! others are computed by the host at the same time, from weights of fewer bits. Nothing calls this yet. It will be
//! built from `exec.moe.{kt_weight_path, kt_method, kt_cpuinfer, kt_threadpool_count, kt_num_gpu_experts,
//! kt_max_deferred_experts_per_token}` and the chunk that `schedule.chunked_prefill_size` settles to: what computes is
//! handed this value.

use std::path::PathBuf;

/// Settings, as a user gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostExpertsInput {
    /// The folder of the host's weights; without one, the device computes all experts.
    pub weight_path: Option<PathBuf>,
    /// How the host's weights are stored.
    pub method: HostMethod,
    /// Threads of the host, over all pools.
    pub threads: usize,
    /// Pools of threads, one for each memory that is near to some of the processors.
    pub pools: usize,
    /// Experts of each layer that the device computes.
    pub device_experts: usize,
    /// Experts of a token that may be finished while the next layer runs.
    pub deferred_per_token: usize,
    /// Experts of a layer.
    pub experts: usize,
    /// Experts that a token goes to.
    pub experts_per_token: usize,
    /// The most tokens that come at the same time.
    pub chunk: usize,
}

/// How the host's weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMethod {
    /// Four bits for a weight.
    Int4,
    /// Eight bits.
    Int8,
}

/// A division of experts that can be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostExperts {
    /// The folder of the host's weights.
    pub weight_path: PathBuf,
    /// How they are stored.
    pub method: HostMethod,
    /// Threads of each pool.
    pub threads_of_pools: Vec<usize>,
    /// Experts below this number are the device's.
    pub device_experts: usize,
    /// Experts of a token that may be finished while the next layer runs.
    pub deferred_per_token: usize,
    /// Rows of the buffers between device and host.
    pub buffer_rows: usize,
}

/// Settings that do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostExpertsError {
    /// More experts on the device than there are.
    #[error("--kt-num-gpu-experts {asked} is more than the {experts} experts of a layer")]
    MoreThanThereAre {
        /// What was asked for.
        asked: usize,
        /// Experts of a layer.
        experts: usize,
    },
    /// A pool would have no thread.
    #[error("--kt-cpuinfer {threads} is less than one thread for each of --kt-threadpool-count {pools}")]
    TooFewThreads {
        /// Threads of the host.
        threads: usize,
        /// Pools of threads.
        pools: usize,
    },
    /// More deferred than a token has.
    #[error("--kt-max-deferred-experts-per-token {asked} is more than the {experts} experts of a token")]
    MoreThanATokenHas {
        /// What was asked for.
        asked: usize,
        /// Experts that a token goes to.
        experts: usize,
    },
}

impl HostExpertsInput {
    /// The division, or none if the device computes all: no folder is given, or no expert is left for the host.
    ///
    /// ```
    /// use engine::sizing::host_experts::{HostExpertsInput, HostMethod};
    ///
    /// let input = HostExpertsInput {
    ///     weight_path: Some("int4".into()),
    ///     method: HostMethod::Int4,
    ///     threads: 15,
    ///     pools: 2,
    ///     device_experts: 2,
    ///     deferred_per_token: 1,
    ///     experts: 8,
    ///     experts_per_token: 2,
    ///     chunk: 4096,
    /// };
    /// let division = input.divide()?.expect("six experts are the host's");
    /// assert_eq!(division.threads_of_pools, [8, 7]);
    /// let (device, host) = division.split(&[1, 5, -1]);
    /// assert_eq!((device, host), (vec![1, -1, -1], vec![-1, 5, -1]));
    /// # Ok::<(), engine::sizing::host_experts::HostExpertsError>(())
    /// ```
    pub fn divide(self) -> Result<Option<HostExperts>, HostExpertsError> {
        let Self { weight_path, method, threads, pools, device_experts, deferred_per_token, .. } = self;
        let Some(weight_path) = weight_path else { return Ok(None) };
        if device_experts > self.experts {
            return Err(HostExpertsError::MoreThanThereAre { asked: device_experts, experts: self.experts });
        }
        if pools == 0 || threads < pools {
            return Err(HostExpertsError::TooFewThreads { threads, pools });
        }
        if deferred_per_token > self.experts_per_token {
            let experts = self.experts_per_token;
            return Err(HostExpertsError::MoreThanATokenHas { asked: deferred_per_token, experts });
        }
        let threads_of_pools = (0..pools).map(|pool| threads / pools + usize::from(pool < threads % pools)).collect();
        let division = HostExperts {
            weight_path,
            method,
            threads_of_pools,
            device_experts,
            deferred_per_token,
            buffer_rows: self.chunk,
        };
        Ok((device_experts < self.experts).then_some(division))
    }
}

impl HostExperts {
    /// Experts of tokens, for the device and for the host: each expert is in one of the two, and −1 in the other. What
    /// is −1 here is no expert and stays so.
    #[must_use]
    pub fn split(&self, experts: &[i32]) -> (Vec<i32>, Vec<i32>) {
        let is_on_device = |expert: i32| usize::try_from(expert).is_ok_and(|expert| expert < self.device_experts);
        let device = experts.iter().map(|&expert| if is_on_device(expert) { expert } else { -1 }).collect();
        let host = experts.iter().map(|&expert| if is_on_device(expert) { -1 } else { expert }).collect();
        (device, host)
    }

    /// Experts of a token that may be finished while the next layer runs: none in the last layer.
    #[must_use]
    pub fn deferred(&self, layer: usize, layers: usize) -> usize {
        if layer + 1 < layers { self.deferred_per_token } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> HostExpertsInput {
        HostExpertsInput {
            weight_path: Some("weights".into()),
            method: HostMethod::Int8,
            threads: 4,
            pools: 2,
            device_experts: 3,
            deferred_per_token: 2,
            experts: 8,
            experts_per_token: 4,
            chunk: 2048,
        }
    }

    #[test]
    fn a_division_says_what_was_given() {
        let division = HostExperts {
            weight_path: "weights".into(),
            method: HostMethod::Int8,
            threads_of_pools: vec![2, 2],
            device_experts: 3,
            deferred_per_token: 2,
            buffer_rows: 2048,
        };
        assert_eq!(input().divide(), Ok(Some(division)));
        assert!(HostExpertsInput { deferred_per_token: 4, ..input() }.divide().is_ok(), "all of a token's");
        assert_eq!(HostExpertsInput { weight_path: None, ..input() }.divide(), Ok(None));
        assert_eq!(HostExpertsInput { device_experts: 8, ..input() }.divide(), Ok(None));
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        let table = [
            (HostExpertsInput { device_experts: 9, ..input() }, "--kt-num-gpu-experts 9 is more than the 8 experts"),
            (HostExpertsInput { threads: 1, ..input() }, "--kt-cpuinfer 1 is less than one thread for each"),
            (HostExpertsInput { pools: 0, ..input() }, "--kt-threadpool-count 0"),
            (HostExpertsInput { deferred_per_token: 5, ..input() }, "5 is more than the 4 experts of a token"),
        ];
        for (input, says) in table {
            let error = input.divide().expect_err("it does not go together").to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn each_expert_is_computed_once_wherever_the_division_is() {
        let experts: Vec<i32> = vec![0, 7, 3, -1, 2, 2, 5, -1];
        for device_experts in 0..8 {
            let division = HostExpertsInput { device_experts, ..input() }.divide().expect("valid").expect("some left");
            let (device, host) = division.split(&experts);
            for ((&expert, device), host) in experts.iter().zip(device).zip(host) {
                let sides = [device, host].into_iter().filter(|side| *side == expert).count();
                assert_eq!(sides, if expert < 0 { 2 } else { 1 }, "{expert} with {device_experts} on the device");
                assert!(device.max(host) == expert && device.min(host) == -1);
                assert!(device < device_experts as i32 && (host == -1 || host >= device_experts as i32));
            }
        }
    }

    #[test]
    fn pools_share_all_threads_evenly() {
        for pools in 1..6 {
            for threads in pools..20 {
                let division = HostExpertsInput { threads, pools, ..input() }.divide().expect("valid").expect("some");
                let of_pools = division.threads_of_pools;
                assert_eq!((of_pools.len(), of_pools.iter().sum::<usize>()), (pools, threads));
                assert!(of_pools.iter().max() <= of_pools.iter().min().map(|least| least + 1).as_ref());
            }
        }
    }

    #[test]
    fn nothing_is_deferred_beyond_the_last_layer() {
        let division = input().divide().expect("valid").expect("some");
        assert_eq!([0, 1, 2, 3].map(|layer| division.deferred(layer, 4)), [2, 2, 2, 0]);
        assert_eq!(division.deferred(0, 1), 0);
    }
}

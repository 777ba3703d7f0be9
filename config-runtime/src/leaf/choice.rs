//! Enums as settings.

/// An enum whose variants are the choices of a setting. Write `#[derive(ConfigChoice)]`.
///
/// Spellings are the variants' names in kebab case:
///
/// ```
/// use kitbag::{Choice, ConfigChoice, Leaf};
///
/// #[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
/// enum Device {
///     Cpu,
///     CudaGraph,
/// }
/// assert_eq!(Device::NAMES, ["cpu", "cuda-graph"]);
/// assert_eq!(Device::from_text("cuda-graph"), Some(Device::CudaGraph));
/// assert_eq!(Device::Cpu.name(), "cpu");
/// ```
pub trait Choice: Copy + Sized + 'static {
    /// The spellings, in order of declaration.
    const NAMES: &'static [&'static str];
    /// The variants, in the same order.
    const VARIANTS: &'static [Self];

    /// This variant's spelling.
    fn name(self) -> &'static str;
}

//! What is emitted, as files for readers: `config-derive/expansions`. `UPDATE_EXPECT=1 cargo test -p kitbag-derive` writes
//! them anew.

use expect_test::{ExpectFile, expect_file};
use syn::{DeriveInput, parse_quote};

fn check(input: &DeriveInput, expected: &ExpectFile) {
    let file = syn::parse2(super::config_namespaces(input)).expect("an expansion is items");
    expected.assert_eq(&prettyplease::unparse(&file));
}

#[test]
fn a_flat_schema() {
    let input = parse_quote! {
        /// Thumbnail service.
        #[config(env = "THUMB", derived(pool.capacity: usize = capacity(pool.workers, pool.queue)))]
        struct Args {
            /// Worker threads; one per core unless set.
            #[config(ns = "pool", auto = Facts::cpus)]
            workers: usize,
            /// Jobs that may wait per worker.
            #[config(ns = "pool", default = 32, range = 1..=4096, hot)]
            queue: usize,
        }
    };
    check(&input, &expect_file!["../../expansions/flat.rs"]);
}

#[test]
fn a_namespace_struct() {
    let input = parse_quote! {
        /// How work runs.
        #[config(ns = "exec")]
        pub struct Exec {
            /// Device to run on.
            #[config(default = "cpu", load_time)]
            device: String,
            /// Kernels.
            #[config(nested)]
            kernel: Kernel,
        }
    };
    check(&input, &expect_file!["../../expansions/namespace.rs"]);
}

#[test]
fn a_schema_with_faults_still_has_its_items() {
    let input = parse_quote! {
        struct Args {
            /// Jobs that may wait.
            #[config(ns = "pool", defalt = 32, hot)]
            queue: usize,
        }
    };
    check(&input, &expect_file!["../../expansions/faulty.rs"]);
}

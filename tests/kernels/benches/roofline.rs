//! Prints the table of `docs/roofline.md`: `cargo bench -p kernel-tests --bench roofline`.

use kernel_tests::{Emulator, device, roofline};

fn main() {
    let (device, emulator) = (device(), Emulator::open());
    let counts = [
        roofline::decode(&device, &emulator, 32, 4096),
        roofline::decode(&device, &emulator, 16, 4096),
        roofline::product(&device, &emulator, 16, 1536, 2048),
        roofline::product(&device, &emulator, 64, 1536, 2048),
    ];
    print!("{}", roofline::table(&counts));
}

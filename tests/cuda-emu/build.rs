//! Names the library after the one it stands in for: a program that opens it by path then finds it as `libcuda.so`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}

//! Names the library after the one it stands in for: a program that opens it by path then finds it as `libcuda.so`. And
//! keeps it loaded once it has been: what tests have set is in it, and a driver does not go with whoever opened it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

//! The library stays loaded whoever closes it, as a driver does. Nothing else in this process has it open.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

fn opened() -> Library {
    let mut path = std::env::current_exe().unwrap();
    path.set_file_name("libcuda_emu.so");
    // SAFETY: the library is this project's and runs nothing when it is opened.
    unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.expect("cargo builds the library beside its tests")
}

fn set_memory(driver: &Library, bytes: u64) {
    // SAFETY: that is the function's type.
    let set = unsafe { driver.get::<extern "C" fn(u64)>("cuda_emu_set_memory") }.unwrap();
    set(bytes);
}

fn memory(driver: &Library) -> usize {
    let mut bytes = 0;
    // SAFETY: those are the functions' types, and the number is written to a number.
    unsafe {
        assert_eq!(driver.get::<extern "C" fn(u32) -> i32>("cuInit").unwrap()(0), 0);
        let total = driver.get::<unsafe extern "C" fn(*mut usize, i32) -> i32>("cuDeviceTotalMem_v2").unwrap();
        assert_eq!(total(&raw mut bytes, 0), 0);
    }
    bytes
}

#[test]
fn what_is_set_outlives_the_handle_that_set_it() {
    const BYTES: u64 = 123 << 20;
    let driver = opened();
    assert_ne!(memory(&driver), BYTES as usize);
    set_memory(&driver, BYTES);
    driver.close().unwrap();
    assert_eq!(memory(&opened()), BYTES as usize);
}

//! Bindings of the C driver for `no_std` Rust (edition 2021); `tg2hdl.h` has the meaning of each function.
//!
//! Compile `tg2hdl.c` with the `cc` crate in `build.rs`, and use this file as a module:
//!
//!     let bus = unsafe { tg2hdl_mapped(0x4000_0000 as *mut u32) };
//!     let code = unsafe { tg2hdl_open(&bus) };
#![allow(dead_code)]

use core::ffi::c_void;

/// How words of the register map are accessed.
#[repr(C)]
pub struct Bus {
    pub write: extern "C" fn(*mut c_void, u32, *const u8, u32) -> i32,
    pub read: extern "C" fn(*mut c_void, u32, *mut u8, u32) -> i32,
    pub context: *mut c_void,
}

extern "C" {
    pub fn tg2hdl_mapped(base: *mut u32) -> Bus;
    pub fn tg2hdl_open(bus: *const Bus) -> i32;
    pub fn tg2hdl_load(bus: *const Bus, address: u32, data: *const c_void, bytes: u32) -> i32;
    pub fn tg2hdl_set(bus: *const Bus, address: u32, value: i32) -> i32;
    pub fn tg2hdl_run(bus: *const Bus, polls: u32) -> i32;
    pub fn tg2hdl_fetch(bus: *const Bus, address: u32, data: *mut c_void, bytes: u32) -> i32;
}


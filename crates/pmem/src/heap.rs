//! Giving freed memory back to the system.
//!
//! glibc keeps a heap for every few threads, and what is freed in the middle of one stays with the process for that heap's
//! threads to take again. Blocks that leave a cache were allocated by the threads that read them; what the memory is wanted for
//! next is allocated by others. So shrinking a cache gives nobody anything until the allocator is asked to give back.

/// Asks the allocator to give whole free pages back to the system. It takes milliseconds where there is much to give, and
/// threads that allocate wait for part of that. Does nothing with C libraries other than glibc; another global allocator keeps
/// its own counsel.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad_bytes: usize) -> std::ffi::c_int;
        }
        // SAFETY: glibc has had this function since its version 2.0, callable from any thread at any time; it touches free
        // memory alone.
        unsafe { malloc_trim(0) };
    }
}

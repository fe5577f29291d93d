//! Memory that the C library's allocator keeps after the program has freed it.

/// From this size on an allocation is memory of its own, which goes back to the system when it is freed. Of smaller ones a
/// thread that ends leaves a few.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: libc::c_int = 64 << 10;

/// Has the allocator give large buffers back to the system as soon as they are freed, for the whole process and for good.
///
/// By itself glibc raises the size from which it does so to that of the largest buffer that was freed, up to 32 MiB, and
/// keeps twice as much free memory in each of its arenas, of which there are eight for each processor. A buffer then costs
/// its page faults each time, some 0.2 us for 4 KiB. Other allocators do it anyway, or are not ours to tell.
pub fn give_large_buffers_back() {
    #[cfg(target_env = "gnu")]
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: takes numbers only.
        unsafe { libc::mallopt(parameter, MAPPED_FROM_BYTES) };
    }
}

//! Descriptors that programs get from the one that starts them.

use std::fs;

/// Has no program that this process starts get any of the descriptors that it has now, but standard input, output and error.
/// None is closed here.
pub fn hand_on_no_descriptors() {
    // SAFETY: takes numbers, and closes nothing: no owner of a descriptor loses it.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return;
    }
    // Before Linux 5.11, or where a filter refuses the call.
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|&number| number > 2).collect::<Vec<_>>() {
        // SAFETY: takes numbers; of one that is not open any more it is an error, and nothing happens.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

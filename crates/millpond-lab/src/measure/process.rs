//! The resources of this process and its machine: resident memory, processor time, page cache.

use procfs::{Current, Meminfo, process::Process};

const MIB: f64 = (1 << 20) as f64;

/// The greatest resident set this process had since it started, in MiB (`VmHWM`), shared memory included.
pub fn resident_peak_mib() -> Option<f64> {
    let status = Process::myself().ok()?.status().ok()?;
    status.vmhwm.map(|kib| kib as f64 / 1024.0)
}

/// Its resident set now, in MiB.
pub fn resident_mib() -> Option<f64> {
    let status = Process::myself().ok()?.status().ok()?;
    status.vmrss.map(|kib| kib as f64 / 1024.0)
}

/// The size of the kernel's page tables for this process, in MiB (`VmPTE`).
pub fn page_tables_mib() -> Option<f64> {
    let status = Process::myself().ok()?.status().ok()?;
    status.vmpte.map(|kib| kib as f64 / 1024.0)
}

/// How often this thread has waited for the kernel to read a page into a mapping, or from swap.
pub fn major_faults_of_thread() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // after the name, which may contain anything, the third field is the first
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_ascii_whitespace().nth(12 - 3)?.parse().ok()
}

/// Processor time of this process so far, as (user, system) seconds. Work that the kernel does for it in
/// threads of its own, such as writeback, is not in it.
pub fn processor_seconds() -> Option<(f64, f64)> {
    let stat = Process::myself().ok()?.stat().ok()?;
    let tick = rustix::param::clock_ticks_per_second() as f64;
    Some((stat.utime as f64 / tick, stat.stime as f64 / tick))
}

/// The size of the machine's page cache, in MiB: all processes' pages.
pub fn page_cache_mib() -> Option<f64> {
    let meminfo = Meminfo::current().ok()?;
    Some((meminfo.cached + meminfo.buffers) as f64 / MIB)
}

/// Pages that the kernel is writing to devices now, in bytes: all processes' pages (`Writeback`).
pub fn writeback_bytes() -> Option<u64> {
    Some(Meminfo::current().ok()?.writeback)
}

/// Interrupts and context switches of the machine since it started: the fields `intr` and `ctxt` of `/proc/stat`.
pub fn interrupts_and_switches() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some((field("intr ")?, field("ctxt ")?))
}

/// The machine's memory in MiB.
pub fn machine_memory_mib() -> Option<f64> {
    Some(Meminfo::current().ok()?.mem_total as f64 / MIB)
}

/// The number of tasks runnable or waiting for a disk, on average over the last minute.
pub fn load_average() -> Option<f32> {
    procfs::LoadAverage::current().ok().map(|load| load.one)
}

/// The number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor's name, if the machine reports it.
pub fn processor_name() -> Option<String> {
    let info = procfs::CpuInfo::current().ok()?;
    info.model_name(0).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_runs_this_has_switched_before() {
        let (interrupts, switches) = interrupts_and_switches().unwrap();
        assert!(interrupts > 0 && switches > 0);
    }

    #[test]
    fn a_thread_has_faults_of_its_own_and_a_process_page_tables() {
        assert!(page_tables_mib().unwrap() > 0.0);
        assert!(resident_mib().unwrap() <= resident_peak_mib().unwrap());
        let faults = std::thread::spawn(major_faults_of_thread).join().unwrap();
        assert!(
            faults.unwrap() < 1000,
            "those of a process, or another field: {faults:?}"
        );
    }

    #[test]
    fn touched_memory_shows_in_the_peak() {
        let before = resident_peak_mib().unwrap();
        let touched = vec![1_u8; 64 << 20];
        assert!(touched.iter().map(|&b| u64::from(b)).sum::<u64>() == 64 << 20);
        let peak = resident_peak_mib().unwrap();
        // Other tests of this process allocate and free as well: how much higher it is than before says nothing.
        assert!(peak > 64.0 && peak >= before, "{before} MiB, then {peak}");
        assert!(peak < 100.0 * 1024.0, "{peak} MiB, or is that KiB?");
    }
}

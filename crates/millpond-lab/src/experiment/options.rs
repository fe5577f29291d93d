//! The options of all experiments. Each reads those that it has, and checks their ranges before anything is done.

use super::check;
use crate::backend::{Backend, RowRequest};
use crate::error::Result;
use crate::program::Program;
use crate::setup::Device;
use crate::testbed;
use millpond_core::units::{Bytes, Nanos};
use std::path::{Path, PathBuf};

/// The user's options. Units are in the types.
#[derive(Clone, Debug)]
pub struct Options {
    /// Targets by name; `None` is the experiment's own choice.
    pub on: Option<Vec<String>>,
    /// Variants of simulator and engine, rules, kernels or policies; none is the experiment's own choice.
    pub variants: Vec<String>,
    /// How the kernel is set up, as [`testbed::Configuration`] reads it; none is as most machines are.
    pub kernel_variants: Vec<String>,
    /// Workloads by name; none is the experiment's own choice.
    pub workloads: Vec<String>,
    /// The device under files and swap.
    pub device: Device,
    /// Where files go on a real device.
    pub dir: PathBuf,
    /// The memory that a target may use.
    pub memory: Bytes,
    /// Files that axboe2016 writes: 1 to 10000. The post: 50.
    pub files: u32,
    /// The size of each: 64 KiB or more. The post: 100 MB.
    pub file_size: Bytes,
    /// The size of the file that axboe2016 reads: 1 MiB or more.
    pub read_file_size: Bytes,
    /// Threads that write files, in axboe2016 and fs_mark. The posts' programs have one.
    pub writers: u32,
    /// Runs of each row: 1 to 100.
    pub runs: u32,
    /// The factor on sizes or lengths; each experiment has its range. `None`: 1, or what fits the disk.
    pub scale: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
    /// The read latency that variants with a goal aim at.
    pub read_latency_goal: Option<Nanos>,
    /// How gorman2011's file system answers reclaim: xfs, ext3, ext4, btrfs. Empty: xfs, the post's.
    pub filesystem: String,
    /// For policies: traces, or folders of traces; none is the synthetic ones.
    pub traces: Vec<PathBuf>,
    /// For policies: sizes of memory in percent of a trace's different pages, each above 0 and at most 100; none is 1, 10, 25.
    pub sizes: Vec<f64>,
    /// The divisor of kim2020's sizes on real memory, for tests: 1 to 16.
    pub shrink: u64,
    /// Starts a run's process.
    pub program: Program,
    /// The command line, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            on: None,
            variants: Vec::new(),
            kernel_variants: Vec::new(),
            workloads: Vec::new(),
            device: Device::Real,
            dir: "/var/tmp".into(),
            memory: Bytes::from_mib(512),
            files: 50,
            file_size: Bytes::from_mib(100),
            read_file_size: Bytes::from_mib(4096),
            writers: 1,
            runs: 3,
            scale: None,
            seed: 1,
            read_latency_goal: None,
            filesystem: String::new(),
            traces: Vec::new(),
            sizes: Vec::new(),
            shrink: 1,
            program: Program::this(&["lab", "worker"]),
            command: String::new(),
        }
    }
}

impl Options {
    /// What targets are asked for: their own choice of variants, with files in `dir`.
    pub(super) fn request<'a>(
        &'a self,
        experiment: &'static str,
        kernel_variants: &'a [testbed::Configuration],
        dir: &'a Path,
    ) -> RowRequest<'a> {
        RowRequest {
            experiment,
            variants: &[],
            kernel_variants,
            program: &self.program,
            device: self.device,
            dir,
            memory: self.memory,
            read_latency_goal: None,
            seed: self.seed,
        }
    }

    /// Whether a workload takes part.
    pub(super) fn has(&self, workload: &str) -> bool {
        check::takes_part(&self.workloads, workload)
    }

    /// The kernel's configurations.
    pub(super) fn kernel_configurations(&self) -> Result<Vec<testbed::Configuration>> {
        check::kernel_configurations(self.device, &self.kernel_variants)
    }

    /// Whether the simulator takes part, and the targets on real files or memory. Unless some are named, only the simulator.
    pub(super) fn simulated_and_real(&self) -> Result<(bool, Vec<&'static Backend>)> {
        let Some(named) = &self.on else {
            return Ok((true, Vec::new()));
        };
        let (simulated, real): (Vec<_>, Vec<_>) = check::backends_without_pacing(named)?
            .into_iter()
            .partition(|kind| kind.name == "sim");
        Ok((!simulated.is_empty(), real))
    }
}

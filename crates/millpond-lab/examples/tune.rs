use millpond::device::model::*;
use millpond_core::{
    admission::{bytes::*, goal::*, *},
    options::*,
    units::*,
};
use millpond_lab::sim::{axboe::*, *};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mb: u64 = a.get(1).map_or(40, |s| s.parse().unwrap());
    let ssd = a.get(2).is_some_and(|s| s == "ssd");
    let mut cases: Vec<(String, AdmissionOptions, bool)> = vec![
        ("off".into(), AdmissionOptions::Off, true),
        (
            "bytes".into(),
            AdmissionOptions::Bytes(BytesOptions::default()),
            true,
        ),
    ];
    for goal in [20, 30, 35, 40, 45, 50, 60] {
        for turn in [1, 2, 3] {
            cases.push((
                format!("goal {goal} turn {turn}"),
                AdmissionOptions::Goal(GoalOptions {
                    read_latency: if ssd {
                        Nanos::from_micros(goal * 50)
                    } else {
                        Nanos::from_millis(goal)
                    },
                    reads_per_turn: turn,
                    ..GoalOptions::default()
                }),
                true,
            ));
        }
    }
    cases.push(("off alone".into(), AdmissionOptions::Off, false));
    cases.push((
        "goal alone".into(),
        AdmissionOptions::Goal(GoalOptions {
            read_latency: Nanos::from_millis(40),
            ..GoalOptions::default()
        }),
        false,
    ));
    for (name, admission, reader) in cases {
        if let Ok(f) = std::env::var("F") {
            if !name.contains(&f) {
                continue;
            }
        }
        let t = std::time::Instant::now();
        let model = if ssd {
            Model::ssd(SsdParameters::default())
        } else {
            Model::hdd(HddParameters::default())
        }
        .unwrap();
        let mut w = World::new(WorldOptions {
            options: Options {
                admission,
                ..Options::default()
            },
            frames: PageCount(131072),
            model,
            costs: Costs::default(),
            faults: Faults::default(),
            seed: 1,
            validate_every: 0,
        })
        .unwrap();
        let seen = Shared::default();
        let pages = mb << 8;
        let rf = w.add_file(PageCount(262144));
        let files: Vec<_> = (0..50).map(|_| w.add_file(PageCount(pages))).collect();
        w.add_process(Box::new(Writer::new(files, pages, 64, seen.clone())));
        if reader {
            w.add_process(Box::new(Reader::new(rf, 262144, 7, Instant::NEVER, seen.clone())));
        }
        w.run(Instant::NEVER);
        let s = seen.borrow();
        let mut l: Vec<u64> = s.missed.iter().map(|m| m.1.0 / 1000).collect();
        l.sort();
        let p = |q: f64| {
            l.get(((l.len() as f64 * q).ceil() as usize).saturating_sub(1))
                .copied()
                .unwrap_or(0) as f64
                / 1e3
        };
        let secs = s.synced.0 as f64 / 1e9;
        if std::env::var("V").is_ok() {
            println!("{:?} {:?}", w.model().statistics(w.now()), w.manager().stats());
        }
        println!(
            "{name:20} write {:.2} total {:.2}s  reads/s {:.1} p50 {:.1} p90 {:.1} p99 {:.1} p999 {:.1} max {:.1} ms   [{:.2}s real, alloc {}]",
            s.written.0 as f64 / 1e9,
            secs,
            l.len() as f64 / secs,
            p(0.5),
            p(0.9),
            p(0.99),
            p(0.999),
            p(1.0),
            t.elapsed().as_secs_f64(),
            w.manager().occupancy(w.now()).allowance
        );
    }
}

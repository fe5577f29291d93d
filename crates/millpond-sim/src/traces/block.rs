//! Block traces as text: MSR Cambridge, blkparse.

use super::requests::Builder;
use super::text::{each_line, number, short};

/// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; offset and size in bytes.
pub(super) fn msr(bytes: &[u8], to: &mut Builder) -> Result<(), String> {
    each_line(bytes, |line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [_, host, disk, kind, offset, size, ..] = fields[..] else {
            return Err(format!("{} fields, a record has 7", fields.len()));
        };
        if kind.eq_ignore_ascii_case("type") {
            return Ok(());
        }
        let is_write = match () {
            () if kind.eq_ignore_ascii_case("read") => false,
            () if kind.eq_ignore_ascii_case("write") => true,
            () => {
                return Err(format!("the type is `{}`: must be Read or Write", short(kind)));
            }
        };
        let file = to.file(&format!("{host} {disk}"))?;
        to.bytes(
            file,
            number(offset, "the offset")?,
            number(size, "the size")?,
            is_write,
        )
    })
}

/// An event of a request: device, action, RWBS, and what follows.
struct Event<'a> {
    device: &'a str,
    action: &'a str,
    kind: &'a str,
    rest: Vec<&'a str>,
}

/// `8,0  3  1  0.000000000  697  Q  W 223490 + 8 [kjournald]`.
fn event(line: &str) -> Result<Option<Event<'_>>, String> {
    let mut fields = line.split_ascii_whitespace();
    let device = fields.next().unwrap_or_default();
    let is_device = device
        .split_once(',')
        .is_some_and(|(major, minor)| [major, minor].iter().all(|n| n.parse::<u32>().is_ok()));
    if !is_device {
        return Ok(None);
    }
    // Behind cpu, number, time and process.
    let mut fields = fields.skip(4);
    let (Some(action), Some(kind)) = (fields.next(), fields.next()) else {
        return Err("an event has device, cpu, number, time, process, action and kind".into());
    };
    Ok(Some(Event {
        device,
        action,
        kind,
        rest: fields.collect(),
    }))
}

/// The event taken of a request: its queueing, else its issue to the device, else its completion.
const ACTIONS: [&str; 3] = ["Q", "D", "C"];

pub(super) fn blkparse(bytes: &[u8], to: &mut Builder) -> Result<(), String> {
    let mut has = [false; ACTIONS.len()];
    each_line(bytes, |line| {
        if let Ok(Some(event)) = event(line)
            && let Some(n) = ACTIONS.iter().position(|action| *action == event.action)
        {
            has[n] = true;
        }
        Ok(())
    })?;
    let Some(taken) = ACTIONS.iter().zip(has).find(|(_, has)| *has) else {
        return Err("no event is of a request that is queued, issued or done".into());
    };
    let (mut events, mut is_over) = (0_u64, false);
    each_line(bytes, |line| {
        let event = match event(line)? {
            _ if is_over => return Ok(()),
            // The summary.
            None if events > 0 => {
                is_over = true;
                return Ok(());
            }
            None => return Err(format!("`{}` is no event", short(line))),
            Some(event) => event,
        };
        events += 1;
        if event.action != *taken.0 {
            return Ok(());
        }
        let is_write = match () {
            () if event.kind.contains('W') => true,
            () if event.kind.contains('R') => false,
            () => {
                to.skip("that neither read nor write");
                return Ok(());
            }
        };
        let [sector, "+", count, ..] = event.rest[..] else {
            to.skip("of no length");
            return Ok(());
        };
        let count = number(count, "the number of sectors")?;
        let len = count
            .checked_mul(512)
            .ok_or_else(|| format!("{count} sectors are beyond 2^64 bytes"))?;
        let file = to.file(event.device)?;
        to.sectors(file, number(sector, "the sector")?, len, is_write)
    })
}

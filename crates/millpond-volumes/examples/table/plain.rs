//! One object and no store: put in parts of 8 MiB, read by GETs of as much, eight at a time, as clients like mountpoint-s3 do.
//! Nothing is cached, and no page can be overwritten: an object is put whole.

use crate::measure::{Draw, MIB, PAGE, Result, content, rate, row, spread, status_mib, times};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PART: u64 = 8 * MIB;
const PARTS_IN_TRANSIT: usize = 8;

pub(crate) fn table(url: &str, mib: u64, delay_ms: u64) -> Result<()> {
    println!("{url}: one object of {mib} MiB, {delay_ms} ms more a request");
    let url = url::Url::parse(url)?;
    let builder = AmazonS3Builder::from_env().with_bucket_name(url.host_str().unwrap_or_default());
    let store = builder.with_allow_http(true).build()?;
    let path = Path::from(format!("{}/{}", url.path(), std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let delay = Duration::from_millis(delay_ms);
        write(&store, &path, mib, delay).await?;
        read(&store, &path, mib, delay).await?;
        random(&store, &path, mib, delay).await?;
        Ok::<(), Box<dyn std::error::Error>>(store.delete(&path).await?)
    })?;
    row(
        "peak memory of the process",
        format!("{} MiB", status_mib("VmHWM:")),
    );
    Ok(())
}

async fn write(store: &AmazonS3, path: &Path, mib: u64, delay: Duration) -> Result<()> {
    let block: Vec<u8> = (0..PART / PAGE).flat_map(|page| content(page, 0)).collect();
    let began = Instant::now();
    sleep(delay).await;
    let mut upload = store.put_multipart(path).await?;
    let parts = (0..mib * MIB / PART).map(|_| {
        // As bytes that a program hands over.
        let part = upload.put_part(Bytes::copy_from_slice(&block).into());
        async move {
            sleep(delay).await;
            part.await
        }
    });
    let parts = stream::iter(parts).map(tokio::spawn);
    let mut parts = parts.buffer_unordered(PARTS_IN_TRANSIT);
    while let Some(part) = parts.next().await {
        part??;
    }
    drop(parts);
    sleep(delay).await;
    upload.complete().await?;
    row("sequential write of an object", rate(mib, began.elapsed()));
    row("  puts", format!("{}", mib * MIB / PART + 2));
    Ok(())
}

async fn read(store: &AmazonS3, path: &Path, mib: u64, delay: Duration) -> Result<()> {
    let mut buffer = vec![1; PART as usize];
    let began = Instant::now();
    let parts = (0..mib * MIB).step_by(PART as usize).map(|at| {
        let (store, path) = (store.clone(), path.clone());
        tokio::spawn(async move {
            sleep(delay).await;
            store.get_range(&path, at..at + PART).await
        })
    });
    let mut parts = stream::iter(parts).buffered(PARTS_IN_TRANSIT);
    while let Some(part) = parts.try_next().await? {
        let part = part?;
        buffer[..part.len()].copy_from_slice(&part);
    }
    row("sequential read", rate(mib, began.elapsed()));
    row("  gets", format!("{}", mib * MIB / PART));
    Ok(())
}

async fn random(store: &AmazonS3, path: &Path, mib: u64, delay: Duration) -> Result<()> {
    let (mut draw, mut took) = (Draw(7), Vec::new());
    for _ in 0..times(delay.as_millis() as u64) {
        let at = draw.below(mib * MIB / PAGE) * PAGE;
        let began = Instant::now();
        sleep(delay).await;
        store.get_range(path, at..at + PAGE).await?;
        took.push(began.elapsed());
    }
    row("random read of a page", spread(took));
    Ok(())
}

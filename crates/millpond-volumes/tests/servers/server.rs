//! Servers that speak S3, on this machine's loopback, where they are installed; and a folder, which always is.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A place for stores, which goes with it.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    /// Of the first store; others are below it.
    pub(crate) url: String,
    /// What a process needs in its environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    process: Option<Child>,
    _folder: tempfile::TempDir,
}

impl Server {
    #[cfg(feature = "s3")]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(self.process.as_ref().unwrap());
        rustix::process::kill_process(process, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A program of `PATH`, or what a variable names.
fn program(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        // `none`, say, where they are not wanted.
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

pub(crate) fn folder() -> Server {
    let folder = tempfile::tempdir().unwrap();
    Server {
        name: "a folder",
        url: format!("file://{}/store", folder.path().display()),
        environment: Vec::new(),
        process: None,
        _folder: folder,
    }
}

fn serve(name: &'static str, mut command: Command, port: u16, folder: tempfile::TempDir) -> Option<Server> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let process = match command.spawn() {
        Ok(process) => process,
        Err(error) => {
            println!("skipped: {name}: {error}");
            return None;
        }
    };
    let environment = vec![
        ("AWS_ACCESS_KEY_ID", String::from("test1234")),
        ("AWS_SECRET_ACCESS_KEY", String::from("test12345678")),
        ("AWS_REGION", String::from("us-east-1")),
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
    ];
    let mut server = Server {
        name,
        url: String::from("s3://vol/store"),
        environment,
        process: Some(process),
        _folder: folder,
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = server
            .process
            .as_mut()
            .and_then(|process| process.try_wait().ok().flatten());
        if ended.is_some() || Instant::now() > deadline {
            println!("skipped: {name}: it does not listen, status {ended:?}");
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(server)
}

pub(crate) fn versitygw() -> Option<Server> {
    versitygw_with(&[])
}

/// With more on its command line.
pub(crate) fn versitygw_with(arguments: &[&std::ffi::OsStr]) -> Option<Server> {
    let Some(program) = program("versitygw", "MILLPOND_VERSITYGW") else {
        println!("skipped: versitygw: it is not installed");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("vol")).unwrap();
    let port = free_port();
    let mut command = Command::new(program);
    command
        .args(["--port", &format!("127.0.0.1:{port}")])
        .args(arguments)
        .arg("posix")
        .arg(folder.path())
        .env("ROOT_ACCESS_KEY", "test1234")
        .env("ROOT_SECRET_KEY", "test12345678");
    serve("versitygw", command, port, folder)
}

pub(crate) fn moto() -> Option<Server> {
    let Some(program) = program("moto_server", "MILLPOND_MOTO") else {
        println!("skipped: moto: it is not installed");
        return None;
    };
    let port = free_port();
    let mut command = Command::new(program);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    let server = serve("moto", command, port, tempfile::tempdir().unwrap())?;
    // It lets anybody make a bucket.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "PUT /vol HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    if !answer.starts_with("HTTP/1.1 200") {
        println!(
            "skipped: moto: it makes no bucket: {}",
            answer.lines().next().unwrap_or_default()
        );
        return None;
    }
    Some(server)
}

/// All that can be had.
pub(crate) fn all() -> Vec<Server> {
    let mut servers = vec![folder()];
    if cfg!(feature = "s3") {
        servers.extend([versitygw(), moto()].into_iter().flatten());
    } else {
        println!("skipped: versitygw and moto: built without the feature `s3`");
    }
    servers
}

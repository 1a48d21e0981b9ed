//! A forward proxy in front of the API server, as companies have them: HTTP `CONNECT` and SOCKS 5.
//!
//! Whatever host it is asked for, it reaches the control plane. So a server by a name that nobody can resolve is reachable through it
//! and in no other way.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{ControlPlane, Error, Identity, IoContext as _};

/// Longest head of a request.
const HEAD: usize = 16 * 1024;

/// The proxy, until dropped.
#[derive(Debug)]
pub struct Tunnel {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    _accepting: JoinSet<()>,
}

impl Tunnel {
    /// Starts one on a free port of loopback.
    ///
    /// # Errors
    /// No port, or the control plane's kubeconfig cannot be used.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self, Error> {
        let server = control_plane.config(Identity::Admin).await?.cluster_url;
        let port = server.port_u16().unwrap_or(443);
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context(|| "binding a port".to_owned())?;
        let address = listener
            .local_addr()
            .context(|| "reading a port".to_owned())?
            .to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(
            listener,
            SocketAddr::from(([127, 0, 0, 1], port)),
            asked.clone(),
        ));
        Ok(Self {
            address,
            asked,
            _accepting: accepting,
        })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it was asked for since the last call, such as `CONNECT api.example:443` (with the credentials, if any) or
    /// `SOCKS api.example:443`.
    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, asked: Arc<Mutex<Vec<String>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let asked = asked.clone();
        connections.spawn(async move {
            // A client that goes away ends its connection; nobody waits for it.
            let _ = serve(stream, upstream, &asked).await;
        });
    }
}

async fn serve(mut client: TcpStream, upstream: SocketAddr, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut first = [0];
    client.read_exact(&mut first).await?;
    let (wanted, answer): (String, &[u8]) = if first == [5] {
        (socks(&mut client).await?, &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    } else {
        (connect(&mut client, first[0]).await?, b"HTTP/1.1 200 OK\r\n\r\n")
    };
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(wanted);
    let mut server = TcpStream::connect(upstream).await?;
    client.write_all(answer).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn connect(client: &mut TcpStream, first: u8) -> io::Result<String> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let request = lines.next().unwrap_or_default();
    let target = request.trim_end_matches(" HTTP/1.1").to_owned();
    let credentials = lines.find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("proxy-authorization")
            .then(|| format!(" {value}"))
    });
    Ok(target + &credentials.unwrap_or_default())
}

async fn socks(client: &mut TcpStream) -> io::Result<String> {
    let methods = client.read_u8().await?;
    client.read_exact(&mut vec![0; methods.into()]).await?;
    client.write_all(&[5, 0]).await?;
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let host = match head[3] {
        1 => {
            let mut octets = [0; 4];
            client.read_exact(&mut octets).await?;
            std::net::Ipv4Addr::from(octets).to_string()
        }
        3 => {
            let mut name = vec![0; client.read_u8().await?.into()];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    Ok(format!("SOCKS {host}:{}", client.read_u16().await?))
}

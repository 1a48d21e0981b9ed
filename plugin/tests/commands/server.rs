//! An API server that answers what a test tells it to, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }
}

/// What is answered.
pub(crate) enum Answer {
    /// One object.
    Object(u16, Value),
    /// The events of a watch; the connection stays open after the last one.
    Watch(Vec<Value>),
    /// The events of a watch that the server ends in order.
    Ended(Vec<Value>),
    /// The events of a watch whose connection is cut.
    Cut(Vec<Value>),
    /// Nothing: the connection is cut.
    Hangup,
    /// Nothing, for ever.
    Silence,
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(handler);
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (handler, seen) = (handler.clone(), seen.clone());
                std::thread::spawn(move || serve(stream, &*handler, &seen));
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn writes(&self) -> Vec<Request> {
        self.requests()
            .into_iter()
            .filter(|request| request.method != "GET")
            .collect()
    }
}

fn serve(stream: TcpStream, handler: &Handler, seen: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        seen.lock().unwrap().push(request.clone());
        let done = match handler(&request) {
            Answer::Object(code, body) => {
                let body = body.to_string();
                write!(
                    writer,
                    "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
            Answer::Watch(events) => {
                if stream_events(&mut writer, &events).is_ok() {
                    // Until the client goes.
                    let _ = reader.read(&mut [0]);
                }
                return;
            }
            Answer::Ended(events) => {
                stream_events(&mut writer, &events).and_then(|()| writer.write_all(b"0\r\n\r\n"))
            }
            Answer::Cut(events) => {
                let _ = stream_events(&mut writer, &events);
                return;
            }
            Answer::Hangup => return,
            Answer::Silence => {
                let _ = reader.read(&mut [0]);
                return;
            }
        };
        if done.is_err() {
            return;
        }
    }
}

fn stream_events(writer: &mut TcpStream, events: &[Value]) -> std::io::Result<()> {
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{lines}\r\n", lines.len());
    write!(writer, "{head}{}", if lines.is_empty() { "" } else { &chunk })
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|length| *length > 0)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

/// A failure as the API server words it.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Answer {
    let name = json!({"name": "x"});
    Answer::Object(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "reason": reason, "message": message, "details": name}),
    )
}

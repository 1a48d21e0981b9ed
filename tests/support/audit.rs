//! The audit log of the API server: an exact list of requests.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// Reader of the audit log.
///
/// The log has every write of everybody through any API server (reads only of the product's controllers and of the viewer), in the order in
/// which responses were completed. An entry may appear a moment **after** its client has the response, so wait for it with
/// [`crate::eventually`]; likewise, a mark set directly after a response may lie before its entry. A watch appears when it ends.
/// In an existing cluster there is no log, and it reads as empty.
#[derive(Debug, Clone)]
pub struct Audit {
    log: PathBuf,
}

/// One request and what came of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When the request arrived.
    pub received: Timestamp,
    /// When its response was complete.
    pub answered: Timestamp,
    /// Name of the user; with impersonation the impersonated one.
    pub user: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, `get`, `list`, `watch`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural, such as `statefulsets`.
    pub resource: String,
    /// Such as `status` or `scale`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists and for creations whose body is not logged.
    pub name: String,
    /// HTTP status code of the response; 0 when there was none.
    pub code: u16,
    /// What the client calls itself.
    pub user_agent: String,
    /// Whether nothing was to be stored (`dryRun=All`).
    pub dry_run: bool,
    /// The `fieldManager` parameter, or empty.
    pub field_manager: String,
    /// The path and query as requested.
    pub uri: String,
    /// The body, for the groups `rollouts.kruise.io`, `apps.kruise.io`, `example.io`, `apps` and
    /// `admissionregistration.k8s.io`: an object or the patch itself. Else null.
    pub request: Value,
}

impl Entry {
    /// Whether it asks for a change that is to be stored.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !self.dry_run && !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it was answered by a 2xx code.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

impl Audit {
    pub(crate) fn new(log: &Path) -> Self {
        Self { log: log.to_owned() }
    }

    /// The beginning of the log.
    #[must_use]
    pub fn beginning(&self) -> Mark {
        Mark(0)
    }

    /// The present end of the log.
    #[must_use]
    pub fn mark(&self) -> Mark {
        // Only the end is looked at; no line is longer than the largest object by much.
        const LONGEST_LINE: u64 = 8 << 20;
        let length = std::fs::metadata(&self.log).map_or(0, |metadata| metadata.len());
        let near = length.saturating_sub(LONGEST_LINE);
        Mark(self.read(Mark(near)).map_or(0, |(_, end)| end))
    }

    /// The entries that were added since a mark, oldest first.
    #[must_use]
    pub fn since(&self, mark: Mark) -> Vec<Entry> {
        let Ok((text, _)) = self.read(mark) else {
            return Vec::new();
        };
        text.lines()
            .filter_map(|line| parse(&serde_json::from_str(line).ok()?))
            .collect()
    }

    /// Whole lines from a mark on, and where they end. A line that is being written has no end yet.
    fn read(&self, Mark(from): Mark) -> std::io::Result<(String, u64)> {
        let mut log = File::open(&self.log)?;
        log.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        bytes.truncate(
            bytes
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |last| last + 1),
        );
        let end = from + bytes.len() as u64;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), end))
    }
}

fn parse(event: &Value) -> Option<Entry> {
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let uri = text("/requestURI");
    let parameter = |wanted: &str| {
        let (_, query) = uri.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == wanted)
    };
    let dry_run = parameter("dryRun").is_some();
    let field_manager = parameter("fieldManager")
        .map(|(_, value)| value.to_owned())
        .unwrap_or_default();
    let request = event.get("requestObject").cloned().unwrap_or_default();
    let created = request
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = Some(text("/objectRef/name")).filter(|name| !name.is_empty());
    let impersonated = Some(text("/impersonatedUser/username")).filter(|user| !user.is_empty());
    Some(Entry {
        received: text("/requestReceivedTimestamp").parse().ok()?,
        answered: text("/stageTimestamp").parse().ok()?,
        user: impersonated.unwrap_or_else(|| text("/user/username")),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        namespace: text("/objectRef/namespace"),
        name: name.unwrap_or_else(|| created.to_owned()),
        code: event
            .pointer("/responseStatus/code")
            .and_then(Value::as_u64)
            .unwrap_or_default() as u16,
        user_agent: text("/userAgent"),
        dry_run,
        field_manager,
        request,
        uri,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"kind":"Event","level":"Request","stage":"ResponseComplete","verb":"patch",
        "requestURI":"/apis/apps/v1/namespaces/a/statefulsets/web?dryRun=All&fieldManager=me","userAgent":"kubectl/v1",
        "user":{"username":"admin"},"objectRef":{"resource":"statefulsets","namespace":"a","name":"web","apiGroup":"apps"},
        "responseStatus":{"code":200},"requestObject":{"spec":{"replicas":3}},
        "requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","stageTimestamp":"2026-01-02T03:04:05.680000Z"}"#;

    #[test]
    fn a_half_written_last_line_waits() {
        let folder = crate::process::scratch("audit").unwrap();
        let log = folder.join("audit.log");
        let line = EVENT.replace('\n', "");
        std::fs::write(&log, format!("{line}\n{}", &line[..40])).unwrap();
        let audit = Audit::new(&log);
        let entries = audit.since(audit.beginning());
        assert_eq!(entries.len(), 1);
        let entry = &entries[0];
        assert!(entry.dry_run && !entry.is_write() && entry.succeeded());
        assert_eq!(
            (entry.field_manager.as_str(), entry.name.as_str(), entry.code),
            ("me", "web", 200)
        );
        assert_eq!(entry.request["spec"]["replicas"], 3);

        let mark = audit.mark();
        std::fs::write(&log, format!("{line}\n{line}\n")).unwrap();
        assert_eq!(audit.since(mark).len(), 1);
    }

    #[test]
    fn no_log_reads_as_empty() {
        let audit = Audit::new(Path::new("/nonexistent"));
        assert!(audit.since(audit.mark()).is_empty());
    }
}

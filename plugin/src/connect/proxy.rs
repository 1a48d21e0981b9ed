//! Through which proxy the API server is reached, by kubectl's rules.

use std::net::IpAddr;

use http::Uri;

/// What the environment says about proxies.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    /// `HTTPS_PROXY`, for servers with TLS.
    pub(super) https: Option<String>,
    /// `HTTP_PROXY`, for servers without.
    pub(super) http: Option<String>,
    /// `NO_PROXY`: hosts that are reached directly.
    pub(super) exempt: Option<String>,
}

impl Environment {
    /// Of this process. Upper case comes first.
    pub(super) fn read() -> Self {
        let set = |name: &str| {
            [name.to_uppercase(), name.to_lowercase()]
                .into_iter()
                .filter_map(|name| std::env::var(name).ok())
                .find(|value| !value.is_empty())
        };
        Self {
            https: set("https_proxy"),
            http: set("http_proxy"),
            exempt: set("no_proxy"),
        }
    }
}

/// The proxy for this server: the kubeconfig's `proxy-url`, always; else the environment's, unless the server is this machine or
/// exempt.
///
/// # Errors
/// A proxy that cannot be used.
pub(super) fn choose(
    server: &Uri,
    configured: Option<&str>,
    environment: &Environment,
) -> Result<Option<Uri>, String> {
    if let Some(proxy) = configured.filter(|proxy| !proxy.is_empty()) {
        return parsed(proxy, "proxy-url of the cluster").map(Some);
    }
    let plain = server.scheme_str() == Some("http");
    let (proxy, name) = if plain {
        (&environment.http, "HTTP_PROXY")
    } else {
        (&environment.https, "HTTPS_PROXY")
    };
    let (Some(proxy), Some(host)) = (proxy, server.host()) else {
        return Ok(None);
    };
    let port = server.port_u16().unwrap_or(if plain { 80 } else { 443 });
    if is_direct(host, port, environment.exempt.as_deref().unwrap_or_default()) {
        return Ok(None);
    }
    // In the environment the scheme may be left out.
    let proxy = if proxy.contains("://") {
        proxy.clone()
    } else {
        format!("http://{proxy}")
    };
    parsed(&proxy, name).map(Some)
}

fn parsed(proxy: &str, name: &str) -> Result<Uri, String> {
    // What was given is not repeated: it may hold a password.
    let uri: Uri = proxy
        .parse()
        .map_err(|error| format!("{name}: not a URL: {error}"))?;
    let named = |scheme: &str| uri.authority().is_some_and(|a| a.as_str().contains('@')) && scheme != "http";
    match uri.scheme_str() {
        Some(scheme @ ("socks5" | "socks5h")) if named(scheme) => Err(format!(
            "{name}: a socks5 proxy with user and password is not supported"
        )),
        Some("http" | "https" | "socks5") => Ok(uri),
        // Names are resolved by the proxy in either case.
        Some("socks5h") => proxy
            .replacen("socks5h", "socks5", 1)
            .parse()
            .map_err(|error| format!("{name}: {error}")),
        other => Err(format!(
            "{name}: unsupported scheme {:?}, must be http, https, or socks5",
            other.unwrap_or_default()
        )),
    }
}

/// Whether a host is reached without the environment's proxy.
fn is_direct(host: &str, port: u16, exempt: &str) -> bool {
    let host = host
        .trim_start_matches('[')
        .trim_end_matches([']', '.'])
        .to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    exempt
        .split(',')
        .map(|entry| entry.trim().to_ascii_lowercase())
        .filter(|entry| !entry.is_empty())
        .any(|entry| entry == "*" || exempts(&entry, &host, address, port))
}

/// Whether one entry of `NO_PROXY` names this host. An entry that says nothing exempts nothing.
fn exempts(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if let Some((network, bits)) = entry.split_once('/') {
        let (Some(address), Ok(network), Ok(bits)) = (address, network.parse(), bits.parse()) else {
            return false;
        };
        return is_within(address, network, bits);
    }
    // An IPv6 address has colons of its own.
    let bare: Option<IpAddr> = entry.trim_matches(['[', ']']).parse().ok();
    let (name, only) = match entry.rsplit_once(':') {
        Some((name, digits)) if bare.is_none() => match digits.parse::<u16>() {
            Ok(only) => (name, Some(only)),
            Err(_) => return false,
        },
        _ => (entry, None),
    };
    if only.is_some_and(|only| only != port) {
        return false;
    }
    if let Ok(named) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(named);
    }
    let name = name
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(name);
    match name.strip_prefix('.') {
        Some(domain) => is_below(host, domain),
        None => host == name || is_below(host, name),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    match bits {
        0 => true,
        bits if bits > width => false,
        bits => (address ^ network) >> (width - bits) == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, configured: Option<&str>, exempt: &str) -> Option<String> {
        let environment = Environment {
            https: Some("proxy.example:3128".to_owned()),
            http: None,
            exempt: Some(exempt.to_owned()),
        };
        let server = server.parse().unwrap();
        choose(&server, configured, &environment)
            .unwrap()
            .map(|uri| uri.to_string())
    }

    #[test]
    fn r77_who_is_reached_through_a_proxy() {
        let through = Some("http://proxy.example:3128/".to_owned());
        for (server, exempt, direct) in [
            ("https://api.example.com:6443", "", false),
            ("https://api.example.com:6443", "example.com", true),
            ("https://api.example.com:6443", ".example.com", true),
            ("https://api.example.com:6443", "*.example.com", true),
            ("https://example.com:6443", ".example.com", false),
            ("https://badexample.com:6443", "example.com", false),
            ("https://api.example.com:6443", "api.example.com:6443", true),
            ("https://api.example.com:6443", "api.example.com:443", false),
            ("https://API.example.com", "api.EXAMPLE.com:443", true),
            ("https://api.example.com", "other, ,*", true),
            // A comma too many is no reason to fail.
            ("https://api.example.com", ",10.0.0.0/8,", false),
            ("https://10.1.2.3", "10.0.0.0/8", true),
            ("https://10.1.2.3", "10.1.2.3", true),
            ("https://10.1.2.3", "11.0.0.0/8", false),
            ("https://10.1.2.3", "0.0.0.0/0", true),
            ("https://10.1.2.3", "10.0.0.0/77", false),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "fd00::2", false),
            // This machine is never looked for behind a proxy.
            ("https://127.0.0.1:6443", "", true),
            ("https://localhost:6443", "", true),
            ("https://[::1]:6443", "", true),
            // There is no HTTP_PROXY here.
            ("http://api.example.com", "", true),
        ] {
            let expected = if direct { None } else { through.clone() };
            assert_eq!(chosen(server, None, exempt), expected, "{server} {exempt}");
        }
        // The kubeconfig's own proxy beats the environment, NO_PROXY too.
        assert_eq!(
            chosen("https://127.0.0.1:6443", Some("socks5h://s:1080"), "*").as_deref(),
            Some("socks5://s:1080/")
        );
    }

    #[test]
    fn r77_a_proxy_that_cannot_be_used_is_said_in_one_line() {
        let refused = |proxy: &str| {
            choose(
                &Uri::from_static("https://a"),
                Some(proxy),
                &Environment::default(),
            )
            .unwrap_err()
        };
        assert_eq!(
            refused("ftp://me:secret@proxy"),
            "proxy-url of the cluster: unsupported scheme \"ftp\", must be http, https, or socks5"
        );
        for proxy in ["socks5://me:secret@proxy", "http://me:secret@a b"] {
            let said = refused(proxy);
            assert!(!said.contains("secret"), "{said}");
        }
    }
}

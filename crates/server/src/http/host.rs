//! Protection from web pages: DNS rebinding, cross-origin changes, and any cross-origin request to a daemon without tokens.
//!
//! A page can resolve its own name to this machine, and the browser then sends requests here as if they were for that page. The page cannot choose
//! their `Host` header, so unknown host names are refused before any other processing.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use windlass_protocol::ErrorCode;
use windlass_service::{ApiError, PublicUrl, Settings};

use super::cors;
use crate::error::Result;

/// Refuses requests that only a web page of another origin would send.
pub(crate) fn check(settings: &Settings, method: &Method, headers: &HeaderMap) -> Result<()> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().map(|host| host.to_str().unwrap_or_default());
    if hosts.next().is_some() || host.is_some_and(|host| !is_ours(settings, host)) {
        return Err(ApiError::new(
            ErrorCode::ForeignHost,
            "the Host of the request is not a name of this daemon; an operator can add it with --allow-host",
        ));
    }
    // A page cannot send a token that it does not know, so with tokens a cross-origin read is harmless. Without tokens the origin is the only
    // protection. A preflight has no effect, and its response lists no such origin.
    let is_checked = match *method {
        Method::OPTIONS => false,
        Method::GET | Method::HEAD => settings.access.is_open(),
        _ => true,
    };
    if is_checked && is_foreign_page(settings, headers) {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            "requests from pages of this origin are refused; an operator can add it with --cors-origin",
        ));
    }
    Ok(())
}

/// IP addresses are accepted, because DNS cannot redirect them. So are local names of this machine and the names in the settings.
fn is_ours(settings: &Settings, host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let public = settings.public_url.as_ref();
    let mut names = std::iter::once(settings.host.as_str())
        .chain(settings.allowed_hosts.iter().map(String::as_str))
        .chain(public.map(PublicUrl::name));
    address.parse::<std::net::IpAddr>().is_ok()
        || is_localhost(&name)
        || names.any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

/// Browsers resolve these names to the machine that they run on.
fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether a browser that sends this `Host` runs on this machine, so that the connection crosses no network.
pub(super) fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => is_localhost(&name),
    }
}

/// Returns the `Host` of a request.
pub(crate) fn of(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

/// Returns whether a page of the daemon's own origin sent a request, by its `Origin`.
pub(crate) fn is_own_page(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN);
    let origin = origin.and_then(|origin| Some(origin.to_str().ok()?.split_once("://")?.1));
    origin
        .zip(of(headers))
        .is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// Browsers send the origin of a change; other programs send none.
fn is_foreign_page(settings: &Settings, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        let site = headers.get("sec-fetch-site");
        return site.is_some_and(|site| site == "cross-site" || site == "same-site");
    };
    !is_own_page(headers) && !cors::is_allowed(origin.as_bytes(), settings)
}

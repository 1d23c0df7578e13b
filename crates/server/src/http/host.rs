//! Protection from web pages: DNS rebinding, cross-origin changes, and any cross-origin request to a daemon without tokens.
//!
//! A page can resolve its own name to this machine, and the browser then sends requests here as if they were for that page. The page cannot choose
//! their `Host` header, so unknown host names are refused before any other processing.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use windlass_protocol::ErrorCode;
use windlass_service::{ApiError, Settings};

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
    if is_checked && is_foreign_page(settings, host, headers) {
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
    let mut names = std::iter::once(&settings.host).chain(&settings.allowed_hosts);
    address.parse::<std::net::IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || names.any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

/// Browsers send the origin of a change; other programs send none.
fn is_foreign_page(settings: &Settings, host: Option<&str>, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        let site = headers.get("sec-fetch-site");
        return site.is_some_and(|site| site == "cross-site" || site == "same-site");
    };
    let origin_host = origin.to_str().ok();
    let origin_host = origin_host.and_then(|origin| Some(origin.split_once("://")?.1));
    let is_own = origin_host
        .zip(host)
        .is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host));
    !is_own && !cors::is_allowed(origin.as_bytes(), settings)
}

//! Short IDs: users see and type the end of an ID.

use anyhow::{Result, bail};
use windlass_core::bounds::one_line;

/// Length of a displayed suffix.
const SHORT: usize = 8;
/// Minimum length of a suffix that the user types.
const MIN_SHORT: usize = 4;
/// Maximum number of records that are searched for a suffix.
pub(crate) const SEARCHED: usize = 1000;

/// Returns the suffix of an ID for display.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORT)..).unwrap_or(id)
}

/// Returns whether `id` is a complete ID. Returns an error if it cannot be the end of one either.
pub(crate) fn is_complete(prefix: &str, id: &str, advice: &str) -> Result<bool> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !id.bytes().all(is_allowed) {
        bail!("`{}` is not an ID; {advice}", one_line(id));
    }
    let hex = id.strip_prefix(prefix);
    Ok(hex.is_some_and(|hex| hex.len() == 32))
}

/// Finds the only record whose ID ends with `end`.
pub(crate) fn by_end<T>(
    kind: &str,
    end: &str,
    all: Vec<T>,
    id: impl Fn(&T) -> &str,
    advice: &str,
) -> Result<T> {
    if end.len() < MIN_SHORT {
        bail!(
            "`{end}` is too short: give the last {MIN_SHORT} or more characters of the ID; {advice}"
        );
    }
    let mut found: Vec<T> = all.into_iter().filter(|it| id(it).ends_with(end)).collect();
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        None => bail!("there is no {kind} `{end}`; {advice}"),
        Some(last) => {
            let ids: Vec<_> = found.iter().chain([&last]).map(id).collect();
            bail!(
                "`{end}` is ambiguous: it may be {}; give more characters",
                ids.join(" or ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::by_end;

    #[test]
    fn end_of_an_id_must_be_long_enough_and_unique() {
        let find = |end: &str| {
            let all = vec!["thr_01234567", "thr_89ab4567", "thr_cdef0123"];
            by_end("thread", end, all, |id| *id, "look").map_err(|error| error.to_string())
        };
        assert_eq!(find("0123"), Ok("thr_cdef0123"));
        assert_eq!(find("thr_01234567"), Ok("thr_01234567"));
        assert!(find("123").unwrap_err().contains("too short"));
        assert!(find("9999").unwrap_err().contains("there is no thread"));
        let many = find("4567").unwrap_err();
        assert!(many.contains("thr_01234567 or thr_89ab4567"), "{many}");
    }
}

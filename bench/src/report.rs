//! Metrics with their targets, as a table or as JSON lines.

use std::process::ExitCode;

use crate::machine;

/// Output format of metrics.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    Table,
    JsonLines,
}

/// The target of a metric.
#[derive(Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// No target; the value is only printed.
    None,
}

impl Bound {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {}", number(least)),
            Self::AtMost(most) => format!("<= {}", number(most)),
            Self::None => String::new(),
        }
    }
}

/// Collects metrics and prints them immediately.
pub struct Report {
    bench: &'static str,
    format: ReportFormat,
    missed: usize,
}

impl Report {
    pub fn new(bench: &'static str, format: ReportFormat) -> Self {
        let report = Self {
            bench,
            format,
            missed: 0,
        };
        if format == ReportFormat::Table {
            println!("machine: {}\n", machine::name());
            println!(
                "{:<52} {:>14} {:<12} {:>12}",
                "figure", "value", "unit", "target"
            );
        }
        report
    }

    /// Prints the current measurement to stderr.
    pub fn progress(&self, what: &str) {
        eprintln!("measuring {what} …");
    }

    pub fn figure(&mut self, name: &str, value: f64, unit: &str, target: Bound) {
        let ok = target.is_met(value);
        self.missed += usize::from(!ok);
        match self.format {
            ReportFormat::Table => {
                let mark = if ok { "" } else { "  MISSED" };
                println!(
                    "{name:<52} {:>14} {unit:<12} {:>12}{mark}",
                    number(value),
                    target.text()
                );
            }
            ReportFormat::JsonLines => {
                let bench = self.bench;
                let target = Some(target.text()).filter(|text| !text.is_empty());
                let line = serde_json::json!({
                    "bench": bench, "name": name, "value": value, "unit": unit, "target": target, "ok": ok,
                });
                println!("{line}");
            }
        }
    }

    /// Reports a skipped measurement and its reason.
    pub fn skipped(&mut self, name: &str, why: &str) {
        match self.format {
            ReportFormat::Table => println!("{name:<52} {:>14} {why}", "SKIPPED"),
            ReportFormat::JsonLines => {
                let bench = self.bench;
                println!(
                    "{}",
                    serde_json::json!({ "bench": bench, "name": name, "skipped": why })
                );
            }
        }
    }

    pub fn finish(self) -> ExitCode {
        if self.missed == 0 {
            return ExitCode::SUCCESS;
        }
        eprintln!("{} of the targets were missed", self.missed);
        ExitCode::FAILURE
    }
}

/// Shows small numbers with their digits and large ones without.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

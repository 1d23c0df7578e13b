//! The command line.

use std::fmt;

use windlass_fuzz::targets::{FAULTS, FuzzTarget, TARGETS};

pub(crate) const HELP: &str = "\
Throws random bytes at a target until the time or the count is used up. Without a target every target
runs in turn, each in a process of its own with 2 MiB of stack, 2 GiB of memory and 10 seconds for one
input. A run that finds something prints the seed and the iteration that repeat it and exits with 1; a
wrong command line exits with 2.

Usage: windlass-fuzz [target] [--seconds N | --iterations N] [--seed S] [--first I] [--input-seconds N]

Targets:
  turn_machine        any order of inputs preserves the invariants of turns
  event_json          an event that decodes encodes and decodes to the same event
  stream_openai       a stream of OpenAI Responses decodes equally however it is split
  stream_openai_chat  a stream of Chat Completions decodes equally however it is split
  stream_anthropic    a stream of Anthropic Messages decodes equally however it is split
  stream_gemini       a stream of Gemini decodes equally however it is split
  rpc_frames          any frames on a socket are answered once each, in order, and run rules are enforced
  agent_claude        any output of Claude Code preserves the order of calls and turns
  agent_codex         any output of Codex's app-server preserves the order of calls and turns
  agent_acp           any ACP messages of an agent preserve the order of calls and turns
  globs               any pattern of glob and grep is answered or refused, and both interpret it equally
  ignore_files        with any ignore files, glob and grep answer and agree
  schemas             any schema of a tool is accepted or refused with a reason
  arguments           any arguments are accepted or refused, and too deep ones reach no tool
  configuration       any windlass.toml is read or refused at a line, and shows no key

Options:
  --seconds N       run each target for N seconds (default: 10)
  --iterations N    run each target N times
  --seed S          the seed of all bytes (default: 0)
  --first I         begin with iteration I; with --iterations 1 it repeats one finding
  --input-seconds N how long one input may take (default: 10)
  --help            print this

Examples:
  windlass-fuzz
  windlass-fuzz turn_machine --seconds 60
  windlass-fuzz turn_machine --iterations 10000 --seed 7
  windlass-fuzz turn_machine --seed 7 --first 4211 --iterations 1
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLimit {
    Seconds(u64),
    Iterations(u64),
}

impl fmt::Display for RunLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(n) => write!(f, "{n} seconds"),
            Self::Iterations(n) => write!(f, "{n} iterations"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) targets: Vec<FuzzTarget>,
    pub(crate) limit: RunLimit,
    pub(crate) seed: u64,
    pub(crate) first: u64,
    /// How long one input may take.
    pub(crate) input_seconds: u64,
}

impl Options {
    /// Returns the command line that runs one target in the same way.
    pub(crate) fn arguments_for(&self, target: &FuzzTarget) -> Vec<String> {
        let (limit, count) = match self.limit {
            RunLimit::Seconds(n) => ("--seconds", n),
            RunLimit::Iterations(n) => ("--iterations", n),
        };
        let numbers = [
            (limit, count),
            ("--seed", self.seed),
            ("--first", self.first),
        ];
        let numbers = numbers.map(|(name, number)| [name.to_owned(), number.to_string()]);
        let name = target.name.to_owned();
        [name]
            .into_iter()
            .chain(numbers.into_iter().flatten())
            .collect()
    }
}

#[derive(Debug)]
pub(crate) enum Request {
    Help,
    /// Run the targets in processes of their own.
    Watch(Options),
    /// Be such a process; only the fuzzer itself asks for that.
    Child(Options),
}

/// Reads the arguments; an error says what is wrong in one line.
pub(crate) fn parse(arguments: &[String]) -> Result<Request, String> {
    let mut options = Options {
        targets: TARGETS.to_vec(),
        limit: RunLimit::Seconds(10),
        seed: 0,
        first: 0,
        input_seconds: 10,
    };
    let (mut limit, mut target) = (None, None);
    let mut request: fn(Options) -> Request = Request::Watch;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().map(String::as_str).unwrap_or_default();
            let wrong = || format!("{argument} needs a number, got `{value}`");
            value.parse::<u64>().map_err(|_| wrong())
        };
        let wanted = match argument.as_str() {
            "--help" | "-h" => return Ok(Request::Help),
            "--seconds" => RunLimit::Seconds(number()?),
            "--iterations" => RunLimit::Iterations(number()?),
            "--seed" => {
                options.seed = number()?;
                continue;
            }
            "--first" => {
                options.first = number()?;
                continue;
            }
            "--input-seconds" => {
                options.input_seconds = number()?;
                continue;
            }
            "--child" => {
                request = Request::Child;
                continue;
            }
            name if name.starts_with('-') => return Err(format!("unknown option `{name}`")),
            name => {
                let mut known = TARGETS.iter().chain(FAULTS);
                let found = known.find(|target| target.name == name);
                let found = found.ok_or_else(|| format!("unknown target `{name}`"))?;
                if target.replace(*found).is_some() {
                    return Err("only one target can be named".to_owned());
                }
                continue;
            }
        };
        if limit.replace(wanted).is_some() {
            return Err("only one of --seconds and --iterations can be given, once".to_owned());
        }
    }
    options.targets = target.map_or(options.targets, |target| vec![target]);
    options.limit = limit.unwrap_or(options.limit);
    Ok(request(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Request, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&arguments)
    }

    #[test]
    fn every_target_runs_without_arguments() {
        let Ok(Request::Watch(options)) = run("") else {
            panic!("no run")
        };
        assert_eq!(options.targets.len(), TARGETS.len());
        assert_eq!(options.limit, RunLimit::Seconds(10));
    }

    #[test]
    fn target_limit_and_seed_are_parsed() {
        let Ok(Request::Watch(options)) = run("turn_machine --iterations 9 --seed 7 --first 3")
        else {
            panic!("no run")
        };
        let names: Vec<_> = options.targets.iter().map(|target| target.name).collect();
        assert_eq!(names, ["turn_machine"]);
        assert_eq!(options.limit, RunLimit::Iterations(9));
        assert_eq!((options.seed, options.first), (7, 3));
    }

    #[test]
    fn child_gets_the_same_arguments() {
        let Ok(Request::Watch(options)) = run("event_json --iterations 9 --seed 7 --first 3")
        else {
            panic!("no run")
        };
        let arguments = options.arguments_for(&options.targets[0]);
        assert_eq!(
            arguments.join(" "),
            "event_json --iterations 9 --seed 7 --first 3"
        );
    }

    #[test]
    fn invalid_argument_is_named() {
        for (line, wrong) in [
            ("nothing", "unknown target `nothing`"),
            ("--fast", "unknown option `--fast`"),
            ("--seed x", "--seed needs a number, got `x`"),
            ("--seconds", "--seconds needs a number, got ``"),
            (
                "--seconds 1 --iterations 1",
                "only one of --seconds and --iterations can be given, once",
            ),
            ("turn_machine event_json", "only one target can be named"),
        ] {
            match run(line) {
                Err(message) => assert_eq!(message, wrong),
                Ok(request) => panic!("{line}: {request:?}"),
            }
        }
    }

    #[test]
    fn help_lists_every_target() {
        for target in TARGETS {
            assert!(HELP.contains(target.name) && HELP.contains(target.summary));
        }
    }
}

//! Flags and environment variables for configuration keys. `windlass serve` and `windlass config show` use the same list.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::config::{Layer, Origin};
use crate::daemon::secrets_key;

/// Flags of `windlass serve` that set configuration keys. The ID of each flag is its key.
#[derive(Args)]
pub(crate) struct ConfigFlags {
    /// Default model, as `provider/model`; providers are openai, openai-chat, anthropic, gemini, openrouter, azure-openai and
    /// sim.
    #[arg(
        id = "model",
        long = "model",
        value_name = "MODEL",
        env = "WINDLASS_MODEL"
    )]
    pub(crate) model: Option<String>,
    /// File with the key that encrypts the secrets of sessions, as 64 hexadecimal digits [default: `secrets.key` in the data
    /// directory, created at the first start].
    #[arg(id = "secrets_key_file", long = "secrets-key-file", value_name = "F", env = secrets_key::FILE_VARIABLE)]
    pub(crate) secrets_key_file: Option<PathBuf>,
    /// Tasks that run at the same time, 1 to 8 [default: 2].
    #[arg(id = "tasks.workers", long = "workers", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) workers: Option<u8>,
}

/// The same flags, each as a layer that records its origin.
pub(crate) struct FlagLayers(pub(crate) Vec<Layer>);

impl FromArgMatches for FlagLayers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = ConfigFlags::augment_args(Command::new("flags"));
        let layers = flags.get_arguments().filter_map(|flag| {
            let key = flag.get_id().as_str();
            let origin = match matches.value_source(key)? {
                ValueSource::CommandLine => Origin::Flag(flag.get_long()?.to_owned()),
                ValueSource::EnvVariable => {
                    Origin::Variable(flag.get_env()?.to_string_lossy().into_owned())
                }
                _ => return None,
            };
            let path: Vec<&str> = key.split('.').collect();
            let layer = Layer::new(origin);
            Some(match matches.try_get_one::<u8>(key) {
                Ok(number) => layer.with(&path, i64::from(*number?)),
                Err(_) => {
                    let text = matches.get_raw(key)?.next_back()?;
                    layer.with(&path, text.to_string_lossy().into_owned())
                }
            })
        });
        Ok(Self(layers.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FlagLayers {
    fn augment_args(command: Command) -> Command {
        ConfigFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ConfigFlags::augment_args_for_update(command)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;
    use windlass_config::schema;

    use super::*;
    use crate::cli::Cli;

    fn flags_of(command: &Command) -> BTreeSet<String> {
        let flags = command.get_arguments();
        let names = flags.filter_map(clap::Arg::get_long);
        names.map(|name| name.replace('-', "_")).collect()
    }

    #[test]
    fn flags_of_configuration_keys_are_flags_of_config_show() {
        let cli = Cli::command();
        let known = ConfigFlags::augment_args(Command::new("flags"));
        let keys: BTreeSet<String> = schema::keys().into_iter().collect();
        for flag in known.get_arguments() {
            assert!(keys.contains(flag.get_id().as_str()), "{flag}");
        }
        let known = flags_of(&known);
        let config = cli.find_subcommand("config").unwrap();
        let shown = flags_of(config.find_subcommand("show").unwrap());
        assert!(known.is_subset(&shown), "{known:?} {shown:?}");
        for command in cli.get_subcommands() {
            let is_serve = command.get_name() == "serve";
            let is_key = |flag: &&String| {
                let last = |key: &String| key.rsplit('.').next() == Some(flag.as_str());
                keys.contains(*flag) || is_serve && keys.iter().any(last)
            };
            let flags = flags_of(command);
            let missing: Vec<_> = flags.iter().filter(is_key).collect();
            let missing = missing.into_iter().filter(|flag| !known.contains(*flag));
            assert_eq!(missing.collect::<Vec<_>>(), [""; 0], "{command}");
        }
    }
}

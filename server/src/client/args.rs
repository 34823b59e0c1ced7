//! The command line of people and scripts that use a server over HTTP.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Which server, as whom, and how to answer; shared by all commands that ask a server.
#[derive(Debug, Clone, Default, Args)]
pub struct Remote {
    /// The server's address, such as https://groundwork.example.com [default: as `groundwork login` stored it].
    #[arg(long, value_name = "URL", env = "GROUNDWORK_URL")]
    pub url: Option<String>,
    /// The API key. Set the variable rather than the option: options are visible to other users of the machine.
    #[arg(
        long,
        value_name = "KEY",
        env = "GROUNDWORK_API_KEY",
        hide = true,
        hide_env_values = true
    )]
    pub api_key: Option<String>,
    /// How to print answers: for people, or as the API's JSON.
    #[arg(long, value_enum, default_value_t = Output::Table, global = true)]
    pub output: Output,
}

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs: the API's own shapes.
    Json,
}

/// `login`
#[derive(Debug, Clone, Args)]
pub struct LoginArgs {
    /// Which server.
    #[command(flatten)]
    pub remote: Remote,
    /// Read the key from standard input, without asking.
    #[arg(long)]
    pub api_key_stdin: bool,
}

/// `env`
#[derive(Debug, Clone, Args)]
pub struct EnvArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: EnvCommand,
}

/// Environments of a server.
#[derive(Debug, Clone, Subcommand)]
pub enum EnvCommand {
    /// List environments, newest first.
    List {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// Part of the name or the id.
        #[arg(long, value_name = "TEXT")]
        query: Option<String>,
        /// not_applicable, never, running, verified, failed or stale.
        #[arg(long, value_name = "WORD")]
        status: Option<String>,
    },
    /// Show one.
    Get {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// Its id, or its name where only one has it.
        #[arg(value_name = "ENV")]
        environment: String,
    },
    /// Create one from a file or just with a name.
    Create {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// A definition in YAML or JSON; - is standard input.
        #[arg(short, long, value_name = "FILE", required_unless_present = "name")]
        file: Option<PathBuf>,
        /// The name; wins over the file's.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Make an environment what a file says: create it, or change what differs.
    ///
    /// The file names it by environment_id, or else by its name. What the file leaves out keeps its saved value.
    /// Prints the differences and asks before it changes anything.
    Apply {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// A definition in YAML or JSON; - is standard input.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
        /// Change nothing; exit 2 if there are differences.
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
    },
    /// Print one as a file that `apply` takes.
    Export {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// Its id, or its name where only one has it.
        #[arg(value_name = "ENV")]
        environment: String,
        /// Where to write; standard output unless given.
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Leave the id out, to make the same environment elsewhere.
        #[arg(long)]
        portable: bool,
        /// yaml or json.
        #[arg(long, value_enum, default_value_t = Format::Yaml)]
        format: Format,
    },
    /// Delete one.
    Delete {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// Its id, or its name where only one has it.
        #[arg(value_name = "ENV")]
        environment: String,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// `test`
#[derive(Debug, Clone, Args)]
pub struct TestArgs {
    /// Which server.
    #[command(flatten)]
    pub remote: Remote,
    /// The environment's id, or its name where only one has it.
    #[arg(value_name = "ENV")]
    pub environment: String,
    /// Print the log as it is written, and end with the script's exit code.
    #[arg(long)]
    pub follow: bool,
    /// Colours of the log.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// `session`
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SessionCommand,
}

/// Sessions of a server.
#[derive(Debug, Clone, Subcommand)]
pub enum SessionCommand {
    /// Start one from a usable environment, wait until it runs, and print its id.
    Start {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// The environment's id, or its name where only one has it.
        #[arg(value_name = "ENV")]
        environment: String,
    },
    /// List sessions, newest first.
    List {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
    },
    /// Run a command and end with its exit code; Ctrl-C kills it.
    Exec {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// The session's id.
        #[arg(value_name = "SESSION")]
        session: String,
        /// End the command after this many seconds.
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u32>,
        /// The program and its arguments, which no shell reads; write -- before it.
        #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// End what runs in one and keep its files.
    Stop {
        /// Which server.
        #[command(flatten)]
        remote: Remote,
        /// The session's id.
        #[arg(value_name = "SESSION")]
        session: String,
    },
}

/// When to print colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// When standard output is a terminal and NO_COLOR is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

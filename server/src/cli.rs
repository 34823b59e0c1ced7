//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use domain::roles::Role;

use crate::client::args::{EnvArgs, LoginArgs, SessionArgs, TestArgs};

/// Groundwork: sandboxes that are ready before the work starts.
///
/// `groundwork serve` starts the console, the API and a worker on one machine. Everything it keeps is in one
/// directory (--data). Environment variables and the configuration file are overridden by options.
#[derive(Debug, Parser)]
#[command(name = "groundwork", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server: console, API and, unless told otherwise, a worker.
    ///
    /// At the first start it prints a one-time link to make the organization and its first admin; without a browser,
    /// set GROUNDWORK_ADMIN_EMAIL and GROUNDWORK_ADMIN_PASSWORD instead.
    Serve(ServeArgs),
    /// Administration without a browser.
    Admin(AdminArgs),
    /// Build and list runner images, the base file system of every sandbox.
    RunnerImage(RunnerImageArgs),
    /// List setup images, the prepared file systems of environments, and delete what nothing needs.
    Image(ImageArgs),
    /// Store a server's address and an API key for the commands that ask a server.
    Login(LoginArgs),
    /// List, show, create, apply, export and delete environments of a server.
    Env(EnvArgs),
    /// Test an environment's setup script on a server; with --follow, end as the script ends.
    ///
    /// Exit codes with --follow: the script's own; 124 when it ran past its timeout; 125 when the run failed without one;
    /// 130 when it was cancelled or following was given up. Ctrl-C on a terminal asks whether to cancel the run or to
    /// leave it running; elsewhere it leaves it running.
    Test(TestArgs),
    /// Start, list and stop sessions of a server, and run commands in them.
    Session(SessionArgs),
    /// Check whether this machine can run sandboxes, and say how to mend what is wrong.
    Doctor(DoctorArgs),
    /// The process beside each sandbox; started by the worker.
    #[command(hide = true)]
    Shim,
}

/// Where things are; shared by all commands that need the data directory.
#[derive(Debug, Clone, Default, Args)]
pub struct Places {
    /// Directory for everything that is kept [default: ./data].
    #[arg(long, value_name = "DIR", env = "GROUNDWORK_DATA")]
    pub data: Option<PathBuf>,
    /// Database: sqlite:PATH or postgres://USER@HOST/NAME [default: SQLite in the data directory].
    #[arg(
        long,
        value_name = "URL",
        env = "GROUNDWORK_DATABASE",
        hide_env_values = true
    )]
    pub database: Option<String>,
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_CONFIG")]
    pub config: Option<PathBuf>,
}

/// `serve`
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Address and port to listen on [default: 127.0.0.1:3000].
    #[arg(long, value_name = "ADDR:PORT", env = "GROUNDWORK_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
    /// Do not run setup runs in this process; they wait until a worker is there.
    #[arg(long)]
    pub no_worker: bool,
}

/// `admin`
#[derive(Debug, Args)]
pub struct AdminArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: AdminCommand,
}

/// Administration without a browser.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Add a member; on a fresh database, make the organization too.
    CreateMember(MemberArgs),
    /// Make an API key for a member and print it, alone, on standard output. It is shown this once.
    CreateApiKey(MemberArgs),
}

/// A member and a role.
#[derive(Debug, Clone, Args)]
pub struct MemberArgs {
    /// The member's e-mail address.
    #[arg(long, value_name = "E")]
    pub email: String,
    /// admin, developer or user.
    #[arg(long, value_name = "R", value_parser = parse_role)]
    pub role: Role,
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
}

/// `runner-image`
#[derive(Debug, Args)]
pub struct RunnerImageArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RunnerImageCommand,
}

/// Runner images.
#[derive(Debug, Subcommand)]
pub enum RunnerImageCommand {
    /// Build one from Debian packages; does nothing when it is there already.
    ///
    /// With --refresh it is built again from the packages of today: this is how security updates of Debian come in. When
    /// something has changed, environments are tested again on the new image, and the one before stays while it is used.
    Build {
        /// What it holds.
        #[arg(long, value_enum, default_value_t = Variant::Full)]
        variant: Variant,
        /// Build it also when it is there already.
        #[arg(long)]
        refresh: bool,
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
    /// Get one from a registry; does nothing when the very same one is here already.
    ///
    /// A server whose setting runner.image names a registry does this at its start. GROUNDWORK_REGISTRY_USERNAME and
    /// GROUNDWORK_REGISTRY_PASSWORD sign in.
    Pull {
        /// Such as registry.example.com/team/runner:1.
        #[arg(value_name = "REF")]
        reference: String,
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
    /// List those on this machine.
    List {
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
}

/// `image`
#[derive(Debug, Args)]
pub struct ImageArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// Setup images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// List them, used longest ago first: digest, size, last use, and who needs it.
    List {
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
    /// Write an image as an OCI image layout: the same image gives the same bytes.
    Export {
        /// An environment's id, an image's id or digest, or a runner image such as groundwork/runner:full.
        #[arg(value_name = "ENV_OR_IMAGE")]
        image: String,
        /// A directory, or a file that ends in .tar; must not exist.
        #[arg(long, value_name = "DIR|FILE.tar")]
        output: PathBuf,
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
    /// Send an image to a registry. Plain HTTP is spoken with registries on this machine alone.
    ///
    /// GROUNDWORK_REGISTRY_USERNAME and GROUNDWORK_REGISTRY_PASSWORD sign in.
    Push {
        /// An environment's id, an image's id or digest, or a runner image such as groundwork/runner:full.
        #[arg(value_name = "ENV_OR_IMAGE")]
        image: String,
        /// Where to, such as registry.example.com/team/project:1.
        #[arg(value_name = "REF")]
        reference: String,
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
    /// Delete the layers that no environment and no session needs, at once. A running server does this by itself.
    Gc {
        /// Where things are.
        #[command(flatten)]
        places: Places,
    },
}

/// What a runner image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// Enough for the tests.
    Small,
    /// Python, Node, git, build tools and what else a setup script expects.
    Full,
}

/// `doctor`
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// List what processes that are gone left on the machine, instead of checking it.
    #[arg(long)]
    pub leftovers: bool,
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
}

fn parse_role(text: &str) -> Result<Role, String> {
    text.parse::<Role>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_fixed_calls_are_understood() {
        for line in [
            "groundwork serve --listen 127.0.0.1:4000 --data d --database postgres://x/y --config c.toml --no-worker",
            "groundwork admin create-member --email a@example.com --role admin",
            "groundwork admin create-api-key --email a@example.com --role user",
            "groundwork runner-image build --variant small",
            "groundwork runner-image build --refresh",
            "groundwork runner-image build",
            "groundwork runner-image list",
            "groundwork image list",
            "groundwork image export 0198 --output dir",
            "groundwork image push 0198 registry.example.com/a:1",
            "groundwork runner-image pull registry.example.com/a:1",
            "groundwork image gc --data d",
            "groundwork doctor --leftovers",
            "groundwork shim",
            "groundwork login --url https://a.example --api-key-stdin",
            "groundwork env list --query x --status stale --output json",
            "groundwork env get data-analysis",
            "groundwork env create --name x",
            "groundwork env create -f -",
            "groundwork env apply -f env.yaml --dry-run",
            "groundwork env apply -f env.yaml --yes",
            "groundwork env export x --portable --format json",
            "groundwork env delete x --yes",
            "groundwork test x --follow --color always",
            "groundwork session start x",
            "groundwork session exec 1 -- ls -la --output",
            "groundwork session list --output json",
            "groundwork session stop 1",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        assert!(
            Cli::try_parse_from([
                "groundwork",
                "admin",
                "create-member",
                "--email",
                "a@b.c",
                "--role",
                "king"
            ])
            .is_err()
        );
    }
}

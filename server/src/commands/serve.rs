//! `groundwork serve`

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use axum::serve::ListenerExt;
use control::{OpCtx, Secret, accounts::Bootstrap};
use leptos::config::LeptosOptions;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{open::Opened, say, worker::Worker};
use crate::{
    cli::ServeArgs,
    config::{FirstAdmin, Settings, site_from_build_tool, volumes},
    datadir::DataDir,
    fatal::Fatal,
    http::{AppState, router},
    telemetry,
};

/// How long connections may take to end once the server stops.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(5);
/// How long the worker may take to give its runs back.
const WORKER_ENDS_WITHIN: Duration = Duration::from_secs(15);

/// Runs until it is told to stop.
pub async fn run(args: ServeArgs) -> Result<ExitCode, Fatal> {
    let mut settings = Settings::for_serve(&args)?;
    telemetry::start(&settings.log)?;
    volumes::check(&mut settings)?;
    let first_admin = FirstAdmin::from_env()?;
    let site = site(&settings)?;
    // From now on a signal ends it in order, however far it came.
    let mut signals = Box::pin(signals()?);
    // Each held request is a descriptor, and many systems give a process 1,024 unless it asks for what it may have.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(cause = %error, "the limit of open files stays as it is");
    }
    // The port comes first: a server that cannot have it leaves nothing behind.
    let listener = bind(settings.listen).await?;
    let address = listener
        .local_addr()
        .map_err(|e| Fatal::new(format!("The port cannot be read back ({e}); start again.")))?;
    let dir = DataDir::take(&settings.data)?;
    let worker = if settings.worker.enabled {
        // It may fetch an image, which takes long; what is half there goes with it.
        let checked = tokio::select! {
            checked = Worker::check(&settings, &dir) => checked?,
            () = &mut signals => {
                tracing::info!("stopped before it had started");
                return Ok(ExitCode::SUCCESS);
            }
        };
        Some(checked)
    } else {
        None
    };
    let opened = Opened::new(&settings, &dir, worker.as_ref()).await?;
    let stop = CancellationToken::new();

    let setup_link = first_start(&opened, first_admin, &settings, address).await?;
    let reconcilers = opened.control.spawn_reconcilers(stop.clone());
    let worker =
        worker.map(|worker| worker.start(opened.control.clone(), opened.clock, stop.clone()));
    let state = AppState::new(
        &settings,
        opened.control.clone(),
        std::sync::Arc::new(opened.clock),
        opened.ids.clone(),
        leptos_options(&site, address),
        stop.clone(),
    );
    say(&format!(
        "Groundwork is at {}",
        base_url(&settings, address)
    ))?;
    if let Some(link) = setup_link {
        say(&format!("Make the first admin (once): {link}"))?;
    }
    tracing::info!(%address, data = %settings.data.display(), worker = worker.is_some(), "started");

    serve(listener, state, signals, &stop).await?;
    stop.cancel();
    if let Some(worker) = worker
        && tokio::time::timeout(WORKER_ENDS_WITHIN, worker)
            .await
            .is_err()
    {
        tracing::warn!(
            "the worker did not end in time; its runs are tried again when their leases end"
        );
    }
    if tokio::time::timeout(CONNECTIONS_END_WITHIN, reconcilers.wait())
        .await
        .is_err()
    {
        tracing::warn!("background work did not end in time");
    }
    opened.database.close().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal comes, then lets answers finish that are on their way.
async fn serve(
    listener: TcpListener,
    state: AppState,
    signals: impl Future<Output = ()> + Send + 'static,
    stop: &CancellationToken,
) -> Result<(), Fatal> {
    let listener = listener.tap_io(|stream| {
        // Small answers must not wait for more to send with them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(cause = %error, "TCP_NODELAY was refused");
        }
    });
    let stopping = {
        let stop = stop.clone();
        async move {
            signals.await;
            tracing::info!("stopping");
            stop.cancel();
        }
    };
    let service = router(state).into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(stopping);
    let too_late = async {
        stop.cancelled().await;
        tokio::time::sleep(CONNECTIONS_END_WITHIN).await;
    };
    tokio::select! {
        ended = serving => ended.map_err(|e| Fatal::new(format!("The server cannot go on accepting connections ({e}); start it again."))),
        () = too_late => {
            tracing::info!("connections that were still open were closed");
            Ok(())
        }
    }
}

/// Completes at the first SIGTERM or SIGINT.
fn signals() -> Result<impl Future<Output = ()>, Fatal> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen =
        |kind| signal(kind).map_err(|e| Fatal::new(format!("Signals cannot be received ({e}).")));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Fatal> {
    TcpListener::bind(address).await.map_err(|error| {
        Fatal::new(match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "The port {} of {} is taken by another program; stop it, or choose another with --listen or GROUNDWORK_LISTEN.",
                address.port(),
                address.ip()
            ),
            io::ErrorKind::PermissionDenied => format!(
                "The port {} may not be used by this user; choose one from 1024 with --listen or GROUNDWORK_LISTEN.",
                address.port()
            ),
            io::ErrorKind::AddrNotAvailable => format!(
                "The address {} is not one of this machine's; choose another with --listen or GROUNDWORK_LISTEN.",
                address.ip()
            ),
            _ => format!(
                "The address {address} cannot be listened on ({error}); choose another with --listen or GROUNDWORK_LISTEN."
            ),
        })
    })
}

/// The first admin from the environment, or the link by which a person makes it.
async fn first_start(
    opened: &Opened,
    first_admin: Option<FirstAdmin>,
    settings: &Settings,
    address: SocketAddr,
) -> Result<Option<String>, Fatal> {
    let control = &opened.control;
    let refused = |what: &str, error: &control::Error| {
        let chain = error.chain();
        let cause = if chain.is_empty() {
            error.api().message.clone()
        } else {
            chain.join(": ")
        };
        Fatal::new(format!("{what}: {cause}"))
    };
    if !control
        .needs_setup()
        .await
        .map_err(|e| refused("The database cannot be read", &e))?
    {
        return Ok(None);
    }
    if let Some(admin) = first_admin {
        control
            .bootstrap_by_operator(
                &OpCtx::system("first-start"),
                Bootstrap {
                    organization_name: "Groundwork".to_owned(),
                    email: admin.email,
                    display_name: String::new(),
                    password: Secret::new(admin.password),
                },
            )
            .await
            .map_err(|e| {
                refused(
                    "The first admin cannot be made from GROUNDWORK_ADMIN_EMAIL and GROUNDWORK_ADMIN_PASSWORD",
                    &e,
                )
            })?;
        return Ok(None);
    }
    let token = control
        .issue_setup_token()
        .await
        .map_err(|e| refused("The setup link cannot be made", &e))?;
    Ok(token.map(|token| {
        format!(
            "{}/setup?token={}",
            base_url(settings, address),
            token.expose()
        )
    }))
}

/// How people reach the server.
fn base_url(settings: &Settings, address: SocketAddr) -> String {
    settings.public_url.as_ref().map_or_else(
        || {
            // "Everywhere" is no address that a browser can open.
            let mut shown = address;
            if shown.ip().is_unspecified() {
                shown.set_ip(match shown {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
                });
            }
            format!("http://{shown}")
        },
        crate::config::PublicUrl::base,
    )
}

/// The console's files: where the settings say, where the build tool says, beside the binary, or where a build leaves
/// them.
fn site(settings: &Settings) -> Result<PathBuf, Fatal> {
    if let Some(site) = &settings.site {
        return if site.join("pkg").is_dir() {
            Ok(site.clone())
        } else {
            Err(Fatal::new(format!(
                "The setting site names {}, which holds no console files (pkg is missing); correct it or leave it out.",
                site.display()
            )))
        };
    }
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(Path::to_owned));
    site_from_build_tool()
        .into_iter()
        .chain(beside.iter().map(|dir| dir.join("site")))
        .chain(beside.iter().map(|dir| dir.join("../site")))
        .find(|site| site.join("pkg").is_dir())
        .ok_or_else(|| {
            Fatal::new(
                "The console's files are not beside the program; build both with `make build`, or name their directory with the setting site.",
            )
        })
}

/// How pages name their files. With a hash file beside the binary, by hash.
fn leptos_options(site: &Path, address: SocketAddr) -> LeptosOptions {
    let hashed = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(|dir| dir.join("hash.txt").is_file()))
        .unwrap_or(false);
    LeptosOptions::builder()
        .output_name("groundwork")
        .site_root(site.to_string_lossy().into_owned())
        .site_pkg_dir("pkg")
        .site_addr(address)
        .hash_files(hashed)
        .build()
}

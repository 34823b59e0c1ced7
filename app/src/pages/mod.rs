//! Pages.

mod account;
mod admin;
mod audit;
pub(crate) mod console;
mod create;
mod delete;
mod environment;
mod environment_parts;
mod environments;
mod form;
mod form_size;
mod gates;
mod history;
mod inputs;
mod keys;
pub mod lazy;
mod leaving;
mod members;
mod merging;
mod mounts_editor;
mod rules_editor;
mod run;
mod run_outcome;
mod run_view;
mod script_editor;
mod session;
mod session_charts;
mod sessions;
mod setup_panel;
mod start_session;
#[cfg(debug_assertions)]
mod styleguide;
mod table_parts;

pub use account::AccountPage;
pub use admin::WorkersPage;
pub use audit::AuditPage;
pub use console::{Console, Home, NotFound};
pub use create::NewEnvironmentPage;
pub use delete::DeletePage;
pub use environment::EnvironmentPage;
pub use environments::EnvironmentsPage;
pub use gates::{InvitePage, SetUpPage, SignInPage};
pub use history::HistoryPage;
pub use keys::KeysPage;
pub use leaving::Leaving;
pub use members::MembersPage;
pub use run::RunPage;
pub use session::{DeleteSessionPage, SessionPage};
pub use sessions::SessionsPage;
#[cfg(debug_assertions)]
pub use styleguide::StyleguidePage;

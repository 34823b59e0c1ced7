//! Pages.

mod account;
mod admin;
mod console;
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
mod members;
mod merging;
mod rules_editor;
mod run;
mod run_outcome;
mod run_view;
mod script_editor;
mod setup_panel;
mod table_parts;

pub use account::AccountPage;
pub use admin::{AuditPage, WorkersPage};
pub use console::{Console, Home, NotFound};
pub use create::NewEnvironmentPage;
pub use delete::DeletePage;
pub use environment::EnvironmentPage;
pub use environments::EnvironmentsPage;
pub use history::HistoryPage;
pub use gates::{InvitePage, SetUpPage, SignInPage};
pub use keys::KeysPage;
pub use members::MembersPage;
pub use run::RunPage;

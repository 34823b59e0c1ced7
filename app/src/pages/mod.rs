//! Pages.

mod account;
mod admin;
mod console;
mod environment;
mod environments;
mod form;
mod gates;
mod inputs;
mod keys;
mod members;
mod rules_editor;
mod run;
mod script_editor;
mod setup_panel;

pub use account::AccountPage;
pub use admin::{AuditPage, WorkersPage};
pub use console::{Console, Home, NotFound};
pub use environment::{DeletePage, EnvironmentPage, NewEnvironmentPage};
pub use environments::EnvironmentsPage;
pub use gates::{InvitePage, SetUpPage, SignInPage};
pub use keys::KeysPage;
pub use members::MembersPage;
pub use run::RunPage;

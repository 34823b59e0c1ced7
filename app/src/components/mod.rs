//! The pieces that pages are made of. Their looks are in `style/components.css`.

pub mod basics;
pub mod confirm;
pub mod dialog;
pub mod diff;
pub mod field;
pub mod hosts;
pub mod icons;
pub mod menu;
pub mod prepared;
pub mod rows;
pub mod secrets;
pub mod states;
pub mod timings;
pub mod verdict;

pub use basics::{Alert, Copy, CopyId, Refused, SetupBadgeView, Sign, Submit, Tone};
pub use confirm::ConfirmDelete;
pub use dialog::Dialog;
pub use diff::{Changes, Difference};
pub use field::{
    Errors, FieldError, Select, Switch, TextArea, TextField, bind_text, focus_first_error,
};
pub use hosts::Hosts;
pub use icons::{Draw, Icon};
pub use menu::Menu;
pub use prepared::Prepared;
pub use rows::{AddRow, LineText, LinesField, RowButton, Rows, focus_button};
pub use secrets::Secrets;
pub use states::{Behind, BehindNote, Failure, Gate, Loading, PageHead};
pub use timings::Timings;
pub use verdict::{MakesStale, VerdictHolds};

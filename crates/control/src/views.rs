//! Environments as doors show them, made once for each row that the store shares.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use domain::ids::EnvironmentId;
use wire::managed_agents::Environment;

use crate::{Error, Result, ports::rows::EnvironmentRow, view};

/// Kept at most. What the store's own memory lets go of is dropped first.
const KEPT_MAX: usize = 1_024;

/// What was shown of rows that are still shared. A view follows from its row alone; the fingerprint, the advice on the
/// script and the text of it all take longer than the rest of a read.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<EnvironmentId, View>>);

/// A row that somebody may still have, and what is shown of it. While the weak reference is there, no other row can lie
/// where this one lay.
struct View {
    row: Weak<EnvironmentRow>,
    shown: Shown,
}

/// What is shown of a row.
#[derive(Clone)]
pub(crate) struct Shown {
    /// The row as the API shows it.
    pub(crate) environment: Arc<Environment>,
    /// That as JSON.
    pub(crate) json: Arc<[u8]>,
}

impl Views {
    /// What is shown of this row.
    pub(crate) fn of(&self, row: &Arc<EnvironmentRow>) -> Result<Shown> {
        if let Some(view) = self.lock().get(&row.environment_id)
            && std::ptr::eq(view.row.as_ptr(), Arc::as_ptr(row))
        {
            return Ok(view.shown.clone());
        }
        let environment = view::environment(row);
        let json = serde_json::to_vec(&environment).map_err(Error::internal)?;
        let shown = Shown {
            environment: Arc::new(environment),
            json: json.into(),
        };
        let view = View {
            row: Arc::downgrade(row),
            shown: shown.clone(),
        };
        let mut views = self.lock();
        views.retain(|_, view| view.row.strong_count() > 0);
        if views.len() >= KEPT_MAX {
            views.clear();
        }
        views.insert(row.environment_id, view);
        Ok(shown)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<EnvironmentId, View>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use domain::{
        environment::Definition, ids::Id, timestamp::Timestamp, verification::Verification,
    };
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn row(number: u128, name: &str) -> Arc<EnvironmentRow> {
        let definition: Definition = serde_json::from_value(json!({
            "name": name, "provider": "runs", "image": "groundwork/runner:full",
            "setup": {"script": "echo hi\n", "timeout_seconds": 60},
            "network_policy": domain::network_policy::NetworkPolicy::no_access(),
        }))
        .unwrap();
        let now = Timestamp::from_micros(1);
        Arc::new(EnvironmentRow {
            organization_id: Id::from_uuid(Uuid::from_u128(1)),
            environment_id: Id::from_uuid(Uuid::from_u128(number)),
            version: 1,
            revision: 1,
            secret_hashes: Default::default(),
            verification: Verification::created(&definition),
            definition,
            setup_updated_by: None,
            setup_updated_at: None,
            created_at: now,
            updated_at: now,
        })
    }

    fn shown(views: &Views, row: &Arc<EnvironmentRow>) -> (String, Arc<Environment>) {
        let shown = views.of(row).unwrap();
        let json: Environment = serde_json::from_slice(&shown.json).unwrap();
        assert_eq!(json, *shown.environment);
        (json.name, shown.environment)
    }

    #[test]
    fn a_row_is_made_a_view_once_and_another_row_is_another_view() {
        let views = Views::default();
        let before = row(7, "before");
        let (name, first) = shown(&views, &before);
        assert_eq!(name, "before");
        assert!(Arc::ptr_eq(&first, &shown(&views, &before).1));
        let after = row(7, "after");
        assert_eq!(shown(&views, &after).0, "after");
        assert_eq!(shown(&views, &before).0, "before");
        drop((before, after));
        for number in 0..10 {
            let name = format!("{number}");
            assert_eq!(shown(&views, &row(7, &name)).0, name, "no row lives twice");
        }
    }

    #[test]
    fn views_of_rows_that_nobody_has_are_let_go() {
        let views = Views::default();
        for number in 0..50 {
            shown(&views, &row(number, "gone"));
        }
        assert_eq!(views.lock().len(), 1);
        let rows: Vec<_> = (0..KEPT_MAX as u128 + 10).map(|n| row(n, "here")).collect();
        for row in &rows {
            shown(&views, row);
        }
        assert!(views.lock().len() <= KEPT_MAX);
    }
}

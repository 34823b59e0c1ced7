//! What a starting point sets, in words. Pure.

use super::{Draft, INTERNET_ENABLED, INTERNET_HOSTS, is_on, parse_dotenv, parse_rules};
use crate::format;

impl Draft {
    /// What this form holds beside a fresh one: `6 host rules, a setup script of 4 lines`.
    pub fn beside_blank(&self) -> String {
        let blank = Self::blank();
        let mut parts: Vec<String> = Vec::new();
        match self.internet.as_str() {
            INTERNET_ENABLED => parts.push("internet access enabled".to_owned()),
            INTERNET_HOSTS => {
                let rules = parse_rules(&self.rules).len() as u64;
                parts.push(format::count(rules, "host rule", "host rules"));
            }
            _ => {}
        }
        if is_on(&self.privileged) {
            parts.push("privileged Docker".to_owned());
        }
        if !self.accelerator.is_empty() {
            parts.push(format!("a GPU ({})", self.accelerator));
        } else if (&self.cpu, &self.memory) != (&blank.cpu, &blank.memory) {
            parts.push(format!("{} vCPU and {} GiB", self.cpu, self.memory));
        }
        if self.disk != blank.disk {
            parts.push(format!("{} GiB disk", self.disk));
        }
        if is_on(&self.computer_use) {
            parts.push("computer use".to_owned());
        }
        if let Some(count) = parse_dotenv(&self.env_vars)
            .ok()
            .map(|vars| vars.len())
            .filter(|count| *count > 0)
        {
            parts.push(format::count(count as u64, "variable", "variables"));
        }
        match self.script.lines().count() {
            0 => parts.push("no setup script".to_owned()),
            lines => parts.push(format!(
                "a setup script of {}",
                format::count(lines as u64, "line", "lines")
            )),
        }
        if let Ok(seconds) = self.setup_timeout.trim().parse::<i64>() {
            parts.push(format!(
                "a timeout of {}",
                format::duration(seconds * 1_000)
            ));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_point_says_what_it_sets() {
        let blank = Draft::blank();
        for (draft, text) in [
            (blank.clone(), "no setup script"),
            (
                Draft {
                    internet: INTERNET_HOSTS.to_owned(),
                    rules: "a.example\ndeny b.example\n".to_owned(),
                    script: "one\ntwo\n".to_owned(),
                    ..blank.clone()
                },
                "2 host rules, a setup script of 2 lines",
            ),
            (
                Draft {
                    internet: INTERNET_ENABLED.to_owned(),
                    disk: "30".to_owned(),
                    memory: "8".to_owned(),
                    computer_use: "on".to_owned(),
                    env_vars: "A=1\n".to_owned(),
                    script: "one\n".to_owned(),
                    setup_timeout: "900".to_owned(),
                    ..blank.clone()
                },
                "internet access enabled, 2 vCPU and 8 GiB, 30 GiB disk, computer use, 1 variable, a setup script of 1 line, a timeout of 15 min",
            ),
            (
                Draft {
                    accelerator: "T4".to_owned(),
                    cpu: String::new(),
                    memory: String::new(),
                    ..blank
                },
                "a GPU (T4), no setup script",
            ),
        ] {
            assert_eq!(draft.beside_blank(), text);
        }
    }
}

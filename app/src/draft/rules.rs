//! The rules of *Selected hosts* as text: one a line, `deny` in front of those that block.

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLine {
    /// Lets the host through; otherwise blocks it.
    pub allow: bool,
    /// Host or glob, as written.
    pub host: String,
}

/// Reads the text: `host`, `allow host` or `deny host` (also `!host`), separated by lines, commas or blanks; `#` starts a
/// comment. So a list that was copied from anywhere can be pasted.
pub fn parse_rules(text: &str) -> Vec<RuleLine> {
    let mut rules = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut allow = true;
        for word in line
            .split([',', ';', ' ', '\t'])
            .filter(|word| !word.is_empty())
        {
            match word {
                "allow" => allow = true,
                "deny" => allow = false,
                host => {
                    let (allow, host) = host
                        .strip_prefix('!')
                        .map_or((allow, host), |host| (false, host));
                    rules.push(RuleLine {
                        allow,
                        host: host.to_owned(),
                    });
                }
            }
        }
    }
    rules
}

/// Writes rules as [`parse_rules`] reads them.
pub fn show_rules(rules: &[RuleLine]) -> String {
    rules
        .iter()
        .map(|rule| {
            if rule.allow {
                format!("{}\n", rule.host)
            } else {
                format!("deny {}\n", rule.host)
            }
        })
        .collect()
}

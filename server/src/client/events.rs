//! Server-sent events, as bytes come in.

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its data, lines joined.
    pub data: String,
}

/// Cuts bytes into events.
#[derive(Default)]
pub struct Events {
    bytes: Vec<u8>,
    name: String,
    data: Vec<String>,
}

impl Events {
    /// Takes bytes in, gives the events that are whole now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.bytes.extend_from_slice(bytes);
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(length) = self.bytes[from..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.bytes[from..from + length]).into_owned();
            from += length + 1;
            found.extend(self.line(line.trim_end_matches('\r')));
        }
        self.bytes.drain(..from);
        found
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let (name, data) = (
                std::mem::take(&mut self.name),
                std::mem::take(&mut self.data),
            );
            return (!data.is_empty()).then(|| Event {
                name,
                data: data.join("\n"),
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => self.data.push(value.to_owned()),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_the_bytes_are_cut() {
        let text = ": beat\n\nevent: line\nid: 4\ndata: {\"text\":\"ü\"}\n\nevent: end\r\ndata: a\r\ndata: b\r\n\r\n";
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<Event> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| events.push(chunk))
                .collect();
            assert_eq!(found.len(), 2, "{size}");
            assert_eq!(found[0].data, "{\"text\":\"ü\"}");
            assert_eq!(
                (found[1].name.as_str(), found[1].data.as_str()),
                ("end", "a\nb")
            );
        }
    }
}

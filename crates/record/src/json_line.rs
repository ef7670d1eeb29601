//! A publication as one line of JSON. Members are called as the fields of the sections are.

use crate::VERSION;
use crate::json::{Json, member, string};
use crate::snapshot::Snapshot;
use core::fmt::{self, Write};

impl Snapshot<'_> {
    /// Writes everything as one line of JSON, with its end. The names and texts of `head` come
    /// first, behind the layout's version.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_json(&self, head: &[(&str, &str)], out: &mut dyn Write) -> fmt::Result {
        out.write_char('{')?;
        member(out, true, "layout")?;
        VERSION.json(out)?;
        for (name, text) in head {
            member(out, false, name)?;
            string(text, out)?;
        }
        for (name, number) in [
            ("pid", u64::from(self.owner().pid)),
            ("published_ns", self.published_ns()),
            ("publications", self.publications()),
        ] {
            member(out, false, name)?;
            number.json(out)?;
        }
        for (name, section) in [
            ("about", self.about() as &dyn Json),
            ("memory", &self.memory()),
            ("budget", &self.budget()),
        ] {
            member(out, false, name)?;
            section.json(out)?;
        }
        member(out, false, "events")?;
        out.write_char('{')?;
        for (at, (name, value)) in self.events().enumerate() {
            member(out, at == 0, name)?;
            value.json(out)?;
        }
        out.write_char('}')?;
        rows(out, "caches", &mut self.caches())?;
        rows(out, "zones", &mut self.zones())?;
        rows(out, "lists", &mut self.lists())?;
        rows(out, "locks", &mut self.locks())?;
        out.write_str("}\n")
    }
}

/// Writes a table as an array of objects.
fn rows<T: Json>(
    out: &mut dyn Write,
    name: &str,
    rows: &mut dyn Iterator<Item = T>,
) -> fmt::Result {
    member(out, false, name)?;
    out.write_char('[')?;
    for (at, row) in rows.enumerate() {
        out.write_str(if at == 0 { "" } else { "," })?;
        row.json(out)?;
    }
    out.write_char(']')
}

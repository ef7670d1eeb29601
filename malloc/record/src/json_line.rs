//! A publication as one line of JSON. The members are named after the fields of sections.

use crate::VERSION;
use crate::body::{ABOUT_AT, BUDGET_AT, CACHES_AT, LISTS_AT, LOCKS_AT, MEMORY_AT, ZONES_AT};
use crate::json::{Described, member, number, object, string, table};
use crate::rows::{CacheRow, ListRow, LockRow, ZoneRow};
use crate::sections::{About, Budget, Memory};
use crate::snapshot::Snapshot;
use core::fmt::{self, Write};

impl Snapshot<'_> {
    /// Writes the publication as one line of JSON, with its newline. The members of `head`, pairs
    /// of name and text, follow the version of the layout.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn write_json(&self, head: &[(&str, &str)], out: &mut dyn Write) -> fmt::Result {
        out.write_char('{')?;
        member(out, true, "layout")?;
        number(VERSION.into(), out)?;
        for (name, text) in head {
            member(out, false, name)?;
            string(text, out)?;
        }
        for (name, value) in [
            ("pid", u64::from(self.owner().pid)),
            ("published_ns", self.published_ns()),
            ("publications", self.publications()),
        ] {
            member(out, false, name)?;
            number(value, out)?;
        }
        for (name, shapes, at) in [
            ("about", About::SHAPE, ABOUT_AT),
            ("memory", Memory::SHAPE, MEMORY_AT),
            ("budget", Budget::SHAPE, BUDGET_AT),
        ] {
            member(out, false, name)?;
            object(shapes, &self.bytes()[8 * at..], out)?;
        }
        member(out, false, "events")?;
        out.write_char('{')?;
        for (at, (name, value)) in self.events().enumerate() {
            member(out, at == 0, name)?;
            number(value, out)?;
        }
        out.write_char('}')?;
        let about = self.about();
        for (name, shapes, at, rows) in [
            ("caches", CacheRow::SHAPE, CACHES_AT, about.caches),
            ("zones", ZoneRow::SHAPE, ZONES_AT, about.zones),
            ("lists", ListRow::SHAPE, LISTS_AT, about.lists),
            ("locks", LockRow::SHAPE, LOCKS_AT, about.locks),
        ] {
            member(out, false, name)?;
            table(shapes, &self.bytes()[8 * at..], rows, out)?;
        }
        out.write_str("}\n")
    }
}

//! Candidates for the first stage: every installed allocator, and those of Quarry's slab policies
//! whose predicate holds for the facts. The predicates come from the documents. They choose which
//! candidates are measured, and in which order if time is short; they never decide the answer.

use super::facts::Facts;
use crate::allocator_spec::{self, BuiltIn};
use crate::allocators::{self, GLIBC, QUARRY};
use crate::contenders::Contender;
use crate::known::KNOWN;
use anyhow::{Result, bail};
use quarry_harness::usage::Usage;

/// With this number of threads per CPU or more, SLAB was faster than SLUB in document 002: TCP_RR
/// on 16 CPUs gained 2.1 % with 48 threads and 13.8 % with 160.
const MANY_THREADS: f64 = 3.0;
/// If requests have this many bytes on average or more, most memory comes from caches whose objects
/// have 4 KiB and more, which are the subject of document 003.
const LARGE_REQUEST: u64 = 2048;

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) contender: Contender,
    pub(super) why: String,
}

#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The candidates, in the order of the first stage, which leaves out the last if time is short.
    pub(super) there: Vec<Candidate>,
    /// For each allocator that is not installed, one line that tells how to install it.
    pub(super) absent: Vec<String>,
    /// Names of allocators that are not installed, have no Debian package, and were not asked for.
    pub(super) unpackaged: Vec<String>,
    /// Policies whose predicates the facts do not fulfil, each with its predicate.
    pub(super) unsuited: Vec<String>,
}

struct Policy {
    name: &'static str,
    when: &'static str,
    holds: fn(&Facts) -> bool,
}

const POLICIES: [Policy; 5] = [
    Policy {
        name: "quarry-slab",
        when: "3 threads per CPU and more, or several NUMA nodes (document 002)",
        holds: |facts| facts.threads_per_cpu() >= MANY_THREADS || facts.nodes > 1,
    },
    Policy {
        name: "quarry-slub-4.9",
        when: "fewer than 3 threads per CPU, on one NUMA node (document 002)",
        holds: |facts| facts.threads_per_cpu() < MANY_THREADS && facts.nodes == 1,
    },
    Policy {
        name: "quarry-slam",
        when: "several threads, whose traffic may change (document 002)",
        holds: |facts| facts.threads > 1,
    },
    Policy {
        name: "quarry-slqb",
        when: "requests of 2 KiB and more on average (document 003)",
        holds: |facts| facts.mean_bytes >= LARGE_REQUEST,
    },
    Policy {
        name: "quarry-sheaf-6.18",
        when: "several threads (Linux 6.18)",
        holds: |facts| facts.threads > 1,
    },
];

impl Candidates {
    /// Looks for the allocators that the user named, before anything runs; fails on an unknown
    /// name. Without names it looks only for Quarry's own library, so that an environment variable
    /// with a wrong file for this library is an error at once.
    pub(super) fn named(names: &[String], built_in: &BuiltIn<'_>) -> Result<Self> {
        let mut candidates = Self::default();
        if names.is_empty() {
            allocator_spec::find_named(QUARRY, built_in).map(drop)?;
            return Ok(candidates);
        }
        for name in names.iter().filter(|name| *name != GLIBC) {
            candidates.add(name, "named", built_in)?;
        }
        if candidates.there.is_empty() && candidates.absent.is_empty() {
            bail!(Usage("--allocators: accepted: at least one beside glibc".to_owned()));
        }
        Ok(candidates)
    }

    /// Adds the allocators that the facts suggest, unless the user named some; leaves out the one
    /// that already serves the program. Fails if a found file is not a library.
    pub(super) fn complete(
        &mut self,
        facts: &Facts,
        baseline: &Contender,
        built_in: &BuiltIn<'_>,
    ) -> Result<()> {
        if self.there.is_empty() && self.absent.is_empty() {
            self.suggest(facts, built_in)?;
        }
        self.without(baseline)
    }

    fn suggest(&mut self, facts: &Facts, built_in: &BuiltIn<'_>) -> Result<()> {
        self.add(QUARRY, "always", built_in)?;
        for known in &KNOWN.allocators {
            let found = allocator_spec::find_named(&known.name, built_in)?;
            if known.packages.is_empty() && found.is_err() {
                self.unpackaged.push(known.name.clone());
                continue;
            }
            self.add(&known.name, "always", built_in)?;
        }
        for Policy { name, when, holds } in POLICIES {
            match holds(facts) {
                true => self.add(name, when, built_in)?,
                false => self.unsuited.push(format!("{name}: for {when}")),
            }
        }
        Ok(())
    }

    /// Leaves out the allocator that serves the program; adds glibc if glibc is not that allocator.
    fn without(&mut self, baseline: &Contender) -> Result<()> {
        let Some(own) = &baseline.allocator.preload else { return Ok(()) };
        let own = own.canonicalize().unwrap_or_else(|_| own.clone());
        let is_own = |it: &Candidate| {
            it.contender.settings.is_empty()
                && it.contender.allocator.preload.as_ref() == Some(&own)
        };
        self.there.retain(|it| !is_own(it));
        // glibc is added by its file, so that the lines of `deploy` can preload it.
        let glibc = allocators::preloaded(GLIBC, allocators::glibc().file()?, None);
        let why = "the C library's own".to_owned();
        self.there.insert(0, Candidate { contender: Contender::from(glibc), why });
        Ok(())
    }

    fn add(&mut self, name: &str, why: &str, built_in: &BuiltIn<'_>) -> Result<()> {
        match allocator_spec::find_named(name, built_in)? {
            Err(absent) => self.absent.push(absent),
            Ok(contender)
                if self.there.iter().any(|it| it.contender.name() == contender.name()) =>
            {
                bail!(Usage(format!("--allocators: {name} is named twice")));
            }
            Ok(contender) => self.there.push(Candidate { contender, why: why.to_owned() }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn facts(threads: u64, nodes: usize, mean_bytes: u64, peak_bytes: u64) -> Facts {
        Facts {
            cpus: 16,
            nodes,
            threads,
            allocations: 1,
            mean_bytes,
            calls_per_second: 1.0,
            influence: 0.1,
            peak_bytes,
            held_bytes: 0,
            wall_ns: 1,
            cpu_delay_ns: None,
            idles: false,
        }
    }

    fn glibc() -> Contender {
        Contender::from(allocators::glibc())
    }

    /// Debian's redis links jemalloc, so its baseline is jemalloc.
    #[test]
    fn what_a_program_links_is_no_candidate_and_glibc_is_one() {
        let file = std::env::current_exe().unwrap().canonicalize().unwrap();
        let own = Contender::from(allocators::linked(&file));
        let mut candidates = Candidates::default();
        let why = String::new();
        candidates.there.push(Candidate { contender: own.clone(), why: why.clone() });
        candidates.there.push(Candidate { contender: own.with("x", &[("A", "1")]), why });
        candidates.without(&own).unwrap();
        let names: Vec<&str> = candidates.there.iter().map(|it| it.contender.name()).collect();
        assert_eq!(names, ["glibc", "x"]);
    }

    fn policies(facts: &Facts) -> Vec<String> {
        let find = |_: Option<&str>, _: &[_]| Ok(PathBuf::from("/lib/libquarry.so"));
        let setting = |text: &str| Ok((format!("QUARRY_{}", &text[..3]), text[4..].to_owned()));
        let slabs = ["sheaf", "sheaf-6.18", "slab", "slqb", "slam", "slub-4.9"];
        let built_in =
            BuiltIn { slabs: &slabs, find: &find, setting: &setting, held: &|_| Vec::new() };
        let mut found = Candidates::named(&[], &built_in).unwrap();
        found.complete(facts, &glibc(), &built_in).unwrap();
        assert_eq!(found.there[0].contender.name(), "quarry");
        let names = found.there.iter().map(|it| it.contender.name().to_owned());
        let names: Vec<String> = names.filter(|it| it.starts_with("quarry")).skip(1).collect();
        assert_eq!(names.len() + found.unsuited.len(), POLICIES.len());
        names
    }

    #[test]
    fn the_predicates_of_document_002_choose_between_slab_and_slub() {
        let small = policies(&facts(1, 1, 64, 1 << 20));
        assert_eq!(small, ["quarry-slub-4.9"]);
        let threads = policies(&facts(48, 1, 64, 1 << 20));
        assert_eq!(threads, ["quarry-slab", "quarry-slam", "quarry-sheaf-6.18"]);
        let nodes = policies(&facts(1, 4, 64, 1 << 20));
        assert_eq!(nodes, ["quarry-slab"]);
    }

    #[test]
    fn large_requests_speak_for_slqb() {
        let large = policies(&facts(1, 1, 4096, 1 << 30));
        assert_eq!(large, ["quarry-slub-4.9", "quarry-slqb"]);
        assert_eq!(policies(&facts(8, 1, 4096, 1 << 30)).len(), 4);
    }

    #[test]
    fn named_candidates_are_taken_as_they_are() {
        let find = |_: Option<&str>, _: &[_]| bail!("not found");
        let setting = |_: &str| bail!("no setting");
        let built_in =
            BuiltIn { slabs: &[], find: &find, setting: &setting, held: &|_| Vec::new() };
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            let mut found = Candidates::named(&names, &built_in)?;
            found.complete(&facts(1, 1, 1, 1), &glibc(), &built_in).map(|()| found)
        };
        let found = named(&["glibc", "x=/bin/sh", "hoard", "quarry"]).unwrap();
        let names: Vec<&str> = found.there.iter().map(|it| it.contender.name()).collect();
        assert_eq!((names, found.absent.len()), (vec!["x"], 2));
        let error = named(&["glibc"]).unwrap_err().to_string();
        assert_eq!(error, "--allocators: accepted: at least one beside glibc");
        assert!(named(&["jemaloc"]).unwrap_err().to_string().contains("did you mean jemalloc"));
        assert!(named(&["x=/bin/sh", "x=/bin/sh"]).unwrap_err().to_string().contains("twice"));
    }
}

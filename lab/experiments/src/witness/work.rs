//! The workloads by name, as `data/kernel.toml` describes them.

use super::files::{Content, Files, Measured};
use super::gate::Task;
use super::sockets::Pair;
use super::{faults, sockets};
use anyhow::{Context, Result};
use quarry_replay::crew::Place;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum Calls {
    /// Page faults in rounds of `pages` pages.
    Faults {
        pages: u32,
    },
    /// Pages freed in lists of `length`.
    Lists {
        length: u32,
    },
    /// Messages of `bytes` bytes between the 40 threads of a group, through pipes or sockets.
    Crowd {
        bytes: u32,
        pipes: bool,
    },
    Datagrams {
        bytes: u32,
    },
    /// A stream of messages of `bytes` bytes.
    Stream {
        bytes: u32,
    },
    /// Transactions of a byte each way.
    Transactions,
    /// Files of `pages` pages; `shared` files are in memory.
    Files {
        content: Content,
        measured: Measured,
        pages: u32,
        shared: bool,
    },
}

impl Calls {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Datagrams { bytes } | Self::Stream { bytes } | Self::Crowd { bytes, .. } => {
                bytes.into()
            }
            Self::Transactions => 1,
            Self::Faults { .. } | Self::Lists { .. } | Self::Files { .. } => 0,
        }
    }

    /// The folder for files, which is on a disk or in memory; `None` without files.
    pub(crate) fn folder(self, [disk, memory]: &[PathBuf; 2]) -> Option<&PathBuf> {
        match self {
            Self::Files { shared, .. } => Some(if shared { memory } else { disk }),
            _ => None,
        }
    }

    /// The threads of `tasks` tasks of `operations` operations each, with the CPUs of bound ones.
    pub(super) fn threads(
        self,
        tasks: u32,
        operations: u64,
        cpus: &[usize],
        place: Place,
        folder: Option<&Path>,
    ) -> Result<Vec<(Option<usize>, Task<'static>)>> {
        let cpu = |index: usize| cpus.get(index % cpus.len().max(1)).copied();
        let mut threads = Vec::new();
        for index in 0..tasks as usize {
            let pair = |[first, second]: Pair| {
                let [here, there] = match place {
                    Place::Same => [cpu(index); 2],
                    Place::Next => [cpu(index), cpu(index + 1)],
                    Place::Unbound => [None; 2],
                };
                vec![(here, first), (there, second)]
            };
            threads.extend(match self {
                Self::Datagrams { bytes } => pair(sockets::datagrams(bytes as usize, operations)?),
                Self::Stream { bytes } => pair(sockets::stream(bytes as usize, operations)?),
                Self::Transactions => pair(sockets::transactions(operations)?),
                Self::Faults { pages } => vec![(cpu(index), faults::task(pages, operations))],
                Self::Lists { length } => vec![(cpu(index), faults::lists(length, operations))],
                Self::Crowd { bytes, pipes } => {
                    let group = sockets::group(bytes as usize, pipes, operations)?;
                    group.into_iter().map(|task| (None, task)).collect()
                }
                Self::Files { content, measured, pages, .. } => {
                    let files = Files { content, measured, pages };
                    let folder = folder.context("files need a folder")?.join(index.to_string());
                    vec![(cpu(index), files.task(folder, operations)?)]
                }
            });
        }
        Ok(threads)
    }
}

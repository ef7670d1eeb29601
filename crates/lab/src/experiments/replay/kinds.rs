//! The table of experiments.

use super::documents::{Document, Table};
use super::spec::{Amount, Kind, Row, Settings, Spec};
use super::unit::Unit;
use crate::replay::crew::Load;
use crate::replay::kernels::hackbench::{Medium, hackbench};
use crate::replay::kernels::network::{self, LINUX_2_6_29, LINUX_4_9};
use crate::replay::kernels::pages::{FILE_PAGES, list_free, page_fault};
use crate::replay::kernels::{Scenario, files};
use crate::replay::solo::Space;
use anyhow::Result;
use quarry_harness::nearest;
use quarry_harness::options::Defaults;

/// vanilla, hopcpu, and today's.
const SLUB_PCP: &str = "slub+order0,slub+v2016,sheaf+v6.7";

/// Declares experiments: a type, and its entry in the table.
macro_rules! kinds {
    ($($kind:ident: $spec:ident;)*) => {
        $(
            #[doc = concat!("`", stringify!($spec), "`.")]
            pub(crate) struct $kind;

            impl Defaults for $kind {
                const VARIANTS: &'static str = $spec.defaults[0];
                const TASKS: &'static str = $spec.defaults[1];
                const QUICK_TASKS: &'static str = $spec.defaults[2];
                const SAMPLES: &'static str = "10";
                const QUICK_SAMPLES: &'static str = "1";
                const MOST_TASKS: u32 = 1024;
            }

            impl Kind for $kind {
                const SPEC: &'static Spec = &$spec;
            }
        )*

        /// All of them.
        const ALL: &[&Spec] = &[$(&$spec),*];
    };
}

kinds! {
    NetperfUdpStream: NETPERF_UDP_STREAM;
    NetperfTcpStream: NETPERF_TCP_STREAM;
    UdpU1k: UDP_U_1K;
    UdpU4k: UDP_U_4K;
    SockperfUdpThroughput: SOCKPERF_UDP_THROUGHPUT;
    SockperfTcpThroughput: SOCKPERF_TCP_THROUGHPUT;
    SockperfUnderLoad: SOCKPERF_UNDER_LOAD;
    TcpRr: TCP_RR;
    Hackbench: HACKBENCH;
    Fsmark: FSMARK;
    PageFault1: PAGE_FAULT1;
    ListFree: LIST_FREE;
}

/// The experiment of this name.
pub(super) fn find(name: &str) -> Result<&'static Spec> {
    let names: Vec<&str> = ALL.iter().map(|spec| spec.name).collect();
    let found = ALL.iter().find(|spec| spec.name == name);
    found.copied().ok_or_else(|| nearest::unknown("experiment", name, &names))
}

/// A row of messages of `bytes` bytes.
fn message(
    name: &str,
    bytes: usize,
    quick: bool,
    scenario: impl Fn(&Settings) -> Scenario + 'static,
) -> Row {
    let bits = bytes as u64 * 8;
    Row { name: name.to_owned(), quick, bits, received: false, scenario: Box::new(scenario) }
}

const NETPERF_SIZES: [usize; 9] = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384];

/// Rows send-N, then recv-N.
fn netperf(scenario: impl Fn(&Settings, usize) -> Scenario + Copy + 'static) -> Vec<Row> {
    let row = |direction: &str, bytes: usize| {
        let quick = direction == "send" && [64, 4096].contains(&bytes);
        let name = format!("{direction}-{bytes}");
        let row = message(&name, bytes, quick, move |settings| scenario(settings, bytes));
        Row { received: direction == "recv", ..row }
    };
    let send = NETPERF_SIZES.map(|bytes| row("send", bytes));
    send.into_iter().chain(NETPERF_SIZES.map(|bytes| row("recv", bytes))).collect()
}

/// A burst that was asked for.
fn burst(settings: &Settings) -> Option<u32> {
    (settings.amount > 0).then_some(settings.amount)
}

const BURST: Option<Amount> = Some(Amount {
    what: "the number of packets that a sender sends before the receiver gets the CPU",
    usual: 0,
    quick: 0,
});

const NETPERF_UDP_STREAM: Spec = Spec {
    name: "netperf-udp-stream",
    defaults: [SLUB_PCP, "1,2", "1"],
    about: "Datagrams of 64 bytes to 16 KiB between processes (document 000)",
    models: "Models netperf UDP_STREAM over the loopback device of Linux 4.9. A packet is a head \
        of 256 bytes and a data buffer for payload, headers and shared info: a bucket of kmalloc \
        up to 8 KiB, pages above. A sender fills the receiver's socket (212,992 bytes of heads \
        and buckets), then the receiver, on the next CPU, takes and frees all of it. Nothing is \
        lost: a sender waits where the kernel would drop. SLUB's slabs of these buckets are \
        blocks of order 1 to 3, which order0 does not keep in its per-CPU lists. A task is a pair \
        of sender and receiver.",
    declared_cpus: 32,
    unit: Unit::Mbits,
    rows: || netperf(|settings, bytes| LINUX_4_9.udp_stream(bytes, burst(settings), settings.work)),
    amount: BURST,
    document: Document {
        number: "000",
        table: Table::Mmtests {
            machine: "2-socket modern machine",
            benchmark: "netperf-udp-stream",
            statistic: "Hmean",
            by_tasks: false,
        },
        finding: "lists for orders 1 to 3 gain 46 % for small packets and 23 % for the largest.",
    },
};

const NETPERF_TCP_STREAM: Spec = Spec {
    name: "netperf-tcp-stream",
    defaults: [SLUB_PCP, "1,2", "1"],
    about: "Streams of TCP in messages of 64 bytes to 16 KiB (document 000)",
    models: "Models netperf TCP_STREAM over the loopback device of Linux 4.9. Messages are \
        gathered in packets of 64 KiB: a head with its clone (512 bytes), a buffer of 2 KiB, and \
        page fragments, blocks of order 3, for the payload; of acknowledgements there is one for \
        two packets, made and freed by the receiver. Four packets are on their way, then the \
        receiver frees them. So small messages allocate next to nothing. A task is a pair of \
        sender and receiver.",
    declared_cpus: 32,
    unit: Unit::Mbits,
    rows: || netperf(|_, bytes| network::tcp_stream(bytes)),
    amount: None,
    document: Document {
        number: "000",
        table: Table::None,
        finding: "\"the results are similar for TCP_STREAM\" on the larger machine, no figures.",
    },
};

const UDP_U_1K: Spec = Spec {
    name: "udp-u-1k",
    defaults: [SLUB_PCP, "1,2", "1,2"],
    about: "Packets of 1 KiB between processes: both parts from slab caches (document 003)",
    models: "Models netperf UDP-U-1k on Linux 2.6.29, as udp-u-4k does, but the data buffer is an \
        object of kmalloc-2048: nothing is passed through to the page allocator, so what reaches \
        the zone are slabs that come and go. A burst of 98 packets fills a socket. A task is a \
        pair of client and server.",
    rows: || vec![udp_u(1024)],
    document: Document {
        number: "003",
        table: Table::None,
        finding: "\"netperf UDP-U-1k has less improvement with SLQB\" than UDP-U-4k, no figures.",
    },
    ..UDP_U_4K
};

const UDP_U_4K: Spec = Spec {
    name: "udp-u-4k",
    defaults: [SLUB_PCP, "1,2", "1,2"],
    about: "Packets of 4 KiB between processes: what the page allocator costs SLUB (document 003)",
    models: "Models netperf UDP-U-4k on Linux 2.6.29: on every CPU a client and a server that the \
        scheduler runs in turn. A client sends a burst; each packet takes a head of 256 bytes from \
        a slab cache and a data buffer of two pages from the page allocator (4 KiB and its headers \
        are above what kmalloc of that kernel kept in a cache). The server, on the next CPU, frees \
        the burst; 30 packets fill a socket (129,024 bytes). SLUB makes its slabs of heads of two \
        pages on 8 to 127 CPUs, so both are of order 1, which order0 does not keep in its per-CPU \
        lists: every packet takes the zone's lock twice. v2016 (document 000) and v6.7 keep them. \
        With --amount 1000 slabs of heads come and go too, with --declared-cpus 4 as single pages. \
        A task is a pair of client and server.",
    declared_cpus: 16,
    unit: Unit::Mbits,
    rows: || vec![udp_u(4096)],
    amount: BURST,
    document: Document {
        number: "003",
        table: Table::None,
        finding: "the page allocator is 23.9 % of SLUB's profile, and next to nothing of SLQB's.",
    },
};

fn udp_u(bytes: usize) -> Row {
    message("stream", bytes, true, move |settings| {
        LINUX_2_6_29.udp_stream(bytes, burst(settings), settings.work)
    })
}

const SOCKPERF_SIZES: [usize; 5] = [14, 100, 300, 500, 850];

fn sockperf(scenario: impl Fn(&Settings, usize) -> Scenario + Copy + 'static) -> Vec<Row> {
    let row = |bytes: usize| {
        let quick = bytes == 14;
        message(&bytes.to_string(), bytes, quick, move |settings| scenario(settings, bytes))
    };
    SOCKPERF_SIZES.into_iter().map(row).collect()
}

const SOCKPERF_UDP_THROUGHPUT: Spec = Spec {
    name: "sockperf-udp-throughput",
    defaults: [SLUB_PCP, "1", "1"],
    about: "Small datagrams between two processes (document 000)",
    models: "Models sockperf throughput by UDP on Linux 4.9: the path of netperf-udp-stream with \
        messages of 14 to 850 bytes, whose buffers are objects of 512 to 2,048 bytes. A task is a \
        pair of sender and receiver.",
    rows: || {
        sockperf(|settings, bytes| LINUX_4_9.udp_stream(bytes, burst(settings), settings.work))
    },
    document: Document {
        number: "000",
        table: Table::Mmtests {
            machine: "2-socket modern machine",
            benchmark: "sockperf-udp-throughput",
            statistic: "Hmean",
            by_tasks: false,
        },
        finding: "lists for orders 1 to 3 gain 36 to 41 %, with more variation.",
    },
    ..NETPERF_UDP_STREAM
};

const SOCKPERF_TCP_THROUGHPUT: Spec = Spec {
    name: "sockperf-tcp-throughput",
    defaults: [SLUB_PCP, "1", "1"],
    about: "Small messages on a stream of TCP (document 000, which lost 1.2 % at 14 bytes)",
    models: "Models sockperf throughput by TCP on Linux 4.9: the path of netperf-tcp-stream with \
        messages of 14 to 850 bytes, thousands of which share a packet. A policy for pages can \
        neither gain nor lose much here, and a loss counts as a result. A task is a pair of sender \
        and receiver.",
    rows: || sockperf(|_, bytes| network::tcp_stream(bytes)),
    document: Document {
        number: "000",
        table: Table::Mmtests {
            machine: "2-socket modern machine",
            benchmark: "sockperf-tcp-throughput",
            statistic: "Hmean",
            by_tasks: false,
        },
        finding: "a loss of 1.2 % at 14 bytes, gains of 1 to 6 % above, and more variation.",
    },
    ..NETPERF_TCP_STREAM
};

const SOCKPERF_UNDER_LOAD: Spec = Spec {
    name: "sockperf-under-load",
    defaults: [SLUB_PCP, "1", "1"],
    about: "How long small messages take at 10,000 to 50,000 a second, and at most (document 000)",
    models: "Models sockperf under-load on Linux 4.9 with messages of 14 bytes, by UDP and by TCP \
        without Nagle's algorithm, where each is a packet (a head with its clone, a buffer of 2 \
        KiB) and is acknowledged by one of its own. The sender keeps its pace by yielding the CPU; \
        latency runs from when a message is sent to when it was copied out and freed, and includes \
        waking the receiver, which is most of it. A task is a pair of sender and receiver. On a \
        machine with one CPU the two share it, and latency is the scheduler's.",
    declared_cpus: 32,
    unit: Unit::Latency,
    rows: under_load_rows,
    amount: None,
    document: Document {
        number: "000",
        table: Table::None,
        finding: "\"under load\" latency is generally lower with more lists, but not universally.",
    },
};

fn under_load_rows() -> Vec<Row> {
    const BYTES: usize = 14;
    let loads = [10_000, 24_000, 50_000].map(|rate| (rate.to_string(), Load::Rate(rate)));
    let loads = loads.into_iter().chain([("max".to_owned(), Load::Max)]);
    let both = loads.flat_map(|(name, load)| {
        let quick = load == Load::Rate(50_000);
        [
            message(&format!("udp-{name}"), BYTES, quick, move |_| {
                LINUX_4_9.udp_under_load(BYTES, load)
            }),
            message(&format!("tcp-{name}"), BYTES, quick, move |_| {
                network::tcp_under_load(BYTES, load)
            }),
        ]
    });
    let mut rows: Vec<Row> = both.collect();
    // By protocol, as the original prints them; the order of rates stays.
    rows.sort_by_key(|row| row.name.starts_with("tcp"));
    rows
}

const TCP_RR: Spec = Spec {
    name: "tcp-rr",
    defaults: [
        "slub+order0,slub-locked+order0,sheaf+order0,sheaf+v6.7",
        "2,4,6,8,10,12,14,16,18,20",
        "2,20",
    ],
    about: "Transactions of one byte each way over a sweep of threads (document 002)",
    models: "Models netperf TCP_RR on Linux 3.0: a request and an answer, each a head with its \
        clone (512 bytes) and a buffer of 1 KiB, allocated on one side and freed on the other; the \
        acknowledgements travel with them. The document's client and server are two machines with \
        network cards, whose drivers allocate too; here both ends are threads of one process. It \
        compares SLUB with SLAB on 16 CPUs of 4 nodes: the policy slab is not there yet, so the \
        slab policies that there are stand beside each other, and nodes are not modelled. A task \
        is a pair of client and server; the document's 16 to 160 threads are 1 to 10 per CPU. A \
        transaction switches threads twice, which is most of its time.",
    declared_cpus: 16,
    unit: Unit::Rate("trans/s"),
    rows: || vec![message("rr", 1, true, |_| network::tcp_rr())],
    amount: None,
    document: Document {
        number: "002",
        table: Table::TcpRr,
        finding: "SLAB is 1.8 % slower than SLUB with one thread per CPU, and 13.8 % faster with \
            ten. Its rows stand where there are as many tasks per CPU.",
    },
};

const HACKBENCH: Spec = Spec {
    name: "hackbench",
    defaults: [SLUB_PCP, "1,3,5,7,12,16", "1"],
    about: "Groups of 20 senders and 20 receivers over pipes and sockets (document 000)",
    models: "Models hackbench on Linux 4.9: in each group each of 20 senders sends messages of 100 \
        bytes to each of 20 receivers in turn. Through a socket a message is a head of 256 bytes \
        and a buffer of 512; a socket holds 278. Through a pipe, 40 messages share a page; a pipe \
        holds 16 pages, and keeps one that was read for its next writer; all that happens under \
        its mutex. Processes and threads differ in that threads count references to open files. \
        There is no stand-in for other work: copies, mutexes and the scheduler, which are nearly \
        all that the original does, are real here. A task is a group: 40 threads. The document's \
        machine with one socket is taken to have 4 CPUs, as its highest number of groups is 16.",
    declared_cpus: 4,
    unit: Unit::Seconds,
    rows: || {
        let row = |medium: Medium, name: &str, threads: bool| {
            let name = match medium {
                Medium::Pipe => format!("{name}-pipes"),
                Medium::Socket => format!("{name}-sockets"),
            };
            message(&name, 100, true, move |settings| {
                hackbench(medium, threads, u64::from(settings.amount))
            })
        };
        let of = |name: &str, threads: bool| {
            [row(Medium::Pipe, name, threads), row(Medium::Socket, name, threads)]
        };
        of("process", false).into_iter().chain(of("thread", true)).collect()
    },
    amount: Some(Amount {
        what: "the number of loops, of 400 messages a group each: the original's default is 100, \
            mmtests runs 20,000 in its configuration for schedulers, and which one the document \
            ran it does not say; its seconds cannot be compared with ours, their ratios can",
        usual: 100,
        quick: 2,
    }),
    document: Document {
        number: "000",
        table: Table::Mmtests {
            machine: "1-socket machine",
            benchmark: "hackbench",
            statistic: "Amean",
            by_tasks: true,
        },
        finding: "pipes within the noise, up to 14 % faster at 16 groups; sockets up to 3.4 % \
            slower.",
    },
};

const FSMARK: Spec = Spec {
    name: "fsmark",
    defaults: [SLUB_PCP, "1,2", "1"],
    about: "Creation of empty files: inodes and dentries, and no frees (document 000)",
    models: "Models fsmark with empty files on Linux 4.9: each file takes a dentry of 192 bytes \
        and an inode of 1 KiB, and every hundredth a block of a directory. Nothing is freed while \
        files are created; when a round is over, everything is reclaimed, which is not measured. \
        What a filesystem does besides is stood in for by copying 8 KiB, less than a real one \
        does, for the document gives no figure. A task is a process.",
    declared_cpus: 32,
    unit: Unit::Rate("files/s"),
    rows: || vec![message("files", 0, true, |settings| files::fsmark(settings.amount))],
    amount: Some(Amount {
        what: "the number of files of a round (mmtests: 500,000)",
        usual: 20_000,
        quick: 2_000,
    }),
    document: Document {
        number: "000",
        table: Table::None,
        finding: "no difference: \"the workload is only allocating\".",
    },
};

const PAGE_FAULT1: Spec = Spec {
    name: "page-fault1",
    defaults: ["slub+order0,slub+order0-310,sheaf+v6.7", "1,2,4", "2"],
    about: "Page faults of many tasks, on the zone's side (document 004)",
    models: "Models will-it-scale's page_fault1 on Linux 4.15: each task maps 128 MiB, touches \
        each of its 32,768 pages, and unmaps them. A fault takes a movable page and clears it, \
        and every 512 faults take a page of a page table; unmapping frees lists of 510 pages. \
        Each fault takes the address space's lock shared, mapping and unmapping exclusively: \
        processes have one each, threads share one. LRU lists are not modelled: of the document's \
        four kernels only the first two differ here, by the zone's batch and high mark, 31 and \
        186 (order0) or 310 and 1,860 (order0-310). The clock runs over whole rounds, not by \
        seconds. A task is a process or a thread.",
    declared_cpus: 44,
    unit: Unit::Rate("faults/s"),
    rows: || {
        [("processes", Space::Private), ("threads", Space::Shared)]
            .map(|(name, space)| {
                message(name, 0, true, move |settings| page_fault(settings.amount, space))
            })
            .into()
    },
    amount: Some(Amount {
        what: "the number of faults between mapping and unmapping",
        usual: 32_768,
        quick: 4_096,
    }),
    document: Document {
        number: "004",
        table: Table::PageFault,
        finding: "a larger batch gains 2 to 4 % for processes, 2 to 10 % for threads; the LRU lock \
            matters more.",
    },
};

const LIST_FREE: Spec = Spec {
    name: "list-free",
    defaults: ["slub+order0+per_page,slub+order0+one_section", "1", "1"],
    about: "Lists of 1 to 512 pages that are freed page by page or in one section (document 001)",
    models: "Models the freeing of page-cache pages when files are truncated, Linux 4.14 against \
        4.15: lists of single pages, freed with a critical section per page (per_page) or in two \
        passes with one (one_section). Only freeing is measured, and the time is for 1,024 pages, \
        a file of the document, whose times include all of unlink. Truncation frees in lists of \
        14. Interrupts off and on per page were what was saved; here that is a try-lock of the \
        per-CPU lists, which may cost less or more: the critical sections are counted beside it. \
        A task is a process.",
    declared_cpus: 16,
    unit: Unit::Micros { per: FILE_PAGES },
    rows: || {
        let row = |length: u32| {
            let quick = [1, 14, 512].contains(&length);
            message(&length.to_string(), 0, quick, move |settings| {
                list_free(length, settings.amount)
            })
        };
        [1, 2, 4, 8, 14, 16, 32, 64, 128, 256, 512].map(row).into()
    },
    amount: Some(Amount {
        what: "the number of files whose pages are taken and then freed at a time",
        usual: 64,
        quick: 8,
    }),
    document: Document {
        number: "001",
        table: Table::Mmtests {
            machine: "unnamed",
            benchmark: "sparsetruncate-tiny",
            statistic: "Amean",
            by_tasks: false,
        },
        finding: "unlinking a file of 4 MiB took 5.4 % less time; of that time freeing is a part.",
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_says_what_it_models() {
        for spec in ALL {
            assert!(spec.models.contains("Models "), "{}", spec.name);
            assert_eq!(find(spec.name).unwrap().about, spec.about);
            let rows = (spec.rows)();
            assert!(rows.iter().any(|row| row.quick), "{}", spec.name);
            let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            names.dedup();
            assert_eq!(names.len(), rows.len());
        }
        let error = find("udp-stream").err().unwrap().to_string();
        assert!(error.starts_with("no experiment udp-stream; did you mean "), "{error}");
    }
}

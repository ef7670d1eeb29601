//! `--aged`: heaps with a past.

use crate::compare::{compare, json, shared_object};
use crate::support::Workshop;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::Value;

/// Builds a list of blocks of many sizes, and keeps them to the end.
pub(crate) const KEEPS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next; long value; };
int main(void) {
    struct node *list = NULL;
    unsigned long state = 1, sum = 0;
    for (int i = 0; i < 30000; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        struct node *node = calloc(1, sizeof *node + state % 31 * (state >> 33) % 500);
        node->next = list;
        node->value = i;
        list = node;
    }
    for (int turn = 0; turn < 3; turn++)
        for (struct node *node = list; node; node = node->next) sum += node->value;
    printf("%lu\n", sum);
    return 0;
}
"#;

/// An allocator that takes the best of its first 400 free blocks, and neither splits nor merges
/// blocks. As long as nothing is freed, no allocator is faster.
pub(crate) const BEST_FIT: &str = r#"
#include <stddef.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
struct block { size_t size; struct block *next; };
static char *at, *end;
static struct block *freed;
void *malloc(size_t size) {
    size = (size + 15) & ~(size_t)15;
    struct block **place = &freed, **best = NULL, *block;
    for (int seen = 0; *place && seen < 400; seen++, place = &(*place)->next)
        if ((*place)->size >= size && (!best || (*place)->size < (*best)->size)) best = place;
    if (best) {
        block = *best;
        *best = block->next;
        return block + 1;
    }
    if ((size_t)(end - at) < size + sizeof *block) {
        size_t bytes = size + (64 << 20);
        void *more = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED) return NULL;
        at = more;
        end = at + bytes;
    }
    block = (struct block *)at;
    at += size + sizeof *block;
    block->size = size;
    return block + 1;
}
void free(void *pointer) {
    if (!pointer) return;
    struct block *block = (struct block *)pointer - 1;
    block->next = freed;
    freed = block;
}
void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}
void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (block && old) {
        size_t has = ((struct block *)old - 1)->size;
        memcpy(block, old, has < size ? has : size);
        free(old);
    }
    return block;
}
"#;

fn verdict<'a>(recording: &'a Value, heap: &str, metric: &str) -> &'a Value {
    let mut verdicts = recording["verdicts"].as_array().unwrap().iter();
    let is_it = |it: &&Value| {
        it["variant"] == "tired"
            && it["metric"] == metric
            && it["workload"].as_str().unwrap().ends_with(heap)
    };
    verdicts.find(is_it).unwrap()
}

#[test]
fn an_allocator_that_is_good_fresh_and_bad_aged_is_found() {
    let shop = Workshop::new();
    let program = shop.compile("keeps", KEEPS, &["-O1"]);
    let tired = shared_object(&shop, "tired", BEST_FIT);
    let file = shop.path("run.json");
    compare(&["--aged", "--runs=6", "--check-output", &format!("--allocators=glibc,{tired}")])
        .args(["--metric=cpu", "--json"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("\n## keeps heap=fresh\n").and(contains("\n## keeps heap=aged\n")))
        .stdout(contains("\nFresh and aged heaps (medians"))
        .stdout(predicate::str::is_match(r"\| keeps +\| cpu, m?s: fresh \|").unwrap())
        .stdout(contains("before `main`, which no time includes; "));
    let recording = json(&file);
    let [fresh, aged] = ["fresh", "aged"].map(|heap| verdict(&recording, heap, "cpu"));
    assert_eq!(aged["verdict"], "worse", "{aged}");
    let [of_fresh, of_aged] = [fresh, aged].map(|it| it["ratio"].as_f64().unwrap());
    assert!(of_aged > 2.0 * of_fresh, "{of_fresh} {of_aged}");
    assert_ne!(fresh["verdict"], "worse", "{fresh}");
    assert_eq!(recording["parameters"][1]["heap"], "aged");
    for sample in recording["samples"].as_array().unwrap() {
        let counters = &sample["measurement"]["counters"];
        let is_aged = sample["workload"].as_str().unwrap().ends_with("aged");
        assert_eq!(counters["ageing_kept_bytes"].is_u64(), is_aged, "{sample}");
        if is_aged {
            let [kept, peak, wall] = ["ageing_kept_bytes", "peak_bytes", "ageing_ns"]
                .map(|name| counters[name].as_u64().unwrap());
            assert!(kept > 500_000 && peak > 1_000_000 && wall > 0, "{sample}");
        }
    }
}

/// Asks for 32 and for 4,360 bytes 30,000 times.
const ONE_SIZE: &str = r#"
#include <stdlib.h>
int main(void) {
    static void *volatile kept[30000];
    for (int i = 0; i < 30000; i++) free(malloc(4360)), kept[i] = malloc(32);
    for (int i = 0; i < 30000; i++) free(kept[i]);
    return 0;
}
"#;

/// An allocator that ends its process if it is asked for neighbours of these sizes again and again.
const NO_NEIGHBOURS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char *at;
static int odd;
void *malloc(size_t size) {
    if ((size > 32 && size <= 48 || size > 4360 && size < 4700) && ++odd > 1000) abort();
    if (!at)
        at = mmap(0, 1ul << 34, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    at += (size + 15) & ~(size_t)15;
    return at - ((size + 15) & ~(size_t)15);
}
void free(void *block) {}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    return old ? memmove(block, old, size) : block;
}
"#;

/// glibc's blocks of 32 bytes have 40, and with their header 48: other allocators, which have a
/// class of 32 bytes, would be aged in a class that the program never uses.
#[test]
fn heaps_are_aged_by_what_the_program_asks_for() {
    let shop = Workshop::new();
    let program = shop.compile("one-size", ONE_SIZE, &["-O1"]);
    let picky = shared_object(&shop, "picky", NO_NEIGHBOURS);
    compare(&["--aged", "--runs=1", "--force", &format!("--allocators=glibc,{picky}")])
        .arg("--")
        .arg(&program)
        .assert()
        .success()
        .stdout(contains("\n## one-size heap=aged\n"));
}

#[test]
fn a_heap_that_cannot_be_aged_is_refused() {
    compare(&["--aged", "-L", "heap", "1", "--", "echo", "{heap}"])
        .assert()
        .code(2)
        .stdout(is_empty())
        .stderr(contains("-L heap: --aged takes this name; accepted: another name"));
    let mut command = compare(&["--aged", "--force", "--allocators=glibc", "--", "true"]);
    command
        .assert()
        .code(1)
        .stderr(contains("; a heap is aged by the sizes and lifetimes of 100 blocks or more"));
}

use quarry_core::heap::options::StackOptions;
use quarry_core::page_cache::*;
use quarry_core::slab::Sheaf;
use quarry_core::stack::{Stack, StackConfig};
use quarry_sys::os::Linux;
use quarry_sys::percpu::NativeSlots;
use std::hint::black_box;
pub struct C;
impl StackConfig for C {
    type PerCpu = NativeSlots;
    type Slab = Sheaf;
}
static STACK: Stack<C> = Stack::new();
#[inline(never)]
pub fn hit(cache: PageCacheRef<'static, Stack<C>>, id: MappingId, index: u64) -> u64 {
    match cache.get(id, index) {
        Some(p) => {
            let v = p.0 as u64;
            cache.unpin(p);
            v
        }
        None => 0,
    }
}
fn main() {
    STACK.init(&Linux, &StackOptions::default()).unwrap();
    let cache = STACK.page_cache().unwrap();
    let id = cache.create_mapping(&MappingOptions::default()).unwrap();
    let n: u64 = std::env::args().nth(1).map_or(1024, |a| a.parse().unwrap());
    for i in 0..n {
        let p = cache.read(id, i, &mut |_, _| Ok(())).unwrap();
        cache.unpin(p);
    }
    println!("slow before {}", cache.events()[Event::SlowLookups]);
    let mut best = f64::MAX;
    for _ in 0..30 {
        let t = std::time::Instant::now();
        let mut x = 1u64;
        let mut sum = 0;
        for _ in 0..100_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
            sum += hit(cache, id, black_box((x >> 33) % n));
        }
        black_box(sum);
        best = best.min(t.elapsed().as_nanos() as f64 / 100_000.0);
    }
    println!("get+unpin best {best:.1} ns; slow {}", cache.events()[Event::SlowLookups]);
    let t = std::time::Instant::now();
    let d = cache.truncate(id, 0);
    println!("truncate {} pages: {:.1} ns a page", d, t.elapsed().as_nanos() as f64 / d as f64);
}

//! Link options of the product's shared object, and the choice between its two fast paths.

#[path = "../../malloc/preload/build.rs"]
#[expect(dead_code, reason = "its own `main`")]
mod product;

fn main() {
    product::link(concat!(env!("CARGO_MANIFEST_DIR"), "/../../malloc/preload"));
    // The assembler fast path is for the default slab policy, and for policies with the same fast
    // path.
    const OF_ARRAYS: [&str; 2] = ["sheaf", "slam"];
    if option_env!("QUARRY_BUILD_SLAB").is_some_and(|slab| !OF_ARRAYS.contains(&slab)) {
        println!("cargo::rustc-cfg=quarry_portable");
    }
}

//! Each policy works without each of its optional mechanisms.

use crate::policies;
use quarry_eras::slab::Mechanisms;

macro_rules! stamp {
    ($($id:ident: $name:literal, $policy:ty;)+) => {$(
        #[test]
        fn $id() {
            for without in ["merging", "cpu-partial", "alien", "shared", "local-memory"] {
                for nodes in [1, 2] {
                    let mechanisms = Mechanisms::without(without).expect("it is a mechanism");
                    policies::random_operations_on_nodes::<$policy>(mechanisms.into(), nodes);
                }
            }
        }
    )+};
}
slab_policies!(stamp);

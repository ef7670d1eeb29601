//! POV-Ray deletes some of its objects as their base class, which has no virtual destructor: the
//! size that `operator delete` gets is the base's.

use super::installed;
use crate::support::{Run, scratch};
use std::fs;

const SCENE: &str = r"#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 2, -4> look_at <0, 0.5, 0> }
light_source { <3, 5, -4> rgb 1 }
plane { y, 0 pigment { checker rgb 1 rgb 0.3 } }
sphere { <0, 1, 0>, 1 pigment { rgb <0.8, 0.3, 0.2> } finish { reflection 0.3 } }
";

#[test]
fn povray_renders_the_same_picture() {
    let povray = installed("povray", "povray");
    let folder = scratch();
    fs::write(folder.join("scene.pov"), SCENE).expect("scratch is writable");
    let render = |run: Run, picture: &str| {
        let run = run.current_dir(&folder).args(["+Iscene.pov", "+W64", "+H48", "-D", "+FP"]);
        run.arg(format!("+O{picture}")).finish().success()
    };
    render(Run::bare(&povray), "without.ppm");
    let outcome = render(Run::new(&povray), "with.ppm");
    // The time precedes the pixels in the file.
    let pixels = |picture: &str| {
        let bytes = fs::read(folder.join(picture)).expect("a picture");
        bytes[bytes.len() - 64 * 48 * 3..].to_vec()
    };
    assert!(pixels("with.ppm") == pixels("without.ppm"), "the pictures differ\n{outcome}");
    assert!(outcome.stats().wrong_sizes() > 0, "POV-Ray has been mended\n{outcome}");
}

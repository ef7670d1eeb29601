#!/usr/bin/env bash
# Blender without a window: meshes divided, bent and joined, a file written and read, and a picture
# traced by Cycles on two threads. It links TBB's allocator and, on Debian, jemalloc.
source "$(dirname "$0")/common.sh"

about() {
    command -v blender > /dev/null || absent blender
    printf 'version: %s\n' "$(blender --version 2> /dev/null | sed -n '1p')"
    echo 'what: meshes under modifiers, a file written and read, a picture by Cycles; two threads'
    echo 'rounds: 4'
}

prepare() {
    cat > "$folder/work.py" << 'END'
import bpy, hashlib, os, sys
count, size, folder = int(sys.argv[-3]), int(sys.argv[-2]), sys.argv[-1]
bpy.ops.wm.read_factory_settings()
for at in range(count):
    place = (at % 5 - 2, at // 5 - 2, at % 3)
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=4, location=place)
    thing = bpy.context.object
    thing.modifiers.new("w", "WAVE")
    thing.modifiers.new("s", "SUBSURF").levels = 1
    thing.modifiers.new("b", "BEVEL").segments = 2
    bpy.ops.object.convert(target="MESH")
bpy.ops.object.select_all(action="SELECT")
bpy.ops.wm.save_as_mainfile(filepath=os.path.join(folder, "a.blend"))
bpy.ops.wm.open_mainfile(filepath=os.path.join(folder, "a.blend"))
sums = [round(sum(abs(v.co.x) for v in mesh.vertices)) for mesh in bpy.data.meshes]
print("meshes", len(sums), sum(sums), sum(len(mesh.polygons) for mesh in bpy.data.meshes))
scene = bpy.context.scene
scene.render.engine = "CYCLES"
scene.cycles.samples, scene.cycles.seed, scene.cycles.use_denoising = 8, 7, False
scene.render.threads_mode, scene.render.threads = "FIXED", 2
scene.render.resolution_x, scene.render.resolution_y = size, size
scene.render.resolution_percentage = 100
scene.render.image_settings.file_format = "BMP"
scene.render.filepath = os.path.join(folder, "a.bmp")
bpy.ops.render.render(write_still=True)
print("picture", os.path.getsize(scene.render.filepath))
END
}

run() {
    # jemalloc also has the operators of C++, and one allocator must serve these and malloc. glibc
    # has no operators: then those of the C++ library, preloaded here, come before jemalloc's.
    local -x HOME=$folder LD_PRELOAD=${LD_PRELOAD:-}:libstdc++.so.6
    blender --background --factory-startup -noaudio -t 2 --python-exit-code 7 \
        --python "$folder/work.py" -- "$(amount 9 2)" "$(amount 96 16)" "$folder" \
        > "$folder/log" 2>&1 || wrong "$(tail -n1 "$folder/log")"
    grep -E '^(meshes|picture)' "$folder/log"
    md5sum < "$folder/a.bmp"
}

drive "$@"

"""The command `quarry-heap` of gdb: the heap of a process on Quarry, or of its core file.

    gdb -x quarry-heap.py -p PID        gdb -x quarry-heap.py PROGRAM CORE

    (gdb) quarry-heap               the caches of malloc: slabs, objects in use, parked and free
    (gdb) quarry-heap ADDRESS       what an address is: its object or block, and the neighbours

It needs no symbols. The exported symbol `quarry_record` leads to the statistics page, which names
the version of the layout. The words that the fast paths read lie in the library's zeroed data: the
strides of the caches tell where, because no other table rises in these steps. The names below are
those of malloc/mm/src (stack/fast_path.rs, frame/table.rs, slab/bitmap_slabs) and of
malloc/sys/src/percpu/layout.rs.
"""

import struct

import gdb

MAGIC = int.from_bytes(b"QUARRYRC", "little")
VERSION = 3
FRAME = 4096
# Caches of `malloc`: numbers 1 to 72, in steps of 16 bytes at first, up to 32 KiB.
CLASSES, LARGEST = 72, 32768
# Words of `FastPath` after its skew.
FAST_ALIGN, SMALL_END, BASE, SPAN, KINDS = 256, 40, 48, 56, 64
KIND_STEP = 16
LAST_CACHE = 239
KINDS_OF_HEADS = {
    247: "memory of an own heap (quarry_heap)", 248: "a guard", 249: "a block of pages",
    250: "a freed block whose pages fault", 251: "a sample of the heap profile",
    252: "a page of the page cache", 253: "a block", 254: "a mapping",
}
# Kinds whose link is a length in frames.
WITH_LENGTH = (249, 250, 253, 254)
IN_ZONE, IN_PCP = 1 << 7, 1 << 6
SLOT_BYTES, CELL_BYTES, MOST_CPUS = 1 << 18, 32, 1024
# Bits of a slab's word: free objects, or a folded slab's objects in use.
FREE_MASK, NAMED, NUMBER_BITS = (1 << 11) - 1, 5, 10
FOLDED = FREE_MASK - NAMED


def read(address, count):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, count))
    except (gdb.MemoryError, OverflowError):
        return None


def word(address, form="Q"):
    found = read(address, struct.calcsize(form))
    return struct.unpack("<" + form, found)[0] if found else 0


class Heap:
    """The heap as it is now. Other threads may run on if the process was not stopped."""

    def __init__(self):
        symbol = self.symbol()
        # A process that allocates little has made no page, or has published nothing in it.
        magic, version = word(word(symbol)), word(word(symbol) + 8, "I")
        if magic == MAGIC and version != VERSION:
            raise gdb.GdbError("quarry-heap: the statistics page has version %d; accepted: %d, of "
                               "the Quarry that this script came with" % (version, VERSION))
        strides, fast = self.find_fast_path(symbol)
        self.strides = struct.unpack("<256I", read(strides, 1024))
        self.geometry = list(struct.iter_unpack("<QII", read(strides + 1024, 4096)))
        self.base, self.span, self.kinds = (word(fast + at) for at in (BASE, SPAN, KINDS))
        self.links = self.kinds + 2 * (self.base // FRAME)
        self.slots = self.find_slots(fast, strides)
        self.parked = {}
        for cpu, slot in enumerate(self.slots):
            for cache in range(1, CLASSES + 1):
                for place in self.array(slot, cache):
                    self.parked[place] = cpu

    @staticmethod
    def symbol():
        try:
            return int(gdb.parse_and_eval("(unsigned long)&quarry_record"))
        except gdb.error:
            raise gdb.GdbError("quarry-heap: no symbol quarry_record: the program is not on Quarry")

    @staticmethod
    def tables_of_strides(near):
        """Tables of the classes' sizes in the object that has the symbol `near`."""
        # A page at a time: a core file may lack some.
        start = near // FRAME * FRAME - (1 << 18)
        data = b"".join(read(start + at, FRAME) or bytes(FRAME) for at in range(0, 1 << 19, FRAME))
        begin = struct.pack("<9I", *range(0, 144, 16))
        at = data.find(begin)
        while at >= 0:
            table = struct.unpack_from("<%dI" % (CLASSES + 1), data, at)
            # The geometry of the caches follows: 2^64 divided by the first stride begins it.
            is_followed = data[at + 1024 + 16:at + 1024 + 24] == struct.pack("<Q", 1 << 60)
            if is_followed and table[CLASSES] == LARGEST and list(table) == sorted(set(table)):
                yield start + at
            at = data.find(begin, at + 4)

    @classmethod
    def find_fast_path(cls, symbol):
        """The addresses of the table of strides and of the words before it."""
        for strides in cls.tables_of_strides(symbol):
            aligned = strides // FAST_ALIGN * FAST_ALIGN
            for fast in range(aligned, aligned - (1 << 15), -FAST_ALIGN):
                base, kinds = word(fast + BASE), word(fast + KINDS)
                is_one = base and base % FRAME == 0 and word(fast + SMALL_END) in (0, LARGEST + 1)
                if is_one and kinds and read(kinds + 2 * (base // FRAME), 2):
                    return strides, fast
        raise gdb.GdbError("quarry-heap: no heap found: it has not been used yet, the library has "
                           "another slab policy, or the core file lacks the library's data")

    def find_slots(self, fast, strides):
        """The addresses of the CPUs' slots: no other word leads to cells that look like theirs."""
        for at in range(fast + KINDS + 8, strides, 8):
            base = word(at)
            if base == 0 or base % FRAME or read(base, 8) is None:
                continue
            slots = []
            for slot in range(base, base + MOST_CPUS * SLOT_BYTES, SLOT_BYTES):
                if read(slot, 8) is None:
                    break
                slots.append(slot)
            classes = range(1, CLASSES + 1)
            if any(self.is_opened(slot, array) for slot in slots for array in classes):
                return slots
        return []

    @staticmethod
    def is_opened(slot, array):
        bounds, place = word(slot + array * CELL_BYTES + 8), word(slot + array * CELL_BYTES + 24)
        return place != 0 and bounds == place & 0xFFFFFFFF ^ 0xFFFF

    def array(self, slot, array):
        """The objects that a CPU has parked."""
        if not self.is_opened(slot, array):
            return ()
        begin = word(slot + array * CELL_BYTES + 24) & 0xFFFF
        top = word(slot + array * CELL_BYTES) & 0xFFFF
        found = read(slot + 8 * begin, 8 * max(top - begin, 0)) or b""
        return [place for (place,) in struct.iter_unpack("<Q", found)]

    def kind(self, frame):
        return word(self.kinds + 2 * frame, "H") // KIND_STEP

    def link(self, frame):
        return word(self.links - 4 * (frame - self.base // FRAME + 1), "I")

    def geometry_of(self, cache):
        """Bytes of a slab, offset of the first object, bytes of an object, number of objects."""
        _, mask, first = self.geometry[cache]
        stride = self.strides[cache]
        return mask + 1, first, stride, (mask + 1 - first) // stride

    def free_bits(self, cache, slab):
        """A number whose bit n is set if object n of a slab is free in its slab."""
        size, first, _, objects = self.geometry_of(cache)
        pair = self.link(slab // FRAME + 3) | self.link(slab // FRAME + 2) << 32
        if objects <= 64:
            return pair
        if pair & FREE_MASK >= FOLDED:
            bits = (1 << objects) - 1
            for place in range((pair & FREE_MASK) - FOLDED):
                number = pair >> (11 + place * NUMBER_BITS) & ((1 << NUMBER_BITS) - 1)
                bits &= ~(1 << number)
            return bits
        words = (objects + 63) // 64
        return int.from_bytes(read(slab + first - 8 * words, 8 * words) or b"", "little")

    def state(self, bits, place, number):
        if bits >> number & 1:
            return "free"
        if place in self.parked:
            return "parked by CPU %d" % self.parked[place]
        return "in use, or parked in a barn"

    def caches(self):
        """For each cache: slabs, objects in them, those free in slabs, those parked by CPUs."""
        counts = {}
        first, frames = self.base // FRAME, self.span // FRAME
        kinds = read(self.kinds + 2 * first, 2 * frames) or b""
        frame, entries = 0, [kind // KIND_STEP for (kind,) in struct.iter_unpack("<H", kinds)]
        while frame < len(entries):
            cache = entries[frame]
            if not 0 < cache <= CLASSES:
                frame += 1
                continue
            size, _, _, objects = self.geometry_of(cache)
            count = counts.setdefault(cache, [0, 0, 0, 0])
            bits = self.free_bits(cache, (first + frame) * FRAME)
            count[0] += 1
            count[1] += objects
            count[2] += bin(bits).count("1")
            frame += size // FRAME
        for place in self.parked:
            cache = self.kind(place // FRAME)
            if cache in counts:
                counts[cache][3] += 1
        return counts


def print_caches(heap):
    end = heap.base + heap.span
    print("frames %#x to %#x, CPUs that park objects: %d"
          % (heap.base, end, len(set(heap.parked.values()))))
    row = "%-14s %8s %10s %10s %10s %10s"
    print(row % ("NAME", "SLABS", "OBJECTS", "NOT FREE", "PARKED", "FREE"))
    for cache, (slabs, objects, free, parked) in sorted(heap.caches().items()):
        name = "malloc-%d" % heap.strides[cache]
        print(row % (name, slabs, objects, objects - free - parked, parked, free))
    print("NOT FREE: objects that the program has, and those in barns. PARKED: held by CPUs.")


def print_object(heap, address, cache):
    size, first, stride, objects = heap.geometry_of(cache)
    slab = address // size * size
    name = "malloc-%d" % stride
    print("slab %#x of %s: %d frames, %d objects" % (slab, name, size // FRAME, objects))
    if address < slab + first:
        print("%#x is in its header: no object" % address)
        return
    number = min((address - slab - first) // stride, objects - 1)
    bits = heap.free_bits(cache, slab)
    start = slab + first + number * stride
    for near in range(max(number - 1, 0), min(number + 2, objects)):
        place = slab + first + near * stride
        mark = "=>" if near == number else "  "
        offset = " (+%d)" % (address - start) if near == number and address > start else ""
        state = heap.state(bits, place, near)
        print("%s object %d at %#x: %s%s" % (mark, near, place, state, offset))


def print_block(heap, address):
    frame, first = address // FRAME, heap.base // FRAME
    head = frame
    while head >= first and heap.kind(head) == 0:
        head -= 1
    kind = heap.kind(head) if head >= first else 0
    if kind in WITH_LENGTH and frame < head + heap.link(head):
        print("%s of %d frames at %#x" % (KINDS_OF_HEADS[kind], heap.link(head), head * FRAME)
              + (" (+%d)" % (address - head * FRAME) if address > head * FRAME else ""))
    elif kind > LAST_CACHE and head == frame:
        print("%s at %#x" % (KINDS_OF_HEADS.get(kind, "of kind %d" % kind), head * FRAME))
    else:
        print("free frame: no allocation holds it")


class QuarryHeap(gdb.Command):
    """Look into the heap of a process on Quarry: quarry-heap [ADDRESS]."""

    def __init__(self):
        super().__init__("quarry-heap", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, _from_terminal):
        heap = Heap()
        if not argument:
            return print_caches(heap)
        address = int(gdb.parse_and_eval("(unsigned long)(%s)" % argument))
        if not heap.base <= address < heap.base + heap.span:
            print("%#x is no memory of Quarry's heap (%#x to %#x)"
                  % (address, heap.base, heap.base + heap.span))
            return None
        cache = heap.kind(address // FRAME)
        if 0 < cache <= CLASSES:
            return print_object(heap, address, cache)
        if CLASSES < cache <= LAST_CACHE:
            print("object of cache %d, which the program has made" % cache)
            return None
        return print_block(heap, address)


QuarryHeap()

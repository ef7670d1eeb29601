//! `sheaf`, the default policy: arrays per CPU, a barn of sheaves, slabs with bitmaps (Linux 6.18).
//!
//! A CPU's array has room for two sheaves, the kernel's `main` and `spare`. A CPU whose array is
//! empty takes a sheaf from the barn, or up to a sheaf from the slabs. A CPU whose array is full
//! puts a sheaf into the barn, or into the slabs. A whole sheaf moves between CPU and barn in one
//! critical section and one restartable sequence.
//!
//! A CPU's array becomes larger in two cases: the program works in bursts larger than two sheaves,
//! or the CPU often exchanges sheaves with the barn. A drain makes the array as small as before.

use super::barns::home;
use super::bitmap_slabs::{BitmapSlabs, SlabsView};
use super::buffer::{is_among, sort_out, written};
use super::cache::{Cache, CacheId, SlabLayout};
use super::cache_limits::SLOT_MOST;
use super::context::{CacheIn, PIECE, SlabContext};
use super::misuse::not_in_use;
use super::params::CacheParams;
use super::policy::SlabPolicy;
use super::reclaim::{Idle, Reclaim, SparseWalk};
use super::sheaf_cache::{Sheaf, SheafView};
use super::stats::{Count::*, Exchanges, Occupancy, SlabStats};
use super::width::{Means, Miss, Width};
use crate::frame::Pfn;
use core::mem::MaybeUninit;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{ArrayId, Arrays, LOOKED_AT, Object, Push, SlotIndex, WIDE_PLACES};

/// Maximum number of bytes of objects in all wide arrays of a slot.
const SLOT_WIDE_BYTES: usize = 4 << 20;

impl<P: Arrays> SheafView<'_, P> {
    /// Puts objects into the running CPU's array; or else into barns or slabs, and returns false.
    fn park(&self, objects: &[Object]) -> bool {
        let parked = self.context.percpu.push_batch(self.array(), objects);
        if parked {
            self.count(BatchedIn, objects.len());
        } else {
            self.put_away(objects);
        }
        parked
    }

    /// Puts objects into the barns of their nodes if there is room, else into the slabs.
    pub fn put_away(&self, objects: &[Object]) {
        let (context, barns) = (self.context, &self.own.barns);
        let mut rest = objects;
        while let Some(&first) = rest.first() {
            let (mut count, (mut number, mut barn)) = (rest.len(), self.barn());
            if barns.nodes() > 1 {
                let node = home(context, first);
                count = rest.iter().take_while(|object| home(context, **object) == node).count();
                number = number - number % barns.nodes() + usize::from(node.0);
                barn = barns.of(number);
            }
            let (alike, behind) = rest.split_at(count);
            let most = self.barn_most();
            if barn.put(context.metadata, context.limits, alike, most) {
                self.note_filled(number, barn);
            } else {
                self.slabs().free(alike, self.own.keep_empty());
            }
            rest = behind;
        }
    }

    /// Moves a sheaf from the running CPU's array into the barn of its node, and frees `object`,
    /// for which the array had no room. Objects of other nodes go to their nodes' barns. Returns
    /// false, and does nothing, if the array has less than a sheaf or the barn has no room. If the
    /// stack has several nodes, moves at most [`PIECE`] objects.
    #[inline(never)]
    fn bring_in(&self, object: Object, sheaf: usize) -> bool {
        let (context, barns, array) = (self.context, &self.own.barns, self.array());
        let (percpu, (number, barn)) = (context.percpu, self.barn());
        let sheaf = if barns.nodes() > 1 { sheaf.min(PIECE - 1) } else { sheaf };
        let mut away = [MaybeUninit::uninit(); PIECE];
        let (mut is_double, mut has_left, mut strangers) = (false, false, 0);
        let most = (sheaf + 1, self.barn_most());
        barn.bring_in(context.metadata, context.limits, most, |room, exchanges| {
            if !percpu.pop_batch(array, &mut room[..sheaf]) {
                return 0;
            }
            has_left = true;
            // SAFETY: pop_batch wrote all `sheaf` elements.
            let objects = unsafe { written(room, sheaf) };
            // A full array refuses a push without a check for a double free: so check here.
            is_double = is_among(objects, object);
            exchanges.free_slow += 1;
            exchanges.batched_out += sheaf as u64;
            let mut count = sheaf;
            if percpu.push_batch(array, &[object]) {
                exchanges.batched_in += 1;
            } else {
                room[sheaf].write(object);
                count += 1;
            }
            if barns.nodes() > 1 {
                let node = number % barns.nodes();
                let is_ours = |object| usize::from(home(context, object).0) == node;
                // SAFETY: the first `count` elements are written.
                strangers = unsafe { sort_out(&mut room[..count], &mut away, is_ours) };
            }
            count - strangers
        });
        if is_double {
            not_in_use(self.cache, object);
        }
        self.note_filled(number, barn);
        if has_left {
            // SAFETY: sort_out wrote the first `strangers` elements.
            self.put_away(unsafe { written(&away, strangers) });
        }
        has_left
    }

    /// Notes that the running CPU's array, in `slot`, was found full (`full`) or empty. May give
    /// the array more room, but more than a narrow array's (two sheaves) only if `may_widen`.
    #[inline(never)]
    pub fn note_miss(&self, slot: SlotIndex, full: bool, may_widen: bool) -> Miss {
        let (context, own, place) = (self.context, self.own, (slot, self.array()));
        let mut means = Means {
            limits: &|| context.limits.rooms(context.zones, context.percpu.area()),
            may_widen: &|objects| may_widen && self.has_width_left(slot, objects),
            take: &mut |array, objects| self.policy.take_back(context, array, objects),
        };
        let barn_has_some = self.barn().1.bytes() > 0;
        let miss = own.width.note_miss(context.percpu, place, full, barn_has_some, &mut means);
        if miss.was_refused {
            context.limits.note_refused(context.zones, context.percpu.area(), slot);
        }
        miss
    }

    /// Returns whether an object belongs to the node of the running CPU.
    fn is_at_home(&self, object: Object) -> bool {
        let (context, nodes) = (self.context, self.own.barns.nodes());
        nodes == 1 || self.barn().0 % nodes == usize::from(home(context, object).0)
    }

    /// Gives objects to their slabs.
    pub fn free_to_slabs(&self, objects: &[Object]) {
        self.slabs().free(objects, self.own.keep_empty());
        self.context.give_back_emptied();
    }

    /// Returns whether the bounds of a slot allow it a wide array of this cache with room for
    /// `objects`. Takes no lock.
    fn has_width_left(&self, slot: SlotIndex, objects: usize) -> bool {
        let (context, area) = (self.context, self.context.percpu.area());
        let (mut places, mut held) = (0, 0);
        for owner in area.wide_owners(slot).filter(|owner| *owner != self.cache.id().index()) {
            let cache = context.caches.get(CacheId::new(owner));
            let bytes = |cache: &Cache| area.room(slot, cache.id().array()) * cache.stride();
            places += 1;
            held += cache.map_or(0, bytes);
        }
        places < WIDE_PLACES && held + objects * self.cache.stride() <= SLOT_WIDE_BYTES
    }

    /// Frees an object if array and barn are full, or if the array was drained after the miss.
    #[cold]
    fn free_past_barn(&self, object: Object, sheaf: usize) {
        self.count(FreeSlow, 1);
        let percpu = self.context.percpu;
        let room = percpu.area().room(percpu.current(), self.array());
        let mut left = sheaf.min(room.div_ceil(2));
        while left > 0 && self.empty_array(object, left.min(PIECE)) {
            left -= left.min(PIECE);
        }
        self.park(&[object]);
    }

    /// Moves `most` objects from the running CPU's array to the slabs; returns false if it has
    /// fewer. Aborts if `object` is one of them: it is freed twice.
    #[inline(never)]
    fn empty_array(&self, object: Object, most: usize) -> bool {
        let mut buffer = [MaybeUninit::uninit(); PIECE];
        let taken = self.context.percpu.pop_batch(self.array(), &mut buffer[..most]);
        if taken {
            self.count(BatchedOut, most);
            // SAFETY: pop_batch wrote all `most` elements.
            let objects = unsafe { written(&buffer, most) };
            if is_among(objects, object) {
                not_in_use(self.cache, object);
            }
            self.slabs().free(objects, self.own.keep_empty());
        }
        taken
    }

    /// Serves a request, which has found the array empty, from the barn or else from the slabs.
    /// Calls `taken` with the objects that enter the array. After taking memory that was never
    /// touched, shrinks barns to their bound under pressure, and calls `pressed`.
    #[inline]
    pub fn alloc_missed(
        &self,
        miss: Miss,
        taken: impl Fn(&[Object]),
        pressed: impl FnOnce(),
    ) -> Option<Object> {
        let sheaf = miss.sheaf.max(1);
        let (context, array) = (self.context, self.array());
        let accept = |rest: &[Object]| {
            taken(rest);
            context.percpu.push_batch(array, rest)
        };
        self.reach_barn()
            .and_then(|(barn, reached)| barn.hand_out_of(reached, context.limits, sheaf, accept))
            .or_else(|| self.alloc_from_slabs(sheaf, &taken, pressed))
    }

    /// Frees an object for which the array was full: into the array if it grows, else barn or slab.
    #[inline]
    pub fn free_missed(&self, object: Object, miss: Miss) {
        let Miss { sheaf, has_grown, .. } = miss;
        if has_grown {
            match self.context.percpu.push(self.array(), object) {
                // The array has counted this free.
                Push::Stored => return,
                Push::Duplicate => not_in_use(self.cache, object),
                Push::Refused => {}
            }
        }
        if sheaf == 0 {
            self.count(FreeSlow, 1);
            return self.put_away(&[object]);
        }
        if !self.bring_in(object, sheaf) {
            self.free_past_barn(object, sheaf);
        }
    }

    fn alloc_from_slabs(
        &self,
        sheaf: usize,
        taken_too: impl Fn(&[Object]),
        pressed: impl FnOnce(),
    ) -> Option<Object> {
        let (own, slabs_of) = (self.own, self.slabs());
        let (mut left, mut answer, mut is_fresh) = (self.refill().min(sheaf), None, false);
        // Bounds the number of new slabs, because other CPUs may take their objects.
        let mut slabs = left.div_ceil(self.cache.objects() as usize);
        while left > 0 {
            let (taken, parked) =
                self.take_pieces(&slabs_of, left, slabs > 0, &mut answer, &taken_too);
            if !parked || 2 * taken >= left {
                break;
            }
            left -= taken;
            // The buffer of `take_pieces` is off the stack here: making a slab may need much stack.
            let objects = left.max(own.width.narrow_sheaf());
            match slabs_of.grow(objects) {
                Some(fresh) => {
                    is_fresh |= fresh;
                    slabs = slabs.saturating_sub(1);
                }
                None if slabs == 0 => break,
                None => slabs = 0,
            }
        }
        if is_fresh {
            self.policy.relieve_barns(self.context);
            pressed();
        }
        self.count(AllocSlow, usize::from(answer.is_some()));
        answer
    }

    /// Takes up to `most` objects from the existing slabs: one for `answer` if that is `None`, the
    /// others for the array. Returns their number, and whether the array had room for all.
    fn take_pieces(
        &self,
        slabs: &SlabsView<'_, P>,
        most: usize,
        wants_all: bool,
        answer: &mut Option<Object>,
        taken_too: &impl Fn(&[Object]),
    ) -> (usize, bool) {
        slabs.take_pieces(most, wants_all, |piece, is_last| {
            let mut rest = piece;
            let mut answer_if = |is_time, rest: &mut &[Object]| {
                if is_time
                    && answer.is_none()
                    && let Some((object, others)) = rest.split_last()
                {
                    (*answer, *rest) = (Some(*object), others);
                }
            };
            answer_if(is_last, &mut rest);
            taken_too(rest);
            if rest.is_empty() || self.context.percpu.push_batch(self.array(), rest) {
                self.count(BatchedIn, rest.len());
                return 0;
            }
            answer_if(true, &mut rest);
            rest.len()
        })
    }

    #[inline(never)]
    fn empty(&self) {
        while self.empty_barns(u32::MAX) > 0 {}
        self.own.barns.all().for_each(|barn| barn.trim_storage(self.context.metadata, false));
        self.slabs().trim(0);
    }

    /// Gives the barns' unneeded objects to the slabs; returns whether there were any.
    fn trim_barns(&self) -> bool {
        let mut any = false;
        for barn in self.own.barns.all() {
            let mut left = barn.unneeded();
            while left > 0 {
                match self.empty_barn(barn, left, self.own.keep_empty()) {
                    0 => break,
                    taken => left -= taken,
                }
                any = true;
            }
            barn.trim_storage(self.context.metadata, false);
        }
        any
    }

    /// The cache's counts, including the exchanges `others`, which neither barns nor slabs counted.
    #[must_use]
    pub fn stats_with(&self, others: Exchanges) -> SlabStats {
        let mut stats = SlabStats::default();
        self.slabs().add_stats(&mut stats);
        let usage = self.context.percpu.usage(self.array());
        stats.parked_objects = usage.level;
        self.own.barns.fill(usage, others, &mut stats);
        stats
    }
}

impl Sheaf {
    fn take_back<P: Arrays>(
        &self,
        context: &SlabContext<'_, P>,
        array: ArrayId,
        objects: &[Object],
    ) {
        let cache = context.caches.get(CacheId::new(array.index())).expect("it has objects");
        context.give_back_emptied();
        let view = self.of(context.with(cache));
        view.count(BatchedOut, objects.len());
        view.free_to_slabs(objects);
    }

    /// Drains the arrays of idle slots and caches, and of the largest slot if room is short, after
    /// one membarrier. Returns whether they held objects.
    #[inline(never)]
    fn empty_slots<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> bool {
        let area = context.percpu.area();
        // If room is short, the slot with the most room gives it up, for slots that started later.
        let is_too_much = area.all_room() > context.limits.rooms(context.zones, area).all;
        let is_short = context.limits.was_crowded() || is_too_much;
        let largest = || area.awake().max_by_key(|slot| area.slot_room(*slot));
        let largest = if is_short { largest() } else { None };
        let mut any = false;
        let which = |slot: SlotIndex, array: ArrayId| {
            (idle.slots)(slot)
                || largest == Some(slot)
                || (idle.caches)(CacheId::new(array.index()))
        };
        context.percpu.drain_where(&which, &mut |array, objects| {
            any = true;
            self.take_back(context, array, objects);
        });
        any
    }

    #[inline(never)]
    fn reclaim_idle<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> u32 {
        // The slots come first, for all caches at once, because each drain costs a barrier.
        let mut shrunk = u32::from(self.empty_slots(context, idle));
        for cache in context.each_cache() {
            if !(idle.caches)(cache.id()) {
                let view = self.at(cache);
                view.own.slabs.groups.join(context.limits.cpus(context.percpu.area()));
                shrunk += u32::from(view.trim_barns());
            } else if self.stats(cache).has_spare() {
                self.at(cache).empty();
                self.at(cache).own.slabs.groups.join(1);
                shrunk += 1;
            }
        }
        shrunk
    }

    /// Checks the equations. `others` are bytes in `limits.barns` that no barn has announced. Fails
    /// with the first one that does not hold.
    pub fn validate_with<P: Arrays>(
        &self,
        context: &SlabContext<'_, P>,
        others: usize,
    ) -> Result<(), Broken> {
        let area = context.percpu.area();
        area.validate_room(SLOT_MOST)?;
        let (mut barns, mut empty) = (others, 0);
        for cache in context.each_cache() {
            let view = self.at(cache);
            view.own.barns.validate()?;
            empty += view.slabs().validate()?;
            barns += view.own.barns.bytes();
        }
        let (check, limits) = (Check::of("cache limits"), context.limits);
        check.equal(limits.barns() as u64, barns as u64, "barns = sum of bytes announced")?;
        check.equal(limits.empty() as u64, empty as u64, "empty = bytes of empty slabs of caches")
    }
}

impl<P: Arrays> SlabPolicy<P> for Sheaf {
    const NAME: &'static str = "sheaf";
    const NEW: Self = Self::new();

    #[inline(always)]
    fn seems_parked(percpu: &P, id: CacheId, object: Object) -> bool {
        percpu.seems_on_top(id.array(), object)
    }

    fn is_parked(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        let view = self.of(cache);
        let mut buffer = [MaybeUninit::uninit(); LOOKED_AT];
        (1..=LOOKED_AT).rev().any(|objects| {
            let taken = &mut buffer[..objects];
            if !cache.context.percpu.pop_batch(cache.id().array(), taken) {
                return false;
            }
            view.count(BatchedOut, objects);
            // SAFETY: pop_batch wrote all `objects` elements.
            let taken = unsafe { written(taken, objects) };
            view.park(taken);
            taken.contains(&object)
        })
    }

    fn activity(&self, cache: CacheIn<'_, P>) -> Option<u64> {
        let usage = cache.context.percpu.usage(cache.id().array());
        Some(usage.operations.wrapping_add(usage.level << 48))
    }

    fn layout(params: &CacheParams, _declared_cpus: u32) -> SlabLayout {
        BitmapSlabs::layout(params)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        let context = cache.context;
        let own = self.at(cache).own;
        own.barns.make(context)?;
        own.slabs.make_for_nodes(own.barns.nodes(), context.metadata)?;
        let (area, array) = (context.percpu.area(), cache.id().array());
        let (narrow, wide) = Width::of(cache.stride());
        context.define_array(&cache, narrow)?;
        area.define_wide(array, wide);
        if cache.is_reused() {
            self.set_up(&cache);
            own.start(context.percpu.usage(array).operations);
        }
        // Tests ask for groups from the start: twice as many for each.
        for _ in 0..context.setup.options.0 {
            own.slabs.groups.note_contended();
            self.of(cache).split_for(usize::MAX);
        }
        Ok(())
    }

    #[inline(always)]
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object> {
        percpu.pop(id.array())
    }

    #[inline(always)]
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        _slab: impl FnOnce() -> Pfn,
    ) -> Push {
        percpu.push(id.array(), object)
    }

    fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        let context = cache.context;
        if let Some(object) = context.percpu.pop_unregistered(cache.id().array()) {
            return Some(object);
        }
        let view = self.of(cache);
        let miss = view.note_miss(context.percpu.current(), false, true);
        view.alloc_missed(miss, |_| {}, || {})
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        let context = cache.context;
        match context.percpu.push_unregistered(cache.id().array(), object) {
            Push::Stored => return,
            Push::Duplicate => not_in_use(&cache, object),
            Push::Refused => {}
        }
        let view = self.of(cache);
        // A wide array would keep many objects from their node.
        let may_widen = view.is_at_home(object);
        let miss = view.note_miss(context.percpu.current(), true, may_widen);
        view.free_missed(object, miss);
        view.bound_barns();
    }

    fn alloc_bulk(&self, cache: CacheIn<'_, P>, out: &mut [MaybeUninit<Object>]) -> usize {
        let context = cache.context;
        let view = self.of(cache);
        let own = view.own;
        let sheaf = own.width.narrow_sheaf();
        let (mut fast, mut taken) = (0, 0);
        while taken < out.len() {
            let end = out.len().min(taken + sheaf);
            let piece = &mut out[taken..end];
            if context.percpu.pop_batch(cache.id().array(), piece) {
                fast += piece.len();
                taken = end;
                continue;
            }
            match view.barn().1.take(context.limits, piece) {
                0 => break,
                count => taken += count,
            }
        }
        if taken < out.len() {
            let (more, is_fresh) = view.slabs().alloc(sheaf, &mut out[taken..]);
            taken += more;
            if is_fresh {
                self.relieve_barns(context);
            }
        }
        view.count(BatchedOut, fast);
        view.count(BulkAlloc, fast);
        view.count(AllocSlow, taken - fast);
        taken
    }

    unsafe fn free_bulk(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        let context = cache.context;
        let view = self.of(cache);
        let (percpu, array) = (context.percpu, cache.id().array());
        if percpu.area().room(percpu.current(), array) == 0 {
            let limits = context.limits.rooms(context.zones, percpu.area());
            percpu.make_room(array, &limits, &mut |array, objects| {
                self.take_back(context, array, objects);
            });
        }
        let mut fast = 0;
        for sheaf in objects.chunks(view.own.width.narrow_sheaf()) {
            if view.park(sheaf) {
                fast += sheaf.len();
            }
            context.give_back_emptied();
        }
        view.bound_barns();
        view.count(BulkFree, fast);
        view.count(FreeSlow, objects.len() - fast);
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        if let Reclaim::Idle(idle) = what {
            return self.reclaim_idle(context, idle);
        }
        let is_meant = |id| !matches!(what, Reclaim::Cache(only) if only.id() != id);
        let any = self.empty_slots(context, Idle { slots: &|_| false, caches: &is_meant });
        let meant = context.each_cache().filter(|cache| is_meant(cache.id()));
        meant.for_each(|cache| self.at(cache).empty());
        u32::from(any)
    }

    fn relieve(&self, context: &SlabContext<'_, P>) {
        self.relieve_barns(context);
    }

    fn spare_bytes(&self, context: &SlabContext<'_, P>) -> usize {
        let used = context.each_cache().filter(|cache| self.is_set_up(cache));
        let inside =
            |cache: CacheIn<'_, P>| self.at(cache).own.slabs.inside() as usize * cache.stride();
        used.map(inside).sum::<usize>() + context.limits.barns()
    }

    fn purge_sparse(&self, cache: CacheIn<'_, P>, walk: &mut SparseWalk) -> usize {
        // A page that was given back is zero again, without what the constructor has written.
        if cache.has_constructor() || !self.is_set_up(&cache) {
            *walk = SparseWalk::OVER;
            return 0;
        }
        self.at(cache).slabs().purge_sparse(walk)
    }

    fn occupancy(&self, cache: CacheIn<'_, P>, object: Object) -> Option<Occupancy> {
        self.at(cache).slabs().occupancy(object)
    }

    fn alloc_dense(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        let view = self.of(cache);
        let mut out = [MaybeUninit::uninit()];
        let (taken, is_fresh) = view.slabs().alloc(view.own.width.narrow_sheaf(), &mut out);
        if is_fresh {
            self.relieve(cache.context);
        }
        view.count(AllocSlow, taken);
        // SAFETY: the slabs wrote the first `taken` elements.
        unsafe { written(&out, taken) }.first().copied()
    }

    unsafe fn free_dense(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        let view = self.of(cache);
        view.count(FreeSlow, 1);
        view.free_to_slabs(&[object]);
        true
    }

    fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats {
        if self.is_set_up(&cache) {
            self.at(cache).stats_with(Exchanges::default())
        } else {
            SlabStats::default()
        }
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.at(cache).slabs().visit_free(slab, visit);
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        // The locks of a cache that was never used were never taken.
        let used = context.each_cache().filter(|cache| self.is_set_up(cache));
        for own in used.map(|cache| self.at(cache).own) {
            own.slabs.visit_locks(visit);
            own.barns.visit_locks(visit);
        }
    }

    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken> {
        self.validate_with(context, 0)
    }
}

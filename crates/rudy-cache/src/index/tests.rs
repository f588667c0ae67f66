//! The index against a model with plain vectors, and what S3-FIFO promises.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId::from_bytes(bytes)
}

fn number(id: ObjectId) -> u64 {
    u64::from_le_bytes(id.to_bytes()[..8].try_into().unwrap())
}

fn capacity(blocks: u64, objects: u32) -> Capacity {
    Capacity { bytes: blocks * BLOCK_BYTES, objects }
}

/// Inserts an object of some blocks, and returns the numbers of the evicted ones.
fn insert(index: &mut Index, number_of_object: u64, blocks: u64) -> Vec<u64> {
    let (id, mut evicted) = (id(number_of_object), Vec::new());
    let contained = index.contains(id);
    if !index.insert(id, blocks * BLOCK_BYTES) {
        return if contained { vec![number_of_object] } else { Vec::new() };
    }
    while !index.evict(Some(id), &mut evicted) {}
    evicted.into_iter().map(number).collect()
}

/// The algorithm of the paper with three vectors, the oldest object first. Each object has its blocks and uses.
#[derive(Default)]
struct Model {
    space: u64,
    objects: usize,
    small: Vec<(u64, u64, u8)>,
    main: Vec<(u64, u64, u8)>,
    /// `None` in place of one that has returned.
    ghosts: Vec<Option<u64>>,
}

impl Model {
    fn live(&mut self) -> impl Iterator<Item = &mut (u64, u64, u8)> {
        self.small.iter_mut().chain(&mut self.main)
    }

    fn hit(&mut self, number: u64) {
        if let Some(object) = self.live().find(|object| object.0 == number) {
            object.2 = (object.2 + 1).min(3);
        }
    }

    fn remove(&mut self, number: u64) {
        self.small.retain(|object| object.0 != number);
        self.main.retain(|object| object.0 != number);
        self.trim_ghosts();
    }

    fn trim_ghosts(&mut self) {
        let surplus = self.ghosts.len().saturating_sub(self.small.len() + self.main.len());
        self.ghosts.drain(..surplus);
    }

    fn insert(&mut self, number: u64, blocks: u64) -> Vec<u64> {
        let known = self.live().any(|object| object.0 == number);
        if blocks > self.space || self.objects == 0 {
            self.remove(number);
            return if known { vec![number] } else { Vec::new() };
        }
        if let Some(at) = self.small.iter().position(|object| object.0 == number) {
            let (_, _, uses) = self.small.remove(at);
            self.small.push((number, blocks, uses));
        } else if let Some(at) = self.main.iter().position(|object| object.0 == number) {
            let (_, _, uses) = self.main.remove(at);
            self.main.push((number, blocks, uses));
        } else if let Some(ghost) = self.ghosts.iter_mut().find(|ghost| **ghost == Some(number)) {
            *ghost = None;
            self.main.push((number, blocks, 0));
        } else {
            self.small.push((number, blocks, 0));
        }
        let mut evicted = Vec::new();
        while self.live().map(|object| object.1).sum::<u64>() > self.space
            || self.live().count() > self.objects
        {
            evicted.extend(self.advance(number));
        }
        self.trim_ghosts();
        evicted
    }

    fn advance(&mut self, protected: u64) -> Option<u64> {
        let others = |queue: &[(u64, u64, u8)]| queue.iter().any(|object| object.0 != protected);
        let small_blocks: u64 = self.small.iter().map(|object| object.1).sum();
        let is_full = small_blocks > self.space / 10 || self.small.len() > self.objects / 10;
        if others(&self.small) && (is_full || !others(&self.main)) {
            let (number, blocks, uses) = self.small.remove(0);
            if uses > 1 {
                self.main.push((number, blocks, 0));
                return None;
            }
            self.ghosts.push(Some(number));
            return Some(number);
        }
        let (number, blocks, uses) = self.main.remove(0);
        if uses == 0 && number != protected {
            return Some(number);
        }
        self.main.push((number, blocks, uses.saturating_sub(1)));
        None
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u64),
    Hit(u64),
    Remove(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..40_u64, 0..12_u64).prop_map(|(number, blocks)| Step::Insert(number, blocks)),
        4 => (0..40_u64).prop_map(Step::Hit),
        1 => (0..40_u64).prop_map(Step::Remove),
    ];
    vec(step, 0..200)
}

proptest! {
    #[test]
    fn the_index_evicts_what_the_model_evicts(steps in steps(), space in 0_u64..60, objects in 0_u32..20) {
        let mut index = Index::new(capacity(space, objects));
        let mut model = Model { space, objects: objects as usize, ..Model::default() };
        for step in steps {
            match step {
                Step::Insert(number, blocks) => {
                    prop_assert_eq!(insert(&mut index, number, blocks), model.insert(number, blocks));
                    prop_assert_eq!(index.contains(id(number)), blocks <= space && objects > 0);
                }
                Step::Hit(number) => {
                    let known = model.live().any(|object| object.0 == number);
                    prop_assert_eq!(index.hit(id(number)), known);
                    model.hit(number);
                }
                Step::Remove(number) => {
                    prop_assert_eq!(index.remove(id(number)), model.live().any(|object| object.0 == number));
                    model.remove(number);
                }
            }
            prop_assert_eq!(index.bytes(), model.live().map(|object| object.1).sum::<u64>() * BLOCK_BYTES);
            prop_assert_eq!(index.len() as usize, model.live().count());
            prop_assert!(index.bytes() <= space * BLOCK_BYTES && index.len() <= objects);
        }
        for number in 0..40 {
            prop_assert_eq!(index.contains(id(number)), model.live().any(|object| object.0 == number));
        }
    }

    #[test]
    fn a_smaller_capacity_evicts_until_the_rest_fits(
        blocks in vec(1_u64..5, 1..30),
        (space, objects) in (0_u64..40, 0_u32..30),
    ) {
        let mut index = Index::new(capacity(200, 30));
        for (number, blocks) in (0..).zip(&blocks) {
            prop_assert_eq!(insert(&mut index, number, *blocks), vec![]);
        }
        let mut evicted = Vec::new();
        while !index.resize(capacity(space, objects), &mut evicted) {}
        let evicted: BTreeSet<_> = evicted.into_iter().map(number).collect();
        prop_assert!(index.bytes() <= space * BLOCK_BYTES && index.len() <= objects);
        for (number, _) in (0..).zip(&blocks) {
            prop_assert_eq!(index.contains(id(number)), !evicted.contains(&number));
        }
    }
}

#[test]
fn a_scan_evicts_no_object_that_is_used_repeatedly() {
    let mut index = Index::new(capacity(1000, 1000));
    for number in 0..500 {
        insert(&mut index, number, 1);
    }
    for _ in 0..2 {
        assert!((0..500).all(|number| index.hit(id(number))));
    }
    for number in 1000..100_000 {
        insert(&mut index, number, 1);
    }
    assert!((0..500).all(|number| index.contains(id(number))));
}

#[test]
fn a_scan_evicts_no_such_object_if_only_the_number_of_objects_is_scarce() {
    let mut index = Index::new(capacity(1 << 30, 1000));
    for number in 0..500 {
        insert(&mut index, number, 1);
        assert!(index.hit(id(number)) && index.hit(id(number)));
    }
    for number in 1000..10_000 {
        insert(&mut index, number, 1);
    }
    assert!((0..500).all(|number| index.contains(id(number))));
}

#[test]
fn an_object_that_returns_soon_enters_the_main_queue() {
    let mut index = Index::new(capacity(10, 10));
    for number in 0..11 {
        insert(&mut index, number, 1);
    }
    assert!(!index.contains(id(0)), "it was the first to leave");
    insert(&mut index, 0, 1);
    // Others come and go through the small queue.
    for number in 20..40 {
        insert(&mut index, number, 1);
    }
    assert!(index.contains(id(0)));
}

#[test]
fn the_size_is_in_blocks_of_the_disk() {
    let mut index = Index::new(Capacity { bytes: 3 * BLOCK_BYTES - 1, objects: 10 });
    for (number, bytes) in [(0, 0), (1, 1), (2, BLOCK_BYTES)] {
        assert!(index.insert(id(number), bytes) && index.evict(None, &mut Vec::new()));
    }
    assert_eq!((index.len(), index.bytes()), (3, 2 * BLOCK_BYTES));
    assert!(!index.insert(id(3), 2 * BLOCK_BYTES + 1) && !index.insert(id(3), u64::MAX));
    assert_eq!(index.len(), 3, "nothing leaves for it");
    assert!(!index.insert(id(1), 3 * BLOCK_BYTES));
    assert!(!index.contains(id(1)), "its older version may not remain");
}

#[test]
fn an_insertion_clears_the_mark() {
    let mut index = Index::new(capacity(10, 10));
    index.mark(id(1));
    insert(&mut index, 1, 1);
    assert!(!index.is_marked(id(1)));
    index.mark(id(1));
    index.hit(id(1));
    assert!(index.is_marked(id(1)) && !index.is_marked(id(2)));
    insert(&mut index, 1, 1);
    assert!(!index.is_marked(id(1)));
}

/// With as many ghosts as objects.
#[test]
fn an_object_needs_at_most_50_bytes() {
    for objects in [20_000, 29_000, 60_000, 100_000_u32] {
        let mut index = Index::new(capacity(u64::from(objects), objects));
        for number in 0..3 * u64::from(objects) {
            insert(&mut index, number, 1);
        }
        assert_eq!((index.len(), index.ghosts.len()), (objects, objects));
        let each = index.memory_bytes() / objects as usize;
        assert!(each <= 50, "{each} bytes for each of {objects} objects");
    }
}

/// An index of objects that were all used as often as is counted.
fn used(objects: u32) -> Index {
    let mut index = Index::new(capacity(objects.into(), objects));
    for number in 0..objects.into() {
        insert(&mut index, number, 1);
        assert!((0..USES_MAX).all(|_| index.hit(id(number))));
    }
    index
}

#[test]
fn an_eviction_is_short_even_if_all_objects_were_used() {
    let mut index = used(100_000);
    for number in 100_000..101_000 {
        assert!(index.insert(id(number), BLOCK_BYTES));
        let mut evicted = Vec::new();
        let is_done = index.evict(Some(id(number)), &mut evicted);
        assert!(is_done && evicted.len() == 1, "{number}: {evicted:?}");
    }
}

#[test]
fn an_object_that_needs_the_space_of_thousands_evicts_some_in_each_call() {
    let mut index = used(10_000);
    assert!(index.insert(id(10_000), 9_000 * BLOCK_BYTES));
    let (mut evicted, mut calls) = (Vec::new(), 0);
    while !index.evict(Some(id(10_000)), &mut evicted) {
        calls += 1;
        assert!(evicted.len() <= calls * MOVES_MAX as usize);
    }
    assert!(index.contains(id(10_000)) && evicted.len() >= 9_000, "{} in {calls} calls", evicted.len());
}

#[test]
fn the_space_shrinks_in_steps() {
    let mut index = used(10_000);
    let mut evicted = Vec::new();
    while !index.resize(capacity(100, 10_000), &mut evicted) {
        // An insertion meanwhile has to evict few.
        let (new, mut others) = (id(20_000 + u64::from(index.len())), Vec::new());
        assert!(index.insert(new, BLOCK_BYTES));
        while !index.evict(Some(new), &mut others) {}
        assert!(others.len() <= MOVES_MAX as usize, "{}", others.len());
    }
    assert_eq!(index.len(), 100);
}

#[test]
fn a_restored_index_evicts_in_the_same_order() {
    let mut index = Index::new(capacity(2000, 2000));
    for number in 0..4000 {
        insert(&mut index, number, 1 + number % 2);
        for used in [number % 100, number % 1000] {
            index.hit(id(used));
        }
    }
    let mut saved = Vec::new();
    let mut position = index.save(None, &mut saved);
    while position.is_some() {
        position = index.save(position, &mut saved);
    }
    let mut restored = Index::new(capacity(2000, 2000));
    for object in saved.as_chunks().0 {
        restored.restore(object);
    }
    assert_eq!((restored.len(), restored.bytes()), (index.len(), index.bytes()));
    // The ghosts are not saved.
    index.ghosts = Ghosts::default();
    for number in 10_000..14_000 {
        assert_eq!(insert(&mut restored, number, 1), insert(&mut index, number, 1));
    }
    assert!(Index::new(capacity(1, 1)).save(None, &mut saved).is_none());
}

#[test]
fn an_object_that_no_scan_confirms_leaves() {
    let mut index = Index::new(capacity(10_000, 10_000));
    for number in 0..3000 {
        index.restore(
            id(number)
                .to_bytes()
                .into_iter()
                .chain([1, 0, 0, 0])
                .collect::<Vec<_>>()
                .as_chunks()
                .0
                .first()
                .unwrap(),
        );
    }
    assert!((0..1000).all(|number| index.confirm(id(number))) && !index.confirm(id(3000)));
    assert!((1000..1500).all(|number| index.hit(id(number)) && index.insert(id(number), 1)));
    assert!((1500..1600).all(|number| index.remove(id(number))));
    let mut position = index.remove_unconfirmed(None);
    while position.is_some() {
        position = index.remove_unconfirmed(position);
    }
    assert!((0..3000).all(|number| index.contains(id(number)) == (number < 1500)));
    assert_eq!((index.len(), index.bytes()), (1500, 1500 * BLOCK_BYTES));
}

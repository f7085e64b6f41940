//! A cache in memory that the processes of one machine share: values under keys, bounded in size, the least wanted evicted.
//!
//! Knows a file that is mapped, and the locks in it. Knows neither Python nor the server. `table` is the way in: it finds
//! the shard of a key, locks it, and does there what is asked. A shard is plain bytes: an index (`shard`) and a ring of
//! records (`ring`, `record`), without locks and without `unsafe`. Nothing that is read there is believed before it was
//! checked: what does not fit together is damage, and costs the shard its values.

pub mod lock;
pub mod mapping;
pub mod record;
mod ring;
pub mod shard;
pub mod table;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::record::{BYTES, Damaged, HEAD, INTEGER, LIVE, Record, block};
    use super::ring::STEP;
    use super::shard::{Counted, Entry, Name, Shard, When};

    /// A shard with a model of it beside it. usable: how much of its memory may be used.
    struct Tried {
        memory: Vec<u8>,
        usable: Cell<usize>,
        model: HashMap<Vec<u8>, (u8, Vec<u8>, u64)>,
        now: u64,
        seed: u64,
    }

    #[derive(Debug)]
    struct Stats {
        items: u64,
        bytes: u64,
        evictions: u64,
        memory: u64,
    }

    const UNTOUCHED: u8 = 0xa5;

    impl Tried {
        fn new(length: usize, usable: usize) -> Self {
            let mut tried = Self {
                memory: vec![UNTOUCHED; length],
                usable: Cell::new(usable),
                model: HashMap::new(),
                now: 1,
                seed: 7,
            };
            tried.memory[..64].fill(0);
            tried.empty();
            tried
        }

        fn on<R>(&mut self, run: impl FnOnce(&mut Shard<'_>) -> R) -> R {
            let usable = &self.usable;
            run(&mut Shard::new(&mut self.memory, &|_, to| to <= usable.get()))
        }

        fn empty(&mut self) {
            Shard::new(&mut self.memory, &|_, _| false).empty();
        }

        /// A number below `limit`.
        fn chance(&mut self, limit: usize) -> usize {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.seed >> 33).unwrap() % limit
        }

        fn set(&mut self, key: &[u8], value: &[u8], expires: u64, when: When<'_>) -> bool {
            let now = self.now;
            let entry = Entry { kind: BYTES, value, expires };
            let is_set = self.on(|shard| shard.set(name(key), entry, when, now)).unwrap();
            if is_set {
                self.model.insert(key.to_vec(), (BYTES, value.to_vec(), expires));
            }
            is_set
        }

        fn get(&mut self, key: &[u8]) -> Option<(u8, Vec<u8>)> {
            let now = self.now;
            self.on(|shard| shard.get(name(key), &|| now, |_, bytes| bytes.to_vec()))
                .unwrap_or_else(|Damaged| panic!("damaged"))
        }

        fn stats(&mut self) -> Stats {
            let [_, _, items, bytes, evictions, memory] = self.on(|shard| shard.stats()).unwrap();
            Stats { items, bytes, evictions, memory }
        }

        /// The value is that of the model, or has been given up. Returns whether it is there.
        fn check(&mut self, key: &[u8]) -> bool {
            let found = self.get(key);
            let now = self.now;
            let known = self.model.get(key).filter(|known| known.2 == 0 || known.2 > now);
            match (&found, known) {
                (None, _) => {}
                (Some(found), Some((kind, value, _))) => assert_eq!((found.0, &found.1), (*kind, value)),
                (Some(_), None) => panic!("a value of {key:?}, which has none"),
            }
            found.is_some() || known.is_none()
        }

        /// The ring and the index fit together.
        fn check_ring(&mut self) {
            let untouched = self.on(|shard| {
                let ring = shard.ring().unwrap();
                let (mut live, mut items) = (0, 0);
                for (mut at, end) in [(shard.first, ring.head), (ring.edge, ring.end)] {
                    while at < end {
                        let (room, flags) = block(shard.memory, at).unwrap();
                        if flags & LIVE != 0 {
                            let record = Record::read(shard.memory, at).unwrap();
                            shard.link_to(&record).unwrap();
                            live += room;
                            items += 1;
                        }
                        at += room;
                    }
                    assert_eq!(at, end);
                }
                assert_eq!((live, items), (ring.live, ring.items));
                ring.taken
            });
            assert!(self.memory[untouched..].iter().all(|byte| *byte == UNTOUCHED));
        }
    }

    fn name(key: &[u8]) -> Name<'_> {
        // Few tags, so that chains are long.
        Name { key, tag: key.iter().fold(0, |tag: u32, byte| tag.wrapping_mul(31).wrapping_add(u32::from(*byte))) % 61 }
    }

    fn key_of(number: usize) -> Vec<u8> {
        format!("key {number}").into_bytes()
    }

    #[test]
    fn whatever_is_asked_the_answer_is_that_of_a_dict_or_a_miss() {
        for (length, usable, keys, longest) in [
            (1 << 20, 1 << 20, 300, 300),
            (256 << 10, 256 << 10, 900, 700),
            (512 << 10, 512 << 10, 40, 100_000),
            (1 << 20, 200 << 10, 500, 2000),
        ] {
            let mut tried = Tried::new(length, usable);
            for turn in 0..6000 {
                let key = key_of(tried.chance(keys));
                let size = tried.chance(longest);
                let value = vec![u8::try_from(turn % 251).unwrap(); tried.chance(size + 1)];
                let expires = if tried.chance(3) == 0 { tried.now + tried.chance(2000) as u64 } else { 0 };
                let now = tried.now;
                let is_there = tried.get(&key).is_some();
                match tried.chance(10) {
                    0..4 => assert!(tried.set(&key, &value, expires, When::Always)),
                    4 => assert_eq!(tried.set(&key, &value, expires, When::Missing), !is_there),
                    5 => {
                        let prefix = vec![1; tried.chance(2)];
                        let starts =
                            tried.get(&key).is_some_and(|(kind, old)| kind == BYTES && old.starts_with(&prefix));
                        assert_eq!(tried.set(&key, &value, expires, When::StartsWith(&prefix)), starts);
                    }
                    6 => {
                        assert_eq!(tried.on(|shard| shard.delete(name(&key), now)), Ok(is_there));
                        tried.model.remove(&key);
                    }
                    7 => {
                        assert_eq!(tried.on(|shard| shard.touch(name(&key), expires, now)), Ok(is_there));
                        if let Some(known) = tried.model.get_mut(&key).filter(|_| is_there) {
                            known.2 = expires;
                        }
                    }
                    8 => count_up(&mut tried, &key),
                    _ => assert_eq!(tried.on(|shard| shard.has(name(&key), now)), Ok(is_there)),
                }
                tried.now += 1;
                tried.check(&key);
                if turn % 500 == 0 {
                    tried.check_ring();
                }
            }
            for number in 0..keys {
                tried.check(&key_of(number));
            }
            tried.check_ring();
        }
    }

    fn count_up(tried: &mut Tried, key: &[u8]) {
        let (found, now) = (tried.get(key), tried.now);
        let counted = tried.on(|shard| shard.count_up(name(key), 3, Some((5, 0)), now)).unwrap();
        let sum = match found {
            Some((INTEGER, old)) => i64::from_ne_bytes(old.try_into().unwrap()) + 3,
            Some(_) => return assert_eq!(counted, Counted::NoInteger),
            None => 8,
        };
        assert_eq!(counted, Counted::To(sum));
        let expires = tried.model.get(key).filter(|(kind, _, end)| *kind == INTEGER && (*end == 0 || *end > now));
        let expires = expires.map_or(0, |known| known.2);
        tried.model.insert(key.to_vec(), (INTEGER, sum.to_ne_bytes().to_vec(), expires));
    }

    #[test]
    fn garbage_pushes_nothing_out_while_there_is_room() {
        let mut tried = Tried::new(1 << 20, 1 << 20);
        for turn in 0..20_000 {
            // Half of the ring is live at most; sizes change, so that values move.
            let key = key_of(tried.chance(400));
            let value = vec![9; 100 + tried.chance(1000)];
            tried.set(&key, &value, 0, When::Always);
            assert!(turn % 1000 != 0 || (0..400).all(|number| tried.check(&key_of(number))));
        }
        assert_eq!(tried.stats().evictions, 0);
        tried.check_ring();
    }

    #[test]
    fn a_large_block_that_nobody_reads_stays_while_there_is_room() {
        let mut tried = Tried::new(1 << 20, 1 << 20);
        for number in 0..1900 {
            tried.set(&key_of(number), &[3; 260], 0, When::Always);
            tried.set(b"garbage", &vec![4; 100 + number], 0, When::Always);
        }
        for turn in 0..20_000 {
            let key = key_of(10_000 + tried.chance(50));
            let value = vec![9; 100 + tried.chance(2000)];
            tried.set(&key, &value, 0, When::Always);
            if turn % 5000 == 0 {
                tried.check_ring();
            }
        }
        assert_eq!((tried.stats().evictions, tried.stats().items), (0, 1951));
        assert!((0..1900).all(|number| tried.check(&key_of(number))));
    }

    #[test]
    fn memory_is_taken_as_it_is_used() {
        let mut tried = Tried::new(4 << 20, 4 << 20);
        let start = tried.stats().memory;
        for turn in 0..10_000 {
            tried.set(&key_of(turn % 10), &vec![1; 50 + turn % 300], 0, When::Always);
        }
        assert_eq!(tried.stats().memory, start, "ten small values need no more");
        for turn in 0..1000 {
            tried.set(&key_of(turn), &[1; 1000], 0, When::Always);
        }
        let (memory, bytes) = (tried.stats().memory, tried.stats().bytes);
        assert!(memory < start + 2 * bytes + (STEP as u64) && tried.stats().items == 1000);
        tried.check_ring();
    }

    #[test]
    fn what_is_used_outlives_what_is_not() {
        let mut tried = Tried::new(256 << 10, 256 << 10);
        for turn in 0..5000 {
            tried.set(&key_of(turn), &[1; 1000], 0, When::Always);
            tried.set(b"wanted", b"value", 0, When::Missing);
            tried.get(b"wanted");
        }
        let stats = tried.stats();
        // "wanted" was put once: each other value that is not there was evicted.
        assert_eq!(stats.evictions + stats.items, 5001);
        assert!(stats.items > 150, "{stats:?}");
        tried.check_ring();
    }

    #[test]
    fn without_more_memory_values_are_given_up_at_worst_the_new_one() {
        let mut tried = Tried::new(1 << 20, 0);
        for turn in 0..1000 {
            tried.set(&key_of(turn), &[1; 1000], 0, When::Always);
        }
        let items = tried.stats().items;
        assert!((40..70).contains(&items), "{items}");
        tried.set(b"large", &[1; 100], 0, When::Always);
        tried.set(b"large", &vec![2; 100_000], 0, When::Always);
        assert_eq!(tried.get(b"large"), None, "neither the new value nor the old one");
        tried.check_ring();
        tried.usable.set(1 << 20);
        tried.set(b"large", &vec![2; 100_000], 0, When::Always);
        assert!(tried.check(b"large") && tried.get(b"large").is_some());
    }

    #[test]
    fn a_number_has_64_bits() {
        let mut tried = Tried::new(1 << 20, 1 << 20);
        let count = |tried: &mut Tried, delta, start| tried.on(|shard| shard.count_up(name(b"n"), delta, start, 1));
        assert_eq!(count(&mut tried, 1, None), Ok(Counted::Missing));
        assert_eq!(count(&mut tried, 0, Some((i64::MAX, 0))), Ok(Counted::To(i64::MAX)));
        assert_eq!(count(&mut tried, 1, None), Ok(Counted::Overflow));
        assert_eq!(count(&mut tried, i64::MIN, None), Ok(Counted::To(-1)));
    }

    #[test]
    fn a_link_to_memory_that_was_never_taken_is_damage() {
        let mut tried = Tried::new(1 << 20, 1 << 20);
        tried.set(b"key", b"value", 0, When::Always);
        let (start, record) = tried.on(|shard| (shard.first, Record::read(shard.memory, shard.first).unwrap()));
        let (far, link) = (512 << 10, tried.on(|shard| shard.link_to(&record).unwrap()));
        tried.memory.copy_within(start..start + record.room, far);
        tried.memory[link..link + 4].copy_from_slice(&u32::try_from(far).unwrap().to_ne_bytes());
        let found = tried.on(|shard| shard.get(name(b"key"), &|| 1, |_, bytes| bytes.to_vec()));
        assert_eq!(found, Err(Damaged), "on a full file system, reading there would end the process");
    }

    #[test]
    fn damage_is_noticed_and_costs_the_shard_its_values() {
        let mut noticed = 0;
        for turn in 0..200 {
            let mut tried = Tried::new(256 << 10, 256 << 10);
            tried.seed = turn;
            for _ in 0..300 {
                let (key, size) = (key_of(tried.chance(200)), tried.chance(3000));
                tried.set(&key, &vec![u8::try_from(turn % 256).unwrap(); size], 0, When::Always);
            }
            for _ in 0..=tried.chance(200) {
                let at = match tried.chance(3) {
                    0 => tried.chance(HEAD),
                    1 => tried.chance(5000),
                    _ => tried.chance(256 << 10),
                };
                tried.memory[at] = u8::try_from(tried.chance(256)).unwrap();
            }
            for _ in 0..300 {
                let (key, size) = (key_of(tried.chance(200)), tried.chance(3000));
                let value = vec![u8::try_from(turn % 256).unwrap(); size];
                let found = tried.on(|shard| {
                    shard.set(name(&key), Entry { kind: BYTES, value: &value, expires: 0 }, When::Always, 1)?;
                    shard.get(name(&key), &|| 1, |_, bytes| bytes.to_vec())
                });
                match found {
                    Err(Damaged) => {
                        noticed += 1;
                        tried.empty();
                        assert_eq!((tried.stats().items, tried.get(&key)), (0, None));
                    }
                    Ok(found) => assert!(found.is_none_or(|found| found == (BYTES, value))),
                }
            }
        }
        assert!(noticed > 30, "{noticed}");
    }
}

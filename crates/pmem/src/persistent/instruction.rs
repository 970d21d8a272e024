//! The instructions that make a store durable, chosen by what the processor has.
//!
//! `clwb` writes a line back and keeps it; `clflushopt` also evicts it; `clflush` is ordered besides and so the slowest.
//! `sfence` makes the thread wait for the write-backs it began. Where the caches themselves survive a power cut (eADR, CXL
//! with global persistent flush) the fence alone is enough; no instruction says whether they do, so the user has to.
//!
//! On other processors than x86-64 a fence is a full memory fence and nothing is written back. A pool of the `Emulated`
//! medium loses nothing by that, because what it survives is a killed process, and stores alone survive that.

/// How a cache line is written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    #[cfg(target_arch = "x86_64")]
    Clwb,
    #[cfg(target_arch = "x86_64")]
    ClflushOpt,
    #[cfg(target_arch = "x86_64")]
    Clflush,
    /// Not at all: the caches are persistent, or nobody relies on it.
    FenceOnly,
}

impl Instruction {
    /// Its name, or `none`.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instruction::Clwb => "clwb",
            #[cfg(target_arch = "x86_64")]
            Instruction::ClflushOpt => "clflushopt",
            #[cfg(target_arch = "x86_64")]
            Instruction::Clflush => "clflush",
            Instruction::FenceOnly => "none",
        }
    }
}

/// What this crate's own tests see of it: no program can tell afterwards whether a line was written back.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) mod noted {
    use std::cell::RefCell;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Done {
        /// From this address on, so many lines.
        WriteBack(usize, usize),
        /// To this address, so many lines.
        Stream(usize, usize),
        Fence,
    }

    thread_local!(static DONE: RefCell<Vec<Done>> = const { RefCell::new(Vec::new()) });

    pub fn note(done: Done) {
        DONE.with(|all| all.borrow_mut().push(done));
    }

    /// What this thread has done since it was last asked.
    pub fn taken() -> Vec<Done> {
        DONE.with(RefCell::take)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    use super::Instruction;
    use crate::medium::CACHE_LINE_BYTES;

    const LINE: usize = CACHE_LINE_BYTES as usize;

    impl Instruction {
        /// The best that the processor has.
        pub fn detect() -> Instruction {
            // In newer compilers CPUID is safe to ask.
            #[allow(unused_unsafe)]
            // SAFETY: every x86-64 processor has CPUID; leaf 7 is only asked where leaf 0 says that it exists.
            let features = unsafe {
                use std::arch::x86_64::{__cpuid, __cpuid_count};
                if __cpuid(0).eax < 7 { 0 } else { __cpuid_count(7, 0).ebx }
            };
            if features & 1 << 24 != 0 {
                Instruction::Clwb
            } else if features & 1 << 23 != 0 {
                Instruction::ClflushOpt
            } else {
                Instruction::Clflush
            }
        }

        /// Begins to write back so many cache lines, the first at an address of the process's own.
        #[inline(always)]
        pub fn write_back(self, first: *const u8, lines: usize) {
            #[cfg(test)]
            super::noted::note(super::noted::Done::WriteBack(first.addr(), lines));
            let all = (0..lines).map(|index| first.wrapping_add(index * LINE));
            match self {
                // SAFETY: the processor has it, says `detect`; it changes neither memory nor flags. It would fault only
                // on an address that is not mapped.
                Instruction::Clwb => all.for_each(|line| unsafe {
                    asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
                }),
                // SAFETY: as above.
                Instruction::ClflushOpt => all.for_each(|line| unsafe {
                    asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                }),
                // SAFETY: as above; every x86-64 processor has it.
                Instruction::Clflush => all.for_each(|line| unsafe {
                    asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
                }),
                Instruction::FenceOnly => {}
            }
        }
    }

    /// Waits for the write-backs and streamed stores that this thread began.
    #[inline(always)]
    pub fn store_fence() {
        #[cfg(test)]
        super::noted::note(super::noted::Done::Fence);
        // SAFETY: every x86-64 processor has it, and it changes nothing.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }

    /// Copies whole cache lines past the caches. Other threads may see them later than what is stored afterwards, until
    /// [`store_fence`].
    ///
    /// # Safety
    /// `to..to + lines * 64` is writable, begins with a cache line and does not overlap what is read at `from`; nobody else
    /// reads or writes it until the fence.
    #[inline]
    pub unsafe fn stream(to: *mut u8, from: *const u8, lines: usize) {
        #[cfg(test)]
        super::noted::note(super::noted::Done::Stream(to.addr(), lines));
        const PART: usize = size_of::<__m128i>();
        let (to, from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
        for index in 0..lines * (LINE / PART) {
            // SAFETY: within both ranges, as the caller promises, and 16-aligned in the one that is written.
            unsafe { _mm_stream_si128(to.add(index), _mm_loadu_si128(from.add(index))) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{store_fence, stream};

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use super::Instruction;

    impl Instruction {
        pub fn detect() -> Instruction {
            Instruction::FenceOnly
        }

        pub fn write_back(self, _first: *const u8, _lines: usize) {}
    }

    /// Orders everything before against everything after.
    pub fn store_fence() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// A copy of whole lines, which here takes the way of every other.
    ///
    /// # Safety
    /// `to..to + lines * 64` is writable and does not overlap what is read at `from`; nobody else reads or writes it.
    pub unsafe fn stream(to: *mut u8, from: *const u8, lines: usize) {
        // SAFETY: the caller's promise, word for word.
        unsafe { std::ptr::copy_nonoverlapping(from, to, lines * crate::medium::CACHE_LINE_BYTES as usize) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use other::{store_fence, stream};

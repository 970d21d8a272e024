//! Faults under a copy from a mapping: caught, and told from all other faults.
//!
//! A thread that is about to copy notes where from, in a thread-local. The handler of `SIGBUS` looks whether the fault is there. If
//! so it marks the mapping as broken and maps zeros over the page and the rest of what was to be copied, so that the copy comes to
//! its end. Any other fault is not ours: whoever handled the signal before is called, or what the system would have done is done,
//! which ends the process.
//!
//! The handler is installed with the first mapping, and stays. A program that installs another one later has to call it in
//! turn for what it does not know (as is good manners), or have nothing mapped.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence, fence};

use rustix::mm::{MapFlags, ProtFlags};

/// Which bytes this thread is copying. Atomics, because a signal is like another thread; but it is this one, so that none of
/// them costs more than a store.
struct Copying {
    /// 0: none.
    from: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicPtr<AtomicBool>,
}

thread_local! {
    static COPYING: Copying = const {
        Copying { from: AtomicUsize::new(0), end: AtomicUsize::new(0), broken: AtomicPtr::new(ptr::null_mut()) }
    };
}

/// Who handled the signal before. Written once, before the handler is installed.
struct Before(UnsafeCell<libc::sigaction>);
// SAFETY: it is written before any other thread can read it, see `is_caught`, and never again.
unsafe impl Sync for Before {}
// SAFETY: all zeros are the default disposition.
static BEFORE: Before = Before(UnsafeCell::new(unsafe { zeroed() }));

/// The length of a page, in bytes; known before the handler is installed, so that it asks nobody.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Whether faults are caught in this process: installs the handler the first time.
pub(super) fn is_caught() -> bool {
    static IS_CAUGHT: OnceLock<bool> = OnceLock::new();
    *IS_CAUGHT.get_or_init(|| {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        // SAFETY: `BEFORE` is written under the `OnceLock` by one thread, and read by the handler alone, which is not installed
        // yet. All zeros are a valid `sigaction`, and what is put into it is one that takes three arguments, as its flags say.
        unsafe {
            if libc::sigaction(libc::SIGBUS, ptr::null(), BEFORE.0.get()) != 0 {
                return false;
            }
            let mut action: libc::sigaction = zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) == 0
        }
    })
}

/// Does something that touches these bytes of a mapping and no other bytes that could fault. If one can't be read, zeros are read
/// from it, and `broken` is set. Not to be used one within the other.
#[inline]
pub(super) fn catching(from: usize, length_bytes: usize, broken: &AtomicBool, touch: impl FnOnce()) {
    COPYING.with(|copying| {
        copying.broken.store(ptr::from_ref(broken).cast_mut(), Ordering::Relaxed);
        copying.end.store(from + length_bytes, Ordering::Relaxed);
        copying.from.store(from, Ordering::Relaxed);
        // A signal comes between two instructions of this thread, so only the compiler has to keep the order.
        compiler_fence(Ordering::SeqCst);
        touch();
        compiler_fence(Ordering::SeqCst);
        copying.from.store(0, Ordering::Relaxed);
    });
}

/// Whether the fault was under a copy of this thread; then the page can be read now.
fn is_mended(address: usize) -> bool {
    let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
    COPYING.with(|copying| {
        let (from, end) = (copying.from.load(Ordering::Relaxed), copying.end.load(Ordering::Relaxed));
        // The system may tell the page alone.
        let (page, first_page) = (address & !(page_bytes - 1), from & !(page_bytes - 1));
        if from == 0 || page < first_page || address >= end {
            return false;
        }
        // SAFETY: it was set by `catching`, which is not over, from a reference that lives as long as that.
        unsafe { (*copying.broken.load(Ordering::Relaxed)).store(true, Ordering::Relaxed) };
        // Others that copy these pages will find zeros, and then the mark.
        fence(Ordering::SeqCst);
        let length_bytes = end.next_multiple_of(page_bytes) - page;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: these pages are of the mapping that is copied from, and nobody has a reference to what is in them.
        unsafe { rustix::mm::mmap_anonymous(page as *mut c_void, length_bytes, ProtFlags::READ, flags) }.is_ok()
    })
}

/// The handler. Calls nothing that a handler must not call: no lock is taken, nothing allocated.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system calls with a valid `info`; a positive code says that it is about a fault, and so has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // SAFETY: the thread's own `errno`, which what was interrupted may be about to look at.
    let errno = unsafe { *libc::__errno_location() };
    if code > 0 && is_mended(address) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        return;
    }
    // SAFETY: it was written before this handler was installed, and is not written any more.
    let before = unsafe { *BEFORE.0.get() };
    match before.sa_sigaction {
        libc::SIG_IGN if code <= 0 => {}
        // What the system does by itself: the fault happens again, or the signal is sent again, once this returns.
        // (A fault can't be ignored.)
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            // SAFETY: all zeros are the default disposition; both calls are allowed in a handler.
            let action: libc::sigaction = zeroed();
            libc::sigaction(signal, &action, ptr::null_mut());
            if code <= 0 {
                libc::raise(signal);
            }
        },
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: its flags say that it takes three arguments.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: its flags say that it takes one argument.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

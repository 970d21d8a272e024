//! The functions that Java calls: `org.slmdb.Native` declares them, and says what each does. All that is `unsafe` is here.
//!
//! Each `unsafe` block names the rule that it rests on:
//!
//! - BUFFER: an address and a capacity are those of a direct buffer, or of none if the capacity is 0. Nobody else uses the buffer
//!   meanwhile, and it lives as long as the call. `Scratch.java` keeps this: each thread has a buffer of its own, and holds on to it
//!   until the call has returned.
//! - NAMES: a function has the name and the parameters of a native method in `Native.java`, and no other function has its name.

#![allow(unsafe_code)]
// The names are those that Java looks for.
#![allow(non_snake_case)]

use std::any::Any;
use std::path::PathBuf;

use jni::errors::ErrorPolicy;
use jni::objects::{JByteBuffer, JClass, JString, JThrowable};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned, JValue, jni_sig, jni_str};

use crate::failure::{Failure, Result, caught, of_panic};
use crate::{care, objects, packing, reads, writes};

/// Throws what failed, as `Native.exception` makes an exception of it.
struct Thrown;

impl<T: Default> ErrorPolicy<T, Failure> for Thrown {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = &'native_method JClass<'unowned_env_local>;

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        class: &mut &'native_method JClass<'unowned_env_local>,
        failure: Failure,
    ) -> jni::errors::Result<T> {
        // One that is on its way says more, that there is no memory for example.
        if !env.exception_check() {
            // It returns an error when it has thrown, and also if it can't throw that; then the virtual machine has an exception
            // of its own.
            let _ = throw(env, class, &failure);
        }
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        class: &mut &'native_method JClass<'unowned_env_local>,
        panic: Box<dyn Any + Send>,
    ) -> jni::errors::Result<T> {
        Self::on_error(env, class, of_panic(&*panic))
    }
}

fn throw(env: &mut Env<'_>, class: &JClass<'_>, failure: &Failure) -> jni::errors::Result<()> {
    let told = failure.told();
    let (message, path) = (env.new_string(told.message)?, env.new_string(told.path)?);
    let arguments = [told.kind.into(), JValue::Object(&message), JValue::Object(&path), told.number.into()];
    let signature = jni_sig!("(ILjava/lang/String;Ljava/lang/String;J)Lorg/slmdb/SlmdbException;");
    let made = env.call_static_method(class, jni_str!("exception"), signature, &arguments)?.l()?;
    let exception = env.cast_local::<JThrowable>(made)?;
    env.throw(exception)
}

/// A call that asks nothing of the virtual machine unless it fails.
#[inline]
fn run<'local, T: Default>(
    env: &mut EnvUnowned<'local>,
    class: &JClass<'local>,
    work: impl FnOnce() -> Result<T>,
) -> T {
    match caught(work) {
        Ok(done) => done,
        Err(failure) => env.with_env(|_| Err(failure)).resolve_with::<Thrown, _>(|| class),
    }
}

/// A call that takes or gives strings.
fn told<'local, T: Default>(
    env: &mut EnvUnowned<'local>,
    class: &JClass<'local>,
    work: impl FnOnce(&mut Env<'local>) -> Result<T>,
) -> T {
    env.with_env(work).resolve_with::<Thrown, _>(|| class)
}

/// A report, as Java gets it.
fn report<'local>(
    env: &mut EnvUnowned<'local>,
    class: &JClass<'local>,
    work: impl FnOnce(&mut Env<'local>) -> Result<String>,
) -> JString<'local> {
    told(env, class, |env| {
        let text = work(env)?;
        Ok(env.new_string(text)?)
    })
}

fn path(env: &Env<'_>, path: &JString<'_>) -> Result<PathBuf> {
    Ok(PathBuf::from(path.try_to_string(env)?))
}

/// The buffer that Java passes.
///
/// # Safety
///
/// BUFFER.
#[inline]
unsafe fn buffer<'a>(address: jlong, capacity: jint) -> &'a mut [u8] {
    match usize::try_from(capacity) {
        // SAFETY: BUFFER. The virtual machine has filled it with zeros when it was made.
        Ok(capacity @ 1..) if address != 0 => unsafe {
            std::slice::from_raw_parts_mut(address as usize as *mut u8, capacity)
        },
        _ => &mut [],
    }
}

/// Declares functions that Java calls. `work` has the buffer, where there is one.
macro_rules! natives {
    ($($name:ident($($parameter:ident: $kind:ty),*) -> $answer:ty { $work:expr })*) => {$(
        // SAFETY: NAMES.
        #[unsafe(no_mangle)]
        extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            class: JClass<'local>,
            $($parameter: $kind),*
        ) -> $answer {
            run(&mut env, &class, || $work)
        }
    )*};
    ($($name:ident[$buffer:ident]($handle:ident $(, $parameter:ident: $kind:ty)*) -> $answer:ty { $work:expr })*) => {$(
        // SAFETY: NAMES.
        #[unsafe(no_mangle)]
        extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            class: JClass<'local>,
            $handle: jlong,
            address: jlong,
            capacity: jint,
            $($parameter: $kind),*
        ) -> $answer {
            run(&mut env, &class, || {
                // SAFETY: BUFFER.
                let $buffer = unsafe { buffer(address, capacity) };
                $work
            })
        }
    )*};
}

natives! {
    Java_org_slmdb_Native_get[buffer](handle, key_bytes: jint) -> jlong {
        reads::get(handle, buffer, key_bytes)
    }
    Java_org_slmdb_Native_containsKey[buffer](handle, key_bytes: jint) -> jboolean {
        reads::contains_key(handle, buffer, key_bytes)
    }
    Java_org_slmdb_Native_put[buffer](handle, key_bytes: jint, value_bytes: jint, condition: jint, sync: jint) -> jboolean {
        writes::put(handle, buffer, key_bytes, value_bytes, condition, sync)
    }
    Java_org_slmdb_Native_delete[buffer](handle, key_bytes: jint, sync: jint) -> () {
        writes::delete(handle, buffer, key_bytes, sync)
    }
    Java_org_slmdb_Native_deleteRange[buffer](handle, from_bytes: jint, to_bytes: jint, sync: jint) -> () {
        writes::delete_range(handle, buffer, from_bytes, to_bytes, sync)
    }
    Java_org_slmdb_Native_write[buffer](handle, batch_bytes: jint, sync: jint) -> () {
        writes::write(handle, buffer, batch_bytes, sync)
    }
    Java_org_slmdb_Native_cursor[buffer](handle, from_bytes: jint, to_bytes: jint, reads_values: jboolean) -> jlong {
        reads::cursor(handle, buffer, from_bytes, to_bytes, reads_values)
    }
    Java_org_slmdb_Native_fetch[buffer](handle, way: jint, start: jint, key_bytes: jint) -> jlong {
        reads::fetch(handle, buffer, way, start, key_bytes)
    }
    Java_org_slmdb_Native_compactRange[buffer](handle, from_bytes: jint, to_bytes: jint) -> () {
        care::compact_range(handle, buffer, from_bytes, to_bytes)
    }
    Java_org_slmdb_Native_approximate[buffer](handle, from_bytes: jint, to_bytes: jint) -> () {
        reads::approximate(handle, buffer, from_bytes, to_bytes)
    }
}

natives! {
    Java_org_slmdb_Native_snapshot(handle: jlong) -> jlong {
        Ok(objects::snapshot(handle)? as jlong)
    }
    Java_org_slmdb_Native_sequenceNumber(handle: jlong) -> jlong {
        reads::sequence_number(handle)
    }
    Java_org_slmdb_Native_close(handle: jlong) -> () {
        objects::close(handle)
    }
    Java_org_slmdb_Native_sync(handle: jlong) -> () {
        Ok(objects::store(handle)?.sync()?)
    }
    Java_org_slmdb_Native_flush(handle: jlong) -> () {
        Ok(objects::store(handle)?.flush()?)
    }
}

// SAFETY: NAMES.
#[unsafe(no_mangle)]
extern "system" fn Java_org_slmdb_Native_version<'local>(
    mut env: EnvUnowned<'local>,
    class: JClass<'local>,
) -> JString<'local> {
    report(&mut env, &class, |_| Ok(env!("CARGO_PKG_VERSION").to_string()))
}

// SAFETY: NAMES.
#[unsafe(no_mangle)]
extern "system" fn Java_org_slmdb_Native_address<'local>(
    mut env: EnvUnowned<'local>,
    class: JClass<'local>,
    buffer: JByteBuffer<'local>,
) -> jlong {
    told(&mut env, &class, |env| Ok(env.get_direct_buffer_address(&buffer)? as jlong))
}

// SAFETY: NAMES.
#[unsafe(no_mangle)]
extern "system" fn Java_org_slmdb_Native_open<'local>(
    mut env: EnvUnowned<'local>,
    class: JClass<'local>,
    directory: JString<'local>,
    options: JString<'local>,
    shared: jlong,
) -> jlong {
    told(&mut env, &class, |env| {
        let options = packing::options(&options.try_to_string(env)?)?;
        Ok(objects::open(&path(env, &directory)?, options, shared)? as jlong)
    })
}

// SAFETY: NAMES.
#[unsafe(no_mangle)]
extern "system" fn Java_org_slmdb_Native_share<'local>(
    mut env: EnvUnowned<'local>,
    class: JClass<'local>,
    options: JString<'local>,
) -> jlong {
    told(&mut env, &class, |env| {
        let options = packing::shared_options(&options.try_to_string(env)?)?;
        Ok(objects::share(options)? as jlong)
    })
}

// SAFETY: NAMES.
#[unsafe(no_mangle)]
extern "system" fn Java_org_slmdb_Native_checkpoint<'local>(
    mut env: EnvUnowned<'local>,
    class: JClass<'local>,
    handle: jlong,
    directory: JString<'local>,
) {
    told(&mut env, &class, |env| Ok(objects::store(handle)?.checkpoint(path(env, &directory)?)?))
}

/// Declares functions that give a report of a store.
macro_rules! reports {
    ($($name:ident: $work:path;)*) => {$(
        // SAFETY: NAMES.
        #[unsafe(no_mangle)]
        extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            class: JClass<'local>,
            handle: jlong,
        ) -> JString<'local> {
            report(&mut env, &class, |_| $work(handle))
        }
    )*};
}

reports! {
    Java_org_slmdb_Native_stats: care::stats;
    Java_org_slmdb_Native_statsJson: care::stats_json;
    Java_org_slmdb_Native_tableFilesJson: care::table_files_json;
    Java_org_slmdb_Native_verify: care::verify;
}

/// Declares functions that give a report of what they have done to a directory.
macro_rules! reports_of_directories {
    ($($name:ident: $work:path;)*) => {$(
        // SAFETY: NAMES.
        #[unsafe(no_mangle)]
        extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            class: JClass<'local>,
            directory: JString<'local>,
            options: JString<'local>,
        ) -> JString<'local> {
            report(&mut env, &class, |env| $work(&path(env, &directory)?, &options.try_to_string(env)?))
        }
    )*};
}

reports_of_directories! {
    Java_org_slmdb_Native_repair: care::repair;
    Java_org_slmdb_Native_destroy: care::destroy;
}

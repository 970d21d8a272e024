/**
 * slmdb, an ordered, embedded key-value store. Start at {@link org.slmdb.Db}.
 *
 * <p>The native library is loaded with the first store or {@link org.slmdb.Shared}. It is in the jar, from which it is put into the
 * directory {@code slmdb-java-USER} below {@code java.io.tmpdir}, or into the one that the system property {@code
 * slmdb.library.directory} names. The system property {@code slmdb.library.path} names a library to use instead. {@link
 * org.slmdb.SlmdbLibraryException} tells what to do where it can't be loaded.
 */
package org.slmdb;

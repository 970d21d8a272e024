//! [`Mode`]: how an input is taken; and what damaged bytes may give.

use slmdb_env::{Error, ErrorKind};

use crate::script;

/// How an input is to be taken: its first byte.
#[derive(Debug, Clone, Copy)]
pub struct Mode(u8);

impl Mode {
    /// The rest is a file, not a script of edits.
    pub const WHOLE: u8 = 1;
    /// Checksums are mended.
    pub const MENDED: u8 = 2;
    /// What it means is the target's.
    pub const OPTION: u8 = 4;
    /// Which sound file is edited is above this bit.
    pub const SOUND_SHIFT: u8 = 3;

    /// Takes the first byte of an input off.
    pub fn split(input: &[u8]) -> Option<(Mode, &[u8])> {
        input.split_first().map(|(&mode, rest)| (Mode(mode), rest))
    }

    /// Whether the rest is a file.
    pub fn is_whole(self) -> bool {
        self.0 & Mode::WHOLE != 0
    }

    /// Whether checksums are mended.
    pub fn is_mended(self) -> bool {
        self.0 & Mode::MENDED != 0
    }

    /// The target's own bit.
    pub fn has_option(self) -> bool {
        self.0 & Mode::OPTION != 0
    }

    /// A number below `count`: which sound file.
    pub fn sound(self, count: usize) -> usize {
        usize::from(self.0 >> Mode::SOUND_SHIFT) % count
    }

    /// The file that the rest of an input stands for, not mended.
    pub fn file(self, rest: &[u8], sound: &[u8]) -> Vec<u8> {
        if self.is_whole() {
            return rest.to_vec();
        }
        let mut file = [sound.to_vec()];
        script::apply(rest, &mut file);
        let [file] = file;
        file
    }

    /// Mends the checksums of a file, if that is wanted. A sound one must not change.
    pub(crate) fn mend(self, bytes: &mut [u8], sound: &[u8], mend: impl FnOnce(&mut [u8])) {
        if self.is_mended() {
            let is_sound = bytes == sound;
            mend(bytes);
            assert!(!is_sound || bytes == sound, "mending has changed a sound file");
        }
    }

    /// Whether what was read has to be what was written.
    pub fn is_strict(self) -> bool {
        !self.is_whole() && !self.is_mended()
    }
}

/// What damaged bytes may give.
pub(crate) fn expected(error: &Error) {
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()), "not an error for damaged bytes: {error:?}");
    if let Error::Corruption { file, .. } = error {
        assert!(!file.as_os_str().is_empty(), "no file named: {error}");
    }
}

//! Flow control (RFC 9113 §5.2): how much each side may send.

/// The maximum size of a window.
pub(super) const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;

/// A window is opened at the latest when this much was passed on.
const UPDATE_BYTES_MAX: u32 = 512 * 1024;

/// A window of the peer, which limits what this side sends. Negative after the peer has reduced its setting (§6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

/// A window that would exceed [`WINDOW_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

impl SendWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self(i64::from(bytes))
    }

    /// Returns how many bytes this side may send.
    pub(super) fn available(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// Records sent bytes, at most [`Self::available`].
    pub(super) fn send(&mut self, bytes: u64) {
        self.0 = self.0.saturating_sub_unsigned(bytes);
    }

    /// Changes the window by a WINDOW_UPDATE or a new setting.
    pub(super) fn change(&mut self, by: i64) -> Result<(), Overflow> {
        let changed = self.0.saturating_add(by);
        if changed > i64::from(WINDOW_BYTES_MAX) {
            return Err(Overflow);
        }
        self.0 = changed;
        Ok(())
    }
}

/// A window of this side, which limits what the peer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// How much the peer may still send.
    available: u32,
    /// How much of the received bytes is still stored here.
    stored: u32,
    /// The size to which the window is opened again.
    size: u32,
}

impl ReceiveWindow {
    pub(super) fn new(size: u32) -> Self {
        Self { available: size, stored: 0, size }
    }

    /// Records received bytes. Fails if the peer has sent more than it may.
    pub(super) fn receive(&mut self, bytes: u32) -> Result<(), Overflow> {
        self.available = self.available.checked_sub(bytes).ok_or(Overflow)?;
        self.stored += bytes;
        Ok(())
    }

    /// Returns how much of the received bytes was not passed on.
    pub(super) fn stored(self) -> u32 {
        self.stored
    }

    /// Records bytes that were passed on, at most those received.
    pub(super) fn pass_on(&mut self, bytes: u32) {
        self.stored = self.stored.saturating_sub(bytes);
    }

    /// Enlarges the window, once bytes are passed on.
    pub(super) fn grow(&mut self, size: u32) {
        self.size = self.size.max(size.min(WINDOW_BYTES_MAX));
    }

    /// Returns by how much to open the window. `None` while half of it was not passed on, or [`UPDATE_BYTES_MAX`]: every update is
    /// a frame, and with late ones the peer must wait.
    pub(super) fn update(&mut self) -> Option<u32> {
        let open = self.size.saturating_sub(self.stored);
        let increment = open.saturating_sub(self.available);
        if increment == 0 || increment < (self.size / 2).min(UPDATE_BYTES_MAX) {
            return None;
        }
        self.available += increment;
        Some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_be_negative_but_not_larger_than_31_bits() {
        let mut window = SendWindow::new(10);
        window.send(10);
        window.change(-100).unwrap();
        assert_eq!(window.available(), 0);
        window.change(101).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.change(0x7fff_ffff), Err(Overflow));
        window.change(0x7fff_fffe).unwrap();
        assert_eq!(window.available(), u64::from(WINDOW_BYTES_MAX));
    }

    #[test]
    fn a_window_opens_when_half_of_it_was_passed_on() {
        let mut window = ReceiveWindow::new(100);
        window.receive(60).unwrap();
        assert_eq!(window.update(), None, "all of it is stored");
        window.pass_on(49);
        assert_eq!(window.update(), None);
        window.pass_on(1);
        assert_eq!(window.update(), Some(50));
        assert_eq!(window.receive(91), Err(Overflow));
        window.receive(90).unwrap();
    }

    #[test]
    fn a_grown_window_opens_by_more_than_was_passed_on() {
        let mut window = ReceiveWindow::new(100);
        window.receive(50).unwrap();
        window.grow(400);
        window.grow(200);
        window.pass_on(50);
        assert_eq!(window.update(), Some(350));
        assert_eq!(window.update(), None);
    }
}

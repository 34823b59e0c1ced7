//! The wall clock as far as the deletion of old things trusts it (spec 4-execution, *Faults*: a jump of the clock deletes
//! nothing). What is kept for days outlives the process, so that its age can only be told by wall clocks; but time that this
//! process did not live through counts slowly.

use std::{sync::Mutex, time::Duration};

use domain::timestamp::Timestamp;

use crate::{
    Control,
    accounts::lock,
    ports::{Clock, StoreError},
};

/// The setting that holds the latest trusted time, in microseconds, across restarts.
const SETTING: &str = "trusted_time";
/// While it is behind the wall clock, trusted time goes at most so many times as fast as the monotonic one: a server that
/// was off for a month is right after five days, and whoever's clock jumped has days to notice.
const CATCH_UP: u32 = 8;
/// A wall clock that goes back takes trusted time with it, since what is written meanwhile bears those earlier times; but not
/// further than this. A machine that starts in 1970 until its clock is set would otherwise have decades to catch up with.
const BACK_AT_MOST_SECONDS: i64 = 366 * 86_400;

/// What is trusted, and since when.
#[derive(Debug)]
pub(crate) struct TrustedTime(Mutex<State>);

#[derive(Debug)]
struct State {
    trusted: Timestamp,
    /// The latest that `trusted` ever was.
    latest: Timestamp,
    /// Monotonic time of the last look.
    looked: Duration,
    /// Whether what an earlier process left was taken over.
    resumed: bool,
}

impl State {
    const fn new(wall: Timestamp, monotonic: Duration) -> Self {
        Self {
            trusted: wall,
            latest: wall,
            looked: monotonic,
            resumed: false,
        }
    }

    /// Goes on from where an earlier process was, if one was.
    fn resume(&mut self, earlier: Option<Timestamp>) {
        if let (false, Some(earlier)) = (self.resumed, earlier) {
            self.trusted = earlier;
            self.latest = earlier;
        }
        self.resumed = true;
    }

    /// The trusted time, never later than the wall clock.
    fn look(&mut self, wall: Timestamp, monotonic: Duration) -> Timestamp {
        let lived = monotonic.saturating_sub(self.looked);
        self.looked = self.looked.max(monotonic);
        let reach = i64::try_from(lived.saturating_mul(CATCH_UP).as_micros()).unwrap_or(i64::MAX);
        let reach = Timestamp::from_micros(self.trusted.micros().saturating_add(reach));
        self.trusted = wall
            .min(reach)
            .max(self.latest.plus_seconds(-BACK_AT_MOST_SECONDS));
        self.latest = self.latest.max(self.trusted);
        wall.min(self.trusted)
    }
}

impl TrustedTime {
    /// Trusts the clock as it stands, unless an earlier process left something else.
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        Self(Mutex::new(State::new(clock.now(), clock.monotonic())))
    }
}

impl Control {
    /// The time that receipts, claims, sign-ins and logs are judged by when they are old enough to go.
    pub(crate) async fn trusted_now(&self) -> Result<Timestamp, StoreError> {
        let trusted = &self.0.trusted.0;
        if !lock(trusted).resumed {
            let earlier = self.0.store.setting(SETTING).await?;
            let earlier = earlier.and_then(|micros| micros.parse().ok());
            lock(trusted).resume(earlier.map(Timestamp::from_micros));
        }
        let (wall, monotonic) = (self.0.clock.now(), self.0.clock.monotonic());
        Ok(lock(trusted).look(wall, monotonic))
    }

    /// Leaves it to the process that comes after this one, so that a restart does not make a jump true.
    pub(crate) async fn keep_trusted_time(&self) -> Result<(), StoreError> {
        let latest = lock(&self.0.trusted.0).latest.micros().to_string();
        self.0.store.set_setting(SETTING, Some(&latest)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).plus_seconds(day * DAY)
    }

    fn days(days: i64) -> Duration {
        Duration::from_secs(u64::try_from(days * DAY).unwrap_or_default())
    }

    #[test]
    fn trusted_time_follows_the_wall_clock_and_jumps_only_back() {
        let mut state = State::new(at(0), days(0));
        for (wall, monotonic, trusted) in [
            (0, 0, 0),
            (1, 1, 1),
            (400, 401, 400),
            // Forward: at most eight days in one that was lived through.
            (500, 401, 400),
            (501, 402, 408),
            (506, 407, 448),
            // Put right: what was gained is given back.
            (407, 408, 407),
            (408, 409, 408),
            // Back for a day, and right again.
            (108, 409, 108),
            (109, 410, 109),
            (410, 411, 117),
        ] {
            assert_eq!(
                state.look(at(wall), days(monotonic)),
                at(trusted),
                "wall {wall}, monotonic {monotonic}"
            );
        }
    }

    #[test]
    fn a_start_goes_on_from_what_the_process_before_left_and_catches_up_within_days() {
        let mut state = State::new(at(30), days(0));
        state.resume(Some(at(0)));
        // What comes later is not asked any more.
        state.resume(Some(at(9)));
        assert_eq!(state.look(at(30), days(0)), at(0));
        assert_eq!(state.look(at(32), days(2)), at(16));
        assert_eq!(state.look(at(35), days(5)), at(35));
    }

    #[test]
    fn a_machine_that_starts_in_1970_catches_up_within_two_months() {
        let epoch = Timestamp::from_micros(0);
        let mut state = State::new(epoch, days(0));
        state.resume(Some(at(0)));
        assert_eq!(state.look(epoch, days(0)), epoch);
        assert_eq!(state.look(at(0), days(0)), at(-366));
        assert_eq!(state.look(at(60), days(60)), at(60));
    }
}

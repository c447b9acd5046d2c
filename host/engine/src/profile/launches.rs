//! The kernels that are launched on a device, and the times at which it computes them.

use std::time::{Duration, Instant};

pub use observer::LaunchRecorder;

/// A launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelLaunch {
    /// The name of the kernel's type, as the tensor library gives it.
    pub kernel: &'static str,
    /// When the host issued it.
    pub issued: Instant,
    /// When the device began to compute it; `None` if it does not say.
    pub began: Option<Instant>,
    /// The time that the device took; `None` if it does not measure it.
    pub duration: Option<Duration>,
}

#[cfg(not(feature = "gpu"))]
mod observer {
    use super::KernelLaunch;

    /// Records launches: there are none.
    #[derive(Debug)]
    pub struct LaunchRecorder;

    impl LaunchRecorder {
        /// Begins.
        #[must_use]
        pub fn start(_timed: bool) -> Self {
            Self
        }

        /// The launches in order.
        #[must_use]
        pub fn end(self) -> Vec<KernelLaunch> {
            Vec::new()
        }
    }
}

#[cfg(feature = "gpu")]
mod observer {
    use std::{sync::Arc, time::Instant};

    use cubecl::future::block_on;
    use cubecl_runtime::logging::{
        Duration, LaunchObservation, LaunchObserver, ProfileDuration, TimingMethod, TimingRequest,
    };
    use parking_lot::Mutex;

    use super::KernelLaunch;

    /// Records the launches of this process until it ends. Measured times delay the launches.
    #[derive(Debug)]
    pub struct LaunchRecorder {
        launches: Arc<Launches>,
        observation: LaunchObservation,
        start: Instant,
    }

    impl LaunchRecorder {
        /// Begins. The device's times are measured if `timed`.
        #[must_use]
        pub fn start(timed: bool) -> Self {
            let launches = Arc::new(Launches { timed, all: Mutex::default() });
            let observation = LaunchObservation::new(launches.clone());
            Self { launches, observation, start: Instant::now() }
        }

        /// The launches in order, when the device has computed all that are measured.
        #[must_use]
        pub fn end(self) -> Vec<KernelLaunch> {
            drop(self.observation);
            let all = std::mem::take(&mut *self.launches.all.lock());
            let read = |(kernel, issued, time)| {
                let (began, duration) = match time {
                    Time::Unknown => (None, None),
                    Time::Known(duration) => (None, Some(duration)),
                    Time::Unread(profile) => block_on(profile.resolve())
                        .map(|ticks| (self.start + ticks.start_duration_since(self.start), ticks.duration()))
                        .unzip(),
                };
                KernelLaunch { kernel, issued, began, duration }
            };
            all.into_iter().map(read).collect()
        }
    }

    struct Launches {
        timed: bool,
        all: Mutex<Vec<(&'static str, Instant, Time)>>,
    }

    impl std::fmt::Debug for Launches {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Launches").field("timed", &self.timed).finish_non_exhaustive()
        }
    }

    /// The time of a launch.
    enum Time {
        Unknown,
        Unread(ProfileDuration),
        Known(Duration),
    }

    impl Launches {
        /// Sets the time of a launch. Launches of several threads may alternate: it is the last of this kernel without
        /// one.
        fn set(&self, kernel: &'static str, time: Time) {
            let mut launched = self.all.lock();
            let unknown = launched
                .iter_mut()
                .rev()
                .find(|(name, _, time)| *name == kernel && matches!(time, Time::Unknown));
            if let Some((.., place)) = unknown {
                *place = time;
            }
        }
    }

    impl LaunchObserver for Launches {
        fn launched(&self, kernel: &'static str) {
            self.all.lock().push((kernel, Instant::now(), Time::Unknown));
        }

        fn timing(&self) -> TimingRequest {
            if self.timed { TimingRequest::Deferred } else { TimingRequest::None }
        }

        // A time that is not the device's includes the launch and the compilation of the kernel.
        fn profiled(&self, kernel: &'static str, profile: ProfileDuration) {
            if profile.timing_method() == TimingMethod::Device {
                self.set(kernel, Time::Unread(profile));
            }
        }

        fn timed(&self, kernel: &'static str, duration: Duration, method: TimingMethod) {
            if method == TimingMethod::Device {
                self.set(kernel, Time::Known(duration));
            }
        }
    }
}

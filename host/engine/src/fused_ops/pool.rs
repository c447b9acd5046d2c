//! The threads of forward and backward passes: on the CPU, the pool that computes their parts.

use burn::tensor::Device;

use super::is_available;

/// Returns the result of `work`. On the CPU a thread of the pool executes it: operations that share their parts among
/// threads then start without waking a thread, and the caller's thread does not sleep and wake around each. On other
/// devices the caller's thread executes it, because the device orders its work by thread. Spans go to the caller's
/// subscriber.
pub fn in_pool<R: Send>(device: &Device, work: impl FnOnce() -> R + Send) -> R {
    if !is_available(device) {
        return work();
    }
    let subscriber = tracing::dispatcher::get_default(Clone::clone);
    rayon::scope(|_| tracing::dispatcher::with_default(&subscriber, work))
}

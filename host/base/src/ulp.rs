//! Distances of f32 numbers in units in the last place.

/// The distance of NaN from every number.
pub const INFINITELY_FAR: u64 = u64::MAX;

/// The distance of two numbers in ULP: the number of steps from one f32 to the next. Zeros of both signs are equal; so
/// are all NaN, which are infinitely far from every other number.
#[must_use]
pub fn ulp_distance(a: f32, b: f32) -> u64 {
    let place = |x: f32| {
        let magnitude = i64::from(x.to_bits() & !(1 << 31));
        if x.is_sign_negative() { -magnitude } else { magnitude }
    };
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => place(a).abs_diff(place(b)),
        _ => INFINITELY_FAR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with `next_up`, which walks the numbers one by one.
    #[test]
    fn distances_count_steps() {
        for start in [0.0, -0.0, 1.0, -1.0, 0.1, f32::MIN_POSITIVE, -f32::MIN_POSITIVE, f32::MAX, -3e-45] {
            let mut x: f32 = start;
            for steps in 0..5 {
                assert_eq!([ulp_distance(start, x), ulp_distance(x, start)], [steps; 2], "{start} {x}");
                x = x.next_up();
                if x.is_infinite() {
                    break;
                }
            }
        }
        // Two binades have 2^24 numbers; from -1 to 1 there are twice those below 1.
        assert_eq!(ulp_distance(1.0, 4.0), 1 << 24);
        assert_eq!(ulp_distance(-1.0, 1.0), 2 * u64::from(1f32.to_bits()));
        assert_eq!(ulp_distance(f32::MAX, f32::INFINITY), 1);
    }

    #[test]
    fn nan_is_itself_and_far_from_every_number() {
        assert_eq!(ulp_distance(f32::NAN, -f32::NAN), 0);
        for number in [0.0, -1.0, f32::INFINITY] {
            assert_eq!(ulp_distance(f32::NAN, number), INFINITELY_FAR);
            assert_eq!(ulp_distance(number, f32::NAN), INFINITELY_FAR);
        }
    }
}

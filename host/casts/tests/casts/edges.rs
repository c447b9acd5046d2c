//! Casts that are refused.

use altgrad_casts::{Axis, Block, Cast, CastError, Hadamard, Rounding, Rule, Scaling, Signs, Storage};
use altgrad_plugin_api::{Conventions, FormatSpec, RandomKey};

use crate::support::{apply_along, grid};

#[test]
fn fields_that_exclude_each_other_are_refused_by_name() {
    let base = Scaling::default();
    let e4m3 = Scaling { storage: Storage::E4m3, ..base };
    for (scaling, key) in [
        (Scaling { rule: Rule::Floor, ..e4m3 }, "`scaling.type`"),
        (Scaling { pow2: true, ..e4m3 }, "`scaling.type`"),
        (Scaling { tensor: true, ..base }, "`scaling.tensor`"),
        (Scaling { rule: Rule::Even, ..base }, "`scaling.rule`"),
        (Scaling { rule: Rule::Rms { deviations: 0.0 }, ..base }, "`scaling.deviations`"),
        (Scaling { margin: 33, ..base }, "`scaling.margin`"),
        (Scaling { floor: f64::NAN, ..base }, "`scaling.floor`"),
        (Scaling { floor: 1e39, ..base }, "`scaling.floor`"),
        (Scaling { factor: 0.0, ..base }, "`scaling.factor`"),
        (Scaling { factor: f32::NAN, ..base }, "`scaling.factor`"),
        (Scaling { amax: Some(-1.0), ..base }, "`scaling.static_amax`"),
        (Scaling { amax: Some(0.0), ..base }, "`scaling.static_amax`"),
        (Scaling { amax: Some(f32::INFINITY), ..base }, "`scaling.static_amax`"),
    ] {
        let error = Cast { scaling, ..Cast::default() }.check(&grid("INT8")).unwrap_err();
        assert!(error.to_string().starts_with(key), "{error}");
        assert!(!error.hint().is_empty());
    }
    let two_levels = Cast { scaling: Scaling { tensor: true, ..e4m3 }, ..Cast::default() };
    assert!(two_levels.check(&grid("E4M3")).is_ok());
    assert!(two_levels.check(&grid("E8M7")).unwrap_err().to_string().starts_with("`scaling.tensor`"));
    let even = Cast { scaling: Scaling { rule: Rule::Even, ..base }, ..Cast::default() };
    assert!(even.check(&grid("E4M3")).is_ok());
    for cast in [
        Cast { block: Block::Along(0), ..Cast::default() },
        Cast { block: Block::Tile([4, 0]), ..Cast::default() },
        Cast { block: Block::None, scaling: Scaling { pow2: true, ..base }, ..Cast::default() },
        Cast { block: Block::Row, scaling: Scaling { amax: Some(2.0), ..base }, ..Cast::default() },
        Cast { rounding: Rounding::TowardZero, ..even },
        Cast { rounding: Rounding::NearestZero, ..even },
        Cast { transform: Some(Hadamard { size: 3, signs: Signs::None, to_bf16: false }), ..Cast::default() },
    ] {
        assert!(matches!(cast.check(&grid("E4M3")), Err(CastError::Fields { .. })), "{cast:?}");
    }
}

#[test]
fn codes_of_tables_have_a_sign_and_a_magnitude() {
    let table = |values: &[f32]| {
        let spec = FormatSpec::Table(values.iter().copied().collect());
        altgrad_casts::Grid::new(&spec, &Conventions::default()).unwrap().sign_magnitude()
    };
    // Two's complement of two bits: 0, 1, -2, -1, with -2 taken as -1, as NaN, and as itself.
    assert_eq!(table(&[0.0, 1.0, -1.0, -1.0]), Some(vec![0, 1, 3, 3]));
    assert_eq!(table(&[0.0, 1.0, f32::NAN, -1.0]), None);
    assert_eq!(table(&[0.0, 1.0, -2.0, -1.0]), None);
    assert_eq!(table(&[0.0, 1.0, 2.0, f32::NAN, -0.0, -1.0, -2.0, -2.0]), Some(vec![0, 1, 2, 3, 4, 5, 6, 6]));
    assert_eq!(table(&[0.0, 1.0, f32::INFINITY, -1.0]), None);
    let int8 = grid("INT8").sign_magnitude().unwrap();
    assert_eq!((int8[0], int8[127], int8[255], int8[129]), (0, 127, 0x81, 0xff));
    assert_eq!(grid("E2M1").sign_magnitude(), Some((0..16).collect()));
}

#[test]
fn ties_toward_zero_need_middles() {
    let spec = FormatSpec::Table([0.0, 1.0, 4.0, -2.0].into_iter().collect());
    let conventions = Conventions::default().turning_at(vec![0.0, 0.0, 2.0]);
    let grid = altgrad_casts::Grid::new(&spec, &conventions).unwrap();
    let cast = Cast { rounding: Rounding::NearestZero, ..Cast::default() };
    assert!(cast.check(&grid).unwrap_err().to_string().starts_with("`rounding`"));
    assert!(Cast::default().check(&grid).is_ok());
}

#[test]
fn matrices_that_do_not_fit_are_refused() {
    let grid = grid("E4M3");
    let refused = |cast: &Cast, elements, shape| {
        apply_along(cast, &grid, &vec![1.0; elements], shape, Axis::Rows).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&Cast::default(), 5, [2, 3]),
        "5 elements do not form a matrix of 2 rows and 3 columns"
    );
    assert_eq!(
        refused(&Cast::default(), 0, [0, 3]),
        "0 elements do not form a matrix of 0 rows and 3 columns"
    );
    let transform = Some(Hadamard { size: 16, signs: Signs::Te, to_bf16: true });
    let cast = Cast { transform, ..Cast::default() };
    assert_eq!(
        refused(&cast, 48, [2, 24]),
        "an axis of 24 elements is no whole number of Hadamard transforms of 16"
    );
    let shape = altgrad_casts::Shape { rows: 1, columns: 2 };
    let prepared = Cast::default().prepare(&grid, &[1.0, 2.0], shape, Axis::Rows, &RandomKey::default());
    assert_eq!(prepared.unwrap().finish(&grid, vec![0]).unwrap_err().to_string(), "1 codes for 2 elements");
}

//! The kernels of bf16 products on tensor cores.
//!
//! A cube computes a block of the product. The tensor library's own choice makes blocks of up to 512 x 128, which leave
//! most multiprocessors idle at the shapes of small models. The table here takes the largest block with which each
//! multiprocessor has a cube. Gradients of weights, which have few elements and many terms, are split over their terms
//! if that makes larger blocks possible ([`super::parts_kernel`]).
//!
//! Before a kernel is used, it must compute a smaller product of whole numbers exactly, with the same tiles, the same
//! ends and an order of cubes of the same kind; otherwise the next one of [`Problem::strategies`] takes its place.
//! Choices depend on the shapes and the device only, so that equal runs compute the same bits.

use std::fmt;

use super::product_shape::Problem;

/// Tiles of a block along each side, from the largest block on.
const TILES: [u32; 3] = [8, 4, 2];
/// Terms that a kernel loads at once are a divisor of this.
const TERMS: usize = 128;
/// Parts of a split product.
const PARTS: [usize; 3] = [2, 4, 8];
/// The fewest terms of a part: 16 loads of 32.
const TERMS_OF_PART: usize = 512;
/// The fewest multiplications of a split product. Its sum is one more launch, for which the host took up to 33 us on an
/// H100; so many multiplications take 43 us at 100 TFLOP/s.
const WORTH_A_LAUNCH: usize = 1 << 31;

/// The kernel of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// A block of some tiles along each side, loaded while the one before is multiplied.
    Blocks(u32),
    /// The same for each of some parts of the terms.
    Parts(u32, usize),
    /// The tensor library's own choice.
    Library,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(tiles) => write!(f, "blocks of {tiles} tiles"),
            Self::Parts(tiles, parts) => write!(f, "{parts} parts in blocks of {tiles} tiles"),
            Self::Library => f.write_str("tensor library"),
        }
    }
}

/// Rows and columns of a tile, as the tensor library chooses it for products that are tall, wide, or neither.
fn tile(rows: usize, columns: usize) -> [usize; 2] {
    if rows >= 4 * columns {
        [32, 8]
    } else if columns >= 4 * rows {
        [8, 32]
    } else {
        [16, 16]
    }
}

impl Problem {
    /// The sides of a block.
    fn block(&self, tiles: u32) -> [usize; 2] {
        let [rows, columns, _] = self.sides;
        tile(rows, columns).map(|side| side * tiles as usize)
    }

    /// The kernels to try, in this order, on a device with so many multiprocessors.
    pub(crate) fn strategies(&self, multiprocessors: usize) -> Vec<Strategy> {
        let cubes = |tiles: &u32| {
            let block = self.block(*tiles);
            self.sides[0].div_ceil(block[0]) * self.sides[1].div_ceil(block[1])
        };
        let fills = |parts: usize| TILES.into_iter().find(|tiles| cubes(tiles) * parts >= multiprocessors);
        let whole = fills(1).unwrap_or(TILES[TILES.len() - 1]);
        let of_parts = PARTS.into_iter().filter(|parts| self.splits(*parts));
        let larger = of_parts.filter_map(|parts| Some((fills(parts)?, parts))).filter(|of| of.0 > whole);
        // Of equal blocks, those of the fewest parts.
        let split = larger.max_by_key(|(tiles, parts)| (*tiles, std::cmp::Reverse(*parts)));
        let split = split.map(|(tiles, parts)| Strategy::Parts(tiles, parts));
        split.into_iter().chain([Strategy::Blocks(whole), Strategy::Library]).collect()
    }

    /// True if the terms are the rows of both factors in memory, so that views of the parts are matrices in memory, and
    /// there are enough of them.
    fn splits(&self, parts: usize) -> bool {
        let terms = self.sides[2];
        self.sides.iter().product::<usize>() >= WORTH_A_LAUNCH
            && self.transposed == [true, false]
            && terms.is_multiple_of(parts * TERMS)
            && terms / parts >= TERMS_OF_PART
    }

    /// A smaller product with the same tile and the same remainders at the ends of blocks, which tries its kernel. The
    /// numbers of blocks have the same remainders by 4, which decide the order of the cubes.
    pub(crate) fn trial(&self, strategy: Strategy) -> Self {
        let (tiles, parts) = match strategy {
            Strategy::Blocks(tiles) => (tiles, 1),
            Strategy::Parts(tiles, parts) => (tiles, parts),
            Strategy::Library => return *self,
        };
        let [rows, columns] = self.block(tiles).map(|side| 4 * side);
        let fewer = |side: usize, of: usize| if side < 2 * of { side } else { of + side % of };
        let [m, n, k] = self.sides;
        let mut sides = [fewer(m, rows), fewer(n, columns), parts * fewer(k / parts, 2 * TERMS)];
        // Tall and wide products stay so.
        let is_same = |sides: [usize; 3]| tile(sides[0], sides[1]) == tile(m, n);
        while !is_same(sides) {
            if m > n { sides[0] += rows } else { sides[1] += columns }
        }
        Self { sides, ..*self }
    }
}

#[cfg(feature = "gpu")]
pub(crate) use on_device::{choices, matmul};

#[cfg(feature = "gpu")]
mod on_device {
    use std::{array::from_fn, collections::BTreeMap};

    use burn::backend::{TensorMetadata as _, ops::FloatTensorOps as _};
    use burn::tensor::{DType, FloatDType, Shape};
    use burn_cubecl::{
        CubeBackend, CubeDevice,
        kernel::matmul::{MatmulStrategy, init_matmul_output},
        tensor::CubeTensor,
    };
    use cubecl::prelude::Scalar as _;
    use cubek::{
        matmul::{
            definition::{MatmulElems, MatmulGlobalElems},
            launch::launch_ref,
            multi_level::{
                Strategy as Routine, routines::batch::ordered_double_buffering::OrderedSelectionArgs,
            },
            routine::BlueprintStrategy,
        },
        std::InputBinding,
    };
    use half::bf16;
    use parking_lot::Mutex;

    use super::{Problem, Strategy};
    #[cfg(feature = "cuda")]
    use crate::tensor::cublaslt;
    use crate::{
        device_faults::catch_panic,
        kernel_text::{download, upload},
        tensor::parts_kernel,
    };

    /// The kernels of the products so far: a process computes on one GPU.
    static CHOICES: Mutex<BTreeMap<Problem, Strategy>> = Mutex::new(BTreeMap::new());

    /// The kernels of the products so far, as text.
    pub(crate) fn choices() -> BTreeMap<String, String> {
        let text = |(problem, strategy): (&Problem, &Strategy)| (problem.to_string(), strategy.to_string());
        let own: BTreeMap<String, String> = CHOICES.lock().iter().map(text).collect();
        #[cfg(feature = "cuda")]
        let own = cublaslt::choices().into_iter().chain(own).collect();
        own
    }

    /// `a b` of bf16 matrices, added in f32: f32.
    pub(crate) fn matmul(a: CubeTensor, b: CubeTensor) -> CubeTensor {
        #[cfg(feature = "cuda")]
        if let Some(y) = cublaslt::matmul(&a, &b) {
            return y;
        }
        let problem = problem(&a, &b);
        let known = CHOICES.lock().get(&problem).copied();
        let strategy = known.unwrap_or_else(|| {
            let chosen = choose(problem, &a);
            CHOICES.lock().insert(problem, chosen);
            chosen
        });
        match launch(strategy, a, b) {
            Ok(y) => y,
            // As the tensor library does for its own products.
            Err(error) => panic!("a bf16 matrix product cannot be set up: {error}"),
        }
    }

    fn problem(a: &CubeTensor, b: &CubeTensor) -> Problem {
        let ([m, k], n) = (a.shape().dims::<2>(), b.shape().dims::<2>()[1]);
        let is_transposed = |x: &CubeTensor| x.meta.strides()[1] != 1;
        Problem { sides: [m, n, k], transposed: [is_transposed(a), is_transposed(b)] }
    }

    /// The first kernel that computes right.
    fn choose(problem: Problem, x: &CubeTensor) -> Strategy {
        let hardware = &x.client.properties().hardware;
        // Without the number, the library's choice.
        let multiprocessors = hardware.num_streaming_multiprocessors.map_or(0, |count| count as usize);
        let is_right = |strategy: &Strategy| match *strategy {
            Strategy::Library => true,
            _ if multiprocessors == 0 => false,
            _ => match catch_panic(|| check(problem.trial(*strategy), *strategy, &x.device)) {
                Ok(()) => true,
                Err(why) => {
                    tracing::warn!("the product {problem} is not computed by {strategy}: {why}");
                    false
                }
            },
        };
        problem.strategies(multiprocessors).into_iter().find(is_right).unwrap_or(Strategy::Library)
    }

    /// Whole numbers from -2 to 2, exact in bf16, that repeat after so many rows and columns. Sums of their products
    /// are exact in f32, in any order.
    fn whole(row: usize, column: usize) -> i32 {
        ((7 * row + 13 * column) % PERIOD) as i32 - 2
    }

    const PERIOD: usize = 5;

    /// Computes a product of whole numbers.
    fn check(problem: Problem, strategy: Strategy, device: &CubeDevice) -> Result<(), String> {
        let [m, n, k] = problem.sides;
        let factor = |rows: usize, columns: usize, transposed: bool| {
            let values = |[outer, inner]: [usize; 2], at: &dyn Fn(usize, usize) -> i32| {
                let pairs = (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i)));
                pairs.map(|(o, i)| at(o, i) as f32).collect::<Vec<f32>>()
            };
            let (shape, values) = match transposed {
                true => ([columns, rows], values([columns, rows], &|column, row| whole(row, column))),
                false => ([rows, columns], values([rows, columns], &whole)),
            };
            let x = upload::<CubeBackend>(device, Shape::from(shape), values);
            let x = CubeBackend::float_cast(x, FloatDType::BF16);
            if transposed { CubeBackend::float_swap_dims(x, 0, 1) } else { x }
        };
        let [a_transposed, b_transposed] = problem.transposed;
        let y = launch(strategy, factor(m, k, a_transposed), factor(k, n, b_transposed))?;
        let found = download::<CubeBackend>(y)?;
        let product = |row, column| (0..k).map(|term| whole(row, term) * whole(term, column)).sum();
        let expected: [[i32; PERIOD]; PERIOD] = from_fn(|row| from_fn(|column| product(row, column)));
        for row in 0..m {
            for column in 0..n {
                let (expected, found) = (expected[row % PERIOD][column % PERIOD], found[row * n + column]);
                if found != expected as f32 {
                    return Err(format!("element {row}, {column} of a trial is {found}, not {expected}"));
                }
            }
        }
        Ok(())
    }

    fn launch(strategy: Strategy, a: CubeTensor, b: CubeTensor) -> Result<CubeTensor, String> {
        match strategy {
            Strategy::Blocks(tiles) => {
                let y = init_matmul_output(&a, &b, DType::F32);
                launch_blocks(tiles, a, b, &y).map(|()| y)
            }
            Strategy::Parts(tiles, parts) => {
                let [a, b] = parts_kernel::split(a, b, parts);
                let products = parts_kernel::products([&a, &b]);
                launch_blocks(tiles, a, b, &products).map(|()| parts_kernel::sum(products))
            }
            Strategy::Library => {
                let library = MatmulStrategy::default();
                burn_cubecl::kernel::matmul::matmul(a, b, None, library, DType::F32)
                    .map_err(|error| format!("{error:?}"))
            }
        }
    }

    /// Writes the products of matrices, or of batches of them.
    fn launch_blocks(tiles: u32, a: CubeTensor, b: CubeTensor, y: &CubeTensor) -> Result<(), String> {
        let element = bf16::elem_type_native();
        let globals = MatmulGlobalElems { lhs: element, rhs: element, out: f32::elem_type_native() };
        let args =
            OrderedSelectionArgs { row_count: Some(tiles), rows_per_plane: Some(1), ..Default::default() };
        let routine = Routine::OrderedDoubleCmma(BlueprintStrategy::Inferred(args));
        let [a, b] = [a, b].map(|x| InputBinding::new(x.binding(), element));
        let mut types = MatmulElems::from_globals(&globals);
        launch_ref(&routine.into(), &y.client, a, b, y.clone().binding(), &mut types)
            .map_err(|error| format!("{error:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(sides: [usize; 3]) -> Problem {
        Problem { sides, transposed: [false, true] }
    }

    /// The products of a layer with width 384 and 3,072 tokens, and of a head, on 132 multiprocessors.
    #[test]
    fn blocks_are_the_largest_that_fill_the_device() {
        let tiles = |sides| match problem(sides).strategies(132)[..] {
            [Strategy::Blocks(tiles), Strategy::Library] => tiles,
            ref other => panic!("{other:?}"),
        };
        // 24 x 12 blocks of 128 x 128.
        assert_eq!(tiles([3072, 1536, 384]), 8);
        // Tall: 12 x 6 blocks of 256 x 64 are too few, 24 x 12 of 128 x 32 are enough.
        assert_eq!(tiles([3072, 384, 1536]), 4);
        // 6 x 6 blocks of 64 x 64 are too few, 12 x 12 of 32 x 32 are enough.
        assert_eq!(tiles([384, 384, 3072]), 2);
        assert_eq!(tiles([3072, 50_257, 384]), 8);
        // Nothing fills the device.
        assert_eq!(tiles([16, 16, 64]), 2);
    }

    /// Gradients of weights of GPT-2, 8,192 tokens.
    #[test]
    fn gradients_of_weights_are_split_into_few_parts_with_large_blocks() {
        let first = |m, n, terms| {
            let product = Problem { sides: [m, n, terms], transposed: [true, false] };
            product.strategies(132)[0]
        };
        // 6 x 6 and 18 x 6 blocks of 128 x 128.
        assert_eq!(first(768, 768, 8192), Strategy::Parts(8, 4));
        assert_eq!(first(2304, 768, 8192), Strategy::Parts(8, 2));
        // 12 x 12 blocks of 256 x 64 are enough, as are those of the head.
        assert_eq!(first(3072, 768, 8192), Strategy::Blocks(8));
        assert_eq!(first(50_257, 768, 8192), Strategy::Blocks(8));
        // Parts would be unequal, or the product is too small for one more launch.
        assert_eq!(first(768, 768, 8200), Strategy::Blocks(4));
        assert_eq!(first(1536, 384, 3072), Strategy::Blocks(4));
    }

    #[test]
    fn a_trial_is_small_and_ends_like_its_product() {
        for sides in
            [[3072, 50_257, 384], [3072, 384, 1536], [50_257, 384, 3072], [5, 7, 9], [384, 1536, 3072]]
        {
            for tiles in TILES {
                let (whole, trial) = (problem(sides), problem(sides).trial(Strategy::Blocks(tiles)));
                let [rows, columns] = whole.block(tiles);
                assert_eq!(trial.block(tiles), whole.block(tiles), "{sides:?}");
                for (side, of) in [(0, rows), (1, columns), (2, 128)] {
                    let (whole, trial) = (whole.sides[side], trial.sides[side]);
                    assert!(trial <= whole && trial % of == whole % of, "{sides:?}: {trial} of {whole}");
                }
                for (side, of) in [(0, rows), (1, columns)] {
                    let blocks = |sides: [usize; 3]| sides[side].div_ceil(of) % 4;
                    assert_eq!(blocks(trial.sides), blocks(whole.sides), "{sides:?}: {trial}");
                }
                assert!(trial.sides[0] * trial.sides[1] <= 1 << 22, "{sides:?}: {trial}");
            }
        }
    }

    /// Each part of a trial has the terms that a product of one part would try.
    #[test]
    fn a_trial_of_parts_has_as_many_equal_parts() {
        for (sides, parts) in [([768, 768, 8192], 4), ([2304, 768, 8192], 2), ([768, 2304, 2 * 8320], 2)] {
            let trial = problem(sides).trial(Strategy::Parts(8, parts));
            let part = Problem { sides: [sides[0], sides[1], sides[2] / parts], ..problem(sides) };
            let [m, n, k] = part.trial(Strategy::Blocks(8)).sides;
            assert_eq!(trial.sides, [m, n, parts * k], "{sides:?}");
            assert!(trial.sides[2] <= sides[2] / 8, "{trial}");
        }
    }

    #[test]
    fn records_name_shapes_and_layouts() {
        assert_eq!(problem([3, 5, 4]).to_string(), "3 x 4 by 4 x 5^T");
        assert_eq!(Strategy::Blocks(4).to_string(), "blocks of 4 tiles");
        assert_eq!(Strategy::Parts(8, 2).to_string(), "2 parts in blocks of 8 tiles");
    }
}

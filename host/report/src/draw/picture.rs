//! Heat maps: a cell a pixel of a small picture, which is stretched without smoothing.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::Plot;

/// Colours from low to high, evenly spread: Cividis, which colour-blind readers see alike (PLOS ONE 13, e0199239,
/// 2018).
const COLOURS: [[u8; 3]; 9] = [
    [0, 34, 78],
    [24, 59, 111],
    [66, 78, 108],
    [97, 98, 112],
    [125, 124, 120],
    [156, 147, 119],
    [189, 173, 108],
    [224, 201, 86],
    [254, 232, 56],
];
/// Colours from below to above zero: ColorBrewer's RdBu, which colour-blind readers can tell apart, without the dark
/// ends, on which text would be hard to read.
const DIVERGING: [[u8; 3]; 5] =
    [[67, 147, 195], [146, 197, 222], [247, 247, 247], [244, 165, 130], [214, 96, 77]];
/// The last step of colour; the one more is that of cells without a value, which are transparent.
const LAST: u8 = 254;
const NO_VALUE: u8 = 255;

/// The colours of a heat map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Palette {
    /// From low to high.
    Sequential,
    /// From negative to positive, with a neutral colour in the middle of the range.
    Diverging,
}

/// A heat map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Picture {
    /// Rows from above to below.
    pub rows: Vec<Vec<Option<f64>>>,
    /// Value of the first and of the last colour.
    pub range: [f64; 2],
    /// True if colours follow the logarithm of values.
    pub is_log: bool,
    pub palette: Palette,
    /// The name of a value, for the scale beside it.
    pub title: String,
    /// Labels of the scale: value and text.
    pub scale: Vec<(f64, String)>,
}

impl Picture {
    /// The image, over the whole area.
    pub(super) fn element(&self, _: &Plot) -> String {
        format!(
            "<image x=\"0\" y=\"0\" width=\"1000\" height=\"1000\" preserveAspectRatio=\"none\" href=\"data:image/png;base64,{}\"/>",
            BASE64_STANDARD.encode(self.png())
        )
    }

    /// Place of a value on the scale, 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let [low, high] = self.range.map(of);
        let share = (of(value) - low) / (high - low);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Steps of colour, row by row.
    pub(crate) fn cells(&self) -> Vec<u8> {
        let width = self.width();
        let cell =
            |cell: Option<&Option<f64>>| match cell.copied().flatten().filter(|value| value.is_finite()) {
                Some(value) => (self.share(value) * f64::from(LAST)).round() as u8,
                None => NO_VALUE,
            };
        self.rows.iter().flat_map(|row| (0..width).map(move |column| cell(row.get(column)))).collect()
    }

    pub(crate) fn width(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0).max(1)
    }

    fn png(&self) -> Vec<u8> {
        let (width, cells) = (self.width(), self.cells());
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, self.rows.len().max(1) as u32);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette((0..=255u8).flat_map(|step| self.palette.colour(step)).collect::<Vec<u8>>());
        encoder.set_trns((0..=255u8).map(|step| if step == NO_VALUE { 0 } else { 255 }).collect::<Vec<u8>>());
        // This level has one implementation. Higher ones use the backend of flate2 that other crates select, so that
        // the same picture would differ between builds.
        encoder.set_compression(png::Compression::Fast);
        // Memory takes every byte, and the sizes agree.
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&cells));
        if written.is_ok() { bytes } else { Vec::new() }
    }
}

impl Palette {
    fn colours(self) -> &'static [[u8; 3]] {
        match self {
            Self::Sequential => &COLOURS,
            Self::Diverging => &DIVERGING,
        }
    }

    /// The colours as CSS writes them, from low to high, evenly spread.
    pub(crate) fn stops(self) -> Vec<String> {
        self.colours().iter().map(|[r, g, b]| format!("rgb({r} {g} {b})")).collect()
    }

    /// A step's colour.
    fn colour(self, step: u8) -> [u8; 3] {
        let colours = self.colours();
        let place = f64::from(step.min(LAST)) / f64::from(LAST) * (colours.len() - 1) as f64;
        let first = (place as usize).min(colours.len() - 2);
        let part = place - first as f64;
        let mix = |channel: usize| {
            let [a, b] = [first, first + 1].map(|index| f64::from(colours[index][channel]));
            (a + (b - a) * part).round() as u8
        };
        [mix(0), mix(1), mix(2)]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_colours_on_a_shared_scale_and_blank_without_a_value() {
        let rows = vec![vec![Some(1e-6), Some(1e-3)], vec![None, Some(1.0)]];
        let palette = Palette::Sequential;
        let picture = Picture {
            rows,
            range: [1e-6, 1.0],
            is_log: true,
            palette,
            title: String::new(),
            scale: Vec::new(),
        };
        assert!((picture.share(1e-3) - 0.5).abs() < 1e-12);
        let png = picture.png();
        let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut cells = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut cells).unwrap();
        let colours: Vec<[u8; 4]> = cells.chunks(4).map(|cell| cell.try_into().unwrap()).collect();
        assert_eq!(colours[0], [0, 34, 78, 255]);
        assert_eq!(colours[3], [254, 232, 56, 255], "the last step");
        assert_eq!(colours[2][3], 0, "no value");
        let middle = Palette::Diverging.colour(LAST / 2);
        assert_eq!(middle, [247, 247, 247], "no difference has no colour");
    }
}

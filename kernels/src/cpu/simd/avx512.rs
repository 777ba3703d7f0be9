//! Sixteen lanes, with fused multiplication and addition.
//!
//! A block of four-bit numbers is expanded by looking them up: the sixteen numbers that its elements can be are the lanes of a
//! vector. They round as in `dequant`, so that every instruction set expands a block to the same bits.

use std::arch::x86_64::{
    __m128, __m128i, __m512, __m512i, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_loadl_epi64, _mm_loadu_si128, _mm_storeu_ps,
    _mm256_loadu_si256, _mm512_add_ps, _mm512_and_si512, _mm512_broadcast_i64x4, _mm512_broadcastss_ps,
    _mm512_castps128_ps512, _mm512_castsi512_ps, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32,
    _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_fmadd_ps as multiply_add, _mm512_loadu_ps as load,
    _mm512_loadu_si512, _mm512_mask_or_epi32, _mm512_mul_ps, _mm512_permutex2var_ps, _mm512_permutexvar_ps,
    _mm512_reduce_add_ps as sum, _mm512_set1_epi32, _mm512_set1_ps as splat, _mm512_setr_epi32, _mm512_setr_epi64,
    _mm512_setr_ps, _mm512_setzero_ps as zero, _mm512_shuffle_f32x4, _mm512_shuffle_ps, _mm512_slli_epi32,
    _mm512_sllv_epi32, _mm512_srli_epi32, _mm512_srlv_epi32, _mm512_storeu_ps as store, _mm512_storeu_si512,
    _mm512_sub_epi32, _mm512_sub_ps, _mm512_ternarylogic_epi32,
};
use std::hint::black_box;

use super::super::dequant::ElementType;

const LANES: usize = 16;

/// `a & b | c`, as the truth table of the instruction.
const AND_OR: i32 = 0b1110_1010;

/// The sums across the lanes of four vectors share their additions; each is added up as [`sum`] does.
#[target_feature(enable = "avx512f")]
#[inline]
fn sums<const R: usize>(totals: [__m512; R]) -> [f32; R] {
    let mut out = [0.0; R];
    let (fours, rest) = totals.as_chunks::<4>();
    let (out_fours, out_rest) = out.as_chunks_mut::<4>();
    for (totals, out) in fours.iter().zip(out_fours) {
        *out = four_sums(*totals);
    }
    for (&total, out) in rest.iter().zip(out_rest) {
        *out = sum(total);
    }
    out
}

/// Lanes whose distance is half the lanes that are left are added, until one is left.
#[target_feature(enable = "avx512f")]
#[inline]
fn four_sums([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
    // Quarters of 128 bits: 0 and 1, plus 2 and 3.
    let ab = _mm512_add_ps(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
    let cd = _mm512_add_ps(_mm512_shuffle_f32x4::<0b01_00_01_00>(c, d), _mm512_shuffle_f32x4::<0b11_10_11_10>(c, d));
    // One quarter is left of each.
    let quarters =
        _mm512_add_ps(_mm512_shuffle_f32x4::<0b10_00_10_00>(ab, cd), _mm512_shuffle_f32x4::<0b11_01_11_01>(ab, cd));
    let pairs = _mm512_add_ps(quarters, _mm512_shuffle_ps::<0b11_10_11_10>(quarters, quarters));
    let singles = _mm512_add_ps(pairs, _mm512_shuffle_ps::<0b01_01_01_01>(pairs, pairs));
    let mut lanes = [0.0; LANES];
    put(singles, &mut lanes, 0);
    [lanes[0], lanes[4], lanes[8], lanes[12]]
}

/// The half-precision number at the start of a block, in every lane.
///
/// It goes through memory, from where a number reaches all lanes as a part of the instruction that needs it. From a register it
/// takes the unit that also looks numbers up and widens bytes, which has the most to do.
#[target_feature(enable = "avx512f")]
#[inline]
fn one_half<const BYTES: usize>(block: &[u8; BYTES]) -> __m512 {
    let mut numbers = [0.0; 4];
    // SAFETY: there is room for four numbers.
    unsafe { _mm_storeu_ps(numbers.as_mut_ptr(), four_halves(block)) };
    // The compiler would see through a store alone, and keep to registers.
    splat(black_box(numbers)[0])
}

/// The two half-precision numbers at the start of a block, each in every lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn two_halves<const BYTES: usize>(block: &[u8; BYTES]) -> [__m512; 2] {
    let second = _mm512_permutexvar_ps(_mm512_set1_epi32(1), _mm512_castps128_ps512(four_halves(block)));
    [one_half(block), second]
}

/// Half-precision numbers from the start of a block on, of which one or two are any.
#[target_feature(enable = "avx512f")]
#[inline]
fn four_halves<const BYTES: usize>(block: &[u8; BYTES]) -> __m128 {
    let four: &[u8; 8] = part(block, 0);
    // SAFETY: it is eight bytes.
    _mm_cvtph_ps(unsafe { _mm_loadl_epi64(four.as_ptr().cast()) })
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_bytes(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: it is sixteen bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Sixteen bytes, each widened to a lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn widen(bytes: &[u8; 16]) -> __m512i {
    _mm512_cvtepu8_epi32(load_bytes(bytes))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn zero_to_fifteen() -> __m512 {
    _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)
}

/// The entries of `table` for the four-bit numbers in `pairs`: those in the low halves of the bytes, then those in the high ones.
#[target_feature(enable = "avx512f")]
#[inline]
fn look_up(table: __m512, pairs: &[u8; 16], mut emit: impl FnMut(usize, __m512)) {
    let pairs = widen(pairs);
    // Of an index, only the low four bits count.
    emit(0, _mm512_permutexvar_ps(pairs, table));
    emit(1, _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(pairs), table));
}

#[target_feature(enable = "avx512f")]
#[inline]
fn floats(bytes: &[u8; 64], mut emit: impl FnMut(usize, __m512)) {
    // SAFETY: it holds exactly one vector.
    emit(0, unsafe { load(bytes.as_ptr().cast()) });
}

#[target_feature(enable = "avx512f")]
#[inline]
fn halves(bytes: &[u8; 32], mut emit: impl FnMut(usize, __m512)) {
    // SAFETY: it holds exactly one vector of half-precision numbers.
    emit(0, _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }));
}

#[target_feature(enable = "avx512f")]
#[inline]
fn upper_halves(bytes: &[u8; 32], mut emit: impl FnMut(usize, __m512)) {
    // SAFETY: it holds exactly one vector of upper halves.
    let wide = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
    emit(0, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)));
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q4_0(block: &[u8; 18], emit: impl FnMut(usize, __m512)) {
    let scale = one_half(block);
    let numbers = _mm512_sub_ps(zero_to_fifteen(), splat(8.0));
    look_up(_mm512_mul_ps(scale, numbers), part(block, 2), emit);
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q4_1(block: &[u8; 20], emit: impl FnMut(usize, __m512)) {
    let [scale, minimum] = two_halves(block);
    let table = _mm512_add_ps(_mm512_mul_ps(scale, zero_to_fifteen()), minimum);
    look_up(table, part(block, 4), emit);
}

/// Bytes of a block from `first` on.
#[inline]
fn part<const N: usize>(block: &[u8], first: usize) -> &[u8; N] {
    block[first..].first_chunk().expect("blocks are longer")
}

/// The entries of the two tables for the four-bit numbers in `pairs`, as in [`look_up`]: of the second where the bit of `fifth` is
/// set.
#[target_feature(enable = "avx512f")]
#[inline]
fn look_up_five_bits(
    [first, second]: [__m512; 2],
    pairs: &[u8; 16],
    fifth: [u8; 4],
    mut emit: impl FnMut(usize, __m512),
) {
    let fifth = u32::from_le_bytes(fifth);
    let sixteen = _mm512_set1_epi32(16);
    let pairs = widen(pairs);
    let low = _mm512_and_si512(pairs, _mm512_set1_epi32(0xf));
    let low = _mm512_mask_or_epi32(low, fifth as u16, low, sixteen);
    emit(0, _mm512_permutex2var_ps(first, low, second));
    let high = _mm512_srli_epi32::<4>(pairs);
    let high = _mm512_mask_or_epi32(high, (fifth >> 16) as u16, high, sixteen);
    emit(1, _mm512_permutex2var_ps(first, high, second));
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q5_0(block: &[u8; 22], emit: impl FnMut(usize, __m512)) {
    let scale = one_half(block);
    let negative = _mm512_sub_ps(zero_to_fifteen(), splat(16.0));
    let tables = [_mm512_mul_ps(scale, negative), _mm512_mul_ps(scale, zero_to_fifteen())];
    look_up_five_bits(tables, part(block, 6), *part(block, 2), emit);
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q5_1(block: &[u8; 24], emit: impl FnMut(usize, __m512)) {
    let [scale, minimum] = two_halves(block);
    let upper = _mm512_add_ps(zero_to_fifteen(), splat(16.0));
    let first = _mm512_add_ps(_mm512_mul_ps(scale, zero_to_fifteen()), minimum);
    let second = _mm512_add_ps(_mm512_mul_ps(scale, upper), minimum);
    look_up_five_bits([first, second], part(block, 8), *part(block, 4), emit);
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q8_0(block: &[u8; 34], mut emit: impl FnMut(usize, __m512)) {
    let scale = one_half(block);
    for at in 0..2 {
        let q = _mm512_cvtepi8_epi32(load_bytes(part(block, 2 + LANES * at)));
        emit(at, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(q)));
    }
}

/// The eight scales and the eight minima at the start of a block with them, in single precision.
///
/// Four scales and then four minima have their own byte, six bits each; the other four of both share four bytes for their low
/// halves, and have their high bits in the two bits that are left there.
#[target_feature(enable = "avx512f")]
#[inline]
fn scales_and_minima(start: &[u8; 16]) -> ([f32; 8], [f32; 8]) {
    const SIX_BITS: u32 = 0x3f3f_3f3f;
    const FOUR_BITS: u32 = 0x0f0f_0f0f;
    const UPPER_TWO: u32 = 0x3030_3030;
    let word = |at: usize| u32::from_le_bytes(*part(start, at));
    let (first, second, third) = (word(4), word(8), word(12));
    let words = [
        first & SIX_BITS,
        third & FOUR_BITS | first >> 2 & UPPER_TWO,
        second & SIX_BITS,
        third >> 4 & FOUR_BITS | second >> 2 & UPPER_TWO,
    ];
    let mut bytes = [0; 16];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    let both = _mm_cvtph_ps(_mm_cvtsi32_si128(word(0) as i32));
    let eight_each = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    let factors = _mm512_permutexvar_ps(eight_each, _mm512_castps128_ps512(both));
    let mut out = [0.0; 16];
    put(_mm512_mul_ps(factors, _mm512_cvtepi32_ps(widen(&bytes))), &mut out, 0);
    (*out.first_chunk().expect("sixteen numbers"), *out.last_chunk().expect("sixteen numbers"))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q4_k(block: &[u8; 144], mut emit: impl FnMut(usize, __m512)) {
    let (scales, minima) = scales_and_minima(part(block, 0));
    for pair in 0..4 {
        let q = [0, LANES].map(|first| widen(part(block, 16 + 32 * pair + first)));
        for high in 0..2 {
            let index = 2 * pair + high;
            let table = _mm512_mul_ps(splat(scales[index]), zero_to_fifteen());
            let table = _mm512_sub_ps(table, splat(minima[index]));
            for (half, q) in q.into_iter().enumerate() {
                // Of an index, only the low four bits count.
                let q = if high == 0 { q } else { _mm512_srli_epi32::<4>(q) };
                emit(2 * index + half, _mm512_permutexvar_ps(q, table));
            }
        }
    }
}

/// The bytes of `bytes`, as they are in the first half, and again in the second.
#[target_feature(enable = "avx512f")]
#[inline]
fn twice(bytes: &[u8; 32]) -> __m512i {
    // SAFETY: it is 32 bytes.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
}

#[target_feature(enable = "avx512f")]
#[inline]
fn stored_bytes(vector: __m512i) -> [u8; 64] {
    let mut bytes = [0; 64];
    // SAFETY: it is as many bytes as a vector has.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) };
    bytes
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q5_k(block: &[u8; 176], mut emit: impl FnMut(usize, __m512)) {
    let (scales, minima) = scales_and_minima(part(block, 0));
    let fifth = twice(part(block, 16));
    for pair in 0..4 {
        // The elements of both scales, as bytes: the low halves of the 32 bytes, then the high ones.
        let q = _mm512_srlv_epi32(twice(part(block, 48 + 32 * pair)), halves_of(0, 4));
        let q = _mm512_and_si512(q, _mm512_set1_epi32(0x0f0f_0f0f));
        // Bit `2 · pair` becomes the fifth, and the one after it.
        let bit = 2 * pair as i32;
        let up = _mm512_sllv_epi32(fifth, halves_of((4 - bit).max(0), (3 - bit).max(0)));
        let moved = _mm512_srlv_epi32(up, halves_of((bit - 4).max(0), (bit - 3).max(0)));
        let q = _mm512_ternarylogic_epi32::<AND_OR>(moved, _mm512_set1_epi32(0x1010_1010), q);
        let bytes = stored_bytes(q);
        for quarter in 0..4 {
            let index = 2 * pair + quarter / 2;
            let q = _mm512_cvtepi32_ps(widen(part(&bytes, LANES * quarter)));
            let value = _mm512_sub_ps(_mm512_mul_ps(splat(scales[index]), q), splat(minima[index]));
            emit(4 * pair + quarter, value);
        }
    }
}

/// One number in the 32-bit lanes of the first half, another in those of the second.
#[target_feature(enable = "avx512f")]
#[inline]
fn halves_of(first: i32, second: i32) -> __m512i {
    let both = |number: i32| i64::from(number) << 32 | i64::from(number);
    let (first, second) = (both(first), both(second));
    _mm512_setr_epi64(first, first, first, first, second, second, second, second)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn q6_k(block: &[u8; 210], mut emit: impl FnMut(usize, __m512)) {
    let factor = i32::from(u16::from_le_bytes(*part(block, 208)));
    let factor = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(factor)));
    let mut scales = [0.0; 16];
    put(_mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(part(block, 192))))), &mut scales, 0);
    for half in 0..2 {
        let low: &[u8; 64] = part(block, 64 * half);
        // SAFETY: it is as many bytes as a vector has.
        let low = unsafe { _mm512_loadu_si512(low.as_ptr().cast()) };
        let high = twice(part(block, 128 + 32 * half));
        // Quarters of 32 elements: two in the low halves of the bytes, two in the high ones. Two bits of `high` belong to each.
        let two = [
            (low, _mm512_sllv_epi32(high, halves_of(4, 2))),
            (_mm512_srli_epi32::<4>(low), _mm512_srlv_epi32(high, halves_of(0, 2))),
        ];
        for (pair, (low, high)) in two.into_iter().enumerate() {
            let low = _mm512_and_si512(low, _mm512_set1_epi32(0x0f0f_0f0f));
            let bytes = stored_bytes(_mm512_ternarylogic_epi32::<AND_OR>(high, _mm512_set1_epi32(0x3030_3030), low));
            for sixteen in 0..4 {
                let at = 8 * half + 4 * pair + sixteen;
                let q = _mm512_sub_epi32(widen(part(&bytes, LANES * sixteen)), _mm512_set1_epi32(32));
                emit(at, _mm512_mul_ps(splat(scales[at]), _mm512_cvtepi32_ps(q)));
            }
        }
    }
}

inner_loops!(#[target_feature(enable = "avx512f")], __m512, true);

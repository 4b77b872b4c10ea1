// One struct for each format: how a step of it is decoded. See `layout.h` for the planes.
//
// `decode<Isa, Count>(head, step, row, take)` decodes the rows from `row` on, `Count` vectors of
// them. The values are those of ggml, bit for bit: products of a scale and a code are exact in
// float32 or rounded once, as there.
#pragma once

#include "decode.h"

namespace pantheon {

inline constexpr int kHalfPlane = kBlockRows * 2;   // Bytes of one float16 for each row.
inline constexpr int kOctetPlane = kBlockRows;      // One byte for each row.
inline constexpr int kWordPlane = kBlockRows * 4;   // One word for each row.

// Word planes as they lie in memory.
template <class Isa>
struct WordPlanes {
  const uint8_t* planes;
  int row;

  typename Isa::Words operator()(int plane, int vector) const {
    return Isa::words(planes + plane * kWordPlane + (row + vector * Isa::lanes) * 4);
  }
};

// A scale in float16 for each row and code zero at `Zero`.
template <class Isa, int Count, int Zero>
[[gnu::always_inline]] inline Scales<Isa, Count> centred_halves(const uint8_t* plane, int row) {
  Scales<Isa, Count> map;
  for (int v = 0; v < Count; ++v) {
    map.scale[v] = Isa::halves(plane + (row + v * Isa::lanes) * 2);
    map.offset[v] = map.scale[v] * static_cast<float>(-Zero);
  }
  return map;
}

// A scale and a minimum in float16 for each row.
template <class Isa, int Count>
[[gnu::always_inline]] inline Scales<Isa, Count> halves_with_minimum(const uint8_t* planes, int row) {
  Scales<Isa, Count> map;
  for (int v = 0; v < Count; ++v) {
    const int at = (row + v * Isa::lanes) * 2;
    map.scale[v] = Isa::halves(planes + at);
    map.offset[v] = Isa::halves(planes + kHalfPlane + at);
  }
  return map;
}

// A float16 in the head times a signed byte of the step for each row; code zero at `Zero`.
template <class Isa, int Count, int Zero>
[[gnu::always_inline]] inline Scales<Isa, Count> scaled_octets(const uint8_t* head, const uint8_t* plane, int row) {
  Scales<Isa, Count> map;
  for (int v = 0; v < Count; ++v) {
    const int at = row + v * Isa::lanes;
    map.scale[v] = Isa::halves(head + at * 2) * Isa::signed_octets(plane + at);
    map.offset[v] = map.scale[v] * static_cast<float>(-Zero);
  }
  return map;
}

// Two float16 in the head times two bytes of the step for each row: a scale, and a minimum that
// is subtracted.
template <class Isa, int Count>
[[gnu::always_inline]] inline Scales<Isa, Count> scaled_minima(const uint8_t* head, const uint8_t* planes, int row) {
  Scales<Isa, Count> map;
  for (int v = 0; v < Count; ++v) {
    const int at = row + v * Isa::lanes;
    map.scale[v] = Isa::halves(head + at * 2) * Isa::converted(Isa::octets(planes + at));
    map.offset[v] = -(Isa::halves(head + kHalfPlane + at * 2) *
                      Isa::converted(Isa::octets(planes + kOctetPlane + at)));
  }
  return map;
}

// Four-bit fields made into eight-bit ones: words 0 to 3 take the lower halves of the octets of
// the planes, words 4 to 7 the upper ones. `Upper(words, i)` adds what stands above.
template <class Isa, int Count>
struct OctetWords {
  typename Isa::Words words[8][Count];

  template <class Change>
  [[gnu::always_inline]] OctetWords(const uint8_t* planes, int row, Change&& change) {
    const WordPlanes<Isa> plane{planes, row};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < Count; ++v) {
        const typename Isa::Words both = plane(i, v);
        words[i][v] = change(both & 0x0f0f0f0fu, i, v);
        words[i + 4][v] = change((both >> 4) & 0x0f0f0f0fu, i + 4, v);
      }
    }
  }

  typename Isa::Words operator()(int word, int vector) const { return words[word][vector]; }
};

// The bits of `value` moved from position `from` to position `to`.
template <class Words>
[[gnu::always_inline]] inline Words moved(Words value, int from, int to) {
  return from < to ? value << (to - from) : value >> (from - to);
}

// Codes of five bits: four of them in nibbles, the fifth of column 8 * j + i at bit 8 * j + i.
template <class Isa, int Count>
[[gnu::always_inline]] inline OctetWords<Isa, Count> five_bits(const uint8_t* nibbles, const uint8_t* fifths, int row) {
  const WordPlanes<Isa> fifth{fifths, row};
  return OctetWords<Isa, Count>(nibbles, row, [&](typename Isa::Words low, int i, int v) {
    return low | (moved(fifth(0, v), i, 4) & 0x10101010u);
  });
}

template <class Isa, int Count>
[[gnu::always_inline]] inline OctetWords<Isa, Count> table_codes(const uint8_t* nibbles, int row,
                                          const uint8_t (&table)[16]) {
  return OctetWords<Isa, Count>(nibbles, row, [&](typename Isa::Words index, int, int) {
    return Isa::looked_up(index, table);
  });
}

// Tables of signed values, 128 added.
inline constexpr uint8_t kUnevenSteps[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr uint8_t kFourBitFloats[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                               128, 127, 126, 125, 124, 122, 120, 116};

template <Format>
struct Decoder;

// Matrices that are not packed: the float for each row, column after column.
template <int Size, class Load>
struct PlainDecoder {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
#pragma GCC unroll 4
    for (int column = 0; column < kStepColumns; ++column) {
      typename Isa::Floats weights[Count];
      for (int v = 0; v < Count; ++v) {
        weights[v] = Load::template from<Isa>(
            step + (column * kBlockRows + row + v * Isa::lanes) * Size);
      }
      take(column, weights);
    }
  }
};

struct LoadFloats {
  template <class Isa>
  static typename Isa::Floats from(const uint8_t* at) { return Isa::floats(at); }
};

struct LoadHalves {
  template <class Isa>
  static typename Isa::Floats from(const uint8_t* at) { return Isa::halves(at); }
};

struct LoadBfloats {
  template <class Isa>
  static typename Isa::Floats from(const uint8_t* at) { return Isa::bfloats(at); }
};

template <>
struct Decoder<Format::f32> : PlainDecoder<4, LoadFloats> {};
template <>
struct Decoder<Format::f16> : PlainDecoder<2, LoadHalves> {};
template <>
struct Decoder<Format::bf16> : PlainDecoder<2, LoadBfloats> {};

template <>
struct Decoder<Format::q4_0> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 4, 32>(
        WordPlanes<Isa>{step + kHalfPlane, row},
        [&](int) { return centred_halves<Isa, Count, 8>(step, row); }, take);
  }
};

template <>
struct Decoder<Format::q4_1> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 4, 32>(
        WordPlanes<Isa>{step + 2 * kHalfPlane, row},
        [&](int) { return halves_with_minimum<Isa, Count>(step, row); }, take);
  }
};

template <>
struct Decoder<Format::q5_0> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    const uint8_t* nibbles = step + kHalfPlane;
    decode_fields<Isa, Count, 8, 32>(
        five_bits<Isa, Count>(nibbles, nibbles + 4 * kWordPlane, row),
        [&](int) { return centred_halves<Isa, Count, 16>(step, row); }, take);
  }
};

template <>
struct Decoder<Format::q5_1> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    const uint8_t* nibbles = step + 2 * kHalfPlane;
    decode_fields<Isa, Count, 8, 32>(
        five_bits<Isa, Count>(nibbles, nibbles + 4 * kWordPlane, row),
        [&](int) { return halves_with_minimum<Isa, Count>(step, row); }, take);
  }
};

template <>
struct Decoder<Format::q8_0> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 8, 32>(
        WordPlanes<Isa>{step + kHalfPlane, row},
        [&](int) { return centred_halves<Isa, Count, 128>(step, row); }, take);
  }
};

template <>
struct Decoder<Format::int8> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 8, 32>(
        WordPlanes<Isa>{step, row},
        [&](int) {
          Scales<Isa, Count> map;
          for (int v = 0; v < Count; ++v) {
            map.scale[v] = Isa::floats(head + (row + v * Isa::lanes) * 4);
            map.offset[v] = map.scale[v] * -128.0f;
          }
          return map;
        },
        take);
  }
};

template <>
struct Decoder<Format::q2_k> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 2, 16>(
        WordPlanes<Isa>{step + 2 * kOctetPlane, row},
        [&](int group) {
          Scales<Isa, Count> map;
          for (int v = 0; v < Count; ++v) {
            const int at = row + v * Isa::lanes;
            const typename Isa::Words both = Isa::octets(step + group * kOctetPlane + at);
            map.scale[v] = Isa::halves(head + at * 2) * Isa::converted(both & 15u);
            map.offset[v] =
                -(Isa::halves(head + kHalfPlane + at * 2) * Isa::converted(both >> 4));
          }
          return map;
        },
        take);
  }
};

template <>
struct Decoder<Format::q3_k> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    const WordPlanes<Isa> low{step + 2 * kOctetPlane, row};
    const WordPlanes<Isa> third{step + 2 * kOctetPlane + 2 * kWordPlane, row};
    typename Isa::Words codes[8][Count];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      for (int v = 0; v < Count; ++v) {
        codes[i][v] = (moved(low(i / 4, v), i % 4 * 2, 0) & 0x03030303u) |
                      (moved(third(0, v), i, 2) & 0x04040404u);
      }
    }
    decode_fields<Isa, Count, 8, 16>(
        [&](int word, int vector) { return codes[word][vector]; },
        [&](int group) {
          return scaled_octets<Isa, Count, 4>(head, step + group * kOctetPlane, row);
        },
        take);
  }
};

template <>
struct Decoder<Format::q4_k> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 4, 32>(
        WordPlanes<Isa>{step + 2 * kOctetPlane, row},
        [&](int) { return scaled_minima<Isa, Count>(head, step, row); }, take);
  }
};

template <>
struct Decoder<Format::q5_k> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    const uint8_t* nibbles = step + 2 * kOctetPlane;
    decode_fields<Isa, Count, 8, 32>(
        five_bits<Isa, Count>(nibbles, nibbles + 4 * kWordPlane, row),
        [&](int) { return scaled_minima<Isa, Count>(head, step, row); }, take);
  }
};

template <>
struct Decoder<Format::q6_k> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    const uint8_t* nibbles = step + 2 * kOctetPlane;
    const WordPlanes<Isa> upper{nibbles + 4 * kWordPlane, row};
    const OctetWords<Isa, Count> codes(
        nibbles, row, [&](typename Isa::Words low, int i, int v) {
          return low | (moved(upper(i / 4, v), i % 4 * 2, 4) & 0x30303030u);
        });
    decode_fields<Isa, Count, 8, 16>(
        codes,
        [&](int group) {
          return scaled_octets<Isa, Count, 32>(head, step + group * kOctetPlane, row);
        },
        take);
  }
};

template <>
struct Decoder<Format::iq4_nl> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 8, 32>(
        table_codes<Isa, Count>(step + kHalfPlane, row, kUnevenSteps),
        [&](int) { return centred_halves<Isa, Count, 128>(step, row); }, take);
  }
};

template <>
struct Decoder<Format::iq4_xs> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 8, 32>(
        table_codes<Isa, Count>(step + kOctetPlane, row, kUnevenSteps),
        [&](int) { return scaled_octets<Isa, Count, 128>(head, step, row); }, take);
  }
};

template <>
struct Decoder<Format::ternary> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 2, 32>(
        WordPlanes<Isa>{step, row},
        [&](int) { return centred_halves<Isa, Count, 1>(head, row); }, take);
  }
};

template <>
struct Decoder<Format::mxfp4> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 8, 32>(
        table_codes<Isa, Count>(step + kOctetPlane, row, kFourBitFloats),
        [&](int) {
          Scales<Isa, Count> map;
          for (int v = 0; v < Count; ++v) {
            // 2^(e - 128), the table holding doubled values; the two smallest are subnormal.
            const typename Isa::Words e = Isa::octets(step + row + v * Isa::lanes);
            const typename Isa::Words small = reinterpret_cast<typename Isa::Words>(e < 2u);
            const typename Isa::Words bits =
                (((e - 1u) << 23) & ~small) | (((e + 1u) << 21) & small);
            map.scale[v] = Isa::reinterpreted(bits);
            map.offset[v] = map.scale[v] * -128.0f;
          }
          return map;
        },
        take);
  }
};

template <>
struct Decoder<Format::nvfp4> {
  template <class Isa, int Count, class Take>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Take&& take) {
    decode_fields<Isa, Count, 8, 16>(
        table_codes<Isa, Count>(step + 2 * kHalfPlane, row, kFourBitFloats),
        [&](int group) {
          return centred_halves<Isa, Count, 128>(step + group * kHalfPlane, row);
        },
        take);
  }
};

}  // namespace pantheon

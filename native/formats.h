// One struct for each format: how a step of it is decoded. See `layout.h` for the planes.
//
// `decode<Isa, Count>(head, step, row, sink)` decodes the rows from `row` on, `Count` vectors of
// them, as `decode_fields` says. `kGroup` is how many columns share a scale and an offset; it is 0
// for matrices that are not packed.
//
// The values are those of ggml, bit for bit: the product of a scale and a code is exact in float32,
// and adding the offset rounds once, as there. (Our own INT8 has scales of full precision, whose
// products are rounded.)
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

// Tables of signed values, made positive. No more than needed is added: it is taken off again in
// the product, with what the larger numbers lost by rounding.
inline constexpr uint8_t kUnevenSteps[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr int kUnevenZero = 128;
inline constexpr uint8_t kFourBitFloats[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                               12, 11, 10, 9,  8,  6,  4,  0};
inline constexpr int kFourBitZero = 12;

template <Format>
struct Decoder;

// Matrices that are not packed: the float for each row, column after column.
template <int Size, class Load>
struct PlainDecoder {
  static constexpr int kGroup = 0;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
#pragma GCC unroll 4
    for (int column = 0; column < kStepColumns; ++column) {
      typename Isa::Floats weights[Count];
      for (int v = 0; v < Count; ++v) {
        weights[v] = Load::template from<Isa>(
            step + (column * kBlockRows + row + v * Isa::lanes) * Size);
      }
      sink.take(column, weights);
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
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 4, kGroup>(
        WordPlanes<Isa>{step + kHalfPlane, row},
        [&](int) { return centred_halves<Isa, Count, 8>(step, row); }, sink);
  }
};

template <>
struct Decoder<Format::q4_1> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 4, kGroup>(
        WordPlanes<Isa>{step + 2 * kHalfPlane, row},
        [&](int) { return halves_with_minimum<Isa, Count>(step, row); }, sink);
  }
};

template <>
struct Decoder<Format::q5_0> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    const uint8_t* nibbles = step + kHalfPlane;
    decode_fields<Isa, Count, 8, kGroup>(
        five_bits<Isa, Count>(nibbles, nibbles + 4 * kWordPlane, row),
        [&](int) { return centred_halves<Isa, Count, 16>(step, row); }, sink);
  }
};

template <>
struct Decoder<Format::q5_1> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    const uint8_t* nibbles = step + 2 * kHalfPlane;
    decode_fields<Isa, Count, 8, kGroup>(
        five_bits<Isa, Count>(nibbles, nibbles + 4 * kWordPlane, row),
        [&](int) { return halves_with_minimum<Isa, Count>(step, row); }, sink);
  }
};

template <>
struct Decoder<Format::q8_0> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 8, kGroup>(
        WordPlanes<Isa>{step + kHalfPlane, row},
        [&](int) { return centred_halves<Isa, Count, 128>(step, row); }, sink);
  }
};

template <>
struct Decoder<Format::int8> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 8, kGroup>(
        WordPlanes<Isa>{step, row},
        [&](int) {
          Scales<Isa, Count> map;
          for (int v = 0; v < Count; ++v) {
            map.scale[v] = Isa::floats(head + (row + v * Isa::lanes) * 4);
            map.offset[v] = map.scale[v] * -128.0f;
          }
          return map;
        },
        sink);
  }
};

template <>
struct Decoder<Format::q2_k> {
  static constexpr int kGroup = 16;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 2, kGroup>(
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
        sink);
  }
};

template <>
struct Decoder<Format::q3_k> {
  static constexpr int kGroup = 16;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
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
    decode_fields<Isa, Count, 8, kGroup>(
        [&](int word, int vector) { return codes[word][vector]; },
        [&](int group) {
          return scaled_octets<Isa, Count, 4>(head, step + group * kOctetPlane, row);
        },
        sink);
  }
};

template <>
struct Decoder<Format::q4_k> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 4, kGroup>(
        WordPlanes<Isa>{step + 2 * kOctetPlane, row},
        [&](int) { return scaled_minima<Isa, Count>(head, step, row); }, sink);
  }
};

template <>
struct Decoder<Format::q5_k> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    const uint8_t* nibbles = step + 2 * kOctetPlane;
    decode_fields<Isa, Count, 8, kGroup>(
        five_bits<Isa, Count>(nibbles, nibbles + 4 * kWordPlane, row),
        [&](int) { return scaled_minima<Isa, Count>(head, step, row); }, sink);
  }
};

template <>
struct Decoder<Format::q6_k> {
  static constexpr int kGroup = 16;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    const uint8_t* nibbles = step + 2 * kOctetPlane;
    const WordPlanes<Isa> upper{nibbles + 4 * kWordPlane, row};
    const OctetWords<Isa, Count> codes(
        nibbles, row, [&](typename Isa::Words low, int i, int v) {
          return low | (moved(upper(i / 4, v), i % 4 * 2, 4) & 0x30303030u);
        });
    decode_fields<Isa, Count, 8, kGroup>(
        codes,
        [&](int group) {
          return scaled_octets<Isa, Count, 32>(head, step + group * kOctetPlane, row);
        },
        sink);
  }
};

template <>
struct Decoder<Format::iq4_nl> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 8, kGroup>(
        table_codes<Isa, Count>(step + kHalfPlane, row, kUnevenSteps),
        [&](int) { return centred_halves<Isa, Count, kUnevenZero>(step, row); }, sink);
  }
};

template <>
struct Decoder<Format::iq4_xs> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 8, kGroup>(
        table_codes<Isa, Count>(step + kOctetPlane, row, kUnevenSteps),
        [&](int) { return scaled_octets<Isa, Count, kUnevenZero>(head, step, row); }, sink);
  }
};

template <>
struct Decoder<Format::ternary> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t* head, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 2, kGroup>(
        WordPlanes<Isa>{step, row},
        [&](int) { return centred_halves<Isa, Count, 1>(head, row); }, sink);
  }
};

template <>
struct Decoder<Format::mxfp4> {
  static constexpr int kGroup = 32;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 8, kGroup>(
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
            map.offset[v] = map.scale[v] * static_cast<float>(-kFourBitZero);
          }
          return map;
        },
        sink);
  }
};

template <>
struct Decoder<Format::nvfp4> {
  static constexpr int kGroup = 16;

  template <class Isa, int Count, class Sink>
  [[gnu::always_inline]] static void decode(const uint8_t*, const uint8_t* step, int row, Sink&& sink) {
    decode_fields<Isa, Count, 8, kGroup>(
        table_codes<Isa, Count>(step + 2 * kHalfPlane, row, kFourBitFloats),
        [&](int group) {
          return centred_halves<Isa, Count, kFourBitZero>(step + group * kHalfPlane, row);
        },
        sink);
  }
};

}  // namespace pantheon

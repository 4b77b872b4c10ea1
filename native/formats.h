// One struct for each format of codes: where a step of it has what. See `layout.h` for the planes.
//
// A value is `scale * code + offset`. `kGroup` is how many columns share a scale and an offset,
// `kBits` the bits of a field of the words that `words<Isa>(step, row)` gives: word i of vector v
// of the rows from `row` on. `kMade` says whether those are put together rather than read.
// `head<Isa>(head, row)` is what one vector of rows takes from the head of a span, and
// `scale<Isa>(that, step, row, group)` the scale of the g-th group. The offset is `minimum` of the
// same arguments where there is one (`kHasMinimum`); else it takes the code `kZero` to zero.
//
// The values are those of ggml, bit for bit: the product of a scale and a code is exact in float32,
// and adding the offset rounds once, as there. (Our own INT8 has scales of full precision, whose
// products are rounded.)
#pragma once

#include "codes.h"

namespace pantheon {

template <int Bits, int Group, bool Made = false>
struct Codes {
  static constexpr int kBits = Bits;
  static constexpr int kGroup = Group;
  static constexpr bool kMade = Made;
};

template <int Zero>
struct Centred {
  static constexpr bool kHasMinimum = false;
  static constexpr int kZero = Zero;
};

struct Nothing {};

struct NoHead {
  template <class Isa>
  static Nothing head(const uint8_t*, int) { return {}; }
};

// A scale in float16 for each row.
struct HalfHead {
  template <class Isa>
  static typename Isa::Floats head(const uint8_t* head, int row) {
    return Isa::halves(head + row * 2);
  }
};

template <class Isa>
struct ScaleAndMinimum {
  typename Isa::Floats scale, minimum;
};

// A scale in float16 for each row, and a minimum that is subtracted.
struct HalfHeadWithMinimum {
  static constexpr bool kHasMinimum = true;
  static constexpr int kZero = 0;

  template <class Isa>
  static ScaleAndMinimum<Isa> head(const uint8_t* head, int row) {
    return {Isa::halves(head + row * 2), -Isa::halves(head + kHalfPlane + row * 2)};
  }
};

// A scale in float16 for each row, a plane for each group.
template <int Zero>
struct HalfScales : Centred<Zero>, NoHead {
  template <class Isa>
  static typename Isa::Floats scale(Nothing, const uint8_t* step, int row, int group) {
    return Isa::halves(step + group * kHalfPlane + row * 2);
  }
};

// A scale and a minimum in float16 for each row.
struct HalfScalesWithMinima : NoHead {
  static constexpr bool kHasMinimum = true;
  static constexpr int kZero = 0;

  template <class Isa>
  static typename Isa::Floats scale(Nothing, const uint8_t* step, int row, int) {
    return Isa::halves(step + row * 2);
  }

  template <class Isa>
  static typename Isa::Floats minimum(Nothing, const uint8_t* step, int row, int) {
    return Isa::halves(step + kHalfPlane + row * 2);
  }
};

// The scale of the head times a signed byte of the step for each row.
template <int Zero>
struct OctetScales : Centred<Zero>, HalfHead {
  template <class Isa>
  static typename Isa::Floats scale(typename Isa::Floats head, const uint8_t* step, int row,
                                    int group) {
    return head * Isa::signed_octets(step + group * kOctetPlane + row);
  }
};

// Scale and minimum of the head times two bytes of the step for each row.
struct OctetScalesWithMinima : HalfHeadWithMinimum {
  template <class Isa>
  static typename Isa::Floats scale(const ScaleAndMinimum<Isa>& head, const uint8_t* step,
                                    int row, int) {
    return head.scale * Isa::converted(Isa::octets(step + row));
  }

  template <class Isa>
  static typename Isa::Floats minimum(const ScaleAndMinimum<Isa>& head, const uint8_t* step,
                                      int row, int) {
    return head.minimum * Isa::converted(Isa::octets(step + kOctetPlane + row));
  }
};

template <Format>
struct Codec;

template <>
struct Codec<Format::q4_0> : Codes<4, 32>, HalfScales<8> {
  template <class Isa>
  static auto words(const uint8_t* step, int row) {
    return WordPlanes<Isa>{step + kHalfPlane, row};
  }
};

template <>
struct Codec<Format::q4_1> : Codes<4, 32>, HalfScalesWithMinima {
  template <class Isa>
  static auto words(const uint8_t* step, int row) {
    return WordPlanes<Isa>{step + 2 * kHalfPlane, row};
  }
};

template <>
struct Codec<Format::q5_0> : Codes<16, 32, true>, HalfScales<16> {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return odd_bits<Isa, 5>(step + kHalfPlane, row);
  }
};

template <>
struct Codec<Format::q5_1> : Codes<16, 32, true>, HalfScalesWithMinima {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return odd_bits<Isa, 5>(step + 2 * kHalfPlane, row);
  }
};

template <>
struct Codec<Format::q8_0> : Codes<8, 32>, HalfScales<128> {
  template <class Isa>
  static auto words(const uint8_t* step, int row) {
    return WordPlanes<Isa>{step + kHalfPlane, row};
  }
};

template <>
struct Codec<Format::int8> : Codes<8, 32>, Centred<128> {
  template <class Isa>
  static typename Isa::Floats head(const uint8_t* head, int row) {
    return Isa::floats(head + row * 4);
  }

  template <class Isa>
  static typename Isa::Floats scale(typename Isa::Floats head, const uint8_t*, int, int) {
    return head;
  }

  template <class Isa>
  static auto words(const uint8_t* step, int row) { return WordPlanes<Isa>{step, row}; }
};

// What codebooks hold, as whole numbers; see `codebooks.py`.
template <>
struct Codec<Format::codes8> : Codes<8, 16>, OctetScales<128> {
  template <class Isa>
  static typename Isa::Floats head(const uint8_t* head, int row) {
    return Isa::halves(head + row * 2) * 0.125f;
  }

  template <class Isa>
  static auto words(const uint8_t* step, int row) {
    return WordPlanes<Isa>{step + 2 * kOctetPlane, row};
  }
};

template <>
struct Codec<Format::q2_k> : Codes<2, 16>, HalfHeadWithMinimum {
  template <class Isa>
  static typename Isa::Floats scale(const ScaleAndMinimum<Isa>& head, const uint8_t* step,
                                    int row, int group) {
    return head.scale * Isa::converted(Isa::octets(step + group * kOctetPlane + row) & 15u);
  }

  template <class Isa>
  static typename Isa::Floats minimum(const ScaleAndMinimum<Isa>& head, const uint8_t* step,
                                      int row, int group) {
    return head.minimum * Isa::converted(Isa::octets(step + group * kOctetPlane + row) >> 4);
  }

  template <class Isa>
  static auto words(const uint8_t* step, int row) {
    return WordPlanes<Isa>{step + 2 * kOctetPlane, row};
  }
};

template <>
struct Codec<Format::q3_k> : Codes<16, 16, true>, OctetScales<4> {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return odd_bits<Isa, 3>(step + 2 * kOctetPlane, row);
  }
};

template <>
struct Codec<Format::q4_k> : Codes<4, 32>, OctetScalesWithMinima {
  template <class Isa>
  static auto words(const uint8_t* step, int row) {
    return WordPlanes<Isa>{step + 2 * kOctetPlane, row};
  }
};

template <>
struct Codec<Format::q5_k> : Codes<16, 32, true>, OctetScalesWithMinima {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return odd_bits<Isa, 5>(step + 2 * kOctetPlane, row);
  }
};

template <>
struct Codec<Format::q6_k> : Codes<16, 16, true>, OctetScales<32> {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return six_bits<Isa>(step + 2 * kOctetPlane, row);
  }
};

template <>
struct Codec<Format::iq4_nl> : Codes<8, 32, true>, HalfScales<kUnevenZero> {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return table_codes<Isa>(step + kHalfPlane, row, kUnevenSteps);
  }
};

template <>
struct Codec<Format::iq4_xs> : Codes<8, 32, true>, OctetScales<kUnevenZero> {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return table_codes<Isa>(step + kOctetPlane, row, kUnevenSteps);
  }
};

template <>
struct Codec<Format::ternary> : Codes<2, 32>, Centred<1>, HalfHead {
  template <class Isa>
  static typename Isa::Floats scale(typename Isa::Floats head, const uint8_t*, int, int) {
    return head;
  }

  template <class Isa>
  static auto words(const uint8_t* step, int row) { return WordPlanes<Isa>{step, row}; }
};

template <>
struct Codec<Format::mxfp4> : Codes<8, 32, true>, Centred<kFourBitZero>, NoHead {
  template <class Isa>
  static typename Isa::Floats scale(Nothing, const uint8_t* step, int row, int) {
    // 2^(e - 128), the table holding doubled values; the two smallest are subnormal.
    const typename Isa::Words e = Isa::octets(step + row);
    const typename Isa::Words small = reinterpret_cast<typename Isa::Words>(e < 2u);
    return Isa::reinterpreted((((e - 1u) << 23) & ~small) | (((e + 1u) << 21) & small));
  }

  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return table_codes<Isa>(step + kOctetPlane, row, kFourBitFloats);
  }
};

template <>
struct Codec<Format::nvfp4> : Codes<8, 16, true>, HalfScales<kFourBitZero> {
  template <class Isa>
  [[gnu::always_inline]] static auto words(const uint8_t* step, int row) {
    return table_codes<Isa>(step + 2 * kHalfPlane, row, kFourBitFloats);
  }
};

}  // namespace pantheon

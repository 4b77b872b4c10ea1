// Vectors of one instruction set, written with the compiler's own vector types: every set runs the
// same source. What those types cannot say well, a set's own header adds (`isa_*.h`).
//
// Every template that is compiled for several sets has the set among its parameters: two copies
// of one symbol, made with different instructions, must never meet in the linker.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace pantheon {

// The compiler takes the size of a vector from no template parameter.
template <int Bytes>
struct VectorTypes;

template <>
struct VectorTypes<16> {
  typedef float Floats __attribute__((vector_size(16)));
  typedef int32_t Integers __attribute__((vector_size(16)));
  typedef uint32_t Words __attribute__((vector_size(16)));
  typedef uint16_t Halves __attribute__((vector_size(16)));
  typedef uint16_t Halfwords __attribute__((vector_size(8)));
  typedef uint8_t Octets __attribute__((vector_size(4)));
  typedef int8_t SignedOctets __attribute__((vector_size(4)));
};

template <>
struct VectorTypes<32> {
  typedef float Floats __attribute__((vector_size(32)));
  typedef int32_t Integers __attribute__((vector_size(32)));
  typedef uint32_t Words __attribute__((vector_size(32)));
  typedef uint16_t Halves __attribute__((vector_size(32)));
  typedef uint16_t Halfwords __attribute__((vector_size(16)));
  typedef uint8_t Octets __attribute__((vector_size(8)));
  typedef int8_t SignedOctets __attribute__((vector_size(8)));
};

template <>
struct VectorTypes<64> {
  typedef float Floats __attribute__((vector_size(64)));
  typedef int32_t Integers __attribute__((vector_size(64)));
  typedef uint32_t Words __attribute__((vector_size(64)));
  typedef uint16_t Halves __attribute__((vector_size(64)));
  typedef uint16_t Halfwords __attribute__((vector_size(32)));
  typedef uint8_t Octets __attribute__((vector_size(16)));
  typedef int8_t SignedOctets __attribute__((vector_size(16)));
};

template <int Bytes>
struct Vectors {
  static constexpr int lanes = Bytes / 4;

  using Types = VectorTypes<Bytes>;
  using Floats = typename Types::Floats;
  using Integers = typename Types::Integers;
  using Words = typename Types::Words;
  using Halfwords = typename Types::Halfwords;
  using Fours = VectorTypes<16>::Floats;
  using Octets = typename Types::Octets;
  using SignedOctets = typename Types::SignedOctets;

  template <class Vector>
  static Vector load(const void* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);  // One unaligned load.
    return vector;
  }

  static void store(float* to, Floats values) { std::memcpy(to, &values, sizeof values); }

  // Where there is an instruction for it, rounded once. Written out in every set rather than left
  // to the compiler, which would fuse one or another pair of operations as it sees fit.
  static Floats fused(Floats a, Floats b, Floats c) { return a * b + c; }

  static Floats splat(float value) { return Floats{} + value; }

  // The second where one of them is no number.
  static Floats larger(Floats a, Floats b) { return a > b ? a : b; }
  static Floats smaller(Floats a, Floats b) { return a < b ? a : b; }

  // The lanes, each with the one whose number differs in the bit `Bit` alone.
  template <int Bit>
  static Floats swapped(Floats values) {
    return swapped_over<Bit>(values, std::make_integer_sequence<int, lanes>{});
  }

  // The lanes of each of two vectors joined with one another until two of each are left in every
  // four lanes, always in the same order.
  template <class Join>
  [[gnu::always_inline]] static Floats joined_pair(Floats a, Floats b, Join&& join) {
    return join(halves_of_fours<0>(a, b), halves_of_fours<2>(a, b));
  }

  // Of each of four vectors, joined in pairs so far, what `join` makes of all its lanes.
  template <class Join>
  [[gnu::always_inline]] static Fours joined_fours(Floats ab, Floats cd, Join&& join) {
    const Floats all = join(every_second<0>(ab, cd), every_second<1>(ab, cd));
    Fours parts[lanes / 4];
    std::memcpy(parts, &all, sizeof parts);
    return joined_parts<0, lanes / 4>(parts, join);
  }

  static Floats floats(const uint8_t* from) { return load<Floats>(from); }
  static Words words(const uint8_t* from) { return load<Words>(from); }

  // Values up to 2^31 - 1: there is no fast conversion of unsigned numbers.
  static Floats converted(Words small) {
    return __builtin_convertvector(reinterpret_cast<Integers>(small), Floats);
  }

  static Words octets(const uint8_t* from) {
    return __builtin_convertvector(load<Octets>(from), Words);
  }

  static Floats signed_octets(const uint8_t* from) {
    return __builtin_convertvector(__builtin_convertvector(load<SignedOctets>(from), Integers),
                                   Floats);
  }

  static Floats reinterpreted(Words bits) { return reinterpret_cast<Floats>(bits); }

  // Half precision in integer arithmetic, for sets that have no instruction for it.
  static Floats halves(const uint8_t* from) {
    const Words half = __builtin_convertvector(load<Halfwords>(from), Words);
    const Words sign = (half & 0x8000u) << 16;
    const Words rest = half & 0x7fffu;
    // Rebased by a product, which makes subnormal numbers normal ones.
    Floats value = reinterpreted(rest << 13) * 0x1p112f;
    const Words special = reinterpret_cast<Words>(rest >= 0x7c00u);
    Words bits = reinterpret_cast<Words>(value);
    bits = (bits & ~special) | (((rest << 13) | 0x7f800000u) & special);
    return reinterpreted(bits | sign);
  }

  static Floats bfloats(const uint8_t* from) {
    return reinterpreted(__builtin_convertvector(load<Halfwords>(from), Words) << 16);
  }

  static Integers splat_whole(const int32_t* value) { return Integers{} + *value; }

  // Both 16-bit halves of each lane, moved down by so many bits.
  template <int Bits>
  static Words upper_of_halves(Words words) {
    return reinterpret_cast<Words>(reinterpret_cast<typename Types::Halves>(words) >> Bits);
  }

  // `sum` and, in each lane, the two products of signed 16-bit halves.
  static Integers multiplied(Words codes, Integers pairs, Integers sum) {
    const Integers a = reinterpret_cast<Integers>(codes);
    return sum + (a << 16 >> 16) * (pairs << 16 >> 16) + (a >> 16) * (pairs >> 16);
  }

  // Each octet of `indices`, 0 to 15, replaced by that entry of the table.
  static Words looked_up(Words indices, const uint8_t (&table)[16]) {
    uint8_t octets[Bytes];
    std::memcpy(octets, &indices, Bytes);
    for (uint8_t& octet : octets) octet = table[octet];
    return words(octets);
  }

  // To half precision, to the nearest, infinite from 65520 on.
  static void store_halves(uint16_t* to, Floats values) {
    Words bits = reinterpret_cast<Words>(values);
    const Words sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    const Words is_none = reinterpret_cast<Words>(bits > 0x7f800000u);
    const Words is_small = reinterpret_cast<Words>(bits < 0x38800000u);
    const Words is_large = reinterpret_cast<Words>(bits >= 0x47800000u) & ~is_none;
    // Rounded to even: half of the last place that is kept, less one where that is even.
    const Words normal = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    // Subnormal ones are rounded by the addition of a number whose last place is theirs.
    const Words subnormal = reinterpret_cast<Words>(reinterpreted(bits) + 0.5f) - 0x3f000000u;
    const Words half = (normal & ~is_small & ~is_large & ~is_none) | (subnormal & is_small) |
                       (is_large & 0x7c00u) | (is_none & 0x7e00u);
    const auto packed = __builtin_convertvector(half | sign, Halfwords);
    std::memcpy(to, &packed, sizeof packed);
  }

 private:
  using Lanes = std::make_integer_sequence<int, lanes>;

  template <int Bit, int... Lane>
  static Floats swapped_over(Floats values, std::integer_sequence<int, Lane...>) {
    return shuffled<(Lane ^ Bit)...>(values, values);
  }

  // From each four lanes one half of the first vector and the other of the second.
  template <int First>
  static Floats halves_of_fours(Floats a, Floats b) { return halves_over<First>(a, b, Lanes{}); }

  template <int First, int... Lane>
  static Floats halves_over(Floats a, Floats b, std::integer_sequence<int, Lane...>) {
    return shuffled<((Lane ^ First) + (Lane % 4 < 2 ? 0 : lanes))...>(a, b);
  }

  // From each four lanes two of the first vector and two of the second.
  template <int First>
  static Floats every_second(Floats a, Floats b) { return seconds_over<First>(a, b, Lanes{}); }

  template <int First, int... Lane>
  static Floats seconds_over(Floats a, Floats b, std::integer_sequence<int, Lane...>) {
    return shuffled<(Lane / 4 * 4 + Lane % 2 * 2 + First + (Lane % 4 < 2 ? 0 : lanes))...>(a, b);
  }

  template <int First, int Count, class Join>
  [[gnu::always_inline]] static Fours joined_parts(const Fours* parts, Join&& join) {
    if constexpr (Count == 1) {
      return parts[First];
    } else {
      return join(joined_parts<First, Count / 2>(parts, join),
                  joined_parts<First + Count / 2, Count / 2>(parts, join));
    }
  }

  // The lanes of both in one row, from which these are taken.
  template <int... Index>
  static Floats shuffled(Floats a, Floats b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, Index...);
#else
    return __builtin_shuffle(a, b, Integers{Index...});
#endif
  }
};

}  // namespace pantheon

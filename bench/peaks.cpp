// What the processor can do at best: products of float32 and of int16, and reading memory.
//
// Usage: peaks THREADS BYTES. Prints one JSON object: multiply-adds per second of float32 (fused)
// and of int16 (pairs added in int32), and bytes read per second of a buffer of BYTES.
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512BW__)
using Floats = __m512;
using Integers = __m512i;
Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
Integers paired(Integers a, Integers b, Integers c) {
  return _mm512_add_epi32(c, _mm512_madd_epi16(a, b));
}
Floats floats(float value) { return _mm512_set1_ps(value); }
Integers integers(short value) { return _mm512_set1_epi16(value); }
Integers loaded(const void* from) { return _mm512_loadu_si512(from); }
#else
using Floats = __m256;
using Integers = __m256i;
Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
Integers paired(Integers a, Integers b, Integers c) {
  return _mm256_add_epi32(c, _mm256_madd_epi16(a, b));
}
Floats floats(float value) { return _mm256_set1_ps(value); }
Integers integers(short value) { return _mm256_set1_epi16(value); }
Integers loaded(const void* from) {
  return _mm256_loadu_si256(static_cast<const Integers*>(from));
}
#endif

// Enough sums that none waits for the one before; with two operands they fill sixteen registers.
constexpr int kSums = 12;
// A run of products takes some milliseconds, less than a scheduler's slice, and the best of many is
// one that nothing interrupted.
constexpr std::int64_t kSteps = 1'000'000;
constexpr int kProductRuns = 60;
constexpr int kReadingRuns = 12;

// Keeps a value alive and unknown to the compiler.
template <typename Value>
void opaque(Value& value) {
  asm volatile("" : "+x"(value));
}

template <typename Vector, typename Step>
void add_products(Vector a, Vector b, Step step) {
  Vector sums[kSums];
  // Unrolled as the loop below is: an array that is walked by an index would stay in memory.
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) {
    sums[i] = a;
    opaque(sums[i]);
  }
  opaque(a);
  opaque(b);
  for (std::int64_t round = 0; round < kSteps; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      // Unknown again each time: a product of the same two values would be computed once.
      opaque(a);
      sums[i] = step(a, b, sums[i]);
      opaque(sums[i]);
    }
  }
}

// Seconds of the fastest of some runs of `work` on all threads at once.
template <typename Work>
double fastest(int runs, int threads, Work work) {
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> team;
    for (int index = 1; index < threads; ++index) team.emplace_back(work, index);
    work(0);
    for (auto& one : team) one.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

void read_all(const std::int64_t* from, const std::int64_t* to) {
  constexpr int kWords = sizeof(Integers) / sizeof(*from);
  constexpr int kVectors = 4;
  Integers found[kVectors];
  for (; from + kVectors * kWords <= to; from += kVectors * kWords) {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      found[i] = loaded(from + i * kWords);
      opaque(found[i]);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: peaks THREADS BYTES\n");
    return 2;
  }
  const int threads = std::atoi(arguments[1]);
  const auto words = std::strtoull(arguments[2], nullptr, 10) / sizeof(std::int64_t);
  if (threads < 1 || words < 32) {
    std::fprintf(stderr, "peaks: expected at least one thread and 256 bytes\n");
    return 2;
  }
  const double rounds = double(kSteps) * kSums * threads;
  const double of_floats = fastest(kProductRuns, threads, [](int) {
    add_products(floats(0.5F), floats(0.25F), fused);
  });
  const double of_integers = fastest(kProductRuns, threads, [](int) {
    add_products(integers(3), integers(5), paired);
  });
  // Written once, so that every page is there.
  std::vector<std::int64_t> buffer(words, 1);
  const auto share = words / threads;
  const double of_reading = fastest(kReadingRuns, threads, [&](int index) {
    read_all(buffer.data() + index * share, buffer.data() + (index + 1) * share);
  });
  std::printf("{\"float32\": %.4g, \"int16\": %.4g, \"bytes\": %.4g}\n",
              rounds * (sizeof(Floats) / 4) / of_floats,
              rounds * (sizeof(Integers) / 2) / of_integers,
              double(share * threads * sizeof(std::int64_t)) / of_reading);
  return 0;
}

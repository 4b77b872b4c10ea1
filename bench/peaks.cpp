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
#else
using Floats = __m256;
using Integers = __m256i;
Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
Integers paired(Integers a, Integers b, Integers c) {
  return _mm256_add_epi32(c, _mm256_madd_epi16(a, b));
}
Floats floats(float value) { return _mm256_set1_ps(value); }
Integers integers(short value) { return _mm256_set1_epi16(value); }
#endif

// Enough sums that none waits for the one before; with two operands they fill sixteen registers.
constexpr int kSums = 12;
constexpr int kRepeats = 5;
constexpr std::int64_t kSteps = 4'000'000;

// Keeps a value alive and unknown to the compiler.
template <typename Value>
void opaque(Value& value) {
  asm volatile("" : "+x"(value));
}

template <typename Vector, typename Step>
void add_products(Vector a, Vector b, Step step) {
  Vector sums[kSums];
  for (auto& sum : sums) {
    sum = a;
    opaque(sum);
  }
  opaque(a);
  opaque(b);
  for (std::int64_t round = 0; round < kSteps; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sums[i] = step(a, b, sums[i]);
      opaque(sums[i]);
    }
  }
}

// Seconds of the fastest of some runs of `work` on all threads at once.
template <typename Work>
double fastest(int threads, Work work) {
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
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

void read_all(const Integers* from, const Integers* to) {
  Integers sums[4] = {integers(0), integers(0), integers(0), integers(0)};
  for (; from + 4 <= to; from += 4) {
    for (int i = 0; i < 4; ++i) sums[i] = sums[i] ^ from[i];
  }
  for (auto& sum : sums) opaque(sum);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: peaks THREADS BYTES\n");
    return 2;
  }
  const int threads = std::atoi(arguments[1]);
  const auto vectors = std::strtoull(arguments[2], nullptr, 10) / sizeof(Integers);
  if (threads < 1 || vectors < 4) {
    std::fprintf(stderr, "peaks: expected at least one thread and 256 bytes\n");
    return 2;
  }
  const double rounds = double(kSteps) * kSums * threads;
  const double of_floats = fastest(threads, [](int) {
    add_products(floats(0.5F), floats(0.25F), fused);
  });
  const double of_integers = fastest(threads, [](int) {
    add_products(integers(3), integers(5), paired);
  });
  // Written once, so that every page is there.
  std::vector<Integers> buffer(vectors, integers(1));
  const auto share = vectors / threads;
  const double of_reading = fastest(threads, [&](int index) {
    read_all(buffer.data() + index * share, buffer.data() + (index + 1) * share);
  });
  std::printf("{\"float32\": %.4g, \"int16\": %.4g, \"bytes\": %.4g}\n",
              rounds * (sizeof(Floats) / 4) / of_floats,
              rounds * (sizeof(Integers) / 2) / of_integers,
              double(share * threads * sizeof(Integers)) / of_reading);
  return 0;
}

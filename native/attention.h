// Attention over paged keys and values, with a running softmax (Milakov and Gimelshein, 2018) over
// chunks of keys (Dao et al., 2022).
//
// There are two ways, for few queries to a key head and for many. Which it is depends on the shape
// of a call alone, and so does the order of every sum: chunks end at the same positions whatever
// the row holds, and a result does not depend on other rows, queries or threads.
#pragma once

#include "attention_few.h"
#include "attention_many.h"
#include "unrolled.h"

namespace pantheon {

// Calls `few` or `many` with how the queries that a key head has in a call lie in vectors, the same
// for all of its items.
template <class Isa, class Few, class Many>
[[gnu::always_inline]] inline void with_queries(const Attention& call, Few&& few, Many&& many) {
  const int64_t queries = call.time * call.group();
  unrolled<few_queries<Isa>()>([&](auto less) __attribute__((always_inline)) {
    if (queries == less.value + 1) few(FewQueries<Isa, less.value + 1>{});
  });
  if (queries <= few_queries<Isa>()) return;
  if (queries <= Isa::lanes) return many(Lanes<Isa, 1>{});
  many(Lanes<Isa, 2>{});
}

template <class Isa>
int64_t attention_scratch(const Attention& call, int64_t queries) {
  int64_t floats = 0;
  with_queries<Isa>(
      call, [&](auto of) { floats = FewScratch<decltype(of)>::floats(call); },
      [&](auto of) { floats = AttentionScratch<decltype(of)>::floats(call, queries); });
  return floats;
}

template <class Isa, Held H>
void attend(const Attention& call, const AttentionItem& item, float* scratch, Partial partial) {
  with_queries<Isa>(
      call, [&](auto of) { attend_few<decltype(of), H>(call, item, scratch, partial); },
      [&](auto of) { attend_many<decltype(of), H>(call, item, scratch, partial); });
}

}  // namespace pantheon

// Arrays of zeros whose memory is taken afterwards, by a thread that rests most of the time.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace pantheon {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// The system locks the address space while it fills a piece, and whoever maps memory waits. So the
// pieces are short, and there are rests between them; a low priority would be worse: a thread that
// got no processor in the middle of a piece would keep the lock until it had one.
constexpr int64_t kPieceBytes = kHugePage;
constexpr std::chrono::milliseconds kRest{1};

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
constexpr int kPopulate = 23;  // Linux 5.14, which may be newer than the headers.
#endif

struct Range {
  uint8_t* begin;
  int64_t bytes;
};

// Bytes of all ranges that are promised and not taken yet.
std::atomic<int64_t> untaken{0};

// Counts the times that threads were told to take nothing more.
std::atomic<int> stops{0};

// Zeroes what lies around the whole pages of a buffer, and those pages by giving them back: private
// memory that is touched again comes back as zeros. Returns the pages, which nobody has touched.
Range give_back(uint8_t* data, int64_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (start + page - 1) / page * page;
  const uintptr_t last = (start + static_cast<uintptr_t>(bytes)) / page * page;
  auto* begin = reinterpret_cast<uint8_t*>(first);
  if (first >= last || madvise(begin, last - first, MADV_DONTNEED) != 0) {
    std::memset(data, 0, static_cast<size_t>(bytes));
    return {data, 0};
  }
  std::memset(data, 0, first - start);
  std::memset(reinterpret_cast<uint8_t*>(last), 0, start + static_cast<uintptr_t>(bytes) - last);
  const auto inner = static_cast<int64_t>(last - first);
  if (inner >= kHugePage) madvise(begin, last - first, MADV_HUGEPAGE);
  return {begin, inner};
}

// Whether the system is new enough for `touch`.
bool can_populate(const std::vector<Range>& ranges) {
  const auto found = std::find_if(ranges.begin(), ranges.end(),
                                  [](const Range& range) { return range.bytes > 0; });
  if (found == ranges.end()) return true;
  return madvise(found->begin, static_cast<size_t>(sysconf(_SC_PAGESIZE)), kPopulate) == 0;
}

int64_t bytes_of(const std::vector<Range>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0},
                         [](int64_t sum, const Range& range) { return sum + range.bytes; });
}

// Takes the memory of pages without changing what they hold, until it is told to stop: the buffers
// may be given back meanwhile, and others stand where they stood.
void touch(const std::vector<Range>& ranges, int stops_before) {
  int64_t left = bytes_of(ranges);
  for (const Range& range : ranges) {
    for (int64_t done = 0; done < range.bytes && stops.load() == stops_before;
         done += kPieceBytes) {
      const int64_t bytes = std::min(range.bytes - done, kPieceBytes);
      while (madvise(range.begin + done, static_cast<size_t>(bytes), kPopulate) != 0 &&
             errno == EINTR) {
      }
      left -= bytes;
      untaken.fetch_sub(bytes);
      std::this_thread::sleep_for(kRest);
    }
  }
  untaken.fetch_sub(left);
}

ffi::Error zeros(ffi::RemainingRets results) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < results.size(); ++i) {
    auto result = results.get<ffi::AnyBuffer>(i);
    if (result.has_error()) return result.error();
    auto* data = static_cast<uint8_t*>((*result)->untyped_data());
    const auto bytes = static_cast<int64_t>((*result)->size_bytes());
    if (bytes > 0) ranges.push_back(give_back(data, bytes));
  }
  if (!can_populate(ranges)) {
    for (const Range& range : ranges) std::memset(range.begin, 0, static_cast<size_t>(range.bytes));
    return ffi::Error::Success();
  }
  untaken.fetch_add(bytes_of(ranges));
  const int stops_before = stops.load();
  try {
    std::thread(touch, ranges, stops_before).detach();
  } catch (const std::system_error&) {
    touch(ranges, stops_before);  // The system gives no thread.
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace pantheon

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_zeros, pantheon::zeros, ffi::Ffi::Bind().RemainingRets());

// What Python calls by itself.
extern "C" {

int64_t pantheon_untaken_bytes() { return pantheon::untaken.load(); }

void pantheon_stop_taking() { pantheon::stops.fetch_add(1); }

}  // extern "C"

#pragma GCC visibility pop

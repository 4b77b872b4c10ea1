#include "packed_products.h"

#include <algorithm>
#include <vector>

#include "divided.h"
#include "processors.h"
#include "thread_pool.h"

namespace pantheon {
namespace {

// Of weights, which take long enough for the caller to move to its own processor.
constexpr int64_t kLongBytes = int64_t{4} << 20;

constexpr int kPiecesOfThread = 12;   // So that one that is kept waiting has little to catch up.

// A product with what its kernel reads.
struct Task {
  const Product* product;
  bool whole;              // In whole numbers.
  WholeRows rows_of;       // If so ...
  const float* sums;       // ... and if not.
  int64_t first_block;     // Counted over all matrices of the call.
};

void multiply_block(const ProductKernels& kernels, const Activations& x, const Task& task,
                    int64_t block, Workspace& workspace) {
  const PackedMatrix& matrix = task.product->matrix;
  const int64_t first = block * kBlockRows;
  const uint8_t* packed = matrix.blocks + block * matrix.block_bytes;
  const int rows = static_cast<int>(std::min<int64_t>(matrix.rows - first, kBlockRows));
  float* outputs = task.product->outputs + first;
  const auto format = static_cast<int64_t>(matrix.format);
  if (task.whole) {
    kernels.of_set.whole->product[format](
        {task.rows_of, x.rows(), x.columns(), packed, outputs, matrix.rows, rows});
  } else {
    kernels.of_set.floats->product[format]({x.values(), task.sums, x.rows(), x.columns(), packed,
                                            outputs, matrix.rows, rows},
                                           workspace);
  }
}

}  // namespace

int64_t block_bytes(Format format, int64_t columns) {
  const int64_t span = int64_t{layout_of(format).span_steps} * kStepColumns;
  return columns <= 0 || columns % span != 0 ? 0 : bytes_of_block(format, columns);
}

void Activations::assign(const float* values, int64_t rows, int64_t columns) {
  values_ = values;
  rows_ = rows;
  columns_ = columns;
  sums_.assign(values, rows, columns);
  is_quantised_ = false;
}

WholeRows Activations::whole_for(Format format) {
  if (!is_quantised_) quantised_.assign(values_, rows_, columns_);
  is_quantised_ = true;
  return quantised_.for_format(format);
}

ProductKernels product_kernels(InstructionSet set, int64_t step_rows) {
  // Of many rows the codes are unpacked once, and then floats take no longer, unless there are
  // instructions that multiply and add whole numbers at once.
  constexpr int64_t most_in_whole = 16;
  if (set == InstructionSet::best) set = best_instruction_set();
  return {kernels_for(set), step_rows <= most_in_whole || set == InstructionSet::vnni};
}

void multiply(const ProductKernels& kernels, Activations& activations, const Product* products,
              int64_t count) {
  std::vector<Task> tasks;
  tasks.reserve(count);
  int64_t blocks = 0, bytes = 0;
  for (const Product* product = products; product != products + count; ++product) {
    const PackedMatrix& matrix = product->matrix;
    const bool whole = kernels.in_whole && matrix.quantised && !is_plain(matrix.format);
    tasks.push_back({product, whole, whole ? activations.whole_for(matrix.format) : WholeRows{},
                     whole ? nullptr : activations.sums_for(matrix.format), blocks});
    blocks += matrix.block_count();
    bytes += matrix.block_count() * matrix.block_bytes;
  }
  if (activations.rows() == 0 || blocks == 0) return;
  const std::shared_ptr<ThreadPool> pool = ThreadPool::of_process();
  const ProcessorScope scope(bytes < kLongBytes ? -1 : pool->place_of_caller());
  const int64_t piece_blocks = std::max<int64_t>(blocks / (pool->threads() * kPiecesOfThread), 1);
  pool->run(ceiling(blocks, piece_blocks), [&](int64_t piece, Workspace& workspace) {
    const int64_t end = std::min((piece + 1) * piece_blocks, blocks);
    auto task = std::prev(
        std::upper_bound(tasks.begin(), tasks.end(), piece * piece_blocks,
                         [](int64_t block, const Task& one) { return block < one.first_block; }));
    for (int64_t block = piece * piece_blocks; block < end; ++block) {
      while (std::next(task) != tasks.end() && std::next(task)->first_block <= block) ++task;
      multiply_block(kernels, activations, *task, block - task->first_block, workspace);
    }
  });
}

}  // namespace pantheon

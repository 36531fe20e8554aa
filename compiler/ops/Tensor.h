//===- Tensor.h - values of the reference executor --------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A dense row-major tensor of Real (float or double), whatever the IR's dtype: ids are stored as Real too, which
/// holds every vocabulary's ids exactly. Copies share their elements.
template <class Real> class Tensor {
public:
  Tensor() = default;

  /// Elements are left uninitialised: to clear them would be a pass over memory for nothing.
  explicit Tensor(ArrayRef<int64_t> shape) : extents(shape) {
    // Sums of vector instructions take an order that depends on where the elements begin in a vector. With the same
    // alignment for all tensors, the same numbers give the same bits, on every rank and in every run.
    constexpr std::align_val_t alignment{64};
    void *memory = ::operator new(static_cast<size_t>(size()) * sizeof(Real), alignment);
    storage = std::shared_ptr<Real[]>(static_cast<Real *>(memory),
                                      [](Real *elements) { ::operator delete(elements, alignment); });
  }
  /// Elements that somebody else owns, kept alive through `owner`.
  Tensor(ArrayRef<int64_t> shape, std::shared_ptr<Real[]> owner) : extents(shape), storage(std::move(owner)) {}

  ArrayRef<int64_t> shape() const { return extents; }
  int64_t dim(size_t i) const { return extents[i]; }
  int64_t lastDim() const { return extents.back(); }
  size_t rank() const { return extents.size(); }
  int64_t size() const {
    int64_t product = 1;
    for (int64_t extent : extents)
      product *= extent;
    return product;
  }
  /// Elements over all dims but the last.
  int64_t rows() const { return size() / lastDim(); }

  /// Whether no other tensor shares the elements.
  bool isUnique() const { return storage.use_count() == 1; }

  Real *data() const { return storage.get(); }
  MutableArrayRef<Real> elements() const { return {storage.get(), static_cast<size_t>(size())}; }
  MutableArrayRef<Real> row(int64_t i) const { return {storage.get() + i * lastDim(), static_cast<size_t>(lastDim())}; }

private:
  SmallVector<int64_t, 4> extents;
  std::shared_ptr<Real[]> storage;
};

/// The arguments of an op's evaluate function: operands in order and the result, allocated with its concrete shape. The
/// result of an op that writes a state is the state itself; that of a pointwise or row-wise op may be operand 0.
template <class Real> struct EvalArgs {
  const class Op &op;
  ArrayRef<Tensor<Real>> operands;
  Tensor<Real> &result;
  int64_t rank = 0;
  /// Operand 0 of every rank, in their order, for an op of Trait::Exchange.
  ArrayRef<Tensor<Real>> peers = {};

  const Tensor<Real> *operandOrNull(size_t i) const { return i < operands.size() ? &operands[i] : nullptr; }
};

/// Calls `body(i)` for i in [0, count) on all cores; `workPerItem` is in elements and decides whether threads pay.
void parallelRows(int64_t count, int64_t workPerItem, function_ref<void(int64_t)> body);

} // namespace kiln

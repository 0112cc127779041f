// How threads share a problem, and what every pass needs around its products.
//
// A unit of work is one head of one item, or one item if its heads share a coverage. Long sources and left-over units (fewer than threads) are done by
// teams: each member owns a range of source strips, and only sums over a row (softmax, context, gradient of q)
// are exchanged.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>
#include "gemm.h"
#include "rule.h"

namespace dwindle {

template <class C> Function<C> function(const Curve& curve) {
  Function<C> g{C(curve.s), C(curve.p), {}};
  for (int k = 0; k < TERMS; ++k) g.terms[k] = C(curve.terms[k]);
  return g;
}

template <class C> class Buffer {
 public:
  C* get(Index n) {
    if (n > size_) {
      const std::size_t bytes = round_up((n > 0 ? n : 1) * Index(sizeof(C)), 64);
      data_.reset(static_cast<C*>(std::aligned_alloc(64, bytes)));
      if (!data_) throw std::bad_alloc();
      size_ = n;
    }
    return data_.get();
  }
  C* get() const { return data_.get(); }

 private:
  struct Free { void operator()(C* p) const { std::free(p); } };
  std::unique_ptr<C, Free> data_;
  Index size_ = 0;
};

class Barrier {
 public:
  void wait(int members) {
    const int round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins)
      if (spins > 4096) std::this_thread::yield();  // more threads than cores: let the others arrive
  }

 private:
  std::atomic<int> arrived_{0}, round_{0};
};

// The members that share one unit; `base` is the first one's place among all workers.
struct Team {
  int base, rank, size;
  Barrier* barrier;
  void wait() const { if (size > 1) barrier->wait(size); }
  // The part of 0..n that is this member's.
  Index from(Index n) const { return n * rank / size; }
  Index to(Index n) const { return n * (rank + 1) / size; }
};

// How many threads share one unit from the start: a tile of rows x S should not exceed 2 MB a thread.
inline int team_size(const Problem& p, Index bytes) {
  const Index heads = p.share_heads ? p.H : 1;
  return int(std::clamp<Index>(heads * std::min(p.rows, p.T) * p.S * bytes >> 21, 1, p.threads));
}

// Runs run(unit, team) for every unit: as many whole rounds as there are, then the rest by larger teams.
template <class Run> void share(Index units, Index threads, int least, Index strips, Run run) {
  std::atomic<Index> next{0};
  std::vector<Barrier> barriers(threads), rest(threads);
  auto thread = [&](int id, int count) {
    int size = std::min(least, count), teams = count / size, team = id / size;
    const Index whole = units / teams * teams, left = units - whole;
    if (size == 1) {  // as threads are free
      for (Index u; (u = next.fetch_add(1)) < whole;) run(u, Team{id, 0, 1, nullptr});
    } else if (team < teams) {
      for (Index u = team; u < whole; u += teams) run(u, Team{team * size, id % size, size, &barriers[team]});
    }
    if (!left) return;
    size = std::max<int>(size, std::min<Index>(count / left, std::max<Index>(strips / 2, 1)));
    team = id / size;
    if (team < left) run(whole + team, Team{team * size, id % size, size, &rest[team]});
  };
  // Numbered here and not by OpenMP: clang's runtime starts these threads, but omp_get_thread_num may be that of
  // torch's, which was there first and knows nothing of them.
  std::atomic<int> arrived{0};
#pragma omp parallel num_threads(int(threads))
  {
    const int id = arrived.fetch_add(1);
#pragma omp barrier
    thread(id, arrived.load());
  }
}

// Which weights are dropped: a hash of the seed and the place, so that the backward pass finds the same.
struct Dropout {
  std::uint32_t below, k0, k1;
  INLINE Dropout(const Problem& p, Index head, Index t) : below(std::uint32_t(p.dropout * 4294967296.0)) {
    std::uint64_t z = std::uint64_t(p.seed) + 0x9E3779B97F4A7C15ull * std::uint64_t(head * p.T + t + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    k0 = std::uint32_t(z), k1 = std::uint32_t(z >> 32);
  }
  INLINE bool drops(std::uint32_t s) const {
    std::uint32_t h = s * 0x9E3779B1u + k0;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h ^= k1;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return (h ^ (h >> 16)) < below;
  }
};
// Drops from a strip of rows and scales what stays.
template <class C> void drop(const Problem& p, Index head, Index t0, Index rows, Index s0, C* tile) {
  constexpr int width = Simd<C>::width;
  const C scale = C(1 / (1 - p.dropout));
  for (Index t = 0; t < rows; ++t, tile += width) {
    const Dropout dropout(p, head, t0 + t);
    for (int j = 0; j < width; ++j) tile[j] = dropout.drops(std::uint32_t(s0 + j)) ? C(0) : tile[j] * scale;
  }
}

// Softcap, bias and mask on a strip of raw scores; columns beyond the source are -inf. `slope` (or null)
// takes the derivative of the softcap.
template <class C>
void adjust(const Problem& p, Index b, Index h, Index t0, Index rows, Index s0, Index columns, C* tile, C* slope) {
  constexpr int n = Simd<C>::lanes, width = Simd<C>::width;
  constexpr C never = -std::numeric_limits<C>::infinity();
  if (p.softcap) {
    for (Index i = 0; i < rows * width; i += n) {
      const Vec<C> y = hyperbolic_tangent(load(tile + i) * C(1 / p.softcap));
      store(tile + i, y * C(p.softcap));
      if (slope) store(slope + i, C(1) - y * y);
    }
  }
  const bool edge = columns < width;
  if (!p.bias && !p.mask && !edge) return;
  C added[width] = {};
  for (Index t = 0; t < rows; ++t, tile += width) {
    if (t == 0 || (p.bias && p.bias_stride[2]) || (p.mask && p.mask_stride[2])) {  // else: as the row before
      for (int j = 0; j < width; ++j) added[j] = j < columns ? C(0) : never;
      if (p.bias) {
        const C* bias = (const C*)p.bias + b * p.bias_stride[0] + h * p.bias_stride[1] +
                        (t0 + t) * p.bias_stride[2] + s0 * p.bias_stride[3];
        for (Index j = 0; j < columns; ++j) added[j] = bias[j * p.bias_stride[3]];
      }
      if (p.mask) {
        const std::uint8_t* mask = p.mask + b * p.mask_stride[0] + h * p.mask_stride[1] +
                                   (t0 + t) * p.mask_stride[2] + s0 * p.mask_stride[3];
        for (Index j = 0; j < columns; ++j) added[j] = mask[j * p.mask_stride[3]] ? added[j] : never;
      }
    }
    store(tile, load(tile) + load(added));
    store(tile + n, load(tile + n) + load(added + n));
  }
}

// Which positions of a strip are protected, and which have coverage.
template <class C> void set_flags(const Problem& p, Index b, Index h, Index s0, Index columns, Flags<C>& flags) {
  flags.any_plain = flags.any_counts = false;
  for (Index j = 0; j < Simd<C>::width; ++j) {
    const Index at = s0 + j;
    const bool inside = j < columns;
    const bool counts = inside && at < p.P && (!p.source || p.source[b * p.source_stride + at]);
    const bool plain = inside && (!counts || (p.is_protected && p.is_protected[b * p.protected_stride[0] +
                                                                             h * p.protected_stride[1] +
                                                                             at * p.protected_stride[2]]));
    flags.plain[j] = plain, flags.counts[j] = counts;
    flags.any_plain |= plain, flags.any_counts |= counts;
  }
}

// Whether the rule must look at the flags of places at all.
inline Scope scope_of(const Problem& p) {
  if (p.share_heads) return Scope::shared;
  return p.source || p.felt || (p.is_protected && p.mode != PLAIN) ? Scope::some : Scope::all;
}

// How many of the positions from s0 on, `columns` at most, have coverage.
inline Index covered(const Problem& p, Index s0, Index columns) { return std::clamp<Index>(p.P - s0, 0, columns); }

}  // namespace dwindle
